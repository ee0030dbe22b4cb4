"""The API server's counters."""

from __future__ import annotations

from apfproxy.apiserver.counters import ApiServerCounters, RequestCounters, RequestLabels


def test_requests() -> None:
    """Requests of the same labels are counted together, by their code."""
    counters = ApiServerCounters()
    for code in (200, 404, 200):
        counters.requests[RequestLabels("GET")].end(code, 6_000_000)

    (counted,) = counters.requests.values()
    assert {200: 2, 404: 1} == counted.by_code
    assert 3 == counted.duration_ns.counts[1]


def test_labels_differ() -> None:
    """Other labels are counted apart."""
    counters = ApiServerCounters()
    first = counters.requests[RequestLabels("GET")]

    assert first is counters.requests[RequestLabels("GET")]
    assert first is not counters.requests[RequestLabels("GET", scope="cluster")]
    assert isinstance(first, RequestCounters)


def test_faults() -> None:
    """Faults are counted by kind."""
    counters = ApiServerCounters()
    counters.injected_faults["500"] += 1
    counters.injected_faults["500"] += 1

    assert {"500": 2} == counters.injected_faults
