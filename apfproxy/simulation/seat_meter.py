"""How many seats a level used, and how many of them were borrowed, weighted by time."""

from __future__ import annotations

from apfproxy.flowcontrol.meters import (
    REQUESTS_MASK,
    REQUESTS_WAITING_SHIFT,
    SEATS_MASK,
    SEATS_SHIFT,
    LevelMeter,
)


class SeatMeter(LevelMeter):
    """Takes the place of a queue set's meter, and integrates instead of sorting into histograms.

    Args:
        replaced: The queue set's own, which it has added to so far and goes on adding to.
        nominal_limit: Seats beyond these are borrowed.

    Attributes:
        seat_ns, waiting_ns, borrowed_ns: Seats in use, requests waiting and seats in use beyond
            the nominal ones, integrated over time.
        max_seats, max_waiting: The most at any time.
    """

    __slots__ = (
        "borrowed_ns",
        "max_seats",
        "max_waiting",
        "nominal_limit",
        "seat_ns",
        "waiting_ns",
    )

    def __init__(self, replaced: LevelMeter, nominal_limit: int) -> None:
        super().__init__()
        self.time_at = replaced.time_at
        self.nominal_limit = nominal_limit
        self.clear()

    def clear(self) -> None:
        """Begin anew, with what has not been folded."""
        self.seat_ns = 0
        self.waiting_ns = 0
        self.borrowed_ns = 0
        self.max_seats = 0
        self.max_waiting = 0

    def fold(self) -> None:
        """Add the states so far to the integrals."""
        nominal = self.nominal_limit
        for state, duration_ns in self.time_at.items():
            seats = state >> SEATS_SHIFT & SEATS_MASK
            waiting = state >> REQUESTS_WAITING_SHIFT & REQUESTS_MASK
            self.seat_ns += seats * duration_ns
            self.waiting_ns += waiting * duration_ns
            if seats > nominal:
                self.borrowed_ns += (seats - nominal) * duration_ns
            self.max_seats = max(self.max_seats, seats)
            self.max_waiting = max(self.max_waiting, waiting)
        self.time_at.clear()
