"""Plain integers of the data plane that `observe` reads at scrape."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

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


@dataclass(slots=True, eq=False, repr=False)
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

    abandoned_given_up: int = 0
    abandoned_requests: int = 0
    bytes_from_clients: int = 0
    bytes_from_origins: int = 0
    bytes_to_clients: int = 0
    bytes_to_origins: int = 0
    client_aborts: int = 0
    connections_accepted: int = 0
    connections_open: int = 0
    connections_refused: dict[Refusal, int] = field(
        default_factory=lambda: dict.fromkeys(Refusal, 0)
    )
    handshake_failures: dict[HandshakeFailure, int] = field(
        default_factory=lambda: dict.fromkeys(HandshakeFailure, 0)
    )
    is_observing: bool = False
    loop_delay_ns: int = 0
    malformed_requests: int = 0
    overloads: dict[Refusal, bool] = field(
        default_factory=lambda: dict.fromkeys((Refusal.LOOP_DELAY, Refusal.MEMORY), False)
    )
    requests_by_status: dict[int, int] = field(default_factory=dict)
    slow_reader_releases: int = 0
    slow_readers_open: int = 0
    tunnels_by_protocol: dict[str, int] = field(
        default_factory=lambda: {"SPDY/3.1": 0, "websocket": 0}
    )
    tunnels_open: int = 0
    upstream_connect_failures: int = 0
    upstream_connections_opened: int = 0
    upstream_failures: int = 0
    upstream_head_ns: Histogram = field(default_factory=lambda: Histogram(DURATION_BOUNDS_NS))
    upstream_retries: int = 0
    upstream_timeouts: int = 0

    def count_status(self, code: int) -> None:
        """Count a final answer."""
        counts = self.requests_by_status
        counts[code] = counts.get(code, 0) + 1
