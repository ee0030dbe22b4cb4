"""A connection after a 101, and the server's end of a WebSocket on it, without extensions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import struct
from typing import Protocol

READ_BYTES = 1 << 16
FIN = MASKED = 0x80
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
NORMAL_CLOSURE = 1000
LENGTH_16, LENGTH_64 = 126, 127
"""Lengths that say how long the length is that follows."""


class Duplex(Protocol):
    """Bytes both ways; `read` gives b"" at the end."""

    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...
    async def close(self) -> None: ...


class Socket:
    """The connection itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def accept_key(key: str) -> str:
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode())  # noqa: S324  RFC 6455
    return base64.b64encode(digest.digest()).decode()


class WebSocket:
    """A `Duplex` in which each message is some more bytes."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._pending = b""
        self._is_open = True
        self._is_writing = asyncio.Lock()

    async def read(self) -> bytes:
        pieces = b""
        while True:
            try:
                opcode, is_final, payload = await self._read_frame()
            except EOFError:
                return b""
            if opcode == CLOSE:
                await self.close()
                return b""
            if opcode == PING:
                await self._send(PONG, payload)
            elif opcode != PONG:
                pieces += payload
                if is_final and pieces:
                    return pieces

    async def write(self, data: bytes) -> None:
        await self._send(BINARY, data)

    async def close(self) -> None:
        if self._is_open:
            await self._send(CLOSE, struct.pack(">H", NORMAL_CLOSURE))
            self._is_open = False
            await self._duplex.close()

    async def _send(self, opcode: int, payload: bytes) -> None:
        if not self._is_open:
            return
        size = len(payload)
        if size < LENGTH_16:
            head = struct.pack(">BB", FIN | opcode, size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", FIN | opcode, LENGTH_16, size)
        else:
            head = struct.pack(">BBQ", FIN | opcode, LENGTH_64, size)
        async with self._is_writing:
            await self._duplex.write(head + payload)

    async def _read_frame(self) -> tuple[int, bool, bytes]:
        first, second = await self._read_exactly(2)
        length = second & ~MASKED
        if length == LENGTH_16:
            (length,) = struct.unpack(">H", await self._read_exactly(2))
        elif length == LENGTH_64:
            (length,) = struct.unpack(">Q", await self._read_exactly(8))
        assert second & MASKED, "a client has to mask its frames"
        mask = await self._read_exactly(4)
        masked = await self._read_exactly(length)
        pattern = (mask * (length // 4 + 1))[:length]
        plain = int.from_bytes(masked, "big") ^ int.from_bytes(pattern, "big")
        return first & 0x0F, bool(first & FIN), plain.to_bytes(length, "big")

    async def _read_exactly(self, number: int) -> bytes:
        while len(self._pending) < number:
            data = await self._duplex.read()
            if not data:
                raise EOFError
            self._pending += data
        data, self._pending = self._pending[:number], self._pending[number:]
        return data
