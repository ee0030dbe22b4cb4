"""The last seconds of the server behind."""

from __future__ import annotations

import pytest

from apfproxy.upstream.counters import CLASSES, LATENCY_BOUNDS_NS, UpstreamCounters, UpstreamFailure
from apfproxy.upstream.recent_responses import RecentOfAll, RecentResponses, quantile_s

S = 1_000_000_000
MS = 1_000_000


def test_rates_are_of_five_seconds_by_class() -> None:
    counters = UpstreamCounters()
    recent = RecentResponses(counters, 0)
    for second in range(1, 4):
        counters.answers[200] = counters.answers.get(200, 0) + 10
        recent.sample(second * S)
    assert 10.0 == recent.answers_per_s["2xx"]
    counters.answers[503] = 10
    counters.fail(UpstreamFailure.TLS, "odd")
    for second in range(4, 9):
        recent.sample(second * S)

    assert {**dict.fromkeys(CLASSES, 0.0), "5xx": 2.0} == recent.answers_per_s
    assert 0.2 == recent.failures_per_s


def test_quantiles_are_of_ten_seconds() -> None:
    counters = UpstreamCounters()
    recent = RecentResponses(counters, 0)
    recent.sample(S)
    assert (None, None) == (recent.p50_s, recent.p99_s)
    for _ in range(98):
        counters.head_ns.observe(10 * MS)
    counters.head_ns.observe(2 * S)
    counters.head_ns.observe(2 * S)
    recent.sample(2 * S)
    assert (0.00902, 1.75) == (recent.p50_s, recent.p99_s)
    for second in range(3, 13):
        recent.sample(second * S)

    assert (None, None) == (recent.p50_s, recent.p99_s)


def test_no_time_gives_no_rate() -> None:
    counters = UpstreamCounters()
    recent = RecentResponses(counters, S)
    counters.answers[200] = 1
    recent.sample(S)

    assert 0.0 == recent.answers_per_s["2xx"]


def test_of_several_rates_and_quantiles_are_of_all_responses() -> None:
    slow, fast = UpstreamCounters(), UpstreamCounters()
    parts = [RecentResponses(each, 0) for each in (slow, fast)]
    together = RecentOfAll(lambda: parts)
    assert (0.0, None) == (together.failures_per_s, together.p99_s)
    slow.head_ns.observe(2 * S)
    slow.answers[500] = 1
    slow.fail(UpstreamFailure.TLS, "odd")
    for _ in range(9):
        fast.head_ns.observe(10 * MS)
        fast.answers[200] = fast.answers.get(200, 0) + 1
    fast.fail(UpstreamFailure.CONNECT, "refused")
    for part in parts:
        part.sample(S)

    assert {**dict.fromkeys(CLASSES, 0.0), "2xx": 9.0, "5xx": 1.0} == together.answers_per_s
    assert 2.0 == together.failures_per_s
    assert (0.00911, 1.95) == (together.p50_s, together.p99_s)


@pytest.mark.parametrize(
    ("values_ns", "quantile", "expected"),
    [
        pytest.param([], 0.5, None, id="none"),
        pytest.param([0], 0.5, 0.0, id="no-time"),
        pytest.param([100 * S], 0.5, 80.0, id="above-all-bounds"),
        pytest.param([1 * S] * 10, 1.0, 1.0, id="all-in-one"),
        pytest.param([1 * S] * 10, 0.5, 0.9, id="the-middle-of-a-bucket"),
        pytest.param([1 * MS] * 99 + [30 * S], 0.99, 0.001, id="just-without-the-last"),
        pytest.param([1 * MS] * 98 + [30 * S] * 2, 0.99, 27.5, id="just-with-it"),
    ],
)
def test_quantile_is_interpolated_within_its_bucket(
    values_ns: list[int], quantile: float, expected: float | None
) -> None:
    counters = UpstreamCounters()
    for value_ns in values_ns:
        counters.head_ns.observe(value_ns)

    assert expected == quantile_s(LATENCY_BOUNDS_NS, counters.head_ns.counts, quantile)
