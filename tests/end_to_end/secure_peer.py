"""A client that speaks TLS, for the tests that move a connection byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, TypeVar

from tests.end_to_end.peer import WAIT_S, Peer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.support.certificates import Authority

T = TypeVar("T")


def client_context(authority: Authority, own: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if own is not None:
        context.load_cert_chain(*own)
    return context


class SecurePeer(Peer):
    """A socket with TLS on it."""

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, host: str | None = "localhost"
    ) -> None:
        super().__init__(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    @classmethod
    async def of(
        cls, plain: Peer, context: ssl.SSLContext, host: str | None = "localhost"
    ) -> SecurePeer:
        peer = cls(plain._socket, context, host)  # noqa: SLF001  its own kind
        await peer._run(peer._tls.do_handshake)
        return peer

    @property
    def server_name(self) -> str:
        """The common name of the server's certificate, which is not compared with the host."""
        certificate = self._tls.getpeercert()
        assert certificate is not None
        subject = certificate["subject"]
        return str(dict(each[0] for each in subject)["commonName"])  # type: ignore[misc]

    @property
    def protocol(self) -> str | None:
        return self._tls.selected_alpn_protocol()

    async def send(self, data: bytes) -> None:
        await self._run(lambda: self._tls.write(data))

    async def receive(self) -> bytes:
        if self.pending:
            data, self.pending = self.pending, b""
            return data
        with contextlib.suppress(ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return await self._run(lambda: self._tls.read(1 << 16))
        return b""

    async def _run(self, step: Callable[[], T]) -> T:
        """Do something that may have to wait for what the other side says."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    await self._flush()
                    data = await loop.sock_recv(self._socket, 1 << 16)
                    self._incoming.write(data) if data else self._incoming.write_eof()
                    continue
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await asyncio.get_running_loop().sock_sendall(self._socket, self._outgoing.read())
