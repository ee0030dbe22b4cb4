"""The last seconds of servers behind: for each a ring of samples of its `UpstreamCounters`.

A sample is taken once a second, and differences only when they are asked for, which is seldom:
hundreds of servers are looked at each second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.upstream.counters import CLASSES, LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apfproxy.upstream.counters import UpstreamCounters

RATES_S = 5  # samples that rates are those of
QUANTILES_S = 10  # samples that quantiles are those of: a p99 needs more of them
NS_PER_S = 1_000_000_000


class Sample(NamedTuple):
    """The counters at a moment."""

    at_ns: int
    answers: dict[str, int]
    failures: int
    head_counts: Sequence[int]


class Recent(ABC):
    """The last seconds; all is 0 or None before the first sample."""

    __slots__ = ()

    @property
    @abstractmethod
    def answers_per_s(self) -> dict[str, float]:
        """By class of status code."""

    @property
    @abstractmethod
    def failures_per_s(self) -> float:
        """Requests that had no response, or not to its end."""

    @property
    @abstractmethod
    def head_counts(self) -> list[int]:
        """Times from a request to the head of its response, by bucket of `LATENCY_BOUNDS_NS`."""

    @property
    def p50_s(self) -> float | None:
        """The time within which half of them are; None without responses."""
        return quantile_s(LATENCY_BOUNDS_NS, self.head_counts, 0.5)

    @property
    def p99_s(self) -> float | None:
        return quantile_s(LATENCY_BOUNDS_NS, self.head_counts, 0.99)


class RecentResponses(Recent):
    """The last seconds of one server."""

    __slots__ = ("_counters", "_samples")

    def __init__(self, counters: UpstreamCounters, now_ns: int) -> None:
        self._counters = counters
        self._samples = deque([self._take(now_ns)], maxlen=QUANTILES_S + 1)

    def sample(self, now_ns: int) -> None:
        if now_ns > self._samples[-1].at_ns:
            self._samples.append(self._take(now_ns))

    @property
    def answers_per_s(self) -> dict[str, float]:
        old, new, elapsed_s = self._ends()
        found = dict.fromkeys(CLASSES, 0.0)
        if elapsed_s:
            for name, answers in new.answers.items():
                found[name] = round((answers - old.answers[name]) / elapsed_s, 1)
        return found

    @property
    def failures_per_s(self) -> float:
        old, new, elapsed_s = self._ends()
        return round((new.failures - old.failures) / elapsed_s, 1) if elapsed_s else 0.0

    @property
    def head_counts(self) -> list[int]:
        pairs = zip(self._samples[-1].head_counts, self._samples[0].head_counts, strict=True)
        return [after - before for after, before in pairs]

    def _ends(self) -> tuple[Sample, Sample, float]:
        """The samples between which rates are taken, and the seconds between them."""
        new, old = self._samples[-1], self._samples[max(0, len(self._samples) - 1 - RATES_S)]
        return old, new, (new.at_ns - old.at_ns) / NS_PER_S

    def _take(self, now_ns: int) -> Sample:
        counters = self._counters
        return Sample(
            now_ns,
            counters.responses_by_class(),
            sum(counters.failures.values()),
            tuple(counters.head_ns.counts),
        )


class RecentOfAll(Recent):
    """The last seconds of several servers; `parts` gives those that there are now."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Callable[[], Iterable[Recent]]) -> None:
        self._parts = parts

    @property
    def answers_per_s(self) -> dict[str, float]:
        found = dict.fromkeys(CLASSES, 0.0)
        for part in self._parts():
            for name, rate in part.answers_per_s.items():
                found[name] += rate
        return {name: round(rate, 1) for name, rate in found.items()}

    @property
    def failures_per_s(self) -> float:
        return round(sum(part.failures_per_s for part in self._parts()), 1)

    @property
    def head_counts(self) -> list[int]:
        counts = zip(*(part.head_counts for part in self._parts()), strict=True)
        return [sum(each) for each in counts] or [0] * (len(LATENCY_BOUNDS_NS) + 1)


def quantile_s(bounds_ns: Sequence[int], counts: Sequence[int], quantile: float) -> float | None:
    """The duration that a part of those in a histogram kept within; None if there are none.

    It is interpolated within its bucket, and rounded to three digits.  What is above all bounds
    counts as the last bound.
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
