"""How listeners are served, with bounds on what clients may do."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest
from aiohttp import web

from apfproxy.app import listening
from apfproxy.app.listening import LINE_BYTES, LOOKS, Listener, StalledClients
from apfproxy.app.places import Places, place_limits
from apfproxy.settings import Address


class Transport:
    """A transport whose client takes what a test wants.

    Args:
        sizes: Bytes that are to be taken, look by look; the last one for good.
    """

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)
        self.is_cut = False

    def get_write_buffer_size(self) -> int:
        """Give the next one."""
        return self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]

    def abort(self) -> None:
        """Remember it."""
        self.is_cut = True


@pytest.mark.parametrize(
    ("sizes", "cut_at"),
    [
        ((5,), LOOKS + 1),
        ((7, 5), LOOKS + 2),
        ((5, 5, 0, 5), LOOKS + 4),
        ((0,), None),
        ((5, 4, 5, 4, 5, 4, 5, 4, 0), None),
    ],
)
def test_stalled(sizes: tuple[int, ...], cut_at: int | None) -> None:
    """A connection is cut once nothing was taken for some looks, and others are left alone."""
    transport, idle = Transport(*sizes), Transport(0)
    clients = StalledClients()
    found = None
    for look in range(1, 12):
        clients.look([(1, transport), (2, idle)])
        if transport.is_cut:
            found = look
            break

    assert cut_at == found
    assert not idle.is_cut


async def seen(request: web.Request) -> web.Response:
    """Say how long a target and how large a body are."""
    return web.Response(text=f"{len(request.raw_path)} {len(await request.read())}")


async def listening_with(app: web.Application) -> Listener:
    """A listener for an application, with places enough."""
    places = Places("test", place_limits(100), time.monotonic_ns)
    listener = Listener(app, places, shutdown_s=1)
    await listener.start(Address(host="127.0.0.1", port=0))
    return listener


async def answer_of(data: bytes) -> bytes:
    """What a listener answers to some bytes until it closes the connection."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", seen)
    listener = await listening_with(app)
    try:
        reader, writer = await asyncio.open_connection(*listener.addresses[0])
        writer.write(data)
        found = await reader.read()
        writer.close()
    finally:
        await listener.close()
    return found


async def test_bodies_stay_encoded() -> None:
    """A compressed body is what was sent: nothing unfolds."""
    body = gzip.compress(bytes(1_000_000))
    head = (
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    answer = await answer_of(head.encode() + body)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(f"\r\n\r\n1 {len(body)}".encode())


@pytest.mark.parametrize(("size", "status"), [(LINE_BYTES - 100, 200), (LINE_BYTES + 100, 400)])
async def test_long_targets(size: int, status: int) -> None:
    """Targets may be as long as selectors make them, up to a bound."""
    head = f"GET /{'x' * size} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert f"HTTP/1.{1 if status == 200 else 0} {status} ".encode() in await answer_of(
        head.encode()
    )


async def test_heads_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose request head does not end is closed."""
    monkeypatch.setattr(listening, "IDLE_S", 0.01)

    assert b"" == await answer_of(b"GET / HTTP/1.1\r\nHost: x\r\n")


async def test_clients_that_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads nothing of a large answer loses its connection."""
    monkeypatch.setattr(listening, "LOOK_S", 0.001)
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
    listener = await listening_with(app)
    _, writer = await asyncio.open_connection(*listener.addresses[0], limit=1)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await ended.wait()
    writer.close()
    await listener.close()

    assert ended.is_set()


@pytest.mark.parametrize(
    ("owner", "name", "period"),
    [(StalledClients, "look", "LOOK_S"), (Places, "sweep", "SWEEP_S")],
    ids=["stalled", "late"],
)
async def test_an_error_does_not_end_the_looks(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: type,
    name: str,
    period: str,
) -> None:
    """A look that fails is followed by others."""
    monkeypatch.setattr(listening, period, 0.001)
    looks: list[int] = []
    again = asyncio.Event()

    def look(*_: object) -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("a bug")
        again.set()

    monkeypatch.setattr(owner, name, look)
    listener = await listening_with(web.Application())
    async with asyncio.timeout(10):
        await again.wait()
    await listener.close()

    assert 1 == caplog.text.count("ValueError: a bug")
