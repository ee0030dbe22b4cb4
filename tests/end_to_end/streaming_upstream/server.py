"""The upstream itself: a listening socket, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.end_to_end.streaming_upstream.connections import (
    READ_BYTES,
    Socket,
    WebSocket,
    accept_key,
)
from tests.end_to_end.streaming_upstream.containers import (
    Container,
    SpdyStreams,
    WebSocketStreams,
    beside,
)
from tests.end_to_end.streaming_upstream.spdy import Session

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from tests.end_to_end.streaming_upstream.spdy import Stream

PORT = 80
"""For the pods; it echoes."""
NAMES = ("", "/exec", "/log", "/portforward")
VERSIONS = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
RESOURCE = {
    "singularName": "pod",
    "namespaced": True,
    "kind": "Pod",
    "shortNames": ["po"],
    "verbs": ["create", "get", "list", "watch"],
}
DISCOVERY: dict[str, Any] = {
    "/api": VERSIONS,
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "v1",
        "resources": [RESOURCE | {"name": f"pods{name}"} for name in NAMES],
    },
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "linux/amd64"},
}
CONTAINER = {
    "name": "main",
    "image": "example.test/main:1",
    "stdin": True,
    "stdinOnce": True,
    "ports": [{"containerPort": PORT}],
}
STATUS = {
    "name": "main",
    "ready": True,
    "restartCount": 0,
    "image": CONTAINER["image"],
    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    "imageID": "",
    "containerID": "",
}


def running_pod(namespace: str, name: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
        "spec": {"containers": [CONTAINER], "nodeName": "node-0", "restartPolicy": "Always"},
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [STATUS],
        },
    }


@dataclass(frozen=True)
class Request:
    """A request without a body; its fields by their names in lower case."""

    path: str
    query: dict[str, list[str]]
    fields: dict[str, str]

    def elements(self, name: str) -> list[str]:
        return [each.strip() for each in self.fields.get(name, "").split(",")]

    def is_set(self, parameter: str) -> bool:
        return self.query.get(parameter, ["false"])[0] in {"true", "1"}


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    fields: dict[str, str] = {}
    for each in lines:
        name, _, value = each.partition(":")
        before = fields.get(name.lower())
        fields[name.lower()] = value.strip() if before is None else f"{before}, {value.strip()}"
    if length := int(fields.get("content-length") or 0):
        await reader.readexactly(length)
    target = urlsplit(line.split(" ")[1])
    return Request(target.path, parse_qs(target.query), fields)


def head(status: str, **fields: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def response(value: Any) -> bytes:  # noqa: ANN401  JSON
    body = json.dumps(value).encode()
    return head("200 OK", Content_Type="application/json", Content_Length=str(len(body))) + body


def agreed_on_websocket(request: Request, what: str) -> tuple[str, dict[str, str]]:
    tunnelled = "SPDY/3.1+portforward.k8s.io"  # messages are the bytes of a SPDY connection
    protocol = tunnelled if what == "portforward" else "v5.channel.k8s.io"
    assert protocol in request.elements("sec-websocket-protocol")
    return protocol, {
        "Upgrade": "websocket",
        "Sec_WebSocket_Accept": accept_key(request.fields["sec-websocket-key"]),
        "Sec_WebSocket_Protocol": protocol,
    }


def agreed_on_spdy(request: Request, what: str) -> tuple[str, dict[str, str]]:
    protocol = "portforward.k8s.io" if what == "portforward" else "v4.channel.k8s.io"
    assert "spdy/3.1" == request.fields["upgrade"].lower()
    assert protocol in request.elements("x-stream-protocol-version")
    return f"SPDY/3.1 {protocol}", {
        "Upgrade": "SPDY/3.1",
        "X_Stream_Protocol_Version": protocol,
    }


@dataclass(frozen=True)
class Asked:
    """A stream that was asked for: the subresource, the pod, the protocol and the user.

    The protocol is "" for logs.
    """

    what: str
    pod: str
    protocol: str
    user: str


@dataclass
class StreamingUpstream:
    """A server of streams."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _containers: dict[str, Container] = field(default_factory=dict)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _echo_port: int = 0

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext) -> AsyncIterator[StreamingUpstream]:
        echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
        self._echo_port = echo.sockets[0].getsockname()[1]
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._answer(await read_request(reader), reader, writer):
                pass
        except (EOFError, ConnectionError):
            pass
        except Exception as error:  # noqa: BLE001  the end of the context tells
            self.failures.append(error)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        user = request.fields.get("x-remote-user", "")
        if request.path in DISCOVERY:
            writer.write(response(DISCOVERY[request.path]))
            return True
        _, _, _, _, namespace, _, pod, *rest = request.path.split("/")
        what = "/".join(rest)
        if not what:
            writer.write(response(running_pod(namespace, pod)))
            return True
        if pod not in self._containers:
            self._containers[pod] = Container()
        container = self._containers[pod]
        if what == "log":
            self.asked.append(Asked(what, pod, "", user))
            writer.write(head("200 OK", Content_Type="text/plain", Transfer_Encoding="chunked"))
            async for line in container.lines(is_followed=request.is_set("follow")):
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            return True
        socket = Socket(reader, writer)
        command = request.query.get("command", [])
        upgrade = request.fields["upgrade"].lower()
        over = agreed_on_websocket if upgrade == "websocket" else agreed_on_spdy
        protocol, fields = over(request, what)
        self.asked.append(Asked(what, pod, protocol, user))
        writer.write(head("101 Switching Protocols", Connection="Upgrade", **fields))
        if upgrade == "websocket":
            websocket = WebSocket(socket)
            if what != "portforward":
                streams = WebSocketStreams(websocket)
                async with beside(streams.run()):
                    await container.run(command, streams)
                return False
            session = Session(websocket)
        else:
            session = Session(socket)
        async with beside(session.run()):
            if what == "portforward":
                await self._forward(session)
            else:
                await container.run(command, await _streams_of(session, request))
        return False

    async def _forward(self, session: Session) -> None:
        errors: dict[str, Stream] = {}
        async with asyncio.TaskGroup() as connections:
            while (stream := await session.next_stream()) is not None:
                request = stream.headers["requestid"]
                if stream.headers["streamtype"] == "error":
                    errors[request] = stream
                else:
                    connections.create_task(self._connect(stream, errors.pop(request)))

    async def _connect(self, data: Stream, error: Stream) -> None:
        port = int(data.headers["port"])
        if port != PORT:
            await error.write(f"nothing listens on port {port} of the pod".encode())
            await error.close()
            await data.close()
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self._echo_port)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(_to_pod(data, writer), _from_pod(reader, data))
        writer.close()
        await error.close()


async def _streams_of(session: Session, request: Request) -> SpdyStreams:
    count = 1 + sum(map(request.is_set, ("stdin", "stdout", "stderr", "tty")))
    made: dict[str, Stream] = {}
    while len(made) < count:
        stream = await session.next_stream()
        if stream is None:
            raise EOFError
        made[stream.headers["streamtype"]] = stream
    return SpdyStreams(session, made)


async def _to_pod(data: Stream, writer: asyncio.StreamWriter) -> None:
    while piece := await data.read():
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


async def _from_pod(reader: asyncio.StreamReader, data: Stream) -> None:
    while piece := await reader.read(READ_BYTES):
        await data.write(piece)
    await data.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
