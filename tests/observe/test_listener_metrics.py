"""Metrics of clients' connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.listener_metrics import listener_families, unrouted_families
from apfproxy.proxy.counters import ListenerCounters, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric


def samples(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """Name and labels of each sample, to its value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_listener() -> None:
    """What connections did is there, whatever clusters there are."""
    counters = ListenerCounters(connections_open=3)
    counters.connections_refused[Refusal.MEMORY] = 2
    found = samples(listener_families(counters))

    assert 3 == found["apfproxy_downstream_connections",]
    assert 2 == found["apfproxy_connections_refused_total", "memory"]


def test_unrouted() -> None:
    """Requests of no cluster have answers of their own."""
    counters = ListenerCounters(unrouted_requests=4)
    counters.count_own(404)

    assert {
        ("apfproxy_unrouted_requests_total",): 4,
        ("apfproxy_listener_responses_total", "404"): 1,
    } == samples(unrouted_families(counters))
