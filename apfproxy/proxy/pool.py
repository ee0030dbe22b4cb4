"""The connections to the origin: lent one request at a time, kept while they are of use."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from apfproxy.faults import Part, contained, report
from apfproxy.proxy.connect_failure import (
    CLOSED_AT_ONCE,
    CONNECTION,
    ORIGIN_FAILURES,
    OWN_FAILURE,
    TLS_HANDSHAKE,
    ConnectTimeoutError,
    connect_failure,
)
from apfproxy.proxy.question import is_answered
from apfproxy.proxy.tls import handshake_of
from apfproxy.proxy.upstream import UpstreamConnection
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.connect_failure import ConnectFailure
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.tls import ClientTls
    from apfproxy.settings import UpstreamSettings


KEEP_ALIVE = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 15_000,
}
"""Seconds without a word before the first probe (as of Go's), between probes, probes without an
answer; and milliseconds for which what was sent may stay unacknowledged."""


class Borrower(Protocol):
    """What waits for a connection."""

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Here it is."""

    def on_no_connection(self, code: int, reason: str) -> None:
        """There is none: answer with the status `code`."""

    def fail(self, error: Exception) -> None:
        """End after an error of the program in one of these; never raises."""


class Pool:
    """A bounded set of connections to one origin.

    The connection used last is lent first, so that the others grow idle and are closed.
    Who finds none idle gets a new one, or waits in line where the bound is reached.

    A connection is of the identity with which it was opened: `renew` begins another one, and no
    connection from before, idle, busy or on its way, gets a further request.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        counters: ProxyCounters,
        now_ns: Callable[[], int] = time.monotonic_ns,
        tls: ClientTls | None = None,
    ) -> None:
        assert tls is not None or not settings.address.is_tls
        self._settings = settings
        self._tls = tls if settings.address.is_tls else None
        self._now_ns = now_ns
        self._counters = counters
        # The dictionary's order is that of use: the last one lent first, the first one stale first.
        self._idle: dict[UpstreamConnection, None] = {}
        self._open: set[UpstreamConnection] = set()
        self._connects: set[asyncio.Task[None]] = set()
        self._generation = 0
        # Open since before the last renewal; empty most of the time.
        self._stale: set[UpstreamConnection] = set()
        # Insertion order is the line; a borrower that leaves is taken out in constant time.
        # Those who need a connection without a past stand in a line of their own; the numbers say
        # who of the two first ones came first.
        self._line: OrderedDict[Borrower, int] = OrderedDict()
        self._new_line: OrderedDict[Borrower, int] = OrderedDict()
        self._arrivals = 0

    def configure(self, settings: UpstreamSettings, tls: ClientTls | None) -> None:
        """Put other settings in force; another origin, or another identity there, as of `renew`."""
        assert tls is not None or not settings.address.is_tls
        before, self._settings = self._settings, settings
        is_same = (settings.address, settings.identity, settings.token_file) == (
            before.address,
            before.identity,
            before.token_file,
        )
        if not is_same or tls is not self._tls:
            self._tls = tls
            self.renew()
        self._connect_for_the_line()

    def limit(self, max_connections: int) -> None:
        """Have no more connections than that at once."""
        self._settings = replace(self._settings, max_connections=max_connections)

    def take(self) -> UpstreamConnection | None:
        """An idle connection, or None: then `wait` for one."""
        return self._idle.popitem()[0] if self._idle else None

    def wait(self, borrower: Borrower, *, is_new: bool = False) -> None:
        """Stand in line; the borrower is called back, never from inside this call.

        Args:
            borrower: Who waits.
            is_new: Whether only a connection that has carried no request will do, as for an
                upgrade.  It counts in the bound like any other; an idle one makes way for it.
        """
        self._arrivals += 1
        (self._new_line if is_new else self._line)[borrower] = self._arrivals
        self._connect_for_the_line()

    def leave(self, borrower: Borrower) -> None:
        """Leave the line."""
        self._line.pop(borrower, None)
        self._new_line.pop(borrower, None)

    def put_back(self, connection: UpstreamConnection, now_ns: int) -> None:
        """Take a connection back whose request and answer are through."""
        if connection.is_closed:
            return
        if (self._stale and connection in self._stale) or (
            self._new_line and self._has_to_make_way()
        ):
            connection.abort()
            return
        if connection.is_read_paused:
            connection.resume_reading()
        if self._line:
            borrower, _ = self._line.popitem(last=False)
            lend(connection, borrower)
            return
        connection.idle_since_ns = now_ns
        self._idle[connection] = None

    def renew(self) -> None:
        """Begin another identity: no connection from before gets a further request.

        Idle ones are closed at once, busy ones when they are put back, and one that is being made
        as soon as it is there; who waits for it waits for another one.
        """
        self._generation += 1
        self._stale = set(self._open)
        for connection in list(self._idle):
            connection.abort()

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is closed."""
        if self._tls is not None:
            with contained(Part.POOL):
                self._tls.context.remember(connection.transport, time.time())
        self._open.discard(connection)
        self._stale.discard(connection)
        self._idle.pop(connection, None)
        self._connect_for_the_line()

    def close_idle(self, idle_since_ns: int) -> None:
        """Close connections that have been idle since then or longer."""
        while self._idle:
            connection = next(iter(self._idle))
            if connection.idle_since_ns > idle_since_ns:
                return
            connection.abort()

    def count_awaiting(self) -> int:
        """Requests sent that have no answer yet; it looks at each connection."""
        return sum(connection.awaits_head for connection in self._open)

    async def probe(self, *, asks: bool) -> bool:
        """Open a connection, which no client's request gets, and close it again.

        Args:
            asks: Whether the origin has to answer on it, whatever its answer is.

        Returns:
            Whether it did within the time for connecting, or was not asked.

        Raises:
            OSError, ValueError: As of `ORIGIN_FAILURES`: there is none.
        """
        connection = await self._open_connection()
        if asks:
            return await is_answered(connection, self._settings)
        # In order: servers that log broken connections would log each probe.
        connection.transport.close()
        return True

    def close(self) -> None:
        """Close every connection, busy or idle, and those that have not come about."""
        for task in list(self._connects):
            task.cancel()
        for connection in list(self._open):
            connection.abort()

    @property
    def idle_count(self) -> int:
        """Connections that wait for a request."""
        return len(self._idle)

    @property
    def open_count(self) -> int:
        """Connections in all."""
        return len(self._open)

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a connection."""
        return len(self._line) + len(self._new_line)

    def _is_new_first(self) -> bool:
        """Whether the first of all in line needs a connection without a past."""
        if not self._new_line:
            return False
        if not self._line:
            return True
        return next(iter(self._new_line.values())) < next(iter(self._line.values()))

    def _has_to_make_way(self) -> bool:
        """Whether a connection has to be closed so that the first in line gets a new one."""
        return (
            not self._connects
            and len(self._open) >= self._settings.max_connections
            and self._is_new_first()
        )

    def _connect_for_the_line(self) -> None:
        """Open connections for those in line that no connection under way will serve."""
        while len(self._connects) < len(self._line) + len(self._new_line):
            if len(self._connects) + len(self._open) < self._settings.max_connections:
                self._connects.add(
                    spawn(self._connect(self._generation), name="connect to the origin")
                )
            elif self._idle and len(self._connects) < len(self._new_line):
                next(iter(self._idle)).abort()
            else:
                return

    async def _connect(self, generation: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection: UpstreamConnection | None = None
        failure = OWN_FAILURE
        try:
            connection = await self._open_connection()
        except ORIGIN_FAILURES as error:
            failure = connect_failure(error)
        except Exception as bug:  # noqa: BLE001  whatever it is, the line must go on
            report(Part.POOL, bug)
        self._connects.discard(task)
        if connection is None:
            self._fail_one(failure)
            return
        self._counters.upstream_connections_opened += 1
        if connection.is_closed:
            # Before it got here: nobody would take it out of those that are open again.
            self._fail_one(CLOSED_AT_ONCE)
            return
        self._open.add(connection)
        try:
            watch_over(connection.transport)
        except OSError as broken:  # meanwhile
            self._fail_one(connect_failure(broken))
            connection.abort()
            return
        if generation != self._generation:
            connection.abort()
        elif self._is_new_first():
            borrower, _ = self._new_line.popitem(last=False)
            lend(connection, borrower)
        else:
            try:
                self.put_back(connection, self._now_ns())
            except Exception as bug:  # noqa: BLE001  as above
                report(Part.POOL, bug)
                self._fail_one(OWN_FAILURE)
                connection.abort()

    async def _open_connection(self) -> UpstreamConnection:
        """Connect; with TLS in two steps, because each has a limit of its own.

        Raises:
            ConnectTimeoutError: A step takes too long.
            OSError, ValueError: As of `ORIGIN_FAILURES`.
        """
        address, tls = self._settings.address, self._tls
        limit_s, step = self._settings.connect_timeout_s, CONNECTION
        loop = asyncio.get_running_loop()

        def new_connection() -> asyncio.BufferedProtocol:
            return cast("asyncio.BufferedProtocol", UpstreamConnection(self, self._counters))

        try:
            async with asyncio.timeout(limit_s):
                if address.path:
                    _, local = await loop.create_unix_connection(new_connection, address.path)
                    return cast("UpstreamConnection", local)
                if tls is None:
                    _, plain = await loop.create_connection(
                        new_connection, address.host, address.port
                    )
                    return cast("UpstreamConnection", plain)
                sock = await connected_socket(address.host, address.port)
            limit_s, step = tls.settings.handshake_timeout_s, TLS_HANDSHAKE
            async with asyncio.timeout(limit_s):
                return await self._shake_hands(sock, tls, limit_s)
        except TimeoutError as error:
            raise ConnectTimeoutError(step, limit_s) from error

    async def _shake_hands(
        self, sock: socket.socket, tls: ClientTls, limit_s: float
    ) -> UpstreamConnection:
        """Begin TLS, with a session from before if there is one."""
        context, now_unix_s = tls.context, time.time()
        for other in self._open:  # any one: it has had the time to get a session
            context.remember(other.transport, now_unix_s)
            break
        context.expire(now_unix_s)
        try:
            transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: cast("asyncio.BufferedProtocol", UpstreamConnection(self, self._counters)),
                sock=sock,
                ssl=context,
                server_hostname=tls.server_name,
                # Of the loop itself, should it still be at it after this task gave up.
                ssl_handshake_timeout=limit_s + 1.0,
                ssl_shutdown_timeout=1.0,
            )
        except BaseException:
            context.forget(time.time())
            raise
        self._counters.upstream_handshakes[handshake_of(transport)] += 1
        return cast("UpstreamConnection", connection)

    def _fail_one(self, failure: ConnectFailure) -> None:
        self._counters.upstream.fail(failure.kind, failure.problem)
        if self._line or self._new_line:
            line = self._new_line if self._is_new_first() else self._line
            borrower, _ = line.popitem(last=False)
            try:
                borrower.on_no_connection(failure.code, failure.reason)
            except Exception as error:  # noqa: BLE001  it is of this borrower alone
                borrower.fail(error)
        self._connect_for_the_line()


def lend(connection: UpstreamConnection, borrower: Borrower) -> None:
    """Give a connection to a borrower out of the line; an error there is the borrower's alone."""
    try:
        borrower.on_connection(connection)
    except Exception as error:  # noqa: BLE001  whatever it is, others wait in line
        borrower.fail(error)
        connection.abort()


async def connected_socket(host: str, port: int) -> socket.socket:
    """Connect by TCP to the first address of a host that answers.

    Raises:
        OSError: None does; of several addresses the last one's error.
    """
    loop = asyncio.get_running_loop()
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


def watch_over(transport: asyncio.Transport) -> None:
    """Have the kernel find out when the machine at the other end has gone without a word."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
