"""Flow control on the wire: seats, queues, rejections, watches, and what requests cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apfproxy.settings import OBSERVE, WatchSettings
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import (
    GATHERED_BYTES,
    GET,
    NARROW,
    OK,
    REJECTING,
    Scene,
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
    """One chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def watching(**seconds: float) -> Setup:
    """One seat, and times after which a watch gives it back; those left out never come."""
    times = {"silence_s": FOREVER_S, "limit_s": FOREVER_S, "bookmark_limit_s": FOREVER_S}
    return replace(ONE_SEAT, watch=WatchSettings(**{**times, **seconds}))


async def expect_free_seat(scene: Scene) -> None:
    """Another request gets the only seat, and an answer."""
    hold = await scene.take_seat()
    assert b"ok" == (await hold.end()).body


@pytest.mark.parametrize("objects", [NARROW, REJECTING], ids=["queue", "reject"])
@over_both_protocols
@on_uvloop
async def test_observing_neither_delays_nor_rejects(objects: str) -> None:
    """All requests are at the upstream at once; what would have become of them is counted."""
    async with running(Setup(objects=objects, seats=1, enforcement="observe")) as scene:
        holds = [await scene.take_seat() for _ in range(4)]
        queue_set = scene.level().queue_set
        waiting = 2 if objects is NARROW else 0
        assert (1, waiting, 3 - waiting) == (
            queue_set.requests_executing,
            queue_set.requests_waiting,
            queue_set.rejected_total,
        )
        for hold in holds:
            answer = await hold.end()
            assert (200, b"ok") == (answer.status, answer.body)
        await until(lambda: queue_set.is_idle)
        assert 1 + waiting == queue_set.dispatched_total


@over_both_protocols
@on_uvloop
async def test_requests_wait_for_seats() -> None:
    """With one seat the upstream has one request at a time, in the order of their arrival."""
    async with running(ONE_SEAT) as scene:
        first = await scene.take_seat()
        clients = []
        for number in (1, 2):
            clients.append(await scene.ask(GET.replace(b"healthz", b"%d" % number)))
            waiting = number
            await until(lambda: scene.level().queue_set.requests_waiting == waiting)  # noqa: B023  run at once
        assert scene.upstream.is_quiet
        await first.end()
        for number, client in enumerate(clients, start=1):
            arrival = await scene.upstream.next_request()
            assert b"GET /%d HTTP/1.1" % number == arrival.request.line
            assert scene.upstream.is_quiet
            await arrival.peer.send(OK)
            assert 200 == (await client.read_answer()).status


@pytest.mark.parametrize("objects", [NARROW, REJECTING], ids=["queue-full", "concurrency-limit"])
@over_both_protocols
@on_uvloop
async def test_a_rejection(objects: str) -> None:
    """What does not fit gets Kubernetes' 429, and its connection goes on."""
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
async def test_a_rejected_head_request() -> None:
    """A 429 to HEAD has no body, so that the next answer is not taken for it."""
    async with running(Setup(objects=REJECTING, seats=1)) as scene:
        hold = await scene.take_seat()
        client = await scene.ask(GET.replace(b"GET", b"HEAD"))
        answer = await client.read_answer(to_head=True)
        await hold.end()
        await client.send(GET)
        await (await scene.upstream.next_request()).peer.send(OK)

        assert (429, b"43") == (answer.status, answer.value(b"content-length"))
        assert 200 == (await client.read_answer()).status


