"""Clients that leave while nothing is read of them: over real sockets, plain and with TLS."""

from __future__ import annotations

import os
import select
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec import structs

from apfproxy.base import sockets
from apfproxy.base.sockets import Disconnects
from apfproxy.settings import DownstreamTlsSettings
from loadtest.certificates import Authority
from tests.end_to_end.scene import GET, NARROW, Setup, on_uvloop, running
from tests.end_to_end.secure_peer import SecurePeer, client_context
from tests.support.clocks import until

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.peer import Peer
    from tests.end_to_end.scene import Scene

ONE_SEAT = Setup(objects=NARROW, seats=1)
POST = b"POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 150000\r\n\r\n" + bytes(100_000)
"""The start of a body of which the proxy takes no more than it needs to admit its request."""
LONG_POST = POST.replace(b"150000", b"3000000") + bytes(900_000)
"""One that a TLS transport does not take either: it reads half a mebibyte in advance."""
WAYS_TO_LEAVE = ("close", "reset", "end_sending")


@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
@on_uvloop
async def test_queued_request(way: str) -> None:
    async with running(ONE_SEAT) as scene:
        await _leave_the_queue(scene, await scene.connect(), way)


@pytest.mark.parametrize("way", ["close", "reset"])
@on_uvloop
async def test_queued_request_over_tls(way: str, tmp_path: Path) -> None:
    authority = Authority("ca")
    certificate, key = authority.issue("server", usage="server").write(tmp_path, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    setup = replace(ONE_SEAT, downstream=structs.replace(ONE_SEAT.downstream, tls=tls))
    async with running(setup) as scene:
        holder = await SecurePeer.of(await scene.connect(), client_context(authority))
        await holder.send(GET)
        await scene.upstream.next_request()
        client = await SecurePeer.of(await scene.connect(), client_context(authority))
        await _leave_the_queue(scene, client, way, is_taken=True)


async def _leave_the_queue(scene: Scene, client: Peer, way: str, *, is_taken: bool = False) -> None:
    if not is_taken:
        await scene.take_seat()
    queue_set = scene.level().queue_set
    await client.send(LONG_POST if is_taken else POST)
    await until(lambda: queue_set.requests_waiting == 1)

    getattr(client, way)()

    await until(lambda: queue_set.requests_waiting == 0)
    assert 1 == scene.process.cluster.counters.client_aborts


@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
@on_uvloop
async def test_pipelined_requests(way: str) -> None:
    async with running(ONE_SEAT) as scene:
        queue_set = scene.level().queue_set
        client = await scene.connect()
        # More than the proxy keeps, so that it reads no more until the first is answered.
        await scene.deliver(client, GET, GET * (40_000 // len(GET)))
        await scene.upstream.next_request()

        getattr(client, way)()

        await until(lambda: queue_set.requests_executing == 0)
        await until(lambda: scene.process.server.connection_count == 0)
        assert scene.upstream.is_quiet
        assert 1 == queue_set.dispatched_total


@on_uvloop
async def test_client_that_stays() -> None:
    async with running(ONE_SEAT) as scene:
        hold = await scene.take_seat()
        queue_set = scene.level().queue_set
        client = await scene.ask(POST)
        await until(lambda: queue_set.requests_waiting == 1)

        await hold.end()
        await client.send(bytes(50_000))
        arrival = await scene.upstream.next_request()

        assert 150_000 == len(arrival.request.body)
        await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert 200 == (await client.read_answer()).status


class FakeLoop:
    """Has readers by their descriptors."""

    def __init__(self) -> None:
        self.readers: dict[int, Any] = {}
        self.add_reader = self.readers.__setitem__
        self.remove_reader = self.readers.__delitem__


class FakeTransport:
    """A transport that is not read, and its other end."""

    def __init__(self) -> None:
        self.socket, self.other = socket.socketpair()
        self.disconnects = 0

    def get_extra_info(self, name: str) -> object:
        return {"socket": self.socket}[name]

    def on_disconnect(self) -> None:
        self.disconnects += 1


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def clients() -> Iterator[tuple[Any, Any]]:
    both = FakeTransport(), FakeTransport()
    yield both
    for client in both:
        client.socket.close()
        client.other.close()


@pytest.fixture
def disconnects(loop: FakeLoop) -> Disconnects:
    return Disconnects(cast("asyncio.AbstractEventLoop", loop))


def test_a_descriptor_that_another_has_by_now(
    loop: FakeLoop, disconnects: Disconnects, clients: tuple[Any, Any]
) -> None:
    old, new = clients
    disconnects.watch(old, old.on_disconnect)
    descriptor = old.socket.fileno()
    old.socket.close()
    os.dup2(new.socket.fileno(), descriptor)
    new.socket.close()
    new.socket = socket.socket(fileno=descriptor)
    disconnects.watch(new, new.on_disconnect)
    disconnects.forget(old)
    new.other.close()
    for callback in list(loop.readers.values()):
        callback()

    assert (0, 1) == (old.disconnects, new.disconnects)
    disconnects.close()
    assert {} == loop.readers


def test_closed_before_it_is_forgotten(
    loop: FakeLoop, disconnects: Disconnects, clients: tuple[Any, Any]
) -> None:
    client, other = clients
    disconnects.watch(client, client.on_disconnect)
    client.socket.close()
    disconnects.forget(client)
    disconnects.watch(client, client.on_disconnect)
    disconnects.watch(other, other.on_disconnect)
    other.other.close()
    for callback in loop.readers.values():
        callback()

    assert (0, 1) == (client.disconnects, other.disconnects)
    disconnects.close()


def test_without_epoll(
    loop: FakeLoop,
    disconnects: Disconnects,
    clients: tuple[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "HAS_EPOLL", False)
    monkeypatch.delattr(select, "epoll")
    disconnects.watch(clients[0], clients[0].on_disconnect)
    disconnects.close()

    assert {} == loop.readers
