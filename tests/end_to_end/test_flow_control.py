"""Flow control on the wire: seats, queues, rejections, watches, watched writes."""

from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest

from apfproxy.settings import Address, WatchSettings
from tests.end_to_end.scene import (
    GET,
    NARROW,
    OK,
    REJECTING,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.support.clocks import until

FOREVER_S = 1000.0
ONE_SEAT = Setup(objects=NARROW, seats=1)
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: a\r\n\r\n"
WATCH_LIST = WATCH.replace(b"true", b"true&sendInitialEvents=true&allowWatchBookmarks=true")
EVENT = b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}\n'
BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"annotations":'
    b'{"k8s.io/initial-events-end":"true"}}}}\n'
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def watching(**seconds: float) -> Setup:
    times = {"silence_s": FOREVER_S, "limit_s": FOREVER_S, "bookmark_limit_s": FOREVER_S}
    return replace(ONE_SEAT, watch=WatchSettings(**{**times, **seconds}))


@over_both_protocols
@on_uvloop
async def test_requests_go_as_explained() -> None:
    """With one seat the upstream has one request at a time, in the order of their arrival."""
    setup = replace(ONE_SEAT, admin=Address(host="127.0.0.1", port=0))
    async with running(setup) as scene, aiohttp.ClientSession() as session:
        queue_set = scene.level().queue_set
        page = f"http://127.0.0.1:{scene.process.admin_port}/debug/explain"
        clients, explained = [], []
        for number in range(4):
            query = {"method": "GET", "target": f"/{number}", "user": "system:anonymous"}
            async with session.get(page, params=query) as response:
                outcome = (await response.json())["outcome"]
            explained.append((outcome["decision"], outcome.get("ahead", 0)))
            clients.append(await scene.ask(GET.replace(b"healthz", b"%d" % number)))
            expected = min(number, 2)
            await until(lambda: queue_set.requests_waiting == expected)  # noqa: B023  run at once
        assert 429 == (await clients[3].read_answer()).status
        for number, client in enumerate(clients[:3]):
            arrival = await scene.upstream.next_request()
            assert b"GET /%d HTTP/1.1" % number == arrival.request.line
            assert scene.upstream.is_quiet
            await arrival.peer.send(OK)
            assert 200 == (await client.read_answer()).status

    assert [("execute", 0), ("wait", 0), ("wait", 1), ("reject", 2)] == explained


@pytest.mark.parametrize("objects", [NARROW, REJECTING], ids=["queue-full", "concurrency-limit"])
@over_both_protocols
@on_uvloop
async def test_a_rejection(objects: str) -> None:
    async with running(Setup(objects=objects, seats=1)) as scene:
        hold = await scene.take_seat()
        if objects is NARROW:
            for waiting in (1, 2):
                await scene.ask(GET)
                await until(lambda: scene.level().queue_set.requests_waiting == waiting)  # noqa: B023  run at once
        client = await scene.ask(GET)
        answer = await client.read_answer()

        assert b"HTTP/1.1 429 Too Many Requests" == answer.line
        assert b"Too many requests, please try again later.\n" == answer.body
        assert b"text/plain; charset=utf-8" == answer.value(b"content-type")
        assert b"1" == answer.value(b"retry-after")
        assert b"nosniff" == answer.value(b"x-content-type-options")
        assert None is answer.value(b"connection")
        scene.close_clients_but(client)
        await until(lambda: not scene.level().queue_set.requests_executing)
        await client.send(GET)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await client.read_answer()).status
        assert hold.arrival.peer in scene.upstream.ended


@over_both_protocols
@on_uvloop
async def test_a_watch_gives_its_seat_back_at_the_bookmark() -> None:
    """A watch that asked for initial events keeps its seat up to the bookmark that ends them."""
    async with running(watching()) as scene:
        hold = await scene.take_seat(WATCH_LIST)
        queue_set = scene.level().queue_set
        await scene.deliver_answer(hold.arrival.peer, STREAM + chunk(EVENT), chunk(EVENT))
        assert 1 == queue_set.seats_in_use
        waiting = await scene.ask(GET)
        await until(lambda: queue_set.requests_waiting)
        cut = len(BOOKMARK) // 2 + 20
        await scene.deliver_answer(hold.arrival.peer, chunk(BOOKMARK[:cut]))
        assert 1 == queue_set.requests_waiting
        await scene.deliver_answer(hold.arrival.peer, chunk(BOOKMARK[cut:]))
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await waiting.read_answer()).status

        await hold.arrival.peer.send(chunk(EVENT))
        await hold.client.read_head()
        got = b"".join([await hold.client.read_chunk() for _ in range(5)])
        assert EVENT + EVENT + BOOKMARK + EVENT == got


@pytest.mark.parametrize(
    ("request_", "answer", "setup"),
    [
        pytest.param(WATCH, STREAM, watching(silence_s=0.01), id="silence"),
        pytest.param(WATCH, STREAM + chunk(EVENT), watching(limit_s=0.01), id="limit"),
        pytest.param(
            WATCH_LIST, STREAM + chunk(EVENT), watching(bookmark_limit_s=0.01), id="no-bookmark"
        ),
    ],
)
@over_both_protocols
@on_uvloop
async def test_a_watch_gives_its_seat_back(request_: bytes, answer: bytes, setup: Setup) -> None:
    """A silence after the head, or the limit, ends the initial events; then the seat is free."""
    async with running(setup) as scene:
        hold = await scene.take_seat(request_)
        assert 1 == scene.level().queue_set.seats_in_use
        await scene.deliver_answer(hold.arrival.peer, answer)
        await until(lambda: not scene.level().queue_set.requests_executing)
        assert b"ok" == (await (await scene.take_seat()).end()).body
        await hold.arrival.peer.send(b"0\r\n\r\n")

        assert 200 == (await hold.client.read_answer()).status
