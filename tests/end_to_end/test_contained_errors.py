"""Errors of the program itself: each costs one connection, and no one else anything.

The first is the bug that once stood all deadlines still; the others put an error in by hand: into
what a connection calls, because functions of the compiled build cannot be replaced.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest

from apfproxy.base.faults import Part
from apfproxy.base.sockets import Disconnects
from apfproxy.proxy import server as server_module
from apfproxy.settings import Address
from tests.end_to_end.scene import GET, NARROW, OK, Scene, Setup, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.http1_connection import Http1Connection
    from apfproxy.upstream.endpoint import UpstreamConnection
    from tests.end_to_end.peer import Peer

POST = b"POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_GET = GET.replace(b"Host", b"Connection: close\r\nHost")
ONE_SEAT = Setup(objects=NARROW, seats=1)


def totals(scene: Scene) -> dict[Part, int]:
    scene.expects_errors = True
    return {part: total for part, total in scene.process.faults.totals.items() if total}


def broken(*_args: object, **_kwargs: object) -> None:
    raise ZeroDivisionError("a bug")


class Buggy:
    """Stands in for an object: the first call of one method fails, all else is as it was."""

    def __init__(self, real: object, method: str) -> None:
        self._real = real
        self._method = method

    def __getattr__(self, name: str) -> object:
        if name == self._method:
            self._method = ""
            return broken
        return getattr(self._real, name)


def break_part(owner: object, part: str, method: str) -> None:
    setattr(owner, part, Buggy(getattr(owner, part), method))


def context_of(scene: Scene) -> Context:
    return scene.process.cluster.served


def proxy_side(scene: Scene, client: Peer) -> Http1Connection:
    connections = cast("dict[Http1Connection, None]", context_of(scene).listener.connections)
    [found] = [c for c in connections if c.transport.get_extra_info("peername")[1] == client.port]
    return found


def upstream_side(scene: Scene) -> UpstreamConnection:
    [found] = scene.process.cluster.served.pool.endpoints[0].open
    return found


async def connect(scene: Scene) -> tuple[Peer, Http1Connection]:
    count = scene.process.server.connection_count
    client = await scene.connect()
    await until(lambda: scene.process.server.connection_count > count)
    return client, proxy_side(scene, client)


async def connect_unanswerable(scene: Scene) -> Peer:
    client, connection = await connect(scene)
    connection.write = broken
    return client


@on_uvloop
async def test_an_error_at_a_deadline(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It closes its own connections, and is counted for each and logged once; others' come."""
    monkeypatch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
    setup = Setup(objects=NARROW, seats=9).with_downstream(
        request_timeout_s=0.05, idle_timeout_s=0.2, head_timeout_s=0.2
    )
    async with running(setup) as scene:
        clients = [await connect_unanswerable(scene) for _ in range(3)]
        for client in clients:
            await client.send(GET)
            await scene.upstream.next_request()
        idle = await scene.connect()
        begun = await scene.ask(b"GET / HTTP/1.1\r\n")
        for client in clients:
            assert await client.is_at_end()
        assert 0 == scene.level().queue_set.seats_in_use
        assert await idle.is_at_end()
        assert 408 == (await begun.read_answer()).status
        assert {Part.CONNECTION: 3} == totals(scene)
        assert scene.process.health.page("livez", verbose=False).is_healthy

    logged = [each for each in caplog.records if each.name == "apfproxy.base.faults"]
    assert ["connection: an error of the proxy itself: closed"] == [
        each.getMessage() for each in logged
    ]
    assert all(each.exc_info is not None for each in logged)


