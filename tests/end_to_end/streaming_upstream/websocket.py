"""The server's end of a WebSocket, RFC 6455, without extensions."""

from __future__ import annotations

import asyncio
import base64
import enum
import hashlib
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.end_to_end.streaming_upstream.duplex import Duplex

KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FIN = 0x80
MASKED = 0x80
NORMAL_CLOSURE = 1000
LENGTH_16, LENGTH_64 = 126, 127
"""Lengths that say how long the length is that follows."""


class Opcode(enum.IntEnum):
    """What a frame is."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


def accept_key(key: str) -> str:
    """What the answer to a handshake proves that it was read with."""
    digest = hashlib.sha1(key.encode() + KEY_SUFFIX, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class FrameHead(NamedTuple):
    """The fixed part of a frame."""

    opcode: Opcode
    is_final: bool
    payload: bytes


class WebSocket:
    """Messages both ways; a `Duplex` in which each message is some more bytes.

    Args:
        duplex: The connection, after the handshake.
        is_text: Whether messages are sent as text.
    """

    def __init__(self, duplex: Duplex, *, is_text: bool = False) -> None:
        self._duplex = duplex
        self._pending = b""
        self._opcode = Opcode.TEXT if is_text else Opcode.BINARY
        self._is_open = True
        self._is_writing = asyncio.Lock()

    async def read(self) -> bytes:
        """The next message that is not empty; b"" at the end."""
        pieces = b""
        while True:
            try:
                frame = await self._read_frame()
            except EOFError:
                return b""
            if frame.opcode == Opcode.CLOSE:
                await self.close()
                return b""
            if frame.opcode == Opcode.PING:
                await self._send(Opcode.PONG, frame.payload)
            elif frame.opcode != Opcode.PONG:
                pieces += frame.payload
                if frame.is_final and pieces:
                    return pieces

    async def write(self, data: bytes) -> None:
        """Send a message."""
        await self._send(self._opcode, data)

    async def close(self) -> None:
        """Say goodbye, and end the connection."""
        if self._is_open:
            await self._send(Opcode.CLOSE, struct.pack(">H", NORMAL_CLOSURE))
            self._is_open = False
            await self._duplex.close()

    async def _send(self, opcode: Opcode, payload: bytes) -> None:
        if not self._is_open:
            return
        head = bytes([FIN | opcode])
        if len(payload) < LENGTH_16:
            head += bytes([len(payload)])
        elif len(payload) < 1 << 16:
            head += struct.pack(">BH", LENGTH_16, len(payload))
        else:
            head += struct.pack(">BQ", LENGTH_64, len(payload))
        async with self._is_writing:
            await self._duplex.write(head + payload)

    async def _read_frame(self) -> FrameHead:
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
        return FrameHead(Opcode(first & 0x0F), bool(first & FIN), plain.to_bytes(length, "big"))

    async def _read_exactly(self, number: int) -> bytes:
        while len(self._pending) < number:
            data = await self._duplex.read()
            if not data:
                raise EOFError
            self._pending += data
        data, self._pending = self._pending[:number], self._pending[number:]
        return data

    def __repr__(self) -> str:
        return f"<WebSocket over {self._duplex}>"
