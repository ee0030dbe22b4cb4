"""How an application is served, with bounds on what clients may do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apfproxy.admin import places as places_module
from apfproxy.admin import web as web_module
from apfproxy.admin.places import Places
from apfproxy.admin.web import LINE_BYTES, MAX_SLASHES, WebListener, lasts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def listening_with(
    app: web.Application, listening: socket.socket | None = None
) -> AsyncIterator[tuple[str, int]]:
    listener = WebListener(app, Places("test", 100, time.monotonic_ns), shutdown_s=1)
    await listener.start([listening or socket.create_server(("127.0.0.1", 0))])
    try:
        yield "127.0.0.1", listener.port or 0
    finally:
        await listener.close()


async def test_clients_that_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_module, "SWEEP_S", 0.001)
    monkeypatch.setattr(places_module, "STALLED_NS", 5_000_000)
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1_000_000))
        finally:
            ended.set()

    app = web.Application()
    app.router.add_get("/", endless)
    async with listening_with(app) as address:
        _, writer = await asyncio.open_connection(*address, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await ended.wait()
        writer.close()

    assert ended.is_set()


async def seen(request: web.Request) -> web.Response:
    """Say how long a target and how large a body are."""
    return web.Response(text=f"{len(request.raw_path)} {len(await request.read())}")


async def response_to(data: bytes) -> bytes:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", seen)
    listening = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listening.getsockname())
    client.sendall(data)  # before any limit of time begins
    async with listening_with(app, listening):
        reader, writer = await asyncio.open_connection(sock=client)
        found = await reader.read()
        writer.close()
    return found


CLOSE = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"GET /{'x' * (LINE_BYTES - 100)} {CLOSE}", 200),
        (f"GET /{'x' * (LINE_BYTES + 100)} {CLOSE}", 400),
        (f"GET {'/a' * MAX_SLASHES}?{'/' * 99} {CLOSE}", 200),
        (f"GET {'/a' * (MAX_SLASHES + 1)} {CLOSE}", 404),
        ("hello\r\n\r\n", 400),
    ],
    ids=["long", "too-long", "slashes", "too-many-slashes", "no-request"],
)
async def test_targets(head: str, status: int) -> None:
    """No page is sought with a path of many parts; no client learns versions."""
    lines = (await response_to(head.encode())).partition(b"\r\n\r\n")[0].split(b"\r\n")

    assert str(status).encode() == lines[0].split()[1]
    assert [b"Server: apfproxy"] == [line for line in lines if line.startswith(b"Server:")]


@pytest.mark.parametrize("first", [b"", f"GET / {CLOSE}".replace("close", "x").encode()])
async def test_heads_that_never_end(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(web_module, "IDLE_S", 0.01)
    responses = await response_to(first + b"GET / HTTP/1.1\r\nHost: x\r\n")

    assert bool(first) == responses.count(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/clusters/a/events", True),
        ("/api/v1/namespaces/a/events", False),
        ("/apis/apps/v1/deployments?watch=true", True),
        ("/api/v1/watch/pods", True),
        ("/livez", False),
        ("/%zz?watch=1", False),
    ],
)
def test_lasts(target: str, expected: bool) -> None:
    assert expected == lasts(make_mocked_request("GET", target))