@on_uvloop
async def test_a_sweep_that_fails_fails_livez(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails is tried again and again; /livez says for how long."""
    monkeypatch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
    monkeypatch.setattr(server_module, "STALE_SWEEP_S", 0.02)
    setup = Setup(admin=Address(host="127.0.0.1", port=0))
    async with running(setup) as scene, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{scene.process.admin_port}/livez"
        async with session.get(url) as response:
            assert 200 == response.status
        with monkeypatch.context() as patch:
            patch.setattr(scene.process.server, "_shared", None)
            await until(lambda: not scene.process.health.page("livez", verbose=False).is_healthy)
            async with session.get(url) as response:
                answer = response.status, await response.text()
            errors = totals(scene)
        await until(lambda: scene.process.health.page("livez", verbose=False).is_healthy)

    assert 500 == answer[0]
    assert re.search(r"\[-\]sweep failed: not done for 0\.\d s; due every 0\.001 s\n", answer[1])
    assert [Part.SWEEP] == list(errors)
    assert 1 < errors[Part.SWEEP]


EVENTS = {
    "answer": (GET, (STREAM,)),
    "body": (GET, (STREAM, b"0\r\n\r\n")),
    "connection": (GET, (STREAM, b"0\r\n\r\nmore")),
    "end": (LAST_GET, (OK,)),
}
"""A request, and the parts of its answer, of which the last one is the event."""


@pytest.mark.parametrize("event", EVENTS)
@on_uvloop
async def test_an_error_in_an_event_of_the_upstream(event: str) -> None:
    """The client of that request is closed and its seat comes back; the next one gets it."""
    request, answer = EVENTS[event]
    async with running(ONE_SEAT) as scene:
        hold = await scene.take_seat(request)
        waiting = await scene.ask(GET)
        await until(lambda: scene.level().queue_set.requests_waiting)
        for part in answer[:-1]:
            await hold.arrival.peer.send(part)
            await hold.client.read_head()
        client = proxy_side(scene, hold.client)
        if event == "answer":
            client.write = broken
        elif event == "body":
            break_part(client, "transport", "write")
        elif event == "connection":
            break_part(upstream_side(scene), "transport", "abort")
        else:
            break_part(client, "transport", "can_write_eof")
        await hold.arrival.peer.send(answer[-1])
        await hold.client.read_to_end()
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await waiting.read_answer()).status
        assert {Part.CONNECTION: 1} == totals(scene)


@pytest.mark.parametrize("event", ["head", "queued", "left"])
@on_uvloop
async def test_an_error_in_an_event_of_the_client(event: str) -> None:
    async with running(ONE_SEAT) as scene:
        hold = await scene.take_seat()
        other, connection = await connect(scene)
        context = context_of(scene)
        if event == "left":
            break_part(context, "clock", "now_ns")
            hold.client.close()
            await until(lambda: not scene.level().queue_set.seats_in_use)
        elif event == "queued":
            break_part(context.flow_control, "clock", "call_at")
        else:
            connection.forget_peer()
            break_part(connection._reader, "_transport", "get_extra_info")  # noqa: SLF001  who asks for it
        if event != "left":
            await other.send(GET)
            assert await other.is_at_end()
            assert 0 == scene.level().queue_set.requests_waiting
            assert 200 == (await hold.end()).status
        assert 200 == (await (await scene.take_seat()).end()).status
        assert {Part.CONNECTION: 1} == totals(scene)


@on_uvloop
async def test_an_error_at_a_dispatch_is_of_the_dispatched() -> None:
    async with running(ONE_SEAT) as scene:
        hold = await scene.take_seat()
        waiting = await scene.ask(GET)
        await until(lambda: scene.level().queue_set.requests_waiting)
        upstream_side(scene).write = broken
        assert 200 == (await hold.end()).status
        assert await waiting.is_at_end()
        assert 0 == scene.level().queue_set.seats_in_use
        await hold.client.send(GET)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await hold.client.read_answer()).status
        assert {Part.CONNECTION: 1} == totals(scene)


@on_uvloop
async def test_an_error_of_who_waits_for_a_connection() -> None:
    """The one in line that fails is closed; the next in line gets a connection."""
    setup = Setup(objects=NARROW, seats=9).with_upstream(max_connections=1)
    async with running(setup) as scene:
        hold = await scene.take_seat()
        first, second = await scene.ask(GET), await scene.ask(GET)
        pool = scene.process.cluster.served.pool
        await until(lambda: pool.waiting_count == 2)
        upstream_side(scene).write = broken
        assert 200 == (await hold.end()).status
        assert await first.is_at_end()
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await second.read_answer()).status
        assert {Part.CONNECTION: 1} == totals(scene)


@on_uvloop
async def test_errors_before_a_request_is_on_its_way() -> None:
    chunked = POST.replace(b"Content-Length: 4", b"Transfer-Encoding: chunked")
    async with running(ONE_SEAT) as scene:
        kinds = scene.process.cluster.kinds
        for _ in range(3):
            assert 200 == (await (await scene.take_seat()).end()).status
            upstream_side(scene).write = broken
            client = await scene.ask(chunked + b"1\r\na\r\n")
            assert await client.is_at_end()
        kinds.usages(scene.process.clock.now_ns())
        client = await scene.ask(chunked + b"0\r\n\r\n")
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await client.read_answer()).status
        counts = [count.count for kind in kinds.kinds for count in (kind.waiting, kind.executing)]
        assert ([0, 0, 0, 0], {Part.CONNECTION: 3}) == (counts, totals(scene))


@on_uvloop
async def test_an_error_at_the_end_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(ONE_SEAT) as scene:
        hold = await scene.take_seat()
        with monkeypatch.context() as patch:
            patch.setattr(Disconnects, "forget", broken)
            hold.client.close()
            await until(lambda: not scene.process.server.connection_count)
        assert 0 == scene.level().queue_set.seats_in_use
        assert 0 == scene.process.cluster.counters.listener.connections_open
        assert {Part.LOOP: 1} == totals(scene)


@on_uvloop
async def test_a_connection_that_was_lost_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process stops although it does not hear of the connection's end."""
    monkeypatch.setattr(server_module, "STOP_S", 0.01)
    async with running(ONE_SEAT) as scene:
        client, connection = await connect(scene)
        connection.transport.set_protocol(asyncio.Protocol())
        client.close()
        await until(connection.transport.is_closing)
        await scene.process.stop()
        connection.connection_lost(None)
    assert "stopping without 1 connections that do not end" in caplog.messages
