"""The connections to the origin: lent one request at a time, kept while they are of use."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from apfproxy.proxy.upstream import UpstreamConnection
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.response_head import ResponseHead
    from apfproxy.settings import UpstreamSettings


log = logging.getLogger(__name__)


class Borrower(Protocol):
    """What waits for a connection."""

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Here it is."""

    def on_no_connection(self, code: int, reason: str) -> None:
        """There is none: answer with the status `code`."""


class Pool:
    """A bounded set of connections to one origin.

    The connection used last is lent first, so that the others grow idle and are closed.
    Who finds none idle gets a new one, or waits in line where the bound is reached.

    Attributes:
        last_head_bytes, last_head: The head of the last answer to another method than HEAD.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        counters: ProxyCounters,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._settings = settings
        self._now_ns = now_ns
        self._counters = counters
        self.last_head_bytes = b""
        self.last_head: ResponseHead
        # The dictionary's order is that of use: the last one lent first, the first one stale first.
        self._idle: dict[UpstreamConnection, None] = {}
        self._open: set[UpstreamConnection] = set()
        self._connects: set[asyncio.Task[None]] = set()
        self._is_unreachable = False
        # Insertion order is the line; a borrower that leaves is taken out in constant time.
        self._line: OrderedDict[Borrower, None] = OrderedDict()

    def take(self) -> UpstreamConnection | None:
        """An idle connection, or None: then `wait` for one."""
        return self._idle.popitem()[0] if self._idle else None

    def wait(self, borrower: Borrower) -> None:
        """Stand in line; the borrower is called back, never from inside this call."""
        self._line[borrower] = None
        self._connect_for_the_line()

    def leave(self, borrower: Borrower) -> None:
        """Leave the line."""
        self._line.pop(borrower, None)

    def put_back(self, connection: UpstreamConnection, now_ns: int) -> None:
        """Take a connection back whose request and answer are through."""
        if connection.is_closed:
            return
        if connection.is_read_paused:
            connection.resume_reading()
        if self._line:
            borrower, _ = self._line.popitem(last=False)
            borrower.on_connection(connection)
            return
        connection.idle_since_ns = now_ns
        self._idle[connection] = None

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._connect_for_the_line()

    def close_idle(self, idle_since_ns: int) -> None:
        """Close connections that have been idle since then or longer."""
        while self._idle:
            connection = next(iter(self._idle))
            if connection.idle_since_ns > idle_since_ns:
                return
            connection.abort()

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
        return len(self._line)

    def _connect_for_the_line(self) -> None:
        """Open connections for those in line that no connection under way will serve."""
        while (
            len(self._connects) < len(self._line)
            and len(self._connects) + len(self._open) < self._settings.max_connections
        ):
            self._connects.add(spawn(self._connect(), name="connect to the origin"))

    async def _connect(self) -> None:
        settings = self._settings
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self, self._counters),
                    settings.address.host,
                    settings.address.port,
                )
        except TimeoutError:
            self._connects.discard(task)
            self._fail_one(
                504, f"no connection to the origin within {settings.connect_timeout_s:g} s"
            )
            return
        except OSError as error:
            self._connects.discard(task)
            self._fail_one(502, f"no connection to the origin: {error.strerror or error}")
            return
        self._connects.discard(task)
        self._counters.upstream_connections_opened += 1
        if connection.is_closed:
            # Before it got here: nobody would take it out of those that are open again.
            self._fail_one(502, "the origin closed the connection at once")
            return
        if self._is_unreachable:
            self._is_unreachable = False
            log.info("the origin %s can be reached again", settings.address)
        self._open.add(connection)
        self.put_back(connection, self._now_ns())

    def _fail_one(self, code: int, reason: str) -> None:
        self._counters.upstream_connect_failures += 1
        if not self._is_unreachable:
            # Once, not for each request: the counter tells how many.
            self._is_unreachable = True
            log.warning("%s (%s); such requests get %d", reason, self._settings.address, code)
        if self._line:
            borrower, _ = self._line.popitem(last=False)
            borrower.on_no_connection(code, reason)
        self._connect_for_the_line()

    def __repr__(self) -> str:
        return f"<Pool of {len(self._open)}, {len(self._idle)} idle, {len(self._line)} in line>"
