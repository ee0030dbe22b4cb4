"""The listener: it serves over real sockets, looks at deadlines, and stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from apfproxy.api.decode import decode_documents
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.kind_meter import KindMeter
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.work_estimate import WorkEstimator
from apfproxy.proxy import server as server_module
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.loop_clock import LoopClock
from apfproxy.proxy.server import ProxyServer
from apfproxy.proxy.tasks import spawn
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    DrainSettings,
    Settings,
    UpstreamSettings,
    WatchSettings,
)
from tests.proxy.client import Client
from tests.proxy.fakes import CHUNKED_OK, GET, LOG, OBJECTS, OK, POST, WATCH
from tests.proxy.origin import Origin
from tests.proxy.wire import WITHIN_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LONG_S = 100.0
"""Nothing that a test waits for."""


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until a condition holds, which some event makes hold."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110  the program has no event to give for a test
            await asyncio.sleep(0)


class Scene:
    """A proxy before an origin that a test plays."""

    def __init__(self, origin: Origin, settings: Settings) -> None:
        self.origin = origin
        self.closing = contextlib.AsyncExitStack()
        clock = LoopClock(asyncio.get_running_loop())
        self.controller = Controller(clock, 1, 0)
        self.controller.commit(
            self.controller.digest(decode_documents(OBJECTS, "objects.yaml").objects)
        )
        costs = LearnedCosts(clock.now_ns)
        self.counters = ProxyCounters()
        self.server = ProxyServer(
            settings,
            self.controller,
            WorkEstimator(costs.object_stats, costs.watch_count),
            costs,
            KindMeter(clock.now_ns()),
            self.counters,
            clock,
        )

    async def client(self) -> Client:
        """A connection that the proxy has accepted."""
        accepted = self.counters.connections_accepted
        client = await self.closing.enter_async_context(await Client.connect(self.server.port))
        await until(lambda: self.counters.connections_accepted > accepted)
        return client

    @property
    def seats_in_use(self) -> int:
        """At all levels."""
        return sum(level.queue_set.seats_in_use for level in self.controller.levels.values())


@contextlib.asynccontextmanager
async def running(
    *, drain_s: float = LONG_S, idle_s: float = LONG_S, head_s: float = LONG_S
) -> AsyncIterator[Scene]:
    """A scene whose proxy listens; it ends at rest."""
    async with Origin() as origin:
        scene = Scene(
            origin,
            Settings(
                downstream=DownstreamSettings(
                    listen=Address(host="127.0.0.1", port=0), head_timeout_s=head_s
                ),
                upstream=UpstreamSettings(
                    address=Address(host="127.0.0.1", port=origin.port), idle_timeout_s=idle_s
                ),
                drain=DrainSettings(timeout_s=drain_s),
                watch=WatchSettings(silence_s=0.001),
            ),
        )
        await scene.server.start()
        try:
            async with scene.closing:
                yield scene
        finally:
            await scene.server.stop()
        assert 0 == scene.server.connection_count
        assert 0 == scene.server.pool.open_count
        assert 0 == scene.server.pool.waiting_count
        assert 0 == scene.seats_in_use


async def test_serves() -> None:
    """A request goes through, and what is shown of the server is right."""
    async with running() as scene:
        client = await scene.client()
        await client.send(GET)
        request = await scene.origin.next_request()
        assert (1, 1) == (scene.seats_in_use, scene.server.connection_count)
        await request.answer(OK)
        request.finish()
        response = await client.read_response()

        assert 200 == response.status
        assert "<ProxyServer with 1 connections>" == repr(scene.server)


async def test_knows_no_socket_before_the_start() -> None:
    """It listens from `start` on; stopping what never started is harmless."""
    async with Origin() as origin:
        scene = Scene(origin, Settings())
        assert () == scene.server.sockets
        await scene.server.drain()


async def test_address_that_cannot_be_listened_on() -> None:
    """The error is the system's."""
    async with running() as scene:
        other = Scene(
            scene.origin,
            Settings(
                downstream=DownstreamSettings(
                    listen=Address(host="127.0.0.1", port=scene.server.port)
                )
            ),
        )
        with pytest.raises(OSError, match="address already in use"):
            await other.server.start()


