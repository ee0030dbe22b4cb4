"""Many clients and an upstream that cost little: tens of thousands of requests take seconds."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, cast

from tests.end_to_end.peer import WAIT_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

NUMBER = re.compile(rb"^GET /(?:[^ ]*/)?([0-9]+)[^\r]* HTTP/1\.1\r\n", re.MULTILINE)
STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n")


class NumberUpstream(asyncio.Protocol):
    """Answers each request with the number that its target ends with, and counts it."""

    def __init__(self, counts: dict[bytes, int]) -> None:
        self._counts = counts
        self._pending = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        if not self._pending.endswith(b"\r\n\r\n"):
            return
        found = NUMBER.match(self._pending)
        assert found is not None
        self._pending = b""
        number = found[1]
        self._counts[number] = self._counts.get(number, 0) + 1
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(number), number)
        )


class NumberClient(asyncio.Protocol):
    """Asks for numbers one after the other on one connection, and keeps what it gets."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._pending = b""
        self._transport: asyncio.Transport
        self.asked: bytes | None = None
        self.says_close = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        end = self._pending.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self._pending[:end]
        length = LENGTH.search(head)
        status = STATUS.match(head)
        assert length is not None
        assert status is not None
        end += int(length[1])
        if len(self._pending) < end:
            return
        body = self._pending[end - int(length[1]) : end]
        self._pending = self._pending[end:]
        assert self.asked is not None
        self._crowd.on_answer(self.asked, int(status[1]), body)
        self.asked = None
        self.says_close = b"\r\nConnection: close\r\n" in head
        if self.says_close:
            self._transport.close()
        else:
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.on_lost(self.asked, exc)
        self.closed.set_result(None)

    def ask(self) -> None:
        number = self._crowd.next_number()
        if number is None:
            self._transport.close()
            return
        self.asked = number
        self._transport.write(self._crowd.request(number))


class Crowd:
    """Clients that share out numbers among them."""

    def __init__(
        self, total: int, path: bytes, on_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        self._total = total
        self._next = 0
        self._on_progress = on_progress
        self.path = path
        self.answered: dict[bytes, bytes] = {}
        self.others: dict[int, int] = {}
        self.unanswered: list[bytes] = []
        self.seen: dict[bytes, int] = {}

    @property
    def asked(self) -> int:
        return self._next

    def request(self, number: bytes) -> bytes:
        return b"GET %b%b HTTP/1.1\r\nHost: a\r\n\r\n" % (self.path, number)

    def next_number(self) -> bytes | None:
        if self._next == self._total:
            return None
        self._next += 1
        return b"%d" % (self._next - 1)

    def on_answer(self, number: bytes, status: int, body: bytes) -> None:
        if status == 200:
            self.answered[number] = body
        else:
            self.others[status] = self.others.get(status, 0) + 1
        self._on_progress(len(self.answered))

    def on_lost(self, number: bytes | None, exc: Exception | None) -> None:
        assert exc is None or isinstance(exc, OSError)
        if number is not None:
            self.unanswered.append(number)

    @contextlib.asynccontextmanager
    async def upstream(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: NumberUpstream(self.seen), host, port)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            # A loop of uvloop does not close, for ever, while it has a server.
            server.close()

    async def run(self, port: int, clients: int, tls: ssl.SSLContext | None = None) -> None:
        """Connect clients, by TLS if there is a context for it, and wait until all have ended."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(4 * WAIT_S):
            found = [
                (
                    await loop.create_connection(
                        lambda: NumberClient(self), "127.0.0.1", port, ssl=tls
                    )
                )[1]
                for _ in range(clients)
            ]
            for client in found:
                client.ask()
            for client in found:
                await client.closed

    def assert_all_answered_once(self) -> None:
        expected = {b"%d" % number for number in range(self._total)}
        assert ({}, []) == (self.others, self.unanswered)
        assert {number: number for number in expected} == self.answered
        assert dict.fromkeys(expected, 1) == self.seen

    def __repr__(self) -> str:
        return f"<Crowd: {len(self.answered)} of {self._next} answered>"
