"""What the server behind did in the last seconds: a ring of samples of its counters, one a second.

Requests only count, see `UpstreamCounters`; the differences are taken here, once a second.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from apfproxy.proxy.counters import CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.proxy.counters import UpstreamCounters

RATES_S = 5
"""Rates are those of the last so many samples."""
QUANTILES_S = 10
"""Likewise; a p99 needs more of them."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters at a moment."""

    at_ns: int
    answers: Mapping[str, int]
    failures: int
    head_counts: Sequence[int]


class RecentAnswers:
    """A ring of samples, and what follows from it; all is 0 or None before the first sample.

    Attributes:
        answers_per_s: By class of status code.
        failures_per_s: Requests that the server did not answer, or not to the end.
        p50_s, p99_s: Of the times from a request to the head of its answer; None without answers.
    """

    def __init__(self, counters: UpstreamCounters, now_ns: int) -> None:
        self._counters = counters
        self._samples = deque([self._take(now_ns)], maxlen=QUANTILES_S + 1)
        self.answers_per_s = dict.fromkeys(CLASSES, 0.0)
        self.failures_per_s = 0.0
        self.p50_s: float | None = None
        self.p99_s: float | None = None

    def sample(self, now_ns: int) -> None:
        """Take a sample, once a second; none if no time has passed."""
        samples = self._samples
        if now_ns <= samples[-1].at_ns:
            return
        new = self._take(now_ns)
        samples.append(new)
        old = samples[max(0, len(samples) - 1 - RATES_S)]
        elapsed_s = (now_ns - old.at_ns) / NS_PER_S
        self.answers_per_s = {
            name: round((answers - old.answers[name]) / elapsed_s, 1)
            for name, answers in new.answers.items()
        }
        self.failures_per_s = round((new.failures - old.failures) / elapsed_s, 1)
        pairs = zip(new.head_counts, samples[0].head_counts, strict=True)
        counts = [after - before for after, before in pairs]
        bounds = self._counters.head_ns.bounds
        self.p50_s = quantile_s(bounds, counts, 0.5)
        self.p99_s = quantile_s(bounds, counts, 0.99)

    def _take(self, now_ns: int) -> Sample:
        counters = self._counters
        return Sample(
            now_ns,
            counters.answers_by_class(),
            sum(counters.failures.values()),
            tuple(counters.head_ns.counts),
        )

    def __repr__(self) -> str:
        answers = sum(self.answers_per_s.values())
        return f"<RecentAnswers: {answers:g}/s, {self.failures_per_s:g}/s failed>"


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
