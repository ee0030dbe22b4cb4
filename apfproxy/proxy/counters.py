"""Plain integers of the data plane that `observe` reads at scrape."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from apfproxy.flowcontrol.meters import Histogram


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


class Handshake(enum.StrEnum):
    """How a connection with TLS began; also the `kind` label of tls_handshakes_total."""

    FULL = "full"
    RESUMED = "resumed"
    """With the session of an earlier one."""


class HandshakeFailure(enum.StrEnum):
    """Why a TLS handshake failed; also the `reason` label of tls_handshake_failures_total."""

    CERTIFICATE = "certificate"
    CLOSED = "closed"
    PROTOCOL = "protocol"
    TIMEOUT = "timeout"


class ProxyHeaderFailure(enum.StrEnum):
    """Why a connection without a PROXY header that counts was closed.

    Also the `reason` label of proxy_protocol_failures_total.
    """

    CLOSED = "closed"
    """It ended before, as a health check of TCP does."""
    MALFORMED = "malformed"
    TIMEOUT = "timeout"
    UNTRUSTED = "untrusted"
    """Its address is not among those that may send one."""


class Flood(enum.StrEnum):
    """Frames of HTTP/2 that bring nothing, and of which too many came.

    Also the `kind` label of http2_floods_total.
    """

    CONTROL = "control-frames"
    EMPTY_FRAMES = "empty-frames"
    RESETS = "resets"
    WINDOW_UPDATES = "window-updates"


class GoAway(enum.StrEnum):
    """Why a connection of HTTP/2 was ended, or is about to be.

    Also the `reason` label of http2_goaways_total.
    """

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
    """Who reset a stream of HTTP/2; also the `by` label of http2_resets_total."""

    CLIENT = "client"
    PROXY = "proxy"
    """The client broke a rule."""


class UpstreamFailure(enum.StrEnum):
    """How the server behind failed; also the `reason` label of upstream_failures_total."""

    CONNECT = "connect"
    """No connection: it was refused, the host cannot be reached, or its name is not known."""
    CONNECT_TIMEOUT = "connect-timeout"
    """No connection, or no TLS handshake, in time."""
    TLS = "tls"
    """A connection, but no TLS: its certificate is not valid, or it does not speak TLS."""
    ANSWER_TIMEOUT = "answer-timeout"
    BROKEN_ANSWER = "broken-answer"
    """The answer was malformed or cut short, or none came before the connection closed."""


CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
"""Of status codes."""

_MANTISSAS = (100, 125, 150, 200, 250, 300, 400, 500, 600, 800)
LATENCY_BOUNDS_NS = (0, *(mantissa * 10**zeros for zeros in range(3, 9) for mantissa in _MANTISSAS))
"""From 100 us to 80 s in steps of a third at most, so that a quantile is right to some percent.
All of `DURATION_BOUNDS_NS` are among them: the metric has those only."""


@dataclass(slots=True, eq=False, repr=False)
class UpstreamCounters:
    """What one server behind did, or several.

    Attributes:
        answers: Status code of a final answer to the number of them.
        failures: Requests that it did not answer, and answers that it cut short, by how.
        head_ns: From a request's dispatch to the head of the answer.
        last_failure, last_problem: Of the newest failure that tells of the server.
        telling: The failures that tell of the server: not those that a client has brought about
            by giving it no time.
    """

    answers: dict[int, int] = field(default_factory=dict)
    failures: dict[UpstreamFailure, int] = field(
        default_factory=lambda: dict.fromkeys(UpstreamFailure, 0)
    )
    head_ns: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS_NS))
    last_failure: UpstreamFailure = UpstreamFailure.CONNECT
    last_problem: str = ""
    telling: int = 0

    def responses_by_class(self) -> dict[str, int]:
        """Answers by the class of their status code; all classes are there.

        A code above 599, which a server may send, counts as a server's error.
        """
        found = dict.fromkeys(CLASSES, 0)
        for code, number in self.answers.items():
            found[CLASSES[min(code // 100, len(CLASSES)) - 1]] += number
        return found

    def add(self, other: UpstreamCounters) -> None:
        """Count what another server did, too."""
        for code, number in other.answers.items():
            self.answers[code] = self.answers.get(code, 0) + number
        for failure, count in other.failures.items():
            self.failures[failure] += count
        self.head_ns.add(other.head_ns)
        self.telling += other.telling
        if other.last_problem:
            self.last_failure, self.last_problem = other.last_failure, other.last_problem

    def fail(self, failure: UpstreamFailure, problem: str, *, is_telling: bool = True) -> None:
        """Count a failure, and remember what an operator has to know of it, in some words."""
        self.failures[failure] += 1
        if is_telling:
            self.telling += 1
            self.last_failure, self.last_problem = failure, problem


def count_response(answers: dict[int, int], code: int) -> None:
    """Count a final answer by its status code."""
    answers[code] = answers.get(code, 0) + 1


@dataclass(slots=True, eq=False, repr=False)
class Http2Counters:
    """What connections of HTTP/2 did; `*_open` are gauges, all else only grows.

    Attributes:
        connections: That came about.
        floods: Connections that were closed for frames that bring nothing, by kind.
        goaways: Connections whose end was announced or said, by reason.
        requests: Streams that brought a request.
        resets: Streams that their client reset before their answer began, and those that were
            reset since the client broke a rule.
    """

    connections: int = 0
    connections_open: int = 0
    floods: dict[Flood, int] = field(default_factory=lambda: dict.fromkeys(Flood, 0))
    goaways: dict[GoAway, int] = field(default_factory=lambda: dict.fromkeys(GoAway, 0))
    requests: int = 0
    resets: dict[ResetBy, int] = field(default_factory=lambda: dict.fromkeys(ResetBy, 0))
    streams_open: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ListenerCounters:
    """What clients' connections did, whichever cluster their requests are of.

    `connections_open` and those marked so are gauges, all else only grows.

    Attributes:
        connections_refused: By reason.
        handshake_failures: By reason.
        proxy_header_failures: By reason.
        handshakes: That succeeded, by kind.
        held_bytes: Of clients, while their requests wait; a gauge.
        held_refusals: Requests that were refused, since there was no room to hold them, by bound.
        loop_delay_ns: How late the event loop is, smoothed; a gauge.
        malformed_requests: Those that no cluster has seen.
        overloads: Whether new connections are shed, by reason; a gauge.
        own_responses: Status code to final answers before a request was any cluster's.
        unrouted_requests: Those that are of no cluster, by their host and path.
    """

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
        """Count a final answer to what is no cluster's request."""
        count_response(self.own_responses, code)


