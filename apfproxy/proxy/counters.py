"""Plain integers of the data plane that `observe` reads at scrape."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from apfproxy.base.tls_files import Handshake
from apfproxy.upstream.counters import PoolCounters, UpstreamCounters


class Refusal(enum.StrEnum):
    """Why a connection was not taken; also the `reason` label of connections_refused_total."""

    CONNECTIONS = "connections"
    CONNECTIONS_OF_ADDRESS = "connections-of-address"
    LOOP_DELAY = "loop-delay"
    MEMORY = "memory"


class Bound(enum.StrEnum):
    """Why bytes of a client could not be held; also the `bound` label of held_refusals_total."""

    CONNECTION = "connection"
    ADDRESS = "address"
    PROCESS = "process"
    OVERLOAD = "overload"
    """The memory of the process is short, whatever is held."""


class HandshakeFailure(enum.StrEnum):
    """Why a TLS handshake failed; also the `reason` label of tls_handshake_failures_total."""

    CERTIFICATE = "certificate"
    CLOSED = "closed"
    PROTOCOL = "protocol"
    TIMEOUT = "timeout"


class ProxyHeaderFailure(enum.StrEnum):
    """Why no PROXY header counted; also the `reason` label of proxy_protocol_failures_total."""

    CLOSED = "closed"
    """It ended before, as a health check of TCP does."""
    MALFORMED = "malformed"
    TIMEOUT = "timeout"
    UNTRUSTED = "untrusted"
    """Its address is not among those that may send one."""


class Flood(enum.StrEnum):
    """Frames of HTTP/2 that bring nothing; also the `kind` label of http2_floods_total."""

    CONTROL = "control-frames"
    EMPTY_FRAMES = "empty-frames"
    RESETS = "resets"
    WINDOW_UPDATES = "window-updates"


class GoAway(enum.StrEnum):
    """Why a connection of HTTP/2 was ended; also the `reason` label of http2_goaways_total."""

    CHANCE = "chance"
    """So that clients spread over the proxies that there are."""
    DRAIN = "drain"
    FLOOD = "flood"
    IDLE = "idle"
    MEMORY = "memory"
    """There was no room to hold the fields of a request that were not whole."""
    PROTOCOL = "protocol"
    """The client broke a rule for which there is no stream to reset."""
    SILENT = "silent"
    """The client did not answer a PING."""


class ResetBy(enum.StrEnum):
    """Says who reset a stream of HTTP/2; also the `by` label of http2_resets_total."""

    CLIENT = "client"
    PROXY = "proxy"


@dataclass(slots=True, eq=False, repr=False)
class Http2Counters:
    """Counts what connections of HTTP/2 did; `*_open` are gauges, all else only grows."""

    connections: int = 0
    connections_open: int = 0
    floods: dict[Flood, int] = field(default_factory=lambda: dict.fromkeys(Flood, 0))
    goaways: dict[GoAway, int] = field(default_factory=lambda: dict.fromkeys(GoAway, 0))
    requests: int = 0
    resets: dict[ResetBy, int] = field(default_factory=lambda: dict.fromkeys(ResetBy, 0))
    streams_open: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ListenerCounters:
    """Counts what clients' connections did; gauges are held and open ones, delay and overloads."""

    bytes_from_clients: int = 0
    bytes_to_clients: int = 0
    connections_accepted: int = 0
    connections_open: int = 0
    connections_refused: dict[Refusal, int] = field(
        default_factory=lambda: dict.fromkeys(Refusal, 0)
    )
    handshake_failures: dict[HandshakeFailure, int] = field(
        default_factory=lambda: dict.fromkeys(HandshakeFailure, 0)
    )
    proxy_header_failures: dict[ProxyHeaderFailure, int] = field(
        default_factory=lambda: dict.fromkeys(ProxyHeaderFailure, 0)
    )
    handshakes: dict[Handshake, int] = field(default_factory=lambda: dict.fromkeys(Handshake, 0))
    held_bytes: int = 0
    held_refusals: dict[Bound, int] = field(default_factory=lambda: dict.fromkeys(Bound, 0))
    http2: Http2Counters = field(default_factory=Http2Counters)
    loop_delay_ns: int = 0
    malformed_requests: int = 0
    overloads: dict[Refusal, bool] = field(
        default_factory=lambda: dict.fromkeys((Refusal.LOOP_DELAY, Refusal.MEMORY), False)
    )
    own_responses: dict[int, int] = field(default_factory=dict)
    unrouted_requests: int = 0

    def count_own(self, code: int) -> None:
        self.own_responses[code] = self.own_responses.get(code, 0) + 1


@dataclass(slots=True, eq=False, repr=False)
class ProxyCounters:
    """Counts what was done for one cluster's requests; `*_open` are gauges, all else only grows."""

    listener: ListenerCounters = field(default_factory=ListenerCounters)
    abandoned_given_up: int = 0
    abandoned_requests: int = 0
    bans: int = 0
    client_aborts: int = 0
    is_observing: bool = False
    own_responses: dict[int, int] = field(default_factory=dict)
    slow_reader_releases: int = 0
    slow_readers_open: int = 0
    tunnels_by_protocol: dict[str, int] = field(
        default_factory=lambda: {"SPDY/3.1": 0, "websocket": 0}
    )
    tunnels_open: int = 0
    pool: PoolCounters = field(default_factory=PoolCounters)
    upstream_retries: int = 0

    def count_own(self, code: int) -> None:
        self.own_responses[code] = self.own_responses.get(code, 0) + 1

    @property
    def upstream(self) -> UpstreamCounters:
        return self.pool.total()

    @property
    def responses(self) -> dict[int, int]:
        """Status code to final responses to the cluster's requests, no matter who gave them."""
        return dict(Counter(self.upstream.answers) + Counter(self.own_responses))
