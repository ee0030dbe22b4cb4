"""The upstream itself: a listening socket, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.end_to_end.streaming_upstream.api import DISCOVERY, PORT, running_pod
from tests.end_to_end.streaming_upstream.channels import (
    SPDY_PROTOCOLS,
    V4_BASE64,
    WEBSOCKET_PROTOCOLS,
    SpdyStreams,
    Streams,
    WebSocketStreams,
    beside,
)
from tests.end_to_end.streaming_upstream.containers import Container, Process
from tests.end_to_end.streaming_upstream.duplex import Socket
from tests.end_to_end.streaming_upstream.http_requests import (
    Request,
    chunk,
    head,
    json_answer,
    problem,
    read_request,
)
from tests.end_to_end.streaming_upstream.identities import (
    ForbiddenError,
    Identities,
    ShownCertificate,
    described,
)
from tests.end_to_end.streaming_upstream.port_forward import PROTOCOL, TUNNELLED, forward
from tests.end_to_end.streaming_upstream.spdy_session import SpdySession
from tests.end_to_end.streaming_upstream.websocket import WebSocket, accept_key

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from apfproxy.request.attributes import User
    from tests.end_to_end.streaming_upstream.spdy_session import SpdyStream

POD_PARTS = 6
"""In the path of a pod: /api/v1/namespaces/NAMESPACE/pods/NAME."""


@dataclass(frozen=True)
class Asked:
    """What was asked, how, and by whom.

    Attributes:
        what: The subresource of a pod.
        pod: Its name.
        protocol: That was agreed on; "" for logs.
        user: Who asked.
    """

    what: str
    pod: str
    protocol: str
    user: User


@dataclass(frozen=True)
class Exchange:
    """A request under way.

    Attributes:
        request: What is asked.
        user: Who asks.
        pod: Of which pod.
        what: The subresource.
        reader, writer: The connection.
    """

    request: Request
    user: User
    pod: str
    what: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass
class StreamingUpstream:
    """A server of streams.

    Attributes:
        folder: Has the files of the pods.
        identities: Whom it knows.
        port: Where it listens.
        asked: All streams so far.
        failures: What went wrong in it.
    """

    folder: Path
    identities: Identities
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _containers: dict[str, Container] = field(default_factory=dict)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _ports: dict[int, int] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[StreamingUpstream]:
        """Serve until the end of the context, with TLS if there is a context for that."""
        echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
        self._ports[PORT] = echo.sockets[0].getsockname()[1]
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            echo.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
        if self.failures:
            raise ExceptionGroup("the upstream failed", [Exception(repr(e)) for e in self.failures])

    def container(self, pod: str) -> Container:
        """The container of a pod."""
        if pod not in self._containers:
            root = self.folder / pod
            root.mkdir()
            self._containers[pod] = Container(root)
        return self._containers[pod]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (EOFError, ConnectionError):
            pass
        except Exception as error:  # noqa: BLE001  the end of the context tells
            self.failures.append(error)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether another one may follow."""
        request = await read_request(reader)
        try:
            user = self.identities.user_of(request, _certificate(writer))
        except KeyError:
            writer.write(problem(401, "Unauthorized"))
            return True
        except ForbiddenError as error:
            writer.write(problem(403, str(error)))
            return True
        if request.path in DISCOVERY:
            writer.write(json_answer(DISCOVERY[request.path]))
            return True
        parts = request.path.strip("/").split("/")
        if parts[:3] != ["api", "v1", "namespaces"] or len(parts) < POD_PARTS or parts[4] != "pods":
            writer.write(problem(404, f"there is nothing at {request.path}"))
            return True
        namespace, pod, what = parts[3], parts[5], "/".join(parts[POD_PARTS:])
        exchange = Exchange(request, user, pod, what, reader, writer)
        if what == "":
            writer.write(json_answer(running_pod(namespace, pod)))
        elif what == "log":
            await self._log(exchange)
        else:
            await self._stream(exchange)
            return False
        return True

    async def _log(self, exchange: Exchange) -> None:
        self._record(exchange, "")
        chunks = ("Transfer-Encoding", "chunked")
        exchange.writer.write(head(200, ("Content-Type", "text/plain"), chunks))
        container = self.container(exchange.pod)
        is_followed = exchange.request.is_set("follow")
        async for line in container.lines(is_followed=is_followed):
            exchange.writer.write(chunk(line))
            await exchange.writer.drain()
        exchange.writer.write(chunk(b""))

    async def _stream(self, exchange: Exchange) -> None:
        upgrade = exchange.request.value("upgrade").lower()
        if "upgrade" not in map(str.lower, exchange.request.elements("connection")):
            exchange.writer.write(problem(400, "Upgrade request required"))
        elif upgrade == "websocket":
            await self._over_websocket(exchange)
        elif upgrade == "spdy/3.1":
            await self._over_spdy(exchange)
        else:
            exchange.writer.write(problem(400, f"no protocol {upgrade}"))

    async def _over_websocket(self, exchange: Exchange) -> None:
        request, writer = exchange.request, exchange.writer
        known = [TUNNELLED] if exchange.what == "portforward" else WEBSOCKET_PROTOCOLS
        offered = request.elements("sec-websocket-protocol")
        protocol = next((protocol for protocol in known if protocol in offered), "")
        if not protocol:
            writer.write(problem(400, f"none of the protocols {offered}"))
            return
        self._record(exchange, protocol)
        writer.write(
            head(
                101,
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Accept", accept_key(request.value("sec-websocket-key"))),
                ("Sec-WebSocket-Protocol", protocol),
            )
        )
        socket = Socket(exchange.reader, writer)
        websocket = WebSocket(socket, is_text=protocol == V4_BASE64)
        if exchange.what == "portforward":
            session = SpdySession(websocket)
            async with beside(session.run()):
                await forward(session, self._ports)
            return
        streams = WebSocketStreams(websocket, protocol)
        async with beside(streams.run()):
            await self._run(exchange, streams)

    async def _over_spdy(self, exchange: Exchange) -> None:
        known = [PROTOCOL] if exchange.what == "portforward" else SPDY_PROTOCOLS
        offered = exchange.request.elements("x-stream-protocol-version")
        protocol = next((protocol for protocol in known if protocol in offered), "")
        if not protocol:
            exchange.writer.write(problem(403, f"none of the protocols {offered}"))
            return
        self._record(exchange, f"SPDY/3.1 {protocol}")
        exchange.writer.write(
            head(
                101,
                ("Connection", "Upgrade"),
                ("Upgrade", "SPDY/3.1"),
                ("X-Stream-Protocol-Version", protocol),
            )
        )
        session = SpdySession(Socket(exchange.reader, exchange.writer))
        async with beside(session.run()):
            if exchange.what == "portforward":
                await forward(session, self._ports)
                return
            made: dict[str, SpdyStream] = {}
            while len(made) < _stream_count(exchange.request):
                stream = await session.next_stream()
                if stream is None:
                    return
                made[stream.headers["streamtype"]] = stream
            await self._run(exchange, SpdyStreams(session, made))

    async def _run(self, exchange: Exchange, streams: Streams) -> None:
        process = Process(self.container(exchange.pod), streams, described(exchange.user))
        if exchange.what == "attach":
            code = await process.attach(has_stdin=exchange.request.is_set("stdin"))
        else:
            code = await process.run(exchange.request.query["command"])
        await streams.end(code)

    def _record(self, exchange: Exchange, protocol: str) -> None:
        self.asked.append(Asked(exchange.what, exchange.pod, protocol, exchange.user))


def _stream_count(request: Request) -> int:
    """How many streams the client makes: those it asks for, errors, and sizes of a terminal."""
    asked_for = [request.is_set(name) for name in ("stdin", "stdout", "stderr", "tty")]
    return 1 + sum(asked_for)


def _certificate(writer: asyncio.StreamWriter) -> ShownCertificate | None:
    """The client's, if it has one."""
    tls = writer.get_extra_info("ssl_object")
    shown = tls.getpeercert() if tls else None
    return ShownCertificate(shown["subject"], tls.getpeercert(True)) if shown else None


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo what comes, in the port of the pod."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
