"""A proxy that speaks HTTP/2, with an upstream that answers, for clients that block."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apfproxy.settings import DownstreamTlsSettings, Http2Settings
from tests.end_to_end.api_servers import in_thread
from tests.end_to_end.http2.frames import WAIT_S, FrameClient
from tests.end_to_end.scene import Scene, Setup, running
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

BODY = b"hello world"
LARGE = b"/large"
"""The path of an answer that is longer."""
NEVER = b"/never"
"""The path of a request that gets none."""


async def _answer(arrival: Arrival) -> None:
    method, path, _ = arrival.request.line.split(b" ")
    if path == NEVER:
        return
    body = BODY * 10_000 if path == LARGE else BODY
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    await arrival.peer.send(head if method == b"HEAD" else head + body)


@contextlib.asynccontextmanager
async def _answering(setup: Setup) -> AsyncIterator[Scene]:
    async with running(setup) as scene:
        scene.upstream.answer_with(_answer)
        yield scene


@dataclass(frozen=True)
class Server:
    """A proxy in a thread of its own."""

    scene: Scene
    tls: ssl.SSLContext | None = None

    def connect(self) -> FrameClient:
        connection = socket.create_connection(
            ("127.0.0.1", self.scene.process.port), timeout=WAIT_S
        )
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is None:
            return FrameClient(connection)
        secure = self.tls.wrap_socket(connection, server_hostname="localhost")
        assert secure.selected_alpn_protocol() == "h2"
        return FrameClient(secure)


@contextlib.contextmanager
def cleartext(**downstream: Any) -> Iterator[Server]:  # noqa: ANN401  settings by their names
    setup = Setup().with_downstream(http2=Http2Settings(is_cleartext=True), **downstream)
    with in_thread(_answering(setup)) as scene:
        yield Server(scene)


@contextlib.contextmanager
def secure(folder: Path) -> Iterator[Server]:
    authority = Authority("frames")
    certificate, key = authority.issue("localhost", usage="server").write(folder, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.set_alpn_protocols(["h2"])
    with in_thread(_answering(Setup().with_downstream(tls=tls))) as scene:
        yield Server(scene, context)
