"""Bytes both ways: what a session is held over."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

READ_BYTES = 1 << 16


class Duplex(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes:
        """Whatever comes next; b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send all of it, as fast as the other side takes it."""

    async def close(self) -> None:
        """Send no more."""


class Socket:
    """The connection itself, after a 101."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Whatever comes next; b"" at the end, and if the connection was reset."""
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def __repr__(self) -> str:
        return f"<Socket of {self._writer.get_extra_info('peername')}>"
