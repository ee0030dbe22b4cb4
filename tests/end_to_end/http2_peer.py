"""A client that speaks HTTP/2, moved by HTTP/1.1's text as the other peers are."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tests.end_to_end.peer import Peer
from tests.http2_translation import CANCEL, Translation

if TYPE_CHECKING:
    from tests.end_to_end.secure_peer import SecurePeer

HTTP1, HTTP2 = "http/1.1", "h2"
PROTOCOLS = (HTTP1, HTTP2)
SPOKEN = ContextVar("SPOKEN", default=HTTP1)
"""Holds what clients of a scene speak, in tests that run over both."""


class Http2Peer(Peer):
    """A connection with HTTP/2 on it.

    The socket is read only when something is waited for, and what was read is acknowledged at
    once: who does not read has the server's windows shut.  An answer that the server breaks off
    reads like the end of a connection, behind which the answers to other requests follow.
    """

    def __init__(self, carrier: Peer, scheme: bytes = b"http") -> None:
        super().__init__(carrier._socket)  # noqa: SLF001  its own kind
        self._carrier = carrier
        self._hearing, self._sending = asyncio.Lock(), asyncio.Lock()
        self._heard = 0
        self._is_at_end = False
        self.translation = Translation(scheme)

    @classmethod
    def over_tls(cls, carrier: SecurePeer) -> Http2Peer:
        assert carrier.protocol == HTTP2
        return cls(carrier, b"https")

    async def send(self, data: bytes) -> None:
        translation = self.translation
        translation.request(data)
        await self._flush()
        while translation.has_unsent and not self._is_at_end:
            await self._hear()

    async def receive(self) -> bytes:
        """Text of answers that comes next; b"" at the end of the connection or a broken answer."""
        if self.pending:
            data, self.pending = self.pending, b""
            return data
        while not (text := self.translation.taken()):
            if text is None or self._is_at_end:
                return b""
            await self._hear()
        return text

    async def leave(self) -> None:
        """Want no answer any more to the oldest request that has none: its stream is reset."""
        self.translation.reset(CANCEL)
        await self._flush()

    async def _hear(self) -> None:
        heard = self._heard
        async with self._hearing:
            if heard != self._heard:
                return
            data = await self._carrier.receive()
            self._heard += 1
            self._is_at_end = not data
            self.translation.answer(data)
        await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            if output := self.translation.output():
                await self._carrier.send(output)
