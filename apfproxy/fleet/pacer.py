"""When a member looks at the record: on what events, and after what pauses.

1. It writes once a period, be there news or not.  Where all members together cannot do so, as the
   store is far away, it writes less often: a write takes hold if no other member wrote while it was
   on its way, so that each of them writes once takes as many round trips as there are members, a
   turn.
2. It looks at once when its limit or its levels have changed, and when another member wrote
   something urgent.
3. It looks when a request waits or is rejected, if that may bring more seats; less and less often
   while it does not.
4. While another member is short, it sees often whether it can spare something, without a word to
   the store; else once a period.
5. If another member is faster to write, what is merely news waits for those whose writes are due.
6. A pause that the store asks for is kept.

Nothing here waits or reads a clock: whatever drives it asks `next_s`, comes back then or at an
event, and takes `next_step`.  Times are seconds of the driver's clock.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JITTER: Final = 0.1
"""The part of a period that is left to chance, so that members do not march in step."""
MOST_CONFLICTS: Final = 16
"""Swaps that others were faster at, in a row, before the next period is waited for."""
STORE_TIME: Final = 0.2
"""The part of a lease that one response of the store may take: two may fail before it ends."""
MOST_STORE_TIME_S: Final = 2.0
SPARE_PERIODS: Final = 0.1
"""While another member is short: how often one sees whether it can spare something."""
LEAST_PAUSE_S: Final = 0.005
"""Between two looks for what waits; doubled while they bring nothing, up to the period."""
SPREAD_S: Final = 0.002
"""For each member: as the others are told at once, they look one after the other."""
SAMPLES: Final = 8
"""Responses of which the fastest counts: one that was late says nothing of the distance."""
TURNS_A_PERIOD: Final = 1.5
"""Between two writes of a member: so a third of the time is for what is news."""
TURNS_A_LEASE: Final = 4.0
"""Turns of which a member may lose some to chance while its lease runs."""


class Step(enum.Enum):
    REST = enum.auto()
    LOOK = enum.auto()
    GAIN = enum.auto()
    """Look at it if that may bring more seats than are in force."""
    SPARE = enum.auto()
    """Look at it if more seats are in force than are wanted."""


class Pacer:
    """The times at which one member looks; `chance` draws a time between 0 and its argument.

    It writes at `due_s`, be there news or not, as it did last if it `is_due`.
    """

    def __init__(self, period_s: float, lease_s: float, chance: Callable[[float], float]) -> None:
        self.due_s = -math.inf
        self.is_due = False
        self.in_time_s = min(lease_s * STORE_TIME, MOST_STORE_TIME_S)
        self._period_s = period_s
        self._lease_s = lease_s
        self._chance = chance
        self._is_woken = False
        self._urgent_s = math.inf  # when it looks for what another one wrote
        self._short_s = math.inf  # when it sees whether a look may bring more
        self._spare_s = math.inf  # when it sees whether it can spare something
        self._calm_until_s = -math.inf  # until when it leaves the store to others
        self._looked_s = -math.inf
        self._tried_s = -math.inf  # when it saw last whether a look may bring more
        self._hoped_s = -math.inf  # when that was so last
        self._pause_s = LEAST_PAUSE_S
        self._took_s: deque[float] = deque(maxlen=SAMPLES)

    # Events; those that say whether a new time counts let the driver ask for it

    def wake(self) -> None:
        self._is_woken = True

    def short(self, now_s: float) -> bool:
        """A request waits, or is rejected; returns whether `next_s` may be another time now."""
        if self._short_s < math.inf:
            return False
        self._short_s = max(now_s, self._hoped_s + self._pause_s, self._tried_s + LEAST_PAUSE_S)
        return True

    def urgent(self, now_s: float, others: int) -> bool:
        """One of so many others lacks seats, or has given some back; as for `short`."""
        if self._urgent_s < math.inf:
            return False
        spread_s = self._chance(SPREAD_S * others)
        self._urgent_s = max(now_s, self._looked_s + LEAST_PAUSE_S) + spread_s
        return True

    # What to do when

    def next_s(self) -> float:
        soonest_s = min(self.due_s, self._urgent_s, self._short_s, self._spare_s)
        calm_s = min(self._calm_until_s, self.due_s)
        return max(-math.inf if self._is_woken else soonest_s, calm_s)

    def next_step(self, now_s: float) -> Step:
        if now_s < self.next_s():
            return Step.REST
        if self._is_woken or now_s >= min(self.due_s, self._urgent_s):
            return Step.LOOK
        if now_s >= self._short_s:
            self._short_s, self._tried_s = math.inf, now_s
            return Step.GAIN
        return Step.SPARE

    def hope(self, now_s: float) -> None:
        """A look may bring more; the next one for that comes later while it does not."""
        is_again = now_s < self._hoped_s + 2 * self._period_s
        self._pause_s = min(2 * self._pause_s, self._period_s) if is_again else LEAST_PAUSE_S
        self._hoped_s = now_s

    def begin(self, now_s: float) -> None:
        self.is_due = now_s >= self.due_s
        self._is_woken = False
        self._urgent_s = math.inf
        self._looked_s = now_s
        if self.is_due:
            self.due_s = self._after(now_s, self._period_s)  # if this one fails

    # What became of a look

    def responded(self, took_s: float) -> None:
        self._took_s.append(took_s)

    def wrote(self, now_s: float, members: int) -> None:
        """The next write is due a period later, with news in this one or without.

        With so many members, itself included.  While its lease is short for the store's distance,
        the period is no longer for that.
        """
        turns_s = min(self.turn_s(members), self._lease_s / TURNS_A_LEASE)
        self.due_s = self._after(now_s, max(self._period_s, TURNS_A_PERIOD * turns_s))

    def lost(self, now_s: float, members: int) -> None:
        """Another member was faster: leave the store to those whose writes are due, then look."""
        self._calm_until_s = now_s + self._chance(self.turn_s(members))
        self._is_woken = True

    def paused(self, now_s: float, pause_s: float) -> None:
        """The store asks for a pause; it is kept for a lease at most."""
        self._calm_until_s = self.due_s = now_s + min(pause_s, self._lease_s)

    def gained(self) -> None:
        self._pause_s = LEAST_PAUSE_S

    def settle(self, now_s: float, *, is_somebody_short: bool) -> None:
        periods = SPARE_PERIODS if is_somebody_short else 1.0
        self._spare_s = now_s + periods * self._period_s

    # How far away the store is

    @property
    def round_trip_s(self) -> float:
        """The time to the store and back; 0 while unknown."""
        return min(self._took_s, default=0.0)

    def turn_s(self, members: int) -> float:
        return members * self.round_trip_s

    def least_lease_s(self, members: int) -> float:
        """The lease in which each of so many members surely writes again."""
        return TURNS_A_LEASE * self.turn_s(members)

    def _after(self, now_s: float, period_s: float) -> float:
        return now_s + period_s - self._chance(JITTER * period_s)
