"""The last seconds of a cluster as rates, and its last 15 minutes second by second, for plots.

Both are made of successive states, so those of one process and of the sum of several alike.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from array import array
from collections import deque
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apfproxy.admin.state import NS_PER_S, by_class
from apfproxy.flowcontrol.meters import DURATION_BOUNDS_NS
from apfproxy.flowcontrol.queue_set import RejectReason
from apfproxy.upstream.counters import CLASSES, LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.admin.state import (
        ClusterState,
        FlowSchemaState,
        ListenerState,
        ProcessState,
        ServedState,
    )

SAMPLE_S: Final = 1.0
SAMPLES: Final = 900
"""15 minutes of seconds; with 8 levels they take 700 kB."""
RATES_S: Final = 5
"""Long enough to read, short enough to be of now."""
QUANTILES_S: Final = 10
"""A p99 needs more of them."""
MAX_LEVELS: Final = 64
"""Levels with a history: those with most seats.  A page cannot draw more in distinct colours."""
FIELDS: Final = (
    *("served", "failed", "rejected", "waitSeconds", "waitP99Seconds", "waiting", "seatsInUse"),
)
"""Requests a second: that got seats and were not failed by the server, that it failed, that were
rejected; the mean wait of those that got seats, and the least bound of the metrics' buckets that
99 % of them kept within; now: requests that wait and seats in use."""
PERCENT: Final = 99
FLOOD: Final = "flood-of-"
"""Begins the reason of connections of HTTP/2 that were ended; the kind of their frames follows."""
REASONS: Final = {reason.value: reason.value.replace("-", "_") for reason in RejectReason}


@dataclass(slots=True)
class Rates:
    """Requests per second of a FlowSchema or a level.

    Attributes:
        matched: That came; those that take no seats are not counted.
        rejected: By reason; without reasons that there were none of.
        failed: Of a level only: that had seats, and that the server failed.
        left: Whose clients left while they waited for seats.
    """

    matched: float = 0.0
    dispatched: float = 0.0
    rejected: dict[str, float] = field(default_factory=dict)
    failed: float = 0.0
    left: float = 0.0


class ServedRates(NamedTuple):
    """What servers did: responses by class and failures a second; times to heads, in seconds."""

    answers: Mapping[str, float] = dict.fromkeys(CLASSES, 0.0)
    failures: float = 0.0
    p50: float | None = None
    p99: float | None = None


class Look(NamedTuple):
    """A state, and when it was taken."""

    now_ns: int
    cluster: ClusterState
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One second.

    Attributes:
        unix_s: Its end, in whole milliseconds.
        names: Of the levels; the same object as that of the sample before if they are the same.
        values: Of `FIELDS`, level by level.
    """

    unix_s: float
    names: tuple[str, ...]
    values: array[float]


