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


class Crowd:
    """Clients that share out numbers among them."""

    def __init__(
        self, total: int, path: bytes, on_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        self.total = total
        self.asked = 0
        self._on_progress = on_progress
        self.path = path
        self.answered: dict[bytes, bytes] = {}
        self.others: dict[int, int] = {}
        self.unanswered: list[bytes] = []
        self.seen: dict[bytes, int] = {}

    def request(self, number: bytes) -> bytes:
        return b"GET %b%b HTTP/1.1\r\nHost: a\r\n\r\n" % (self.path, number)

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
        async with asyncio.timeout(4 * WAIT_S):
            streams = [
                await asyncio.open_connection("127.0.0.1", port, ssl=tls) for _ in range(clients)
            ]
            await asyncio.gather(*(self._ask(*each) for each in streams))

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask for one number after the other, until there is none or the response says so."""
        head = b""
        while self.asked < self.total and b"\r\nConnection: close\r\n" not in head:
            number = b"%d" % self.asked
            self.asked += 1
            try:
                writer.write(self.request(number))
                head = await reader.readuntil(b"\r\n\r\n")
                length = LENGTH.search(head)
                assert length is not None
                body = await reader.readexactly(int(length[1]))
            except (asyncio.IncompleteReadError, OSError):
                self.unanswered.append(number)
                break
            if (status := int(head.split(b" ", 2)[1])) == 200:
                self.answered[number] = body
            else:
                self.others[status] = self.others.get(status, 0) + 1
            self._on_progress(len(self.answered))
        writer.close()

    def assert_all_answered_once(self) -> None:
        expected = {b"%d" % number for number in range(self.total)}
        assert ({}, []) == (self.others, self.unanswered)
        assert {number: number for number in expected} == self.answered
        assert dict.fromkeys(expected, 1) == self.seen

    def __repr__(self) -> str:
        return f"<Crowd: {len(self.answered)} of {self.asked} answered>"
