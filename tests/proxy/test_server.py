"""The listener: it serves over real sockets, looks at deadlines, and stops."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from apfproxy.base.faults import Part
from apfproxy.proxy import overload as overload_module
from apfproxy.proxy import server as server_module
from apfproxy.proxy.counters import Refusal
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.server import ended_at_once
from apfproxy.settings import DrainSettings, LimitSettings, OverloadSettings, WatchSettings
from tests.end_to_end.peer import WAIT_S, Peer, begin
from tests.end_to_end.scene import (
    GET,
    NARROW,
    OK,
    Hold,
    Scene,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.support.clocks import until

CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
LOG = b"GET /api/v1/namespaces/a/pods/b/log?follow=1 HTTP/1.1\r\nHost: a\r\n\r\n"
WATCH = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
ONE_SEAT = Setup(
    objects=NARROW,
    seats=1,
    watch=WatchSettings(silence_s=0.001),
    drain=DrainSettings(timeout_s=WAIT_S, idle_grace_s=0.01),
)


class Statm:
    def __init__(self, pages: int) -> None:
        self.pages = pages

    def read_bytes(self) -> bytes:
        return b"0 %d 0" % self.pages


async def connected(scene: Scene) -> Peer:
    accepted = scene.process.cluster.counters.listener.connections_accepted
    client = await scene.connect()
    await until(lambda: scene.process.cluster.counters.listener.connections_accepted > accepted)
    return client


async def streaming(scene: Scene, request: bytes) -> Hold:
    hold = await scene.take_seat(request)
    await hold.arrival.peer.send(CHUNKED_OK)
    await hold.client.read_head()
    return hold


@on_uvloop
async def test_sweep_sees_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
    setup = Setup().with_downstream(head_timeout_s=0.05).with_upstream(idle_timeout_s=0.001)
    async with running(setup) as scene:
        silent = await connected(scene)
        hold = await scene.take_seat()
        assert 200 == (await hold.end()).status
        await until(lambda: scene.upstream.ended)

        assert [hold.arrival.peer] == scene.upstream.ended
        assert await silent.is_at_end()


@on_uvloop
async def test_short_memory_closes_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
    setup = Setup().with_downstream(overload=OverloadSettings(memory_bytes=1 << 40))
    async with running(setup) as scene:
        busy, idle = await scene.take_seat(), await connected(scene)
        monkeypatch.setattr(overload_module, "STATM", tmp_statm := Statm(1 << 40))
        assert await idle.is_at_end()
        assert await (await scene.connect()).is_at_end()
        assert 200 == (await busy.end()).status
        assert await busy.client.is_at_end()
        counters = scene.process.cluster.counters
        assert 1 == counters.listener.connections_refused[Refusal.MEMORY]

        tmp_statm.pages = 1
        await until(lambda: not counters.listener.overloads[Refusal.MEMORY])
        await connected(scene)


@pytest.mark.parametrize(
    ("limit", "descriptors", "said", "most", "of_upstream"),
    [
        (5000, 1000, ["at most 372 connections of clients at once, not 5000"], 372, 372),
        (300, 1000, [], 300, 444),
        (LimitSettings().max_connections, 1000, [], 372, 372),
        (None, 296, [], 20, 20),
    ],
)
@on_uvloop
async def test_descriptors(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    limit: int | None,
    descriptors: int,
    said: list[str],
    most: int,
    of_upstream: int,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    setup = Setup().with_downstream(limits=LimitSettings(max_connections=limit))
    async with running(setup) as scene:
        settings = scene.process.cluster.served.pool._settings  # noqa: SLF001  nothing else tells
        assert (most, of_upstream) == (
            scene.process.server.max_connections,
            settings.max_connections,
        )
        assert said == [message.partition(":")[0] for message in caplog.messages]


@on_uvloop
async def test_stop_cuts_everything() -> None:
    async with running(ONE_SEAT) as scene:
        clients = [(await streaming(scene, request)).client for request in (LOG, WATCH)]
        await until(lambda: not scene.level().queue_set.seats_in_use)
        clients.append((await scene.take_seat()).client)
        clients.append(await scene.ask(POST + b"body"))
        await until(lambda: scene.level().queue_set.requests_waiting)
        clients.append(await connected(scene))
        await scene.process.server.stop()

        for client in clients:
            assert await client.is_at_end()
        assert 0 == scene.process.cluster.served.pool.open_count


@on_uvloop
async def test_drain_lets_requests_end() -> None:
    async with running(ONE_SEAT) as scene:
        idle, silent = await scene.take_seat(), await connected(scene)
        await idle.end()
        watches = [await streaming(scene, WATCH) for _ in range(5)]
        await until(lambda: not scene.level().queue_set.seats_in_use)
        busy = await scene.take_seat()
        waiting = [await scene.ask(GET) for _ in range(2)]
        await until(lambda: scene.level().queue_set.requests_waiting == len(waiting))
        draining = begin(scene.process.server.drain())

        assert await idle.client.is_at_end()
        assert await silent.is_at_end()
        for watch in watches:
            assert LAST_CHUNK == await watch.client.read_to_end()
        with pytest.raises(ConnectionRefusedError):
            await Peer.connect(scene.process.port)
        assert not draining.done()
        arrival = busy.arrival
        for client in (busy.client, *waiting):
            await arrival.peer.send(OK)
            answer = await client.read_answer()
            assert (b"ok", b"close") == (answer.body, answer.value(b"connection"))
            assert await client.is_at_end()
            if client is not waiting[-1]:
                arrival = await scene.upstream.next_request()
        scene.close_clients()
        async with asyncio.timeout(WAIT_S):
            await draining


@over_both_protocols
@on_uvloop
async def test_drain_cuts_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with running(replace(ONE_SEAT, drain=DrainSettings(timeout_s=0))) as scene:
        hold = await scene.take_seat()
        async with asyncio.timeout(WAIT_S):
            await scene.process.server.drain()

        assert ["draining: 1 connections are cut"] == caplog.messages
        assert await hold.client.is_at_end()
        await until(lambda: scene.upstream.ended)


def broken(*_: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.interpreted
@pytest.mark.parametrize("is_drain", [True, False], ids=["drain", "stop"])
@on_uvloop
async def test_an_error_at_the_end(monkeypatch: pytest.MonkeyPatch, is_drain: bool) -> None:
    async with running(ONE_SEAT) as scene:
        scene.expects_errors = True
        holds = [await streaming(scene, WATCH) for _ in range(2)]
        server = scene.process.server
        monkeypatch.setattr(Exchange, "end_watch" if is_drain else "on_client_left", broken)
        await (server.drain() if is_drain else server.stop())
        assert 0 == server.connection_count
        assert 2 == scene.process.faults.totals[Part.CONNECTION]
        for hold in holds:
            await hold.client.read_to_end()


PROC = Path("/proc/net/tcp")
LISTENING = " 0A "
"""The state of a socket there."""


def accept_backlog(port: int) -> int:
    address = f"0100007F:{port:04X} "
    rows = [row for row in PROC.read_text().splitlines() if address in row and LISTENING in row]
    return int(rows[0].split()[4].split(":")[1], 16)


@on_uvloop
async def test_drain_answers_those_that_wait_to_be_accepted() -> None:
    with ExitStack() as stack:
        async with running() as scene:
            address = ("127.0.0.1", scene.process.port)
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(3)]
            for client in clients:
                client.sendall(GET)
                client.setblocking(False)
            # The loop has had no turn so far: all of them wait in the kernel, or soon will.
            while accept_backlog(scene.process.port) < len(clients):
                pass
            draining = asyncio.ensure_future(scene.process.server.drain())
            for _ in clients:
                await (await scene.upstream.next_request()).peer.send(OK)
            loop = asyncio.get_running_loop()
            answers = [await loop.sock_recv(client, 1000) for client in clients]
            await draining

    assert [b"HTTP/1.1 200 OK"] * 3 == [answer.partition(b"\r\n")[0] for answer in answers]


@pytest.mark.parametrize(
    ("watches", "rounds", "expected"),
    [
        pytest.param(1, 100, 10, id="at-least-as-kubernetes"),
        pytest.param(100_000, 100, 1000, id="all-within-the-rounds"),
        pytest.param(1001, 100, 11, id="rounded-up"),
        pytest.param(50, 0, 50, id="no-time"),
    ],
)
def test_pace(watches: int, rounds: float, expected: int) -> None:
    assert expected == ended_at_once(watches, rounds)
