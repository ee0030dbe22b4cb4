"""What happened over time, in few points however long it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_BIN_NS: Final = 100_000_000
MOST_BINS: Final = 400
"""Of twice as many, each two become one: enough for a plot 1000 px wide."""


@dataclass(slots=True)
class LevelSeries:
    """One priority level's values, one for each bin.

    Attributes:
        seats, waiting: Seats in use and requests waiting, on average.
        limit: The current limit at the end of the bin.
        dispatched, rejected: Requests.
    """

    seats: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)
    dispatched: list[float] = field(default_factory=list)
    rejected: list[float] = field(default_factory=list)

    def add(
        self, seats: float, waiting: float, limit: float, dispatched: float, rejected: float
    ) -> None:
        """Add the values of one more bin."""
        self.seats.append(seats)
        self.waiting.append(waiting)
        self.limit.append(limit)
        self.dispatched.append(dispatched)
        self.rejected.append(rejected)

    def halve(self) -> None:
        """Make one bin of each two; there is an even number of them."""
        for values in (self.seats, self.waiting, self.limit):
            values[:] = [(a + b) / 2 for a, b in zip(values[::2], values[1::2], strict=True)]
        for values in (self.dispatched, self.rejected):
            values[:] = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