class History:
    """The states of a cluster.

    Attributes:
        taken: Samples so far, those no longer kept too.
        levels, flow_schemas: The rates of now, by name, and by level and name.
        upstream, endpoints: Those of the servers behind, together, and by URL.
        refused: What the proxy itself refused, a second, by reason; see `refused`.
        workers: Requests a second that got seats, by the name of the worker.
    """

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=QUANTILES_S + 1)
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.taken = 0
        self._is_taken = asyncio.Event()
        self.levels: dict[str, Rates] = {}
        self.flow_schemas: dict[tuple[str, str], Rates] = {}
        self.upstream = ServedRates()
        self.endpoints: dict[str, ServedRates] = {}
        self.refused: dict[str, float] = {}
        self.workers: dict[str, float] = {}

    def take(
        self, process: ProcessState, cluster: ClusterState, now_ns: int, unix_s: float
    ) -> None:
        """Take the state of a second; nothing if no time passed since the one before."""
        before = self._looks[-1] if self._looks else None
        if before is not None and now_ns <= before.now_ns:
            return
        look = Look(now_ns, cluster, refused(process.listener, cluster))
        self._looks.append(look)
        if before is not None:
            self._sample(before, look, round(unix_s, 3))
            self._rate(look)
            self._is_taken.set()

    async def measured(self, samples: int) -> None:
        """Wait until so many samples were taken."""
        while self.taken < samples:
            self._is_taken.clear()
            await self._is_taken.wait()

    def columns(self, since: int = 0) -> dict[str, Any]:
        """The samples as columns, for JSON, without those taken first.

        Returns:
            `times`, seconds since 1970, and for each of the `levels` one list for each of
            `FIELDS`, as long as `times`; NaN where there is no value.  JSON writes NaN and what is
            infinite as null.
        """
        first_taken = self.taken - len(self._samples)
        return columns_of(list(self._samples)[max(0, since - first_taken) :])

    def _rate(self, new: Look) -> None:
        old = self._looks[max(0, len(self._looks) - 1 - RATES_S)]
        elapsed_s = (new.now_ns - old.now_ns) / NS_PER_S
        earlier = {(each.priority_level, each.name): each for each in old.cluster.flow_schemas}
        self.levels, self.flow_schemas = {}, {}
        for each in new.cluster.flow_schemas:
            key = each.priority_level, each.name
            rates = _rates(earlier.get(key), each, elapsed_s)
            self.flow_schemas[key] = rates
            _add(self.levels.setdefault(each.priority_level, Rates()), rates)
        failed = {level.name: level.failed_total for level in old.cluster.levels}
        for level in new.cluster.levels:
            rates = self.levels.setdefault(level.name, Rates())
            # A level that came back counts from 0 again.
            rates.failed = max(0, level.failed_total - failed.get(level.name, 0)) / elapsed_s
        first, upstream = self._looks[0].cluster.upstream, new.cluster.upstream
        was, began = old.cluster.upstream, {each.url: each.served for each in first.endpoints}
        lately = {each.url: each.served for each in was.endpoints}
        self.upstream = _served(first.served, was.served, upstream.served, elapsed_s)
        self.endpoints = {
            each.url: _served(
                began.get(each.url, each.served),
                lately.get(each.url, each.served),
                each.served,
                elapsed_s,
            )
            for each in upstream.endpoints
        }
        self.refused = {
            reason: round((number - old.refused.get(reason, 0)) / elapsed_s, 2)
            for reason, number in new.refused.items()
            if number > old.refused.get(reason, 0)
        }
        shares = {each.name: each.dispatched for each in old.cluster.workers}
        self.workers = {
            each.name: max(0, each.dispatched - shares.get(each.name, 0)) / elapsed_s
            for each in new.cluster.workers
        }

    def _sample(self, old: Look, new: Look, unix_s: float) -> None:
        elapsed_s = (new.now_ns - old.now_ns) / NS_PER_S
        levels = sorted(new.cluster.levels, key=lambda each: (-each.nominal_limit, each.name))
        levels = sorted(levels[:MAX_LEVELS], key=lambda each: each.name)
        names = tuple(each.name for each in levels)
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names
        before, waits = {each.name: each for each in old.cluster.levels}, _waits(old, new)
        values = array("d")
        for level in levels:
            last = before.get(level.name)
            # A level that went and came back counts from 0 again.
            dispatched, failed, rejected = (
                max(0, now - then)
                for now, then in (
                    (level.dispatched_total, last.dispatched_total if last else 0),
                    (level.failed_total, last.failed_total if last else 0),
                    (level.rejected_total, last.rejected_total if last else 0),
                )
            )
            wait_ns, counts = waits.get(level.name, (0.0, []))
            values.extend((
                round(max(0, dispatched - failed) / elapsed_s, 1),
                round(failed / elapsed_s, 1),
                round(rejected / elapsed_s, 1),
                round(wait_ns / NS_PER_S / dispatched, 4) if dispatched else math.nan,
                wait_bound_s(counts),
                level.requests_waiting,
                level.seats_in_use,
            ))  # fmt: skip
        if self._samples and unix_s <= self._samples[-1].unix_s:
            # The clock was put back: the samples before follow it.
            by_s = unix_s - elapsed_s - self._samples[-1].unix_s
            for place, sample in enumerate(self._samples):
                self._samples[place] = replace(sample, unix_s=round(sample.unix_s + by_s, 3))
        self._samples.append(Sample(unix_s, names, values))
        self.taken += 1


def _rates(old: FlowSchemaState | None, new: FlowSchemaState, elapsed_s: float) -> Rates:
    def rate(name: str) -> float:
        return float(getattr(new, name) - (getattr(old, name) if old else 0)) / elapsed_s

    rejected = {reason: rate(f"rejected_{name}") for reason, name in REASONS.items()}
    dispatched, left = rate("dispatched"), rate("cancelled")
    return Rates(
        max(0.0, dispatched + left + rate("inqueue_requests") + sum(rejected.values())),
        dispatched,
        {reason: each for reason, each in rejected.items() if each},
        left=left,
    )


def _add(level: Rates, rates: Rates) -> None:
    level.matched += rates.matched
    level.dispatched += rates.dispatched
    level.left += rates.left
    for reason, rate in rates.rejected.items():
        level.rejected[reason] = level.rejected.get(reason, 0.0) + rate


