"""One server behind: its address, how it is, and the connections to it.

The connection used last is lent first, so that the others grow idle and are closed.

A connection is of the identity with which it was opened: `renew` begins another one, and no
connection from before, idle, busy or on its way, gets a further request.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

from apfproxy.base.faults import Part, contained
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tls_files import handshake_of
from apfproxy.upstream.connecting import connected
from apfproxy.upstream.connection import EndpointBase, UpstreamConnection
from apfproxy.upstream.counters import UpstreamCounters
from apfproxy.upstream.endpoint_state import DRAIN
from apfproxy.upstream.health_check import status_of
from apfproxy.upstream.idle_limit import IdleLimit
from apfproxy.upstream.tls import SessionContext

if TYPE_CHECKING:
    from apfproxy.settings import EndpointAddress, UpstreamSettings
    from apfproxy.upstream.counters import PoolCounters
    from apfproxy.upstream.tls import ClientTls

log = logging.getLogger(__name__)


class EndpointOwner(Protocol):
    """What has the endpoints."""

    def now_ns(self) -> int:
        """The time."""

    def on_closed(self, endpoint: Endpoint) -> None:
        """A connection of it is closed."""

    def on_failing(self, endpoint: Endpoint) -> None:
        """It failed as often in a row as it may, or it is one of several and may be gone."""


class Endpoint(EndpointBase):
    """A server behind.

    Attributes:
        address: Where it is, how much it takes compared with others, and the name that its
            certificate must have.
        connecting: Connections that are on their way.
        generation: Counts identities; connections of another one get no further request.
        is_known: Whether it has been asked how it is, or need not be.
        ramp: The part of its weight that it has already, of (0, 1].
        share: The weight that it has.
    """

    __slots__ = (
        "_counters",
        "_idle_limit",
        "_owner",
        "_rare_log",
        "_sessions",
        "_settings",
        "_tls",
        "address",
        "connecting",
        "generation",
        "is_known",
        "ramp",
        "share",
    )

    def __init__(
        self,
        owner: EndpointOwner,
        address: EndpointAddress,
        settings: UpstreamSettings,
        counters: PoolCounters,
        tls: ClientTls | None,
    ) -> None:
        super().__init__(UpstreamCounters())
        self._owner = owner
        self.address = address
        self._settings = settings
        self._counters = counters
        self._tls = tls if address.address.is_tls else None
        self._sessions: SessionContext | None = None
        self._idle_limit = IdleLimit()
        self._rare_log = RareLog(log, time.monotonic_ns, period_s=3600.0)
        self.connecting = 0
        self.generation = 0
        self.is_known = True
        self.ramp = 1.0
        self.share = float(address.weight)

    @property
    def url(self) -> str:
        """Its address, as a URL."""
        return self.address.address.url

    @property
    def busy_count(self) -> int:
        """Connections that carry a request, a tunnel, or will in a moment."""
        return len(self.open) - len(self.idle) + self.connecting

    def configure(
        self, address: EndpointAddress, settings: UpstreamSettings, tls: ClientTls | None
    ) -> None:
        """Put other settings in force; the address itself is the same."""
        self.address = address
        self._settings = settings
        self._tls = tls if address.address.is_tls else None

    def renew(self) -> None:
        """Begin another identity: no connection from before gets a further request.

        Idle ones are closed at once, busy ones when they are put back, and one that is being made
        as soon as it is there; who waits for it waits for another one.
        """
        self.generation += 1
        self.stale = set(self.open)
        for connection in list(self.idle):
            connection.abort()

    def drain(self) -> None:
        """Get no further request."""
        self.state = DRAIN[self.state]
        self.is_drawn = False
        self.renew()

    def on_failing(self) -> None:
        self._idle_limit.gone(self._owner.now_ns())
        self._owner.on_failing(self)

    def forget(self, connection: UpstreamConnection) -> None:
        sessions = self._sessions
        if sessions is not None:
            with contained(Part.POOL):
                sessions.remember(connection.transport, time.time())
        connection.release_seats()
        connection.tunnelled = None
        self.open.discard(connection)
        self.stale.discard(connection)
        self.idle.pop(connection, None)
        self._owner.on_closed(self)

    def log_malformed(self, problem: str) -> None:
        self._rare_log.log(
            logging.WARNING,
            problem,
            "the server behind, %s, sent an answer that cannot be passed on: %s",
            self.url,
            problem,
        )

    def on_idle_line(self, line: bytes) -> None:
        self.idle_line = line
        self._idle_limit.announced(line)

    def on_idle_end(self, connection: UpstreamConnection) -> None:
        if connection not in self.idle or not connection.was_used:
            return
        now_ns = self._owner.now_ns()
        if self._idle_limit.closed(now_ns - connection.idle_since_ns, now_ns):
            limit_s = self._idle_limit.limit_ns(now_ns) / 1e9
            self._rare_log.log(
                logging.INFO,
                "idle",
                "the server behind, %s, closes idle connections: none is used again after %.1f s",
                self.url,
                limit_s,
            )

    def close_stale(self, now_ns: int, idle_ns: int, period_ns: int) -> None:
        """Close connections that have been idle for too long.

        Args:
            now_ns: The time.
            idle_ns: For so long at most, by the settings.
            period_ns: Until the next call.
        """
        limit_ns = self._idle_limit.limit_ns(now_ns)
        if limit_ns:
            idle_ns = min(idle_ns, max(0, limit_ns - period_ns))
        self.close_idle(now_ns - idle_ns)

    def close_idle(self, idle_since_ns: int) -> None:
        while self.idle:
            connection = next(iter(self.idle))
            if connection.idle_since_ns > idle_since_ns:
                return
            connection.abort()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self.open):
            connection.abort()

    def count_awaiting(self) -> int:
        """Requests sent that have no answer yet; it looks at each connection."""
        return sum(connection.awaits_head for connection in self.open)

    async def probe(self) -> None:
        """Open a connection, which no client's request gets, and close it again.

        Raises:
            OSError, ValueError: As of `CONNECT_ERRORS`: there is none.
        """
        connection = await self.open_connection()
        # In order: servers that log broken connections would log each probe.
        connection.transport.close()

    async def ask(self, question: bytes, limit_s: float) -> int:
        """Send a request on a connection of its own: the status code of the answer.

        Args:
            question: The request, of `health_check.question`.
            limit_s: For the answer, once there is a connection.

        Raises:
            NoAnswerError: There is none.
            OSError, ValueError: As of `CONNECT_ERRORS`: there is no connection.
        """
        return await status_of(await self.open_connection(), question, limit_s)

    async def open_connection(self) -> UpstreamConnection:
        """Connect; the connection is not among those that are open yet.

        Raises:
            OSError, ValueError: As of `CONNECT_ERRORS`.
        """
        tls, sessions = self._tls, self._sessions
        if tls is not None:
            if sessions is None or sessions.shared is not tls.context:
                sessions = self._sessions = SessionContext(tls.context)
            for other in self.open:  # any one: it has had the time to get a session
                sessions.remember(other.transport, time.time())
                break
        found = await connected(
            self.address.address,
            self._settings.connect_timeout_s,
            tls,
            sessions,
            self._server_name(),
            self._new_connection,
        )
        if tls is not None:
            self._counters.handshakes[handshake_of(found.transport)] += 1
        return found

    def _server_name(self) -> str:
        """The name that its certificate must have; "" without TLS."""
        if self._tls is None:
            return ""
        address = self.address
        return self._tls.settings.server_name or address.server_name or address.address.host

    def _new_connection(self) -> UpstreamConnection:
        return UpstreamConnection(self, self._counters)

    def __repr__(self) -> str:
        return f"<Endpoint {self.url}: {self.state}>"
