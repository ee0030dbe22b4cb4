"""The last seconds of a cluster as rates, and its last 15 minutes second by second, for plots.

Both are made of successive states, so those of one process and of the sum of several alike.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import accumulate, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apfproxy.admin.state import NS_PER_S, Times, TokensState, by_class, summed
from apfproxy.flowcontrol.meters import (
    BETWEEN_TOKENS_BOUNDS_NS,
    DURATION_BOUNDS_NS,
    FIRST_TOKEN_BOUNDS_NS,
)
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.upstream.counters import CLASSES, LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.admin.state import ClusterState, FlowSchemaState, ListenerState, ServedState

SAMPLE_S: Final = 1.0
SAMPLES: Final = 900
"""15 minutes of seconds; with 8 levels they take 700 kB."""
RATES_S: Final = 5
QUANTILES_S: Final = 10
TOKENS_S: Final = 60
"""Streams begin seldom, and stop to think: quantiles of their times are of a minute."""
MEASURED: Final = 2
MAX_LEVELS: Final = 64
"""Levels with a history: those with most seats.  A page cannot draw more in distinct colours."""
FIELDS: Final = (
    *("served", "failed", "rejected", "waitSeconds", "waitP99Seconds", "waiting", "seatsInUse"),
    "tokens",
)
"""`served` were not failed by the server; 99 % of the waits kept within `waitP99Seconds`; `tokens`
were made, of completions."""
PERCENT: Final = 99
FLOOD: Final = "flood-of-"
REASONS: Final = {reason.value: reason.value.replace("-", "_") for reason in RejectReason}


@dataclass(slots=True)
class Rates:
    """Requests per second of a FlowSchema or a level, by reason where they were rejected."""

    matched: float = 0.0
    dispatched: float = 0.0
    rejected: dict[str, float] = field(default_factory=dict)
    failed: float = 0.0
    left: float = 0.0

    def add(self, other: Rates) -> None:
        self.matched += other.matched
        self.dispatched += other.dispatched
        self.left += other.left
        for reason, rate in other.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0.0) + rate


class ServedRates(NamedTuple):
    answers: Mapping[str, float] = dict.fromkeys(CLASSES, 0.0)
    failures: float = 0.0
    p50: float | None = None
    p99: float | None = None


class TokenRates(NamedTuple):
    """Tokens per second of a level; times of streams, in seconds, None where there were none."""

    tokens: float = 0.0
    prompt_tokens: float = 0.0
    first_token_p50: float | None = None
    first_token_p99: float | None = None
    first_token_executing_p50: float | None = None
    between_tokens_p50: float | None = None
    between_tokens_p99: float | None = None


class Look(NamedTuple):
    now_ns: int
    cluster: ClusterState
    refused: Mapping[str, int]


class Sample(NamedTuple):
    """One second, with values of `FIELDS` level by level; equal names are the same object.

    Attributes:
        limit: The server limit that is found; NaN where the settings say it.
    """

    unix_s: float
    names: tuple[str, ...]
    values: array[float]
    limit: float = math.nan


NO_TIMES: Final = Times()
NO_TOKENS: Final = TokensState()
NO_VALUES: Final = (math.nan,) * len(FIELDS)


class History:
    """The states of a cluster; rates are those that `rate` made last."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=QUANTILES_S + 1)
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._tokens: deque[dict[str, TokensState]] = deque(maxlen=TOKENS_S + 1)
        self.taken = 0
        self._is_taken = asyncio.Event()
        self.levels: dict[str, Rates] = {}
        self.flow_schemas: dict[tuple[str, str], Rates] = {}
        self.upstream = ServedRates()
        self.endpoints: dict[str, ServedRates] = {}
        self.refused: dict[str, float] = {}
        self.workers: dict[str, float] = {}
        self.tokens: dict[str, TokenRates] = {}

    def take(
        self, listener: ListenerState, cluster: ClusterState, now_ns: int, unix_s: float
    ) -> None:
        before = self._looks[-1] if self._looks else None
        if before is not None and now_ns <= before.now_ns:
            return
        look = Look(now_ns, cluster, refused(listener, cluster))
        self._looks.append(look)
        self._tokens.append(tokens_by_level(cluster))
        if before is not None:
            self._sample(before, look, round(unix_s, 3))
            self._is_taken.set()

    async def measured(self, samples: int) -> None:
        while self.taken < samples:
            self._is_taken.clear()
            await self._is_taken.wait()

    def columns(self, since: int = 0) -> dict[str, Any]:
        """The samples as columns, for JSON, without those taken first.

        They are `times`, in seconds since 1970, and for each of the `levels` a list for each of
        `FIELDS` as long as `times`; NaN, which JSON writes as null, where there is no value.
        `limits`, as long, are the server limits, where they are found.
        """
        samples = list(self._samples)[max(0, since - self.taken + len(self._samples)) :]
        names = sorted({name for sample in samples for name in sample.names})
        rows: dict[str, list[Sequence[float]]] = {name: [] for name in names}
        for sample in samples:
            first = {name: place * len(FIELDS) for place, name in enumerate(sample.names)}
            for name, found in rows.items():
                start = first.get(name)
                values = None if start is None else sample.values[start : start + len(FIELDS)]
                found.append(NO_VALUES if values is None else values)
        return {
            "times": [sample.unix_s for sample in samples],
            "levels": {
                name: dict(zip(FIELDS, map(list, zip(*found, strict=True)), strict=True))
                for name, found in rows.items()
            },
            "limits": [sample.limit for sample in samples],
        }

    def rate(self) -> None:
        if len(self._looks) < MEASURED:
            return
        begin, end = self._looks[max(0, len(self._looks) - 1 - RATES_S)], self._looks[-1]
        elapsed_s = (end.now_ns - begin.now_ns) / NS_PER_S
        first, old, new = self._looks[0].cluster, begin.cluster, end.cluster
        earlier = {(each.priority_level, each.name): each for each in old.flow_schemas}
        self.levels, self.flow_schemas = {}, {}
        for schema in new.flow_schemas:
            key = schema.priority_level, schema.name
            self.flow_schemas[key] = rates = _rates(earlier.get(key), schema, elapsed_s)
            self.levels.setdefault(schema.priority_level, Rates()).add(rates)
        for name, failed in _grown(old.levels, new.levels, "failed_total").items():
            self.levels.setdefault(name, Rates()).failed = failed / elapsed_s
        self.upstream = _served(
            first.upstream.served, old.upstream.served, new.upstream.served, elapsed_s
        )
        began, lately = (
            {each.url: each.served for each in of.upstream.endpoints} for of in (first, old)
        )
        self.endpoints = {
            each.url: _served(
                began.get(each.url, each.served),
                lately.get(each.url, each.served),
                each.served,
                elapsed_s,
            )
            for each in new.upstream.endpoints
        }
        self.refused = {
            reason: round((number - begin.refused.get(reason, 0)) / elapsed_s, 2)
            for reason, number in end.refused.items()
            if number > begin.refused.get(reason, 0)
        }
        dispatched = _grown(old.workers, new.workers, "dispatched")
        self.workers = {name: number / elapsed_s for name, number in dispatched.items()}
        a_minute_ago = self._tokens[0]
        before = self._tokens[max(0, len(self._tokens) - 1 - RATES_S)]
        self.tokens = {
            level: _token_rates(
                a_minute_ago.get(level, NO_TOKENS), before.get(level, NO_TOKENS), tokens, elapsed_s
            )
            for level, tokens in self._tokens[-1].items()
        }

    def _sample(self, old: Look, new: Look, unix_s: float) -> None:
        elapsed_s = (new.now_ns - old.now_ns) / NS_PER_S
        levels = sorted(new.cluster.levels, key=lambda each: (-each.nominal_limit, each.name))
        levels = sorted(levels[:MAX_LEVELS], key=attrgetter("name"))
        names = tuple(each.name for each in levels)
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names
        before, after = _waits(old.cluster), _waits(new.cluster)
        tokens_then, tokens_now = self._tokens[-2], self._tokens[-1]
        served, failing, rejecting = (
            _grown(old.cluster.levels, levels, f"{what}_total")
            for what in ("dispatched", "failed", "rejected")
        )
        values = array("d")
        for level in levels:
            dispatched, failed = served[level.name], failing[level.name]
            then, now = before.get(level.name, NO_TIMES), after.get(level.name, NO_TIMES)
            made = tokens_now.get(level.name)
            if made is None:
                tokens = math.nan
            else:
                made_before = tokens_then.get(level.name, NO_TOKENS).completion_tokens
                tokens = round(max(0, made.completion_tokens - made_before) / elapsed_s, 1)
            wait_s = max(0.0, now.sum - then.sum) / NS_PER_S
            values.extend((
                round(max(0, dispatched - failed) / elapsed_s, 1),
                round(failed / elapsed_s, 1),
                round(rejecting[level.name] / elapsed_s, 1),
                round(wait_s / dispatched, 4) if dispatched else math.nan,
                wait_bound_s(slots(then.counts, now.counts)),
                level.requests_waiting,
                level.seats_in_use,
                tokens,
            ))  # fmt: skip
        if self._samples and unix_s <= self._samples[-1].unix_s:
            # The clock was put back: the samples before follow it.
            by_s = unix_s - elapsed_s - self._samples[-1].unix_s
            for place, sample in enumerate(self._samples):
                self._samples[place] = sample._replace(unix_s=round(sample.unix_s + by_s, 3))
        found = new.cluster.found_limit
        limit = math.nan if found is None else found.limit
        self._samples.append(Sample(unix_s, names, values, limit))
        self.taken += 1


