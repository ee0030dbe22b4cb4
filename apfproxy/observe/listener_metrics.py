"""Metrics of clients' connections, whichever cluster their requests are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import (
    NO_LABELS,
    NS_PER_S,
    build_info,
    by_label,
    counter,
    gauge,
    plain,
)
from apfproxy.observe.proxy_metrics import PREFIX, by_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.observe.families import Series
    from apfproxy.proxy.counters import ListenerCounters

GAUGES: Series = {
    ("downstream_connections", "connections_open"): "Connections of clients that are open",
}

COUNTERS: Series = {
    ("downstream_connections_accepted_total", "connections_accepted"): (
        "Connections accepted from clients"
    ),
    ("downstream_received_bytes_total", "bytes_from_clients"): "Bytes received from clients",
    ("downstream_sent_bytes_total", "bytes_to_clients"): "Bytes sent to clients",
    ("downstream_malformed_requests_total", "malformed_requests"): (
        "Requests refused because their bytes are not proper HTTP"
    ),
}


def listener_families(counters: ListenerCounters) -> Iterator[Metric]:
    """All families of a process without several clusters, as of now."""
    yield build_info()
    yield from plain(PREFIX, GAUGES, COUNTERS, counters)
    yield counter(
        PREFIX + "connections_refused_total",
        "Connections of clients that were not taken, by the limit that they were over",
        by_label("reason", counters.connections_refused),
    )
    yield counter(
        PREFIX + "tls_handshakes_total",
        "TLS handshakes of clients that succeeded, by whether they took up a session",
        by_label("kind", counters.handshakes),
    )
    yield counter(
        PREFIX + "tls_handshake_failures_total",
        "Connections of clients that ended in their TLS handshake",
        by_label("reason", counters.handshake_failures),
    )
    yield gauge(
        PREFIX + "overloaded",
        "Whether new connections are shed because the proxy itself has too much to do",
        by_label("reason", counters.overloads),
    )
    yield gauge(
        PREFIX + "loop_delay_seconds",
        "How late the event loop runs what is due, smoothed",
        [(NO_LABELS, counters.loop_delay_ns / NS_PER_S)],
    )


def unrouted_families(counters: ListenerCounters) -> Iterator[Metric]:
    """Those that there are only where there are several clusters."""
    yield counter(
        PREFIX + "unrouted_requests_total",
        "Requests that are of no cluster by their host and path",
        [(NO_LABELS, counters.unrouted_requests)],
    )
    yield counter(
        PREFIX + "listener_responses_total",
        "Final answers to what is no cluster's request, by status code",
        by_label("code", by_code(counters.own_answers)),
    )
