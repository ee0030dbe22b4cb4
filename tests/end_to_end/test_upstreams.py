"""Connections to the upstream as the kernel has them: how they fail, and how clients leave."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import Address, EndpointAddress
from tests.end_to_end.peer import Message, Peer, begin
from tests.end_to_end.scene import (
    GATHERED_BYTES,
    NARROW,
    OK,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.end_to_end.upstream import Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POD = b"/api/v1/namespaces/a/pods/b"
GET = b"GET %b HTTP/1.1\r\nHost: a.test\r\n\r\n" % POD


def reason_of(answer: Message) -> str:
    body = json.loads(answer.body)
    assert [b"application/json"] == answer.values(b"content-type")
    assert ("Status", "v1", "Failure", answer.status) == (
        *(body["kind"], body["apiVersion"], body["status"], body["code"]),
    )
    return str(body["reason"])


@pytest.fixture
def deaf_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with socket.create_connection(listener.getsockname()):
            yield listener.getsockname()[1]


@over_both_protocols
@on_uvloop
async def test_no_connection_in_time(deaf_port: int) -> None:
    """An upstream that does not take a connection in time is a 504."""
    setup = Setup().with_upstream(connect_timeout_s=0.02)
    async with running(setup, upstream_port=deaf_port) as scene:
        answer = await (await scene.ask(GET)).read_answer()

    said = "no connection to the upstream within 0.02 s (upstream.connectTimeout)"
    assert (504, "Timeout") == (answer.status, reason_of(answer))
    assert said in answer.body.decode()


@pytest.mark.parametrize("end", [Peer.close, Peer.reset])
@over_both_protocols
@on_uvloop
async def test_an_upstream_that_ends(end: Callable[[Peer], None]) -> None:
    """An end or a reset in place of a response is a 502; the client's connection goes on."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.connect()
        for _ in range(2):
            await client.send(GET)
            upstream = await scene.upstream.next_connection()
            await upstream.read_head()
            end(upstream)
            answer = await client.read_answer()

            assert (502, "InternalError") == (answer.status, reason_of(answer))
            # Nothing says whether the server has done it: it is not to be sent again.
            assert None is answer.value(b"retry-after")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        pytest.param(b"GET " + POD + b"/log", (200, 2), id="safe"),
        pytest.param(b"DELETE " + POD, (502, 1), id="delete"),
        pytest.param(b"GET " + POD + b"/exec?command=reboot", (502, 1), id="exec"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_no_command_runs_twice(line: bytes, outcome: tuple[int, int]) -> None:
    """The server that broke may have run it, so another one gets safe requests only."""
    second = Upstream()
    second.start()
    async with running() as scene:
        scene.process.cluster.served.pool.set_endpoints(
            EndpointAddress(address=Address(host="127.0.0.1", port=port))
            for port in (scene.upstream.port, second.port)
        )
        client = await scene.ask(line + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        asked = [begin(each.next_request()) for each in (scene.upstream, second)]
        (first,), (other,) = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        first.result().peer.close()
        answer = begin(client.read_answer())
        await asyncio.wait([other, answer], return_when=asyncio.FIRST_COMPLETED)
        count = 1 + other.done()
        if other.done():
            await other.result().peer.send(OK)
        other.cancel()
        status = (await answer).status
        await second.stop()

    assert outcome == (status, count)


@over_both_protocols
@on_uvloop
async def test_a_client_that_leaves_cancels_its_request(deaf_port: int) -> None:
    """Its seats are free, and it waits for nothing, before a response, during one, and before."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        queue_set = scene.level().queue_set
        for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"):
            hold = await scene.take_seat()
            await scene.deliver_answer(hold.arrival.peer, answer)
            assert 1 == queue_set.seats_in_use
            await hold.client.leave()
            await until(lambda: not queue_set.requests_executing)
            await until(lambda: scene.upstream.ended == scene.upstream.peers)

        assert (0, 2) == (queue_set.seats_in_use, scene.process.cluster.counters.client_aborts)
    async with running(upstream_port=deaf_port) as scene:
        client = await scene.ask(GET)
        pool = scene.process.cluster.served.pool
        await until(lambda: pool.waiting_count)
        await client.leave()
        await until(lambda: not pool.waiting_count)


@pytest.mark.parametrize("leave", [Peer.close, Peer.reset, Peer.end_sending])
@over_both_protocols
@on_uvloop
async def test_a_queued_client_that_leaves_frees_its_place(leave: Callable[[Peer], None]) -> None:
    """Its request is never sent, and the next in line goes on."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        queue_set = scene.level().queue_set
        hold = await scene.take_seat()
        gone = await scene.ask(GET.replace(POD, b"/gone"))
        await until(lambda: queue_set.requests_waiting == 1)
        following = await scene.ask(GET.replace(POD, b"/following"))
        await until(lambda: queue_set.requests_waiting == 2)
        leave(gone)
        await until(lambda: queue_set.requests_waiting == 1)
        await hold.end()
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        await following.read_answer()

        assert b"GET /following HTTP/1.1" == arrival.request.line
        assert (1, 0) == (queue_set.cancelled_total, queue_set.rejected_total)


@over_both_protocols
@on_uvloop
async def test_a_client_that_leaves_in_its_body() -> None:
    """A request that will never be whole is not completed at the upstream."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
            + b"x" * GATHERED_BYTES
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        await upstream.read_exactly(GATHERED_BYTES)
        await client.leave()

        assert await upstream.is_at_end()
