"""Counters of flow control: plain integers that `observe` reads at scrape.

Nothing here is locked: one event loop writes, the same loop reads.

Kubernetes' TimingRatioHistogram samples a ratio, such as seats in use over the limit, at every
nanosecond.  Doing that at every request would cost four bucket searches each.  Here a queue set
packs all it would report into one integer, its state, and adds the nanoseconds that it spent in
that state to one dictionary: one addition per event.  Only a reader, or a change of a
denominator, sorts the states into buckets.  Requests by kind (mutating or not) and phase are
counted so, too: an event only adds nanoseconds to the count that ends with it.

Seat demand is the seats of the requests that execute plus those of the requests that wait.  Its
time-weighted average, its standard deviation and its maximum over a period say what a level wants
of the next one (KEP-1040, "Dispatching").  An envelope, average plus one standard deviation, rises
at once and decays slowly, so that a level does not lose what it borrowed in a short lull.  Its sums
are exact integers of seats times nanoseconds; only `reset` turns them into floats.  Marks and
peaks, which change none of these, tell the maximum of the last moments between the ends of periods.

Source: kubernetes/apiserver pkg/util/flowcontrol/metrics/timing_ratio_histogram.go.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

NS_PER_S: Final = 1_000_000_000

DURATION_BOUNDS_S: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
DURATION_BOUNDS_NS: Final = tuple(round(bound * NS_PER_S) for bound in DURATION_BOUNDS_S)
SHORT_NS: Final = 5_000_000
"""Durations up to this fall into the second bucket, but for those of nothing."""

QUEUE_LENGTH_BOUNDS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
SEATS_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
WATCH_COUNT_BOUNDS: Final = (0, 1, 10, 100, 1000, 10000)

FIRST_TOKEN_BOUNDS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640)
"""vLLM's own, but for those below 50 ms and the last: no model thinks for 40 minutes."""
BETWEEN_TOKENS_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5, 10, 40)
FIRST_TOKEN_BOUNDS_NS: Final = tuple(round(bound * NS_PER_S) for bound in FIRST_TOKEN_BOUNDS_S)
BETWEEN_TOKENS_BOUNDS_NS: Final = tuple(
    round(bound * NS_PER_S) for bound in BETWEEN_TOKENS_BOUNDS_S
)


