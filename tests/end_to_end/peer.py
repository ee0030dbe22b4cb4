"""One end of an HTTP/1.1 connection that a test moves byte by byte: a client's or an upstream's."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

WAIT_S = 60.0
"""For what must come; a test that waits so long has failed."""
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)


def begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Let something go on beside the test, which keeps the task and waits for its end."""
    return asyncio.create_task(coroutine)


class EndOfStreamError(Exception):
    """The other side ended the connection before what was waited for had come."""


@dataclass(frozen=True)
class Message:
    """A request or an answer, as it came."""

    head: bytes
    body: bytes = b""
    chunks: tuple[bytes, ...] = ()
    trailers: bytes = b""

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def status(self) -> int:
        return int(self.line.split(b" ")[1])

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        lines = self.head.split(b"\r\n")[1:-2]
        return [(n.lower(), v.strip()) for n, _, v in (line.partition(b":") for line in lines)]

    def values(self, name: bytes) -> list[bytes]:
        """The values of all fields of a name, which is given in lower case."""
        return [value for found, value in self.fields if found == name]

    def value(self, name: bytes) -> bytes | None:
        """The value of the only field of a name, or None where there is none."""
        values = self.values(name)
        assert len(values) < 2, values
        return values[0] if values else None


class Peer:
    """A socket, and what came from it but has not been asked for."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self.pending = b""

    @classmethod
    async def connect(
        cls, port: int, *, source: str = "127.0.0.1", buffer_bytes: int | None = None
    ) -> Peer:
        connection = socket.socket()
        if buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        peer = cls(connection)
        try:
            connection.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except OSError:
            connection.close()
            raise
        return peer

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(WAIT_S):
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def send_now(self, data: bytes) -> int:
        """Send as much as the kernel takes at once, and say how much that was."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def receive(self) -> bytes:
        """Whatever comes next; b"" at the end of the stream, or once this side is closed."""
        if self.pending:
            data, self.pending = self.pending, b""
            return data
        if self._socket.fileno() < 0:
            return b""
        async with asyncio.timeout(WAIT_S):
            return await asyncio.get_running_loop().sock_recv(self._socket, 1 << 20)

    async def read_until(self, delimiter: bytes) -> bytes:
        pieces = self.pending
        self.pending = b""
        while (end := pieces.find(delimiter)) < 0:
            data = await self.receive()
            if not data:
                raise EndOfStreamError(pieces)
            pieces += data
        end += len(delimiter)
        self.pending = pieces[end:]
        return pieces[:end]

    async def read_exactly(self, number: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < number:
            data = await self.receive()
            if not data:
                raise EndOfStreamError(bytes(pieces))
            pieces += data
        self.pending = bytes(pieces[number:]) + self.pending
        return bytes(pieces[:number])

    async def read_to_end(self) -> bytes:
        pieces = bytearray()
        while data := await self.receive():
            pieces += data
        return bytes(pieces)

    async def read_head(self) -> bytes:
        return await self.read_until(b"\r\n\r\n")

    async def read_request(self) -> Message:
        head = await self.read_head()
        if CHUNKED.search(head):
            return await self._read_chunked(head)
        length = LENGTH.search(head)
        return Message(head, await self.read_exactly(int(length[1]))) if length else Message(head)

    async def read_answer(self, *, to_head: bool = False) -> Message:
        head = await self.read_head()
        if to_head or head[9:10] == b"1" or head[9:12] in (b"204", b"304"):
            return Message(head)
        if CHUNKED.search(head):
            return await self._read_chunked(head)
        length = LENGTH.search(head)
        if length:
            return Message(head, await self.read_exactly(int(length[1])))
        return Message(head, await self.read_to_end())

    async def read_chunk(self) -> bytes:
        """One chunk's data; b"" is the last chunk, of which the trailer section is not read."""
        size = int(await self.read_until(b"\r\n"), 16)
        if not size:
            return b""
        data = await self.read_exactly(size)
        assert b"\r\n" == await self.read_exactly(2)
        return data

    async def _read_chunked(self, head: bytes) -> Message:
        chunks = []
        while chunk := await self.read_chunk():
            chunks.append(chunk)
        trailers = b""
        while (line := await self.read_until(b"\r\n")) != b"\r\n":
            trailers += line
        return Message(head, b"".join(chunks), tuple(chunks), trailers)

    async def is_at_end(self) -> bool:
        """Whether the other side has ended the connection, in whatever way, and sent no more."""
        try:
            return not await self.receive()
        except ConnectionResetError:
            return True

    def end_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close, even while something is waited for; harmless if it is closed."""
        # The loop keeps a socket open that it waits for; the end of the stream ends the wait.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    async def leave(self) -> None:
        """Want no answer any more to what was asked: here that takes the connection."""
        self.reset()

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Peer {self._socket.fileno()}>"