async def test_sweep_sees_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that say nothing are closed, and so are idle connections to the origin."""
    monkeypatch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
    async with running(idle_s=0.001, head_s=0.05) as scene:
        silent, client = await scene.client(), await scene.client()
        await client.send(GET)
        request = await scene.origin.next_request()
        await request.answer(OK)
        request.finish()
        assert 200 == (await client.read_response()).status
        assert b"" == await request.connection.wait_until_closed()

        assert b"" == await silent.read_to_end()


async def test_stop_cuts_everything() -> None:
    """Executing, waiting, in line for a connection, streaming, idle: all of it ends, unanswered."""
    async with running() as scene:
        clients = [await scene.client() for _ in range(5)]
        for client, request in zip(clients, [LOG, WATCH, GET, POST + b"\r\nb"], strict=False):
            await client.send(request)
            if request in {LOG, WATCH}:
                await (await scene.origin.next_request()).answer(CHUNKED_OK)
                await client.read_head()
        await scene.server.stop()
        for client in clients:
            assert b"" == await client.read_to_end()


async def test_stop_sends_nothing_more() -> None:
    """The seat of a request that is cut goes to none of those that wait."""
    async with running() as scene:
        clients = [await scene.client() for _ in range(4)]
        for client in clients[:2]:
            await client.send(LOG)
        requests = [await scene.origin.next_request() for _ in range(2)]
        for client, request in zip(clients, requests, strict=False):
            await request.answer(OK)
            request.finish()
            await client.read_response()
        for client in clients:
            await client.send(GET)
        await until(lambda: 3 == scene.controller.levels["queued"].queue_set.requests_waiting)
        await scene.origin.next_request()
        assert 1 == scene.server.pool.idle_count
        sent = scene.counters.bytes_to_origins
        await scene.server.stop()

        assert sent == scene.counters.bytes_to_origins


async def test_drain_lets_requests_end() -> None:
    """Idle connections close, requests are answered, the last answer says so, watches end."""
    async with running() as scene:
        idle, busy, watching, waiting = [await scene.client() for _ in range(4)]
        await watching.send(WATCH)
        watch = await scene.origin.next_request()
        await watch.answer(CHUNKED_OK)
        await watching.read_head()
        await until(lambda: not scene.seats_in_use)
        await busy.send(GET)
        request = await scene.origin.next_request()
        await waiting.send(GET)
        await until(lambda: scene.controller.levels["queued"].queue_set.requests_waiting)
        draining = spawn(scene.server.drain(), name="drain")
        assert b"" == await idle.read_to_end()
        assert b"0\r\n\r\n" == await watching.read_to_end()
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(scene.server.port if scene.server.sockets else 1)
        assert not draining.done()
        for client, current in ((busy, request), (waiting, None)):
            answered = current or await scene.origin.next_request()
            await answered.answer(OK)
            answered.finish()
            response = await client.read_response()
            assert (200, b"close") == (response.status, response.head.one(b"connection"))
            client.close()
        watching.close()
        watch.finish()
        await draining


async def test_drain_cuts_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """After its time it is a stop, and the log says how many connections that hit."""
    async with running(drain_s=0.01) as scene:
        client = await scene.client()
        await client.send(GET)
        await scene.origin.next_request()
        await scene.server.drain()

        assert ["draining: 1 connections are cut"] == caplog.messages
        assert b"" == await client.read_to_end()


async def test_watches_end_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that come back all at once would be a storm."""
    monkeypatch.setattr(server_module, "MIN_WATCHES_ENDED_PER_S", 1)
    monkeypatch.setattr(server_module, "WATCH_END_PERIOD_S", 0.001)
    async with running(drain_s=0.01) as scene:
        clients = [await scene.client() for _ in range(6)]
        for client in clients:
            await client.send(LOG)
            await (await scene.origin.next_request()).answer(CHUNKED_OK)
            await client.read_head()
        draining = spawn(scene.server.drain(), name="drain")
        ends = [await client.read_to_end() for client in clients]

        assert [b"0\r\n\r\n"] * 6 == ends
        await draining
