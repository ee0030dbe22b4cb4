"""The integers of the data plane."""

from __future__ import annotations

from apfproxy.proxy.counters import ProxyCounters


def test_counts_final_answers_by_status() -> None:
    """Each status has its own count, from its first answer on."""
    counters = ProxyCounters()
    for code in (200, 429, 200):
        counters.count_status(code)

    assert {200: 2, 429: 1} == counters.requests_by_status
