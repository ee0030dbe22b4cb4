"""Requests that wait and that execute, by kind: those that change something, and the others.

Kubernetes exports these as `apiserver_flowcontrol_read_vs_write_current_requests`, a histogram of
how long each share of the limit was in use, and as `apiserver_current_inflight_requests` and
`apiserver_current_inqueue_requests`, the largest numbers in the last second.  Each request passes
here twice at least, so an event only adds nanoseconds to the count that ends with it; counts become
buckets when somebody reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apfproxy.flowcontrol.meter import RatioHistogram

NS_PER_S: Final = 1_000_000_000

RATIO_BOUNDS: Final = (0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
"""Upper bounds, inclusive, of the buckets: requests as a part of the limit."""

WAITING: Final = "waiting"
EXECUTING: Final = "executing"
MUTATING: Final = "mutating"
READ_ONLY: Final = "readOnly"


@dataclass(frozen=True, slots=True)
class Usage:
    """How long each share of a limit was in use, since the start.

    Attributes:
        phase: `waiting` or `executing`.
        request_kind: `mutating` or `readOnly`.
        bucket_ns: Nanoseconds by bucket of `RATIO_BOUNDS`, not cumulative; the last is above all.
        ratio_ns: The sum of ratio times nanoseconds.
    """

    phase: str
    request_kind: str
    bucket_ns: tuple[int, ...]
    ratio_ns: float


class RequestCount:
    """How many requests are in one phase, and for how long they were how many.

    An event may be told a little later than another that happened after it; it counts as if it had
    happened then, so that the time at a count never shrinks.

    Attributes:
        shares: The counts as parts of the limit, up to the last `flush`.
        count: Requests now.
        ns_at: Nanoseconds for which the count was its index, from the last `flush` to `since_ns`.
        since_ns: When the count became what it is, or was read last.
        high, previous_high: The largest counts in the current second, and in the one before.
    """

    def __init__(self, phase: str, request_kind: str, now_ns: int) -> None:
        self.phase = phase
        self.request_kind = request_kind
        self.count = 0
        self.ns_at = [0]
        self.since_ns = now_ns
        self.second_end_ns = now_ns + NS_PER_S
        self.high = 0
        self.previous_high = 0
        self.shares = RatioHistogram(RATIO_BOUNDS)

    def begin(self, now_ns: int) -> None:
        """Count one more from `now_ns` on."""
        if now_ns >= self.second_end_ns:
            self.roll(now_ns)
        count = self.count
        duration_ns = now_ns - self.since_ns
        if duration_ns > 0:
            self.ns_at[count] += duration_ns
            self.since_ns = now_ns
        self.count = count = count + 1
        if count > self.high:
            self.high = count
            if count == len(self.ns_at):
                self.ns_at.append(0)

    def end(self, now_ns: int) -> None:
        """Count one less from `now_ns` on, but never less than none.

        A request that an error ended between two steps may end without having begun.  All others
        share this count: it must not cost them anything.
        """
        if now_ns >= self.second_end_ns:
            self.roll(now_ns)
        count = self.count
        duration_ns = now_ns - self.since_ns
        if duration_ns > 0:
            self.ns_at[count] += duration_ns
            self.since_ns = now_ns
        if count:
            self.count = count - 1

    def roll(self, now_ns: int) -> None:
        """Begin the second that `now_ns` is in; nothing has changed since the one before."""
        if now_ns < self.second_end_ns + NS_PER_S:
            self.previous_high = self.high
        else:
            self.previous_high = self.count
        self.high = self.count
        self.second_end_ns += (now_ns - self.second_end_ns) // NS_PER_S * NS_PER_S + NS_PER_S

    def last_high(self, now_ns: int) -> int:
        """The largest count in the last full second before `now_ns`."""
        if now_ns >= self.second_end_ns:
            self.roll(now_ns)
        return self.previous_high

    def flush(self, now_ns: int) -> None:
        """Turn what was counted so far into buckets, by the denominator as it is."""
        self.ns_at[self.count] += now_ns - self.since_ns
        self.since_ns = now_ns
        for count, duration_ns in enumerate(self.ns_at):
            if duration_ns:
                self.shares.add(count, duration_ns)
        self.ns_at = [0] * (max(self.high, self.count) + 1)

    def usage(self, now_ns: int) -> Usage:
        """All that was counted until `now_ns`."""
        self.flush(now_ns)
        return Usage(self.phase, self.request_kind, tuple(self.shares.counts), self.shares.sum)


class KindCounts:
    """The counts of the requests of one kind."""

    __slots__ = ("executing", "waiting")

    def __init__(self, waiting: RequestCount, executing: RequestCount) -> None:
        self.waiting = waiting
        self.executing = executing


class KindMeter:
    """The four request counts of a process.

    A request is waiting from when it is put into a queue until it leaves it, and executing from its
    dispatch until its end; one that fits at once was never waiting.
    """

    def __init__(self, now_ns: int) -> None:
        # Indexed by whether the request is mutating: one look-up finds the count.
        self._waiting = (
            RequestCount(WAITING, READ_ONLY, now_ns),
            RequestCount(WAITING, MUTATING, now_ns),
        )
        self._executing = (
            RequestCount(EXECUTING, READ_ONLY, now_ns),
            RequestCount(EXECUTING, MUTATING, now_ns),
        )
        self.kinds = tuple(map(KindCounts, self._waiting, self._executing))

    def set_limits(self, now_ns: int, waiting: int, executing: int) -> None:
        """Say how many may wait in all queues, and execute, from `now_ns` on; 0 counts as 1."""
        for counts, limit in ((self._waiting, waiting), (self._executing, executing)):
            for count in counts:
                count.flush(now_ns)
                count.shares.denominator = max(1, limit)

    def usages(self, now_ns: int) -> tuple[Usage, ...]:
        """How long each share of the limits was in use until `now_ns`, by phase and kind."""
        return tuple(count.usage(now_ns) for count in (*self._waiting, *self._executing))

    def in_flight(self, now_ns: int) -> dict[str, int]:
        """The most requests of each kind that executed at a time in the last full second.

        Kubernetes forgets the requests that merely go on through such a second; these count here.
        """
        return {count.request_kind: count.last_high(now_ns) for count in self._executing}

    def in_queue(self, now_ns: int) -> dict[str, int]:
        """The most requests of each kind that waited at a time in the last full second."""
        return {count.request_kind: count.last_high(now_ns) for count in self._waiting}
