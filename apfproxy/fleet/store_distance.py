"""How far away a fleet's store is, and how long what members do takes by that.

A write takes hold if nobody else wrote while it was on its way.  So all members together write once
a round trip at most, and to have each of them write once takes as many round trips as there are
members: a turn.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SAMPLES: Final = 8
"""Answers of which the fastest counts: one that was late says nothing of the distance.  For a
shorter lease the slowest does: one that came soon says nothing of the others."""
TURNS_A_PERIOD: Final = 1.5
"""Between two writes of a member: so a third of the time is for what is news."""
TURNS_A_LEASE: Final = 4.0
"""Of which a member that waits for its turn may lose some to chance."""
LONGEST_LEASE_S: Final = 60.0
"""That a far store makes of a shorter one: what dies holds its seats for so long."""
TOO_LONG: Final = 4.0
"""Times what is long enough: then half of it is so as well, also if answers are late again."""


class StoreDistance:
    """What the last answers of a store took."""

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=SAMPLES)

    def note(self, took_s: float) -> None:
        """An answer came."""
        self._took_s.append(took_s)

    @property
    def round_trip_s(self) -> float:
        """The time to the store and back; 0 while nobody knows."""
        return min(self._took_s, default=0.0)

    def turn_s(self, members: int) -> float:
        """For each of so many members to write once."""
        return members * self.round_trip_s

    def period_s(self, members: int, least_s: float, lease_s: float) -> float:
        """Between two writes of one of them: never below the least.

        Nor, while its lease is short for the distance, so long that the lease ends before.
        """
        turns = min(self.turn_s(members), lease_s / TURNS_A_LEASE)
        return max(least_s, TURNS_A_PERIOD * turns)

    def lease_s(self, held_s: float, least_s: float, members: int) -> float:
        """The lease that one of them is to have after the one that it holds; never below the least.

        It is doubled until no member is without its turn for a lease, and halved while it is far
        longer than that takes.
        """
        enough_s = min(TURNS_A_LEASE * self.turn_s(members), LONGEST_LEASE_S)
        too_long_s = TOO_LONG * TURNS_A_LEASE * members * max(self._took_s, default=0.0)
        while held_s < enough_s:
            held_s = min(2 * held_s, LONGEST_LEASE_S)
        while held_s > max(too_long_s, least_s):
            held_s = max(held_s / 2, least_s)
        return held_s

    def __repr__(self) -> str:
        return f"<StoreDistance: {1000 * self.round_trip_s:.1f} ms>"
