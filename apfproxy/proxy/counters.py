"""Plain integers of the data plane that `observe` reads at scrape."""

from __future__ import annotations

import enum

from apfproxy.flowcontrol.counters import DURATION_BOUNDS_NS, Histogram


class Refusal(enum.StrEnum):
    """Why a connection was not taken; also the `reason` label of connections_refused_total."""

    CONNECTIONS = "connections"
    CONNECTIONS_OF_ADDRESS = "connections-of-address"
    LOOP_DELAY = "loop-delay"
    MEMORY = "memory"


class HandshakeFailure(enum.StrEnum):
    """Why a TLS handshake failed; also the `reason` label of tls_handshake_failures_total."""

    CERTIFICATE = "certificate"
    CLOSED = "closed"
    PROTOCOL = "protocol"
    TIMEOUT = "timeout"


class ProxyCounters:
    """What the data plane did; `*_open` and those marked so are gauges, all else only grows.

    Attributes:
        abandoned_given_up: Of the following, those that the origin did not answer in time.
        abandoned_requests: Requests whose seats were kept after their client had left.
        connections_refused: By reason.
        handshake_failures: Of clients, by reason.
        is_observing: Whether the flow control is only observed; a gauge.
        loop_delay_ns: How late the event loop is, smoothed; a gauge.
        overloads: Whether new connections are shed, by reason; a gauge.
        slow_reader_releases: Requests whose seats went back since only their client was waited for.
        slow_readers_open: Those of them whose answer is still under way; a gauge.
        requests_by_status: Final status code sent to a client, to requests.
        tunnels_by_protocol: `websocket` or `SPDY/3.1`, to upgraded connections so far.
        upstream_head_ns: From a request's last byte sent (or dispatch) to the origin's head.
    """

    __slots__ = (
        "abandoned_given_up",
        "abandoned_requests",
        "bytes_from_clients",
        "bytes_from_origins",
        "bytes_to_clients",
        "bytes_to_origins",
        "client_aborts",
        "connections_accepted",
        "connections_open",
        "connections_refused",
        "handshake_failures",
        "is_observing",
        "loop_delay_ns",
        "malformed_requests",
        "overloads",
        "requests_by_status",
        "slow_reader_releases",
        "slow_readers_open",
        "tunnels_by_protocol",
        "tunnels_open",
        "upstream_connect_failures",
        "upstream_connections_opened",
        "upstream_failures",
        "upstream_head_ns",
        "upstream_retries",
        "upstream_timeouts",
    )

    def __init__(self) -> None:
        self.abandoned_given_up = 0
        self.abandoned_requests = 0
        self.bytes_from_clients = 0
        self.bytes_from_origins = 0
        self.bytes_to_clients = 0
        self.bytes_to_origins = 0
        self.client_aborts = 0
        self.connections_accepted = 0
        self.connections_open = 0
        self.connections_refused = dict.fromkeys(Refusal, 0)
        self.handshake_failures = dict.fromkeys(HandshakeFailure, 0)
        self.is_observing = False
        self.loop_delay_ns = 0
        self.malformed_requests = 0
        self.overloads = dict.fromkeys((Refusal.LOOP_DELAY, Refusal.MEMORY), False)
        self.requests_by_status: dict[int, int] = {}
        self.slow_reader_releases = 0
        self.slow_readers_open = 0
        self.tunnels_by_protocol = {"SPDY/3.1": 0, "websocket": 0}
        self.tunnels_open = 0
        self.upstream_connect_failures = 0
        self.upstream_connections_opened = 0
        self.upstream_failures = 0
        self.upstream_head_ns = Histogram(DURATION_BOUNDS_NS)
        self.upstream_retries = 0
        self.upstream_timeouts = 0

    def count_status(self, code: int) -> None:
        """Count a final answer."""
        counts = self.requests_by_status
        counts[code] = counts.get(code, 0) + 1

    def __repr__(self) -> str:
        return f"<ProxyCounters: {self.connections_open} connections open>"
