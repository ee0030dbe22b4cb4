"""Plain integers that the flow control keeps and `observe` reads at scrape.

Nothing here is locked: one event loop writes, the same loop reads.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

NS_PER_S: Final = 1_000_000_000

DURATION_BOUNDS_S: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
DURATION_BOUNDS_NS: Final = tuple(round(bound * NS_PER_S) for bound in DURATION_BOUNDS_S)
SHORT_NS: Final = 5_000_000
"""Durations up to this fall into the second bucket, but for those of nothing."""

QUEUE_LENGTH_BOUNDS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
SEATS_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
WATCH_COUNT_BOUNDS: Final = (0, 1, 10, 100, 1000, 10000)


class Histogram:
    """Counts of integers by bucket (not cumulative), and their sum.

    `bounds` are upper bounds, inclusive and ascending; one more bucket takes what is above.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def observe(self, value: int) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Count all that another one of the same bounds has counted."""
        for index, count in enumerate(other.counts):
            self.counts[index] += count
        self.sum += other.sum


def _durations() -> Histogram:
    return Histogram(DURATION_BOUNDS_NS)


@dataclass(slots=True, eq=False, repr=False)
class FlowSchemaCounters:
    """What happened to the requests of one FlowSchema at one priority level.

    Gauges (`executing_*`, `inqueue_*`) are requests and seats now; all else only grows.
    Durations are nanoseconds.  A request counts as executing until the end of its execution; the
    seats count until they are given back, at the end of its additional latency.

    Attributes:
        dispatched_at_once: Requests that went through an empty queue set, not yet sorted into
            the next two, where all of them fall into the same bucket.
        waited_ns: To add to; `wait_executed_ns` is to read.
        lengths_met: To add to; `queue_length_after_enqueue` is to read.
        wait_rejected_ns: The wait of requests that did not execute, whatever the reason.
    """

    priority_level: str
    flow_schema: str
    executing_requests: int = 0
    executing_seats: int = 0
    inqueue_requests: int = 0
    inqueue_seats: int = 0
    dispatched: int = 0
    dispatched_at_once: int = 0
    no_accommodation: int = 0
    rejected_concurrency_limit: int = 0
    rejected_queue_full: int = 0
    rejected_time_out: int = 0
    rejected_ban: int = 0
    rejected_rate: int = 0
    rejected_long_running: int = 0
    cancelled: int = 0
    waited_ns: Histogram = field(default_factory=_durations)
    wait_rejected_ns: Histogram = field(default_factory=_durations)
    execution_regular_ns: Histogram = field(default_factory=_durations)
    execution_watch_ns: Histogram = field(default_factory=_durations)
    lengths_met: Histogram = field(default_factory=lambda: Histogram(QUEUE_LENGTH_BOUNDS))
    work_estimated_seats: Histogram = field(default_factory=lambda: Histogram(SEATS_BOUNDS))
    watch_count: Histogram = field(default_factory=lambda: Histogram(WATCH_COUNT_BOUNDS))

    @property
    def wait_executed_ns(self) -> Histogram:
        """The wait of requests that executed."""
        self._sort_dispatched_at_once()
        return self.waited_ns

    @property
    def queue_length_after_enqueue(self) -> Histogram:
        """The length of its queue just after a request came into it, the request included."""
        self._sort_dispatched_at_once()
        return self.lengths_met

    @property
    def has_counted(self) -> bool:
        """Whether there was any request that came to a queue set, or was rejected before it."""
        return bool(self.work_estimated_seats.sum or any(self.wait_rejected_ns.counts))

    def _sort_dispatched_at_once(self) -> None:
        requests = self.dispatched_at_once
        if requests:
            self.dispatched_at_once = 0
            self.waited_ns.counts[0] += requests
            lengths = self.lengths_met
            lengths.counts[bisect_left(lengths.bounds, 1)] += requests
            lengths.sum += requests
