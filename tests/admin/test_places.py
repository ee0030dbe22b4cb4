"""Tests of who gets a place of a listener, who keeps it, and who has to make way."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apfproxy.admin.places import ANSWER_NS, HEAD_NS, IDLE_NS, STALLED_NS, Ending, Place, Places
from apfproxy.admin.web import WebListener


def transport() -> Any:  # noqa: ANN401 - with what a test sets
    return Mock(
        asyncio.Transport,
        get_write_buffer_size=Mock(return_value=0),
        get_extra_info=Mock(return_value=None),
    )


class Site:
    def __init__(self, connections: int = 3, lasting: int = 2) -> None:
        self.now_ns = 1000
        self.places = Places("test", connections, lambda: self.now_ns)
        self.places.limit, self.places.lasting_limit = connections, lasting
        self.listener = WebListener(web.Application(), self.places, shutdown_s=1)

    def connect(self, address: str = "192.0.2.1") -> Client:
        return Client(self, address)


class Client:
    def __init__(self, site: Site, address: str) -> None:
        self.inner: Any = Mock(ssl_context=None, peername=None, sockname=None, transport=None)
        self.transport = transport()
        self.place = Place(site.places, self.inner, address)
        self._site = site
        self._answered = asyncio.Event()
        self.place.connection_made(self.transport)

    def ask(self, target: str = "/metrics") -> asyncio.Task[web.StreamResponse]:
        """Have a request handled until `answer`."""

        async def handler(_request: web.Request) -> web.StreamResponse:
            await self._answered.wait()
            return web.Response(text="well")

        request = make_mocked_request("GET", target, transport=self.transport, protocol=self.inner)
        return asyncio.ensure_future(self._site.listener.handle(request, handler))

    def answer(self) -> None:
        self._answered.set()


async def test_passes_everything_on() -> None:
    site = Site()
    client = site.connect()
    place = client.place
    place.data_received(b"GET")
    place.pause_writing()
    place.resume_writing()
    place.eof_received()
    place.connection_lost(None)

    assert [
        *("connection_made", "data_received", "pause_writing", "resume_writing", "eof_received"),
        "connection_lost",
    ] == [name for name, *_ in client.inner.method_calls]
    assert 0 == len(site.places)


async def test_the_longest_idle_makes_way() -> None:
    site = Site()
    clients = []
    for site.now_ns in (1, 2, 3):
        clients.append(site.connect())
    task = clients[0].ask()
    await asyncio.sleep(0)
    new = site.connect()

    assert [False, True, False] == [client.transport.abort.called for client in clients]
    new.inner.connection_made.assert_called_once()
    assert (3, 1) == (len(site.places), site.places.ended[Ending.REPLACED])
    clients[1].place.connection_lost(None)
    assert 3 == len(site.places)
    clients[0].answer()
    await task


@pytest.mark.parametrize(
    ("addresses", "cut"),
    [
        pytest.param("1 2 2 3", [1], id="has-most"),
        pytest.param("-1 -1 2 1 3 4", [2], id="had-most-but-closed-them"),
        pytest.param("1 2 3 4", [0], id="idle-for-longest"),
    ],
)
async def test_address_that_makes_way(addresses: str, cut: list[int]) -> None:
    site = Site()
    clients = []
    for address in addresses.split():
        site.now_ns += 1
        clients.append(site.connect(address.removeprefix("-")))
        if address.startswith("-"):
            clients[-1].place.connection_lost(None)

    assert cut == [number for number, each in enumerate(clients) if each.transport.abort.called]


async def test_the_oldest_request_makes_way() -> None:
    site = Site()
    clients = [site.connect() for _ in range(3)]
    tasks = []
    for client, target in zip(clients, ("/events", "/a", "/b"), strict=True):
        site.now_ns += 1
        tasks.append(client.ask(target))
        await asyncio.sleep(0)
    site.now_ns += 1
    new = site.connect()
    assert [False, True, False] == [client.transport.abort.called for client in clients]

    newer = site.connect()
    assert [False, True, True] == [client.transport.abort.called for client in clients]
    site.now_ns += IDLE_NS
    newer.place.connection_lost(None)
    tasks.append(newer.ask())
    site.connect()
    site.connect()
    assert new.transport.abort.called
    assert 3 == site.places.ended[Ending.REPLACED]
    for client in (*clients, newer):
        client.answer()
    await asyncio.gather(*tasks)


async def test_answers_that_last() -> None:
    site = Site(connections=4, lasting=1)
    first, second = site.connect(), site.connect()
    task = first.ask("/events")
    await asyncio.sleep(0)
    assert "<Place of 192.0.2.1, handling>" == repr(first.place)
    refused = await second.ask("/apis/apps/v1/deployments?watch=1")
    first.place.connection_lost(None)
    first.answer()
    taken = await task
    again = site.connect()
    again.answer()

    assert (503, "1") == (refused.status, refused.headers["Retry-After"])
    assert [200, 200] == [taken.status, (await again.ask("/events")).status]
    assert 1 == site.places.ended[Ending.LONG_LIVED]


@pytest.mark.parametrize(
    ("target", "is_answered", "unsent", "cut_after_ns"),
    [
        pytest.param("", False, 0, HEAD_NS, id="says-nothing"),
        pytest.param("/metrics", False, 0, ANSWER_NS, id="is-handled"),
        pytest.param("/metrics", True, 1, ANSWER_NS, id="does-not-take-its-response"),
        pytest.param("/events", False, 0, None, id="gets-events"),
        pytest.param("/metrics", True, 0, None, id="has-its-response"),
    ],
)
async def test_late(target: str, is_answered: bool, unsent: int, cut_after_ns: int | None) -> None:
    """A head, and a response with its taking, have a time; what lasts or is idle has not."""
    site = Site()
    client = site.connect()
    if is_answered:
        client.answer()
    if target:
        task = client.ask(target)
        await (task if is_answered else asyncio.sleep(0))
    client.transport.get_write_buffer_size.return_value = unsent
    site.now_ns += cut_after_ns or 10 * ANSWER_NS
    site.places.sweep()
    assert not client.transport.abort.called
    site.now_ns += 1
    site.places.sweep()
    client.answer()
    await asyncio.sleep(0)

    assert (cut_after_ns is not None) == client.transport.abort.called
    assert int(cut_after_ns is not None) == site.places.ended[Ending.LATE]


async def test_handshakes() -> None:
    """One has a place from its beginning, makes way as others do, and is cut if it takes long."""
    site = Site(connections=2)
    stalled, late = (Place(site.places, Mock(), "192.0.2.9") for _ in range(2))
    for each in (stalled, late):
        each.handshake = asyncio.get_running_loop().create_future()
    late.began_ns = late.idle_ns = site.now_ns = 1001
    client = site.connect()
    first = [each.handshake is not None and each.handshake.cancelled() for each in (stalled, late)]
    # It came to its end nevertheless, in the same moment.
    ended = transport()
    stalled.connection_made(ended)
    stalled.connection_lost(None)
    site.now_ns += HEAD_NS + 1
    client.place.connection_lost(None)
    site.places.sweep()

    assert [True, False] == first
    assert ended.abort.called
    assert late.handshake is not None
    assert late.handshake.cancelled()
    assert 0 == len(site.places)
    assert {Ending.REPLACED: 1, Ending.LATE: 1, Ending.HANDSHAKE: 0, Ending.LONG_LIVED: 0} == (
        site.places.ended
    )


@pytest.mark.parametrize(
    ("sizes", "is_cut"),
    [((7, 7, 7), True), ((7, 5, 7), False), ((7, 0, 7), False), ((0, 0, 0), False)],
)
async def test_stalled(sizes: tuple[int, ...], is_cut: bool) -> None:
    """A client that takes nothing of what lasts is cut; one that takes some of it is not."""
    site = Site()
    client = site.connect()
    task = client.ask("/events")
    await asyncio.sleep(0)
    for size in sizes:
        client.transport.get_write_buffer_size.return_value = size
        site.places.sweep()
        site.now_ns += STALLED_NS // 2 + 1
    site.places.sweep()
    client.answer()
    await task

    assert is_cut == client.transport.abort.called


async def test_nothing_keeps_the_bytes_of_a_malformed_head() -> None:
    place = Place(Places("test", 8, lambda: 0), web.Server(seen)(), "192.0.2.1")
    head = b"GET / HTTP/1.1\r\nBad Field: " + bytes(1000)
    before = sys.getrefcount(head)
    gc.disable()
    try:
        place.connection_made(transport())
        place.data_received(head)
        place.connection_lost(None)
        assert before == sys.getrefcount(head)
    finally:
        gc.enable()


async def seen(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response()


@pytest.mark.parametrize(
    ("limit", "expected"), [(64, (64, 48)), (32, (32, 24)), (-5, (8, 6)), (1000, (1000, 984))]
)
def test_limits(limit: int, expected: tuple[int, int]) -> None:
    """A part is kept for short responses, and there are never too few."""
    places = Places("test", limit, lambda: 0)

    assert expected == (places.limit, places.lasting_limit)
