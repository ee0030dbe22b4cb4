"""How a priority level spends its time: distributions of what executes, waits and is wanted.

Kubernetes' TimingRatioHistogram samples a ratio, such as seats in use over the limit, at every
nanosecond.  Doing that at every request would cost four bucket searches each.  Here a queue set
packs all it would report into one integer, its state, and adds the nanoseconds that it spent in
that state to one dictionary: one addition per event.  Only a reader, or a change of a
denominator, sorts the states into buckets.

Source: kubernetes/apiserver pkg/util/flowcontrol/metrics/timing_ratio_histogram.go.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from mypy_extensions import mypyc_attr

REQUEST_RATIO_BOUNDS: Final = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
SEAT_RATIO_BOUNDS: Final = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
DEMAND_RATIO_BOUNDS: Final = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)

SEATS_SHIFT: Final = 24
REQUESTS_WAITING_SHIFT: Final = 56
SEATS_WAITING_SHIFT: Final = 80
"""Where the fields of a state begin; executing requests are at bit 0.

What waits is on top, so that a state in which nothing waits is a short integer.
"""

REQUESTS_MASK: Final = (1 << 24) - 1
SEATS_MASK: Final = (1 << 32) - 1

MAX_STATES: Final = 4096
"""States kept before they are sorted into buckets: about 0.5 MiB for a level in turmoil."""


def pack(requests_executing: int, seats: int, requests_waiting: int, seats_waiting: int) -> int:
    """The state as one integer."""
    return (
        requests_executing
        | seats << SEATS_SHIFT
        | requests_waiting << REQUESTS_WAITING_SHIFT
        | seats_waiting << SEATS_WAITING_SHIFT
    )


class RatioHistogram:
    """Nanoseconds by bucket of a ratio (not cumulative), and the time-weighted sum of the ratio.

    `bounds` are upper bounds, inclusive and ascending; one more bucket takes what is above.  Values
    are divided by `denominator`, which is >= 1.
    """

    __slots__ = ("bounds", "counts", "denominator", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.denominator = 1
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: int, duration_ns: int) -> None:
        """Count a time during which the numerator was `value`."""
        ratio = value / self.denominator
        self.counts[bisect_left(self.bounds, ratio)] += duration_ns
        self.sum += ratio * duration_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class LevelMeter:
    """Time-weighted distributions of one priority level, since its queue set was made.

    Attributes:
        time_at: Nanoseconds by packed state, not yet sorted into the histograms.  The queue set
            adds to it; everyone else calls the queue set's `sync`, then reads the histograms.
        requests_executing, seats_in_use: Over the concurrency limit.  Lingering requests count
            for their seats only.
        requests_waiting: Over what all queues can hold.
        seat_demand: Seats in use or waited for, over the nominal limit.
    """

    def __init__(self) -> None:
        self.time_at: dict[int, int] = {}
        self.requests_executing = RatioHistogram(REQUEST_RATIO_BOUNDS)
        self.requests_waiting = RatioHistogram(REQUEST_RATIO_BOUNDS)
        self.seats_in_use = RatioHistogram(SEAT_RATIO_BOUNDS)
        self.seat_demand = RatioHistogram(DEMAND_RATIO_BOUNDS)

    def fold(self) -> None:
        """Sort the states so far into the histograms."""
        for state, duration_ns in self.time_at.items():
            seats = state >> SEATS_SHIFT & SEATS_MASK
            self.requests_executing.add(state & REQUESTS_MASK, duration_ns)
            self.requests_waiting.add(state >> REQUESTS_WAITING_SHIFT & REQUESTS_MASK, duration_ns)
            self.seats_in_use.add(seats, duration_ns)
            self.seat_demand.add(seats + (state >> SEATS_WAITING_SHIFT), duration_ns)
        self.time_at.clear()

    def set_seats_denominator(self, seats: int) -> None:
        """Divide what executes, and seat demand, by this from now on; >= 1."""
        self.fold()
        self.requests_executing.denominator = seats
        self.seats_in_use.denominator = seats
        self.seat_demand.denominator = seats

    def set_waiting_capacity(self, requests: int) -> None:
        """Divide waiting requests by this number from now on."""
        self.fold()
        self.requests_waiting.denominator = max(requests, 1)
