"""How listeners are served, with bounds on what clients may do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from apfproxy.app import listening
from apfproxy.app.listening import LOOKS, Listener, StalledClients
from apfproxy.app.places import Places
from apfproxy.app.web_runner import WebRunner
from tests.end_to_end.peer import WAIT_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Transport(asyncio.Transport):
    """A transport whose client takes what a test wants.

    Args:
        sizes: Bytes that are to be taken, look by look; the last one for good.
    """

    def __init__(self, *sizes: int) -> None:
        super().__init__()
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
        clients.look([transport, idle])
        if transport.is_cut:
            found = look
            break

    assert cut_at == found
    assert not idle.is_cut


@contextlib.asynccontextmanager
async def listening_with(app: web.Application) -> AsyncIterator[tuple[str, int]]:
    """The address of a listener for an application, with places enough."""
    places = Places("test", 100, time.monotonic_ns)
    runner = WebRunner(app, places, shutdown_s=1)
    await runner.start()
    listener = Listener(runner.protocol, places)
    await listener.start([socket.create_server(("127.0.0.1", 0))])
    try:
        yield "127.0.0.1", listener.port or 0
    finally:
        await runner.close()
        listener.close()


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
    async with listening_with(app) as address:
        _, writer = await asyncio.open_connection(*address, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await ended.wait()
        writer.close()

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
    async with listening_with(web.Application()), asyncio.timeout(WAIT_S):
        await again.wait()

    assert 1 == caplog.text.count("ValueError: a bug")