def _grown(old: Sequence[Any], new: Sequence[Any], what: str) -> dict[str, int]:
    """By how much a number of each record is larger, by name; one that came back begins at 0."""
    earlier = {each.name: getattr(each, what) for each in old}
    return {each.name: max(0, getattr(each, what) - earlier.get(each.name, 0)) for each in new}


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


def _token_rates(
    first: TokensState, old: TokensState, new: TokensState, elapsed_s: float
) -> TokenRates:
    def rate(name: str) -> float:
        grown: int = max(0, getattr(new, name) - getattr(old, name))
        return round(grown / elapsed_s, 1)

    def quantile(name: str, bounds_ns: Sequence[int], part: float) -> float | None:
        began, lately = getattr(first, name).counts, getattr(new, name).counts
        return quantile_s(bounds_ns, slots(began, lately), part)

    return TokenRates(
        rate("completion_tokens"),
        rate("prompt_tokens"),
        quantile("first_token_ns", FIRST_TOKEN_BOUNDS_NS, 0.5),
        quantile("first_token_ns", FIRST_TOKEN_BOUNDS_NS, 0.99),
        quantile("first_token_executing_ns", FIRST_TOKEN_BOUNDS_NS, 0.5),
        quantile("between_tokens_ns", BETWEEN_TOKENS_BOUNDS_NS, 0.5),
        quantile("between_tokens_ns", BETWEEN_TOKENS_BOUNDS_NS, 0.99),
    )


