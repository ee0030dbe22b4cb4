"""Raw HTTP/1 over a real socket, for both ends of a proxy under test.

Nothing is buffered, repaired or hidden on the way: bytes go out as the test has them, and what came
in is kept as it came, framing included.  Sockets are read and written directly, not through
streams, so a test that does not read holds nothing but what the kernel holds, and
`bytes_in_kernel` says how much that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self

WITHIN_S = 10.0
"""How long anything may take before the test fails; nothing waits for this to pass."""

STUCK_AFTER_S = 0.1
"""A writer that cannot write for so long is held back; if that is too early, it wrote less."""

RECEIVE_BYTES = 65536
END_OF_HEAD = b"\r\n\r\n"


class ClosedEarlyError(Exception):
    """The peer closed in mid-message; the text is what had come of it."""


@dataclass(frozen=True, slots=True)
class Body:
    """A message's body: `raw` with its framing, `payload` without, `trailers` as lines."""

    raw: bytes = b""
    payload: bytes = b""
    trailers: bytes = b""


@dataclass(frozen=True, slots=True)
class Head:
    """A message's head as it came, up to and including the empty line."""

    raw: bytes

    @property
    def start_line(self) -> bytes:
        """The request line or status line."""
        return self.raw.split(b"\r\n", 1)[0]

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case and values, in order."""
        lines = self.raw[: -len(END_OF_HEAD)].split(b"\r\n")[1:]
        pairs = (line.partition(b":") for line in lines)
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def all(self, name: bytes) -> list[bytes]:
        """Give the values of all fields of a name, which is in lower case."""
        return [value for each, value in self.fields if each == name]

    def one(self, name: bytes) -> bytes:
        """Give the value of the only field of a name; any other number of them is an error."""
        (value,) = self.all(name)
        return value

    @property
    def status(self) -> int:
        """The status code, of a response."""
        return int(self.start_line.split(b" ")[1])

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return [value.lower() for value in self.all(b"transfer-encoding")][-1:] == [b"chunked"]


class Wire:
    """One connected socket.

    Attributes:
        received: Every byte that came in so far.
        sent_bytes: How many went out.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._taken = 0  # bytes of `received` that were read as part of a message
        self.received = bytearray()
        self.sent_bytes = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} sent {self.sent_bytes}, received {len(self.received)} bytes>"
        )

    @property
    def port(self) -> int:
        """The port of this end."""
        return int(self._socket.getsockname()[1])

    @property
    def peer_port(self) -> int:
        """The port of the other end."""
        return int(self._socket.getpeername()[1])

    async def send(self, data: bytes) -> None:
        """Send it all."""
        async with asyncio.timeout(WITHIN_S):
            await self._loop.sock_sendall(self._socket, data)
        self.sent_bytes += len(data)

    async def send_byte_by_byte(self, data: bytes) -> None:
        """Send each byte alone, and let the loop take it in before the next."""
        for byte in data:
            await self.send(bytes([byte]))
            await asyncio.sleep(0)

    async def send_until_held_back(self, data: bytes, limit_bytes: int) -> int:
        """Send `data` over and over until the other side takes no more.

        Args:
            data: What to repeat.
            limit_bytes: Where to stop if nothing ever holds back.

        Returns:
            How many bytes went out, from any position of `data` to any; those that the kernel of
            either end still holds are among them.
        """
        sent = 0
        while sent < limit_bytes:
            start = sent % len(data)
            try:
                count = self._socket.send(data[start:])
            except BlockingIOError:
                if not await self._becomes_writable():
                    break
            else:
                sent += count
                self.sent_bytes += count
                await asyncio.sleep(0)
        return sent

    async def _becomes_writable(self) -> bool:
        writable = asyncio.Event()
        self._loop.add_writer(self._socket.fileno(), writable.set)
        try:
            async with asyncio.timeout(STUCK_AFTER_S):
                await writable.wait()
        except TimeoutError:
            return False
        finally:
            self._loop.remove_writer(self._socket.fileno())
        return True

    async def receive(self) -> bytes:
        """Receive what there is, at least a byte; nothing at the end or after a reset."""
        try:
            async with asyncio.timeout(WITHIN_S):
                data = await self._loop.sock_recv(self._socket, RECEIVE_BYTES)
        except ConnectionError:
            return b""
        self.received += data
        return data

    async def read_until(self, marker: bytes) -> bytes:
        """Read up to and including the next `marker`.

        Raises:
            ClosedEarlyError: The peer closed before.
        """
        searched = self._taken
        while (at := self.received.find(marker, searched)) < 0:
            searched = max(self._taken, len(self.received) - len(marker) + 1)
            if not await self.receive():
                raise ClosedEarlyError(bytes(self.received[self._taken :]))
        return self._take(at + len(marker) - self._taken)

    async def read_exactly(self, count: int) -> bytes:
        """Read so many bytes.

        Raises:
            ClosedEarlyError: The peer closed before.
        """
        while len(self.received) - self._taken < count:
            if not await self.receive():
                raise ClosedEarlyError(bytes(self.received[self._taken :]))
        return self._take(count)

    async def read_to_end(self) -> bytes:
        """Read until the peer closes or resets; returns what was not yet read."""
        while await self.receive():
            pass
        return self._take(len(self.received) - self._taken)

    async def read_head(self) -> Head:
        """Read a message's head.

        Raises:
            ClosedEarlyError: The peer closed before; its text is empty if nothing had come.
        """
        return Head(await self.read_until(END_OF_HEAD))

    async def read_body(self, head: Head, *, until_close: bool = False) -> Body:
        """Read the body that a head announces.

        Args:
            head: The head that was read before.
            until_close: Whether a body without a length goes on to the end, as a response's does.

        Raises:
            ClosedEarlyError: The peer closed before.
        """
        if head.is_chunked:
            return await self._read_chunks()
        lengths = head.all(b"content-length")
        if lengths:
            raw = await self.read_exactly(int(lengths[0]))
        else:
            raw = await self.read_to_end() if until_close else b""
        return Body(raw, raw)

    async def read_chunk(self) -> tuple[bytes, bytes]:
        """Read one chunk; the last one has no data, and its trailers and empty line come after it.

        Returns:
            The chunk with its framing, and its data.
        """
        line = await self.read_until(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if not size:
            return line, b""
        data = await self.read_exactly(size + 2)
        return line + data, data[:-2]

    async def _read_chunks(self) -> Body:
        raw, payload, trailers = [], [], []
        while True:
            chunk, data = await self.read_chunk()
            raw.append(chunk)
            if not data:
                break
            payload.append(data)
        while (line := await self.read_until(b"\r\n")) != b"\r\n":
            trailers.append(line)
        raw += [*trailers, b"\r\n"]
        return Body(b"".join(raw), b"".join(payload), b"".join(trailers))

    @property
    def unread(self) -> bytes:
        """What was received and not read as part of a message."""
        return bytes(self.received[self._taken :])

    def finish_sending(self) -> None:
        """Close the sending half."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close; twice does no harm."""
        self._socket.close()

    def reset(self) -> None:
        """Close with a reset, as a process that dies with unread data does."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _take(self, count: int) -> bytes:
        taken = bytes(self.received[self._taken : self._taken + count])
        self._taken += count
        return taken


def bytes_in_kernel(*ports: int) -> int:
    """Sum up what the kernel holds of this machine's IPv4 connections that end at certain ports.

    Both directions and both ends count: sent and not acknowledged, received and not read.  What was
    sent, less this and what was received, is what the program between has itself.

    Args:
        ports: One end's port of each connection, such as a client's own.
    """
    held = 0
    for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, queues, *_ = row.split()
        if any(int(end.split(":")[1], 16) in ports for end in (local, remote)):
            held += sum(int(queue, 16) for queue in queues.split(":"))
    return held


def set_buffers(
    unconnected: socket.socket, *, send_bytes: int | None = None, receive_bytes: int | None = None
) -> None:
    """Make the kernel's buffers small; before connecting or listening, so that windows are too.

    Args:
        unconnected: A new socket; what a listening one accepts inherits this.
        send_bytes: For outgoing bytes; the kernel doubles it.
        receive_bytes: For incoming bytes; the kernel doubles it.
    """
    if send_bytes is not None:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes is not None:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