@dataclass(slots=True, eq=False, repr=False)
class ProxyCounters:
    """What was done for one cluster's requests; `*_open` and those marked so are gauges.

    All else only grows.

    Attributes:
        abandoned_given_up: Of the following, those that the upstream did not answer in time.
        abandoned_requests: Requests whose seats were kept after their client had left.
        is_observing: Whether the flow control is only observed; a gauge.
        listener: What clients' connections did; all clusters have the same.
        own_responses: Status code to final answers that the proxy gave itself.
        slow_reader_releases: Requests whose seats went back since only their client was waited for.
        slow_readers_open: Those of them whose answer is still under way; a gauge.
        tunnels_by_protocol: `websocket` or `SPDY/3.1`, to upgraded connections so far.
        endpoints: What each server behind did, by the endpoint.
        unattributed: The same of servers that are gone, and of requests that had none.
        upstream_rebalanced: Watches and tunnels that were ended so that others of the servers
            behind get them.
        upstream_handshakes: With the servers behind, that succeeded, by kind; those of probes, too.
    """

    listener: ListenerCounters = field(default_factory=ListenerCounters)
    abandoned_given_up: int = 0
    abandoned_requests: int = 0
    bytes_from_upstreams: int = 0
    bytes_to_upstreams: int = 0
    client_aborts: int = 0
    is_observing: bool = False
    own_responses: dict[int, int] = field(default_factory=dict)
    slow_reader_releases: int = 0
    slow_readers_open: int = 0
    tunnels_by_protocol: dict[str, int] = field(
        default_factory=lambda: {"SPDY/3.1": 0, "websocket": 0}
    )
    tunnels_open: int = 0
    endpoints: dict[object, UpstreamCounters] = field(default_factory=dict)
    unattributed: UpstreamCounters = field(default_factory=UpstreamCounters)
    upstream_connections_opened: int = 0
    upstream_handshakes: dict[Handshake, int] = field(
        default_factory=lambda: dict.fromkeys(Handshake, 0)
    )
    upstream_rebalanced: int = 0
    upstream_retries: int = 0

    def count_own(self, code: int) -> None:
        """Count a final answer that is the proxy's own."""
        count_response(self.own_responses, code)

    @property
    def own_by_status(self) -> dict[int, int]:
        """Status code to final answers that the proxy gave itself, to whatever came."""
        return _sum_of(self.own_responses, self.listener.own_responses)

    @property
    def upstream(self) -> UpstreamCounters:
        """What all servers behind did, added up anew."""
        found = UpstreamCounters()
        for each in (self.unattributed, *self.endpoints.values()):
            found.add(each)
        return found

    def leave(self, endpoint: object) -> None:
        """Count what a server did with those that are gone."""
        self.unattributed.add(self.endpoints.pop(endpoint))

    @property
    def responses(self) -> dict[int, int]:
        """Status code to final answers to requests of the cluster, whoever gave them."""
        return _sum_of(self.upstream.answers, self.own_responses)

    @property
    def requests_by_status(self) -> dict[int, int]:
        """Status code to final answers sent to clients, whoever gave them."""
        return _sum_of(self.upstream.answers, self.own_responses, self.listener.own_responses)


def _sum_of(*counts: dict[int, int]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for each in counts:
        for code, answers in each.items():
            merged[code] = merged.get(code, 0) + answers
    return merged