def slots(old: Sequence[int], new: Sequence[int]) -> list[int]:
    return [max(0, after - before) for after, before in zip_longest(new, old, fillvalue=0)]


def tokens_by_level(cluster: ClusterState) -> dict[str, TokensState]:
    found: dict[str, list[TokensState]] = {}
    for each in cluster.flow_schemas:
        if each.tokens is not None:
            found.setdefault(each.priority_level, []).append(each.tokens)
    return {level: summed(tokens) for level, tokens in found.items()}


def _waits(cluster: ClusterState) -> dict[str, Times]:
    waits: dict[str, list[Times]] = {}
    for each in cluster.flow_schemas:
        waits.setdefault(each.priority_level, []).append(each.wait_executed_ns)
    return {level: summed(times) for level, times in waits.items()}


def refused(listener: ListenerState, cluster: ClusterState) -> dict[str, int]:
    """Refusals of the proxy itself before flow control: connections by why, requests by code.

    Status 429, and 403 for a ban, are flow control's; those from 500 on tell of the server
    behind, or of a refused connection.
    """
    found = dict(listener.connections_refused)
    for flood, number in listener.http2.floods.items():
        found[FLOOD + flood] = number
    for counts in (cluster.requests.own_responses, listener.own_responses):
        for code, number in counts.items():
            if HTTPStatus.BAD_REQUEST <= int(code) < HTTPStatus.INTERNAL_SERVER_ERROR:
                found[code] = found.get(code, 0) + number
    found.pop(str(HTTPStatus.TOO_MANY_REQUESTS.value), None)
    if bans := cluster.requests.bans:
        found[str(HTTPStatus.FORBIDDEN.value)] -= bans
    return found


def wait_bound_s(counts: Sequence[int]) -> float:
    """The least bound in seconds that `PERCENT` of the waits, which come by bucket, kept within.

    Infinite if only the last bucket has so many, NaN if there are none.
    """
    total = sum(counts)
    for bound_ns, seen in zip((*DURATION_BOUNDS_NS, math.inf), accumulate(counts), strict=False):
        if total and seen * 100 >= total * PERCENT:
            return bound_ns / NS_PER_S
    return math.nan


def quantile_s(bounds_ns: Sequence[int], counts: Sequence[int], quantile: float) -> float | None:
    """The duration that a part of those in a histogram kept within; None if there are none.

    It is interpolated within its bucket, and rounded to three digits.
    """
    wanted = sum(counts) * quantile
    if not wanted:
        return None
    lower = 0
    for upper, count, seen in zip(bounds_ns, counts, accumulate(counts), strict=False):
        if seen >= wanted:
            duration_ns = upper - (upper - lower) * (seen - wanted) / count
            return float(f"{duration_ns / NS_PER_S:.3g}")
        lower = upper
    return bounds_ns[-1] / NS_PER_S