@over_both_protocols
@on_uvloop
async def test_a_rejected_body_is_thrown_away() -> None:
    """The body of a rejected request reaches nobody, and the next request is understood."""
    async with running(Setup(objects=REJECTING, seats=1)) as scene:
        hold = await scene.take_seat()
        client = await scene.ask(
            b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
            + b"x" * GATHERED_BYTES
        )
        assert 429 == (await client.read_answer()).status
        await client.send(b"x" * (100_000 - GATHERED_BYTES) + GET)
        assert 429 == (await client.read_answer()).status
        await hold.end()
        await client.send(GET)
        await (await scene.upstream.next_request()).peer.send(OK)

        assert 200 == (await client.read_answer()).status


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
        pytest.param(
            WATCH, STREAM + chunk(EVENT), watching(silence_s=0.01), id="silence-after-events"
        ),
        pytest.param(WATCH, STREAM, watching(limit_s=0.01), id="limit"),
        pytest.param(WATCH, STREAM + chunk(EVENT), watching(limit_s=0.01), id="limit-with-events"),
        pytest.param(
            WATCH_LIST, STREAM + chunk(EVENT), watching(bookmark_limit_s=0.01), id="no-bookmark"
        ),
        pytest.param(WATCH_LIST, STREAM + chunk(BOOKMARK), watching(), id="bookmark"),
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
        await expect_free_seat(scene)
        await hold.arrival.peer.send(b"0\r\n\r\n")

        assert 200 == (await hold.client.read_answer()).status


@over_both_protocols
@on_uvloop
async def test_a_watch_that_ends_early_gives_its_seat_back_once() -> None:
    """A watch that fails, or that ends within its initial events, frees its seat at its end."""
    async with running(watching()) as scene:
        for answer in (
            OK.replace(b"200 OK", b"410 Gone"),
            STREAM + chunk(EVENT) + b"0\r\n\r\n",
        ):
            hold = await scene.take_seat(WATCH)
            await hold.end(answer)
            await expect_free_seat(scene)

        assert 0 == scene.level().queue_set.seats_in_use


def estimates(scene: Scene) -> list[tuple[int, int]]:
    """Initial and final seats of what executes."""
    return [
        (ticket.estimate.initial_seats, ticket.estimate.final_seats)
        for level in scene.process.cluster.controller.levels.values()
        for ticket in level.queue_set.executing
    ]


@over_both_protocols
@on_uvloop
async def test_large_lists_cost_more() -> None:
    """After a LIST of 1 MB the next one of its kind needs the seats of 1 MB, others do not."""
    listing = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running(Setup(objects=NARROW)) as scene:
        found = []
        for target in (b"pods", b"pods", b"pods/x", b"nodes", b"namespaces/a/pods"):
            hold = await scene.take_seat(listing.replace(b"pods", target))
            found.append(estimates(scene))
            size = 1_000_000 if target == b"pods" else 100
            reading = begin(hold.client.read_answer())
            await hold.arrival.peer.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
            )
            await reading

        assert [[(1, 0)], [(10, 0)], [(1, 0)], [(1, 0)], [(1, 0)]] == found


@over_both_protocols
@on_uvloop
async def test_watched_writes_cost_more() -> None:
    """A write that many open watches hear of keeps final seats; ended watches count no more."""
    write = b"DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running(replace(watching(silence_s=0.001), seats=600)) as scene:
        watches = []
        found = []
        for _ in range(20):
            watch = await scene.take_seat(WATCH)
            await scene.deliver_answer(watch.arrival.peer, STREAM)
            watches.append(watch)
        await until(lambda: not estimates(scene))
        for _ in range(2):
            hold = await scene.take_seat(write)
            found.append(estimates(scene))
            await hold.end()
            for watch in watches:
                await watch.client.leave()
            await until(lambda: scene.process.cluster.counters.client_aborts == len(watches))

        assert [[(1, 2)], [(1, 0)]] == found


@over_both_protocols
@on_uvloop
async def test_the_next_request_on_a_connection_that_is_only_observed() -> None:
    """Its client would still wait for the response before: it takes no place in the queue."""
    async with running(Setup(objects=NARROW, seats=1, enforcement=OBSERVE)) as scene:
        hold = await scene.take_seat()
        client = await scene.connect()
        for _ in range(4):
            await client.send(GET)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(OK)
            assert 200 == (await client.read_answer()).status
        queue_set = scene.level().queue_set
        assert (1, 1, 0) == (
            queue_set.requests_executing,
            queue_set.requests_waiting,
            queue_set.rejected_total,
        )
        await hold.end()
        # One after the other they enter, and have the seat for as long as they needed it.
        await until(lambda: queue_set.is_idle and queue_set.dispatched_total == 1 + 4)
