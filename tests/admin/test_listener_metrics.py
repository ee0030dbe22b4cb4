"""Metrics of clients' connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.listener_metrics import listener_families, unrouted_families
from apfproxy.proxy.counters import Flood, GoAway, ListenerCounters, Refusal, ResetBy

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


def test_http2() -> None:
    """Connections, streams and requests; every reason is there from the start."""
    counters = ListenerCounters()
    counters.http2.connections_open, counters.http2.streams_open = 2, 30
    counters.http2.connections, counters.http2.requests = 5, 70
    counters.http2.resets[ResetBy.PROXY] = 3
    counters.http2.goaways[GoAway.DRAIN] = 1
    found = samples(listener_families(counters))

    assert 2 == found["apfproxy_http2_connections",]
    assert 30 == found["apfproxy_http2_streams",]
    assert 5 == found["apfproxy_http2_connections_accepted_total",]
    assert 70 == found["apfproxy_http2_requests_total",]
    assert 3 == found["apfproxy_http2_resets_total", "proxy"]
    assert 1 == found["apfproxy_http2_goaways_total", "drain"]
    assert [0] * len(Flood) == [found["apfproxy_http2_floods_total", kind] for kind in Flood]


def test_unrouted() -> None:
    """Requests of no cluster have answers of their own."""
    counters = ListenerCounters(unrouted_requests=4)
    counters.count_own(404)

    assert {
        ("apfproxy_unrouted_requests_total",): 4,
        ("apfproxy_listener_responses_total", "404"): 1,
    } == samples(unrouted_families(counters))
