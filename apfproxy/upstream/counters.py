"""Plain integers of the servers behind, which metrics read at scrape."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from apfproxy.base.tls_files import Handshake
from apfproxy.flowcontrol.meters import Histogram


class UpstreamFailure(enum.StrEnum):
    """How the server behind failed; also the `reason` label of upstream_failures_total."""

    CONNECT = "connect"
    """No connection: it was refused, the host cannot be reached, or its name is not known."""
    CONNECT_TIMEOUT = "connect-timeout"  # no connection, or no TLS handshake, in time
    TLS = "tls"  # a connection, but no TLS: its certificate is not valid, or it does not speak TLS
    ANSWER_TIMEOUT = "answer-timeout"
    BROKEN_ANSWER = "broken-answer"
    """The response was malformed or cut short, or none came before the connection closed."""


CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")  # of status codes

_MANTISSAS = (100, 125, 150, 200, 250, 300, 400, 500, 600, 800)
LATENCY_BOUNDS_NS = (0, *(mantissa * 10**zeros for zeros in range(3, 9) for mantissa in _MANTISSAS))
"""From 100 us to 80 s in steps of a third at most, so that a quantile is right to some percent.
All of `DURATION_BOUNDS_NS` are among them: the metric has those only."""


@dataclass(slots=True, eq=False, repr=False)
class UpstreamCounters:
    """The counters of one server behind, or of several.

    Attributes:
        answers: By the status code, final ones only.
        failures: Requests without a response, and responses that it cut short, by how.
        head_ns: From a request's dispatch to the head of the response.
        telling: The failures that tell of the server: not those that a client has brought about by
            giving it no time.  `last_failure` and `last_problem` are of the newest one.
    """

    answers: dict[int, int] = field(default_factory=dict)
    failures: dict[UpstreamFailure, int] = field(
        default_factory=lambda: dict.fromkeys(UpstreamFailure, 0)
    )
    head_ns: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS_NS))
    last_failure: UpstreamFailure = UpstreamFailure.CONNECT
    last_problem: str = ""
    telling: int = 0

    def add(self, other: UpstreamCounters) -> None:
        for code, number in other.answers.items():
            self.answers[code] = self.answers.get(code, 0) + number
        for failure, count in other.failures.items():
            self.failures[failure] += count
        self.head_ns.add(other.head_ns)
        self.telling += other.telling
        if other.last_problem:
            self.last_failure, self.last_problem = other.last_failure, other.last_problem

    def fail(self, failure: UpstreamFailure, problem: str, *, is_telling: bool = True) -> None:
        """Count a failure; `problem` is what an operator has to know of it."""
        self.failures[failure] += 1
        if is_telling:
            self.telling += 1
            self.last_failure, self.last_problem = failure, problem


@dataclass(slots=True, eq=False, repr=False)
class PoolCounters:
    """The counters of all connections of one pool.

    Attributes:
        handshakes: By kind; those of probes, too.
        rebalanced: Watches that were ended so that others of the servers get them.
        unattributed: What servers did that are gone, and the failures of requests that had none.
    """

    bytes_received: int = 0
    bytes_sent: int = 0
    connections_opened: int = 0
    endpoints: dict[object, UpstreamCounters] = field(default_factory=dict)
    handshakes: dict[Handshake, int] = field(default_factory=lambda: dict.fromkeys(Handshake, 0))
    rebalanced: int = 0
    unattributed: UpstreamCounters = field(default_factory=UpstreamCounters)

    def total(self) -> UpstreamCounters:
        """Add up what all servers did, those that are gone included."""
        found = UpstreamCounters()
        for each in (self.unattributed, *self.endpoints.values()):
            found.add(each)
        return found

    def leave(self, endpoint: object) -> None:
        self.unattributed.add(self.endpoints.pop(endpoint))
