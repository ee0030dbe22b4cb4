"""A server behind a fleet that counts how many requests it has at once, and from which member.

Every request takes the same time.  It counts from the moment in which it is read until its answer
is written, so never longer than the seat that it has in a proxy, and a proxy that is killed leaves
its requests running.  A path such as `/members/3/...` says which member a request came through;
other paths are answered at once and do not count.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBER = re.compile(rb"[A-Z]+ /members/([0-9]{1,4})/")
BODY = b"{}\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)


class FleetOrigin:
    """The server, in this process.

    Args:
        limit: How many requests it may have at once.
        service_s: How long one takes.

    Attributes:
        port: Of 127.0.0.1, once it listens.
        running: Requests that it has now.
        by_member: Of which member; zeros may be left out.
        peak: The most at once since `begin`.
        answered: Since then, by member.
    """

    def __init__(self, limit: int, service_s: float) -> None:
        self.limit = limit
        self.service_s = service_s
        self.port = 0
        self.running = 0
        self.by_member: Counter[int] = Counter()
        self.peak = 0
        self.answered: Counter[int] = Counter()
        self._seat_s = 0.0
        self._over_s = 0.0
        self._begun_s = self._changed_s = monotonic()
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self, self._connections), "127.0.0.1", 0, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()

    def begin(self) -> None:
        """Forget what was counted so far."""
        self._account()
        self._begun_s = self._changed_s
        self._seat_s = self._over_s = 0.0
        self.peak = self.running
        self.answered.clear()

    def mean(self) -> float:
        """How many requests it had at once since `begin`, on average."""
        self._account()
        return self._seat_s / max(self._changed_s - self._begun_s, 1e-9)

    def over_s(self) -> float:
        """How long it had more than the limit since `begin`."""
        self._account()
        return self._over_s

    async def until(self, is_so: Callable[[], bool], within_s: float) -> float | None:
        """Wait until something is so, which is asked at each change.

        Returns:
            How long that took; None if it was not so in time.
        """
        begun_s = monotonic()
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = is_so
        self._tell()
        try:
            async with asyncio.timeout(within_s):
                await future
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(future, None)
        return monotonic() - begun_s

    def serve(self, member: int) -> None:
        """A request begins."""
        self._account()
        self.running += 1
        self.by_member[member] += 1
        self.peak = max(self.peak, self.running)
        self._tell()

    def served(self, member: int) -> None:
        """It ends."""
        self._account()
        self.running -= 1
        self.by_member[member] -= 1
        self.answered[member] += 1
        self._tell()

    def _account(self) -> None:
        now_s = monotonic()
        elapsed_s = now_s - self._changed_s
        self._changed_s = now_s
        self._seat_s += self.running * elapsed_s
        if self.running > self.limit:
            self._over_s += elapsed_s

    def _tell(self) -> None:
        for future, is_so in tuple(self._waiting.items()):
            if is_so() and not future.done():
                future.set_result(None)

    def __repr__(self) -> str:
        return f"<FleetOrigin on {self.port}: {self.running} of {self.limit}, peak {self.peak}>"


class _Connection(asyncio.Protocol):
    """One connection; its requests have no body and come one at a time."""

    def __init__(self, origin: FleetOrigin, connections: set[_Connection]) -> None:
        self._origin = origin
        self._connections = connections
        self._head = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """A request goes on: a server does not know yet that nobody wants its answer."""
        del exc
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Serve each request whose head is complete."""
        self._head += data
        while (end := self._head.find(b"\r\n\r\n")) >= 0:
            found = MEMBER.match(self._head)
            self._head = self._head[end + 4 :]
            if found is None:
                self._transport.write(ANSWER)
                continue
            member = int(found[1])
            self._origin.serve(member)
            loop = asyncio.get_running_loop()
            loop.call_later(self._origin.service_s, self._finish, member)

    def abort(self) -> None:
        """Close it at once."""
        self._transport.abort()

    def _finish(self, member: int) -> None:
        self._origin.served(member)
        if not self._transport.is_closing():
            self._transport.write(ANSWER)
