"""The measures of a simulation: outcomes of requests, and the seats of levels, in little memory."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.meters import (
    REQUESTS_MASK,
    REQUESTS_WAITING_SHIFT,
    SEATS_MASK,
    SEATS_SHIFT,
    LevelMeter,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel

BITS = 7
"""Durations below 2**7 ns have buckets of their own; longer ones keep so many leading bits."""

FIRST_BIN_NS: Final = 100_000_000
MOST_BINS: Final = 400
"""With twice as many, each two become one: enough for a plot 1000 px wide."""

MEANS, COUNTS = ("seats", "waiting", "limit"), ("dispatched", "rejected")
"""Series of a level: averages of a bin (of the limit its last value), and requests in it."""


class Durations:
    """A distribution of durations in nanoseconds: counts by bucket, and their exact sum.

    A duration falls into a bucket at most 1/64 as wide as itself is long, and a quantile is the
    middle of its bucket: within 0.8 % of the exact one, whatever the scale (as in HdrHistogram).
    """

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total_ns = 0

    def add(self, duration_ns: int) -> None:
        self.total_ns += duration_ns
        shift = duration_ns.bit_length() - BITS
        # Leading bits with the shift above them; a shift below 1 is no shift.
        bucket = duration_ns if shift <= 0 else (shift << BITS) + (duration_ns >> shift)
        self.counts[bucket] += 1

    def merge(self, other: Durations) -> None:
        self.total_ns += other.total_ns
        self.counts.update(other.counts)

    def quantiles(self, parts: tuple[float, ...], zeros: int = 0) -> tuple[float, ...]:
        """The durations that parts of all are not longer than, in nanoseconds.

        Args:
            parts: Each of them above 0, at most 1; ascending.
            zeros: Durations of 0 that were not added, but count.
        """
        buckets = sorted(self.counts.items())
        below = [zeros, *itertools.accumulate((count for _, count in buckets), initial=zeros)]
        found = []
        for part in parts:
            # The first place is that of the zeros.
            place = bisect.bisect_left(below, math.ceil(part * below[-1]), 1) - 2
            bucket = buckets[place][0] if place >= 0 else 0
            shift, leading = bucket >> BITS, bucket & ((1 << BITS) - 1)
            found.append((leading << shift) + (1 << shift) / 2 if shift else leading + 0.0)
        return tuple(found)


@dataclass(slots=True)
class Tally:
    """Outcomes of some requests; all numbers only grow, but for `clear`.

    Attributes:
        executed: They had seats; those cut off included.
        queued: They had to wait, whatever became of them.
        cut_off: Their time was over before they were served.
        without_seats: Long-running ones, which flow control lets pass.
        seat_ns: Seats held, times how long.
        service_ns: Execution of all that executed.
        rejected: By reason; those who gave up waiting are `time-out`.
        waits: Waits of those that executed after waiting.
        latencies: With a server model, waits and execution of those that have ended.
    """

    executed: int = 0
    queued: int = 0
    cut_off: int = 0
    without_seats: int = 0
    seat_ns: int = 0
    service_ns: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    waits: Durations = field(default_factory=Durations)
    latencies: Durations = field(default_factory=Durations)

    def clear(self) -> None:
        self.executed = self.queued = self.cut_off = self.without_seats = 0
        self.seat_ns = self.service_ns = 0
        self.rejected, self.waits, self.latencies = Counter(), Durations(), Durations()

    def merge(self, other: Tally) -> None:
        self.executed += other.executed
        self.queued += other.queued
        self.cut_off += other.cut_off
        self.without_seats += other.without_seats
        self.seat_ns += other.seat_ns
        self.service_ns += other.service_ns
        self.rejected.update(other.rejected)
        self.waits.merge(other.waits)
        self.latencies.merge(other.latencies)

    @property
    def rejected_total(self) -> int:
        return self.rejected.total()

    @property
    def requests(self) -> int:
        return self.executed + self.rejected_total + self.without_seats


class LevelView(LevelMeter):
    """A priority level as the series and the report see it.

    It takes the place of the queue set's meter, and integrates instead of sorting into histograms.

    Attributes:
        level: Itself.
        seat_ns, waiting_ns, borrowed_ns: Seats in use, requests waiting and seats in use beyond
            the nominal ones, integrated over time up to the last sample.
        max_seats, max_waiting: The most at any time.
        max_limit: The highest current limit, as seen after each adjustment by period and each bin.
        series: The same over time: by name (see `MEANS`) a value for each bin.
    """

    def __init__(self, level: PriorityLevel) -> None:
        super().__init__()
        self.level = level
        self.time_at = level.queue_set.meter.time_at  # the queue set goes on adding to it
        level.queue_set.meter = self
        self.series: dict[str, list[float]] = {name: [] for name in MEANS + COUNTS}
        self._before = (0, 0, 0, 0)
        self._start()

    def _start(self) -> None:
        self.seat_ns = self.waiting_ns = self.borrowed_ns = 0
        self.max_seats = self.max_waiting = 0
        self.max_limit = self.level.current_limit

    def fold(self) -> None:
        nominal = self.level.nominal_limit
        for state, duration_ns in self.time_at.items():
            seats = state >> SEATS_SHIFT & SEATS_MASK
            waiting = state >> REQUESTS_WAITING_SHIFT & REQUESTS_MASK
            self.seat_ns += seats * duration_ns
            self.waiting_ns += waiting * duration_ns
            self.borrowed_ns += max(0, seats - nominal) * duration_ns
            self.max_seats = max(self.max_seats, seats)
            self.max_waiting = max(self.max_waiting, waiting)
        self.time_at.clear()

    def sync(self) -> tuple[int, int, int, int]:
        """Count up to now; returns the sums of the first two `MEANS` and of `COUNTS`."""
        queue_set = self.level.queue_set
        queue_set.sync()
        totals = queue_set.dispatched_total, queue_set.rejected_total
        return (self.seat_ns, self.waiting_ns, *totals)

    def note_limit(self) -> None:
        self.max_limit = max(self.max_limit, self.level.current_limit)

    def clear(self) -> None:
        """Measure from now on; the series go on."""
        seat_ns, waiting_ns, *_ = self.sync()
        before = self._before
        self._before = (before[0] - seat_ns, before[1] - waiting_ns, *before[2:])
        self._start()

    def sample(self, bin_ns: int) -> None:
        now, before = self.sync(), self._before
        self.note_limit()
        self._before = now
        seat_ns, waiting_ns, *counts = (new - old for new, old in zip(now, before, strict=True))
        row = (seat_ns / bin_ns, waiting_ns / bin_ns, self.level.current_limit, *counts)
        for values, value in zip(self.series.values(), row, strict=True):
            values.append(value)

    def halve(self) -> None:
        for name, values in self.series.items():
            parts = 2 if name in MEANS else 1
            values[:] = [(a + b) / parts for a, b in zip(values[::2], values[1::2], strict=True)]
