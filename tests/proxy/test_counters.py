"""The integers of the data plane."""

from __future__ import annotations

from itertools import pairwise

from apfproxy.flowcontrol.meters import DURATION_BOUNDS_NS
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS, UpstreamCounters, UpstreamFailure


def test_counts_final_answers_by_status() -> None:
    """Clients get the server's answers and the proxy's own."""
    counters = ProxyCounters()
    for code in (429, 503, 429):
        counters.count_own(code)
    counters.pool.endpoints["a"] = UpstreamCounters(answers={200: 2})
    counters.pool.unattributed.answers[503] = 1

    assert {200: 2, 429: 2, 503: 2} == counters.requests_by_status


def test_failures() -> None:
    """All are counted; the last that tells of the server is remembered."""
    counters = UpstreamCounters()
    counters.fail(UpstreamFailure.TLS, "odd")
    counters.fail(UpstreamFailure.ANSWER_TIMEOUT, "late", is_telling=False)

    assert 1 == counters.failures[UpstreamFailure.ANSWER_TIMEOUT]
    assert (1, "odd") == (counters.telling, counters.last_problem)
    assert UpstreamFailure.TLS is counters.last_failure


def test_bounds_of_latencies() -> None:
    """They ascend in steps of a third at most, and have all that the metric has."""
    assert set(DURATION_BOUNDS_NS) <= set(LATENCY_BOUNDS_NS)
    steps = [after / before for before, after in pairwise(LATENCY_BOUNDS_NS[1:])]
    assert 1 < min(steps) <= max(steps) < 1.34
