"""Metrics of clients' connections, whichever cluster their requests are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.families import (
    NO_LABELS,
    NS_PER_S,
    build_info,
    by_label,
    counter,
    gauge,
    plain,
)
from apfproxy.admin.proxy_metrics import PREFIX, by_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.admin.families import Series
    from apfproxy.proxy.counters import Http2Counters, ListenerCounters

GAUGES: Series = {
    ("downstream_connections", "connections_open"): "Connections of clients that are open",
    ("downstream_held_bytes", "held_bytes"): "Bytes of clients that wait in the proxy",
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

HTTP2_GAUGES: Series = {
    ("http2_connections", "connections_open"): "Connections of clients that speak HTTP/2",
    ("http2_streams", "streams_open"): "Streams that are open on them",
}

HTTP2_COUNTERS: Series = {
    ("http2_connections_accepted_total", "connections"): "Connections that began to speak HTTP/2",
    ("http2_requests_total", "requests"): "Requests that came over HTTP/2",
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
        PREFIX + "downstream_held_refusals_total",
        "Requests that were refused since there was no room to hold them, by the bound",
        by_label("bound", counters.held_refusals),
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
    yield counter(
        PREFIX + "proxy_protocol_failures_total",
        "Connections that were closed for want of a PROXY header that counts",
        by_label("reason", counters.proxy_header_failures),
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
    yield from http2_families(counters.http2)


def http2_families(counters: Http2Counters) -> Iterator[Metric]:
    """Those of connections that speak HTTP/2."""
    yield from plain(PREFIX, HTTP2_GAUGES, HTTP2_COUNTERS, counters)
    yield counter(
        PREFIX + "http2_resets_total",
        "Streams that were reset, by the client before their answer began, or for a broken rule",
        by_label("by", counters.resets),
    )
    yield counter(
        PREFIX + "http2_goaways_total",
        "Connections of HTTP/2 whose end the proxy announced, by reason",
        by_label("reason", counters.goaways),
    )
    yield counter(
        PREFIX + "http2_floods_total",
        "Connections of HTTP/2 that were closed for frames that bring nothing, by their kind",
        by_label("kind", counters.floods),
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
        by_label("code", by_code(counters.own_responses)),
    )