class Histogram:
    """Counts of integers by bucket, of inclusive upper bounds and one above them, and their sum."""

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def observe(self, value: int) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_each(self, count: int, total: int) -> None:
        """Observe so many equal parts of a total, of which only the sum is exact."""
        self.counts[bisect_left(self.bounds, total // count)] += count
        self.sum += total

    def add(self, other: Histogram) -> None:
        for index, count in enumerate(other.counts):
            self.counts[index] += count
        self.sum += other.sum


def _durations() -> Histogram:
    return Histogram(DURATION_BOUNDS_NS)


class TokenMeter:
    """Tokens of the completions of one FlowSchema at one priority level.

    Attributes:
        open_streams: Responses under way now of which tokens come as they are made.
        completions: Responses that are over and said of tokens; `prompt_tokens` are theirs.
        completion_tokens: As they come, by events; those that usage takes back are made good by
            what comes next, so that it only grows.
        first_token_ns: From the request's arrival to the first token of a stream.
        first_token_executing_ns: From its dispatch on.
        between_tokens_ns: From one token of a stream to the next.
    """

    def __init__(self) -> None:
        self.open_streams = 0
        self.completions = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._owed = 0
        self.first_token_ns = Histogram(FIRST_TOKEN_BOUNDS_NS)
        self.first_token_executing_ns = Histogram(FIRST_TOKEN_BOUNDS_NS)
        self.between_tokens_ns = Histogram(BETWEEN_TOKENS_BOUNDS_NS)

    def count(self, tokens: int) -> None:
        """Count tokens of completions; less than none takes so many back."""
        tokens -= self._owed
        if tokens < 0:
            self._owed = -tokens
        else:
            self._owed = 0
            self.completion_tokens += tokens


@dataclass(slots=True, eq=False, repr=False)
class FlowSchemaCounters:
    """Counts of the requests of one FlowSchema at one priority level.

    Gauges (`executing_*`, `inqueue_*`) are requests and seats now; all else only grows.  A request
    counts as executing until the end of its execution; its seats until they are given back, at the
    end of its additional latency.  `dispatched_at_once` went through an empty queue set, and are
    not sorted yet into the histograms: to add to are `waited_ns` and `lengths_met`, to read
    `wait_executed_ns` and `queue_length_after_enqueue`.  `wait_rejected_ns` is of all that did not
    execute.  `tokens` is None until a response at a level that counts them.
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
    rejected_token_rate: int = 0
    rejected_long_running: int = 0
    rejected_flow_requests: int = 0
    paced_ns: int = 0
    cancelled: int = 0
    waited_ns: Histogram = field(default_factory=_durations)
    wait_rejected_ns: Histogram = field(default_factory=_durations)
    execution_regular_ns: Histogram = field(default_factory=_durations)
    execution_watch_ns: Histogram = field(default_factory=_durations)
    lengths_met: Histogram = field(default_factory=lambda: Histogram(QUEUE_LENGTH_BOUNDS))
    work_estimated_seats: Histogram = field(default_factory=lambda: Histogram(SEATS_BOUNDS))
    watch_count: Histogram = field(default_factory=lambda: Histogram(WATCH_COUNT_BOUNDS))
    tokens: TokenMeter | None = None

    def token_meter(self) -> TokenMeter:
        if self.tokens is None:
            self.tokens = TokenMeter()
        return self.tokens

    @property
    def wait_executed_ns(self) -> Histogram:
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
        requests, self.dispatched_at_once = self.dispatched_at_once, 0
        self.waited_ns.counts[0] += requests
        self.lengths_met.counts[bisect_left(QUEUE_LENGTH_BOUNDS, 1)] += requests
        self.lengths_met.sum += requests


REQUEST_RATIO_BOUNDS: Final = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
SEAT_RATIO_BOUNDS: Final = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
DEMAND_RATIO_BOUNDS: Final = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)

SEATS_SHIFT: Final = 24
REQUESTS_WAITING_SHIFT: Final = 56
SEATS_WAITING_SHIFT: Final = 80
"""The fields of a state, from bit 0 on; a state in which nothing waits is a short integer."""

REQUESTS_MASK: Final = (1 << 24) - 1
SEATS_MASK: Final = (1 << 32) - 1

MAX_STATES: Final = 4096
"""States kept before they are sorted into buckets: about 0.5 MiB for a level in turmoil."""


def pack(requests_executing: int, seats: int, requests_waiting: int, seats_waiting: int) -> int:
    return (
        requests_executing
        | seats << SEATS_SHIFT
        | requests_waiting << REQUESTS_WAITING_SHIFT
        | seats_waiting << SEATS_WAITING_SHIFT
    )


class RatioHistogram:
    """A `Histogram` of nanoseconds by ratio, value over `denominator` (>= 1), weighted by time."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.denominator = 1
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: int, duration_ns: int) -> None:
        ratio = value / self.denominator
        self.counts[bisect_left(self.bounds, ratio)] += duration_ns
        self.sum += ratio * duration_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class LevelMeter:
    """Time-weighted distributions of one priority level, since its queue set was made.

    The queue set adds nanoseconds to `time_at`, by packed state; others call its `sync`, then read
    the histograms.  Requests executing and seats in use are over the concurrency limit, where
    lingering requests count for their seats only, requests waiting over what all queues can hold,
    and seat demand over the nominal limit.
    """

    def __init__(self) -> None:
        self.time_at: dict[int, int] = {}
        self.requests_executing = RatioHistogram(REQUEST_RATIO_BOUNDS)
        self.requests_waiting = RatioHistogram(REQUEST_RATIO_BOUNDS)
        self.seats_in_use = RatioHistogram(SEAT_RATIO_BOUNDS)
        self.seat_demand = RatioHistogram(DEMAND_RATIO_BOUNDS)

    def fold(self) -> None:
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
        self.fold()
        self.requests_waiting.denominator = max(requests, 1)


SMOOTHING_COEFFICIENT: Final = 0.977
"""Kubernetes' value: at 10 s a period the envelope of a quiet level halves in 5 min."""


@dataclass(frozen=True, slots=True)
class DemandStats:
    """Time-weighted seat demand over one period; the maximum includes that at its beginning."""

    average: float = 0.0
    stddev: float = 0.0
    high_watermark: int = 0


class SeatDemand:
    """Integrates the seat demand of one priority level.

    Attributes:
        stats: Those of the period that ended last; zeros before.
        smoothed: The envelope of `average + stddev` over the periods so far, in seats.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self.seats = 0
        self.stats = DemandStats()
        self.smoothed = 0.0
        self._start_ns = now_ns
        self._updated_ns = now_ns
        self._seat_ns = 0
        self._square_seat_ns = 0
        self._peak = 0  # since the last fold
        self._former_peak = 0  # since it was taken last, up to the last fold
        self._high_watermark = 0  # since the last mark, up to the last fold
        self._before_mark = 0  # between the last two marks
        self._period_watermark = 0  # of the period, up to the last mark

    def update(self, now_ns: int, seats: int) -> None:
        """Let the demand be `seats` from `now_ns` on; times must not go backwards."""
        before = self.seats
        if before:
            weighted = before * (now_ns - self._updated_ns)
            self._seat_ns += weighted
            self._square_seat_ns += before * weighted
        self._updated_ns = now_ns
        self.seats = seats
        if seats > self._peak:  # noqa: PLR1730  max() costs 60 ns more per request
            self._peak = seats

    def mark(self) -> None:
        """Begin again to remember the maximum of the last moments, with the demand as it is now."""
        self._fold()
        watermark = self._high_watermark
        self._period_watermark = max(self._period_watermark, watermark)
        self._before_mark = watermark
        self._high_watermark = self.seats

    @property
    def recent_watermark(self) -> int:
        """The maximum since the mark before the last one; a period's end is a mark."""
        return max(self._before_mark, self._high_watermark, self._peak)

    @property
    def peak(self) -> int:
        return max(self._former_peak, self._peak)

    def take_peak(self) -> int:
        """The maximum since the last call, for anyone who looks more often than marks are made."""
        self._fold()
        peak, self._former_peak = self._former_peak, 0
        return peak

    def _fold(self) -> None:
        peak, self._peak = self._peak, self.seats
        self._former_peak = max(self._former_peak, peak)
        self._high_watermark = max(self._high_watermark, peak)

    def reset(self, now_ns: int) -> DemandStats:
        """End the period, and begin the next with the demand as it is now.

        A period of no length says nothing but its high watermark: average, deviation and `smoothed`
        stay those of the period before.
        """
        self.update(now_ns, self.seats)
        self.mark()
        watermark, self._period_watermark = self._period_watermark, 0
        duration_ns = now_ns - self._start_ns
        average, stddev = self.stats.average, self.stats.stddev
        if duration_ns > 0:
            # The sums are exact; from here on the floating-point steps are those of Kubernetes
            # (fairqueuing/integrator.go), which decide what is left of a small deviation.
            duration_s = duration_ns / NS_PER_S
            average = self._seat_ns / NS_PER_S / duration_s
            variance = self._square_seat_ns / NS_PER_S / duration_s - average * average
            stddev = math.sqrt(variance) if variance > 0 else 0.0
            envelope = average + stddev
            self.smoothed = max(
                envelope,
                SMOOTHING_COEFFICIENT * self.smoothed + (1 - SMOOTHING_COEFFICIENT) * envelope,
            )
        self.stats = DemandStats(average, stddev, watermark)
        self._start_ns = now_ns
        self._seat_ns = 0
        self._square_seat_ns = 0
        return self.stats


RATIO_BOUNDS: Final = (0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
"""Upper bounds, inclusive, of the buckets: requests as a part of the limit."""

WAITING: Final = "waiting"
EXECUTING: Final = "executing"
MUTATING: Final = "mutating"
READ_ONLY: Final = "readOnly"


@dataclass(frozen=True, slots=True)
class Usage:
    """Nanoseconds for which each share of a limit was in use, by bucket of `RATIO_BOUNDS`."""

    phase: str
    request_kind: str
    bucket_ns: tuple[int, ...]
    ratio_ns: float


class RequestCount:
    """The number of requests in one phase, and for how long it was which.

    An event may be told a little later than another that happened after it; it counts as if it had
    happened then, so that the time at a count never shrinks.  `ns_at` has nanoseconds by count
    since the last `flush`, up to `since_ns`; `shares` has earlier ones, as parts of the limit.
    `high` and `previous_high` are the largest counts in the current second, and in the one before.
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
        is_next = now_ns < self.second_end_ns + NS_PER_S
        self.previous_high = self.high if is_next else self.count
        self.high = self.count
        self.second_end_ns += (now_ns - self.second_end_ns) // NS_PER_S * NS_PER_S + NS_PER_S

    def last_high(self, now_ns: int) -> int:
        if now_ns >= self.second_end_ns:
            self.roll(now_ns)
        return self.previous_high

    def flush(self, now_ns: int) -> None:
        self.ns_at[self.count] += now_ns - self.since_ns
        self.since_ns = now_ns
        for count, duration_ns in enumerate(self.ns_at):
            if duration_ns:
                self.shares.add(count, duration_ns)
        self.ns_at = [0] * (max(self.high, self.count) + 1)

    def usage(self, now_ns: int) -> Usage:
        self.flush(now_ns)
        return Usage(self.phase, self.request_kind, tuple(self.shares.counts), self.shares.sum)


class KindCounts:
    def __init__(self, waiting: RequestCount, executing: RequestCount) -> None:
        self.waiting = waiting
        self.executing = executing


class KindMeter:
    """The four request counts of a process; a request that fits at once was never waiting."""

    def __init__(self, now_ns: int) -> None:
        kinds = READ_ONLY, MUTATING
        self._waiting = [RequestCount(WAITING, kind, now_ns) for kind in kinds]
        self._executing = [RequestCount(EXECUTING, kind, now_ns) for kind in kinds]
        # Indexed by whether the request is mutating: one look-up finds the counts.
        self.kinds = tuple(map(KindCounts, self._waiting, self._executing))

    def set_limits(self, now_ns: int, waiting: int, executing: int) -> None:
        """Say how many may wait in all queues, and execute, from `now_ns` on; 0 counts as 1."""
        for counts, limit in ((self._waiting, waiting), (self._executing, executing)):
            for count in counts:
                count.flush(now_ns)
                count.shares.denominator = max(1, limit)

    def usages(self, now_ns: int) -> tuple[Usage, ...]:
        return tuple(count.usage(now_ns) for count in (*self._waiting, *self._executing))

    def in_flight(self, now_ns: int) -> dict[str, int]:
        """The most requests of each kind at a time in the last full second.

        Kubernetes forgets requests that merely go on through such a second; these count here.
        """
        return {count.request_kind: count.last_high(now_ns) for count in self._executing}

    def in_queue(self, now_ns: int) -> dict[str, int]:
        return {count.request_kind: count.last_high(now_ns) for count in self._waiting}