def _served(
    first: ServedState, old: ServedState, new: ServedState, elapsed_s: float
) -> ServedRates:
    before, failed = by_class(old.answers), sum(old.failures.values())
    heads = slots(first.head_ns.counts, new.head_ns.counts)
    return ServedRates(
        {
            name: round(max(0, number - before[name]) / elapsed_s, 1)
            for name, number in by_class(new.answers).items()
        },
        round(max(0, sum(new.failures.values()) - failed) / elapsed_s, 1),
        quantile_s(LATENCY_BOUNDS_NS, heads, 0.5),
        quantile_s(LATENCY_BOUNDS_NS, heads, 0.99),
    )


def slots(old: Sequence[int], new: Sequence[int]) -> list[int]:
    """What fell into each bucket between two histograms, of which the first may be empty."""
    return [
        max(0, after - before) for after, before in itertools.zip_longest(new, old, fillvalue=0)
    ]


def _waits(old: Look, new: Look) -> dict[str, tuple[float, list[int]]]:
    """The waits of each level between two looks: their sum, and how many by bucket."""
    earlier = {(each.priority_level, each.name): each for each in old.cluster.flow_schemas}
    found: dict[str, tuple[float, list[int]]] = {}
    for each in new.cluster.flow_schemas:
        if not each.has_counted:
            continue
        last, waits = earlier.get((each.priority_level, each.name)), each.wait_executed_ns
        then, counts = (
            (last.wait_executed_ns.sum, last.wait_executed_ns.counts) if last else (0, [])
        )
        total, numbers = found.get(each.priority_level, (0.0, []))
        added = itertools.zip_longest(numbers, slots(counts, waits.counts), fillvalue=0)
        found[each.priority_level] = (
            total + max(0.0, waits.sum - then),
            [sum(pair) for pair in added],
        )
    return found


def refused(listener: ListenerState, cluster: ClusterState) -> dict[str, int]:
    """What the proxy itself refused before flow control: who gets no connection is in no other one.

    Connections by why, and requests by the status code of the proxy's own response.  Those of 429
    are rejections of flow control; those from 500 on tell of the server behind, or of a connection
    that was refused.
    """
    found = dict(listener.connections_refused)
    for flood, number in listener.http2.floods.items():
        found[FLOOD + flood] = number
    for counts in (cluster.requests.own_responses, listener.own_responses):
        for code, number in counts.items():
            if HTTPStatus.BAD_REQUEST <= int(code) < HTTPStatus.INTERNAL_SERVER_ERROR:
                found[code] = found.get(code, 0) + number
    found.pop(str(HTTPStatus.TOO_MANY_REQUESTS.value), None)
    return found


def columns_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """Samples as columns, see `History.columns`."""
    names = sorted({name for sample in samples for name in sample.names})
    levels: dict[str, dict[str, list[float]]] = {
        name: {field: [] for field in FIELDS} for name in names
    }
    # Samples of the same levels in one go: 15 minutes of 8 levels take 2 ms instead of 10.
    for known, run in itertools.groupby(samples, lambda sample: sample.names):
        flat: array[float] = array("d")
        length = 0
        for sample in run:
            flat.extend(sample.values)
            length += 1
        for name in names:
            first = known.index(name) * len(FIELDS) if name in known else None
            for place, column in enumerate(levels[name].values()):
                if first is None:
                    column.extend([math.nan] * length)
                else:
                    column.extend(flat[first + place :: len(known) * len(FIELDS)])
    return {"times": [sample.unix_s for sample in samples], "levels": levels}


def wait_bound_s(counts: Sequence[int]) -> float:
    """The least bound that `PERCENT` of the waits, which come by bucket, kept within.

    In seconds; infinite if only the last bucket has so many, NaN if there are none.
    """
    total = sum(counts)
    if not total:
        return math.nan
    seen = 0
    for bound_ns, count in zip(DURATION_BOUNDS_NS, counts, strict=False):
        seen += count
        if seen * 100 >= total * PERCENT:
            return bound_ns / NS_PER_S
    return math.inf


def quantile_s(bounds_ns: Sequence[int], counts: Sequence[int], quantile: float) -> float | None:
    """The duration that a part of those in a histogram kept within; None if there are none.

    It is interpolated within its bucket, and rounded to three digits.  What is above all bounds
    counts as the last bound.
    """
    wanted = sum(counts) * quantile
    if not wanted:
        return None
    lower = 0
    for upper, count, seen in zip(bounds_ns, counts, itertools.accumulate(counts), strict=False):
        if seen >= wanted:
            duration_ns = upper - (upper - lower) * (seen - wanted) / count
            return float(f"{duration_ns / NS_PER_S:.3g}")
        lower = upper
    return bounds_ns[-1] / NS_PER_S
