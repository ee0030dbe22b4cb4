"""Connections to the upstream: kept, bounded, closed, and what a client hears when one fails."""

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

POST = b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
PATH = b"api/v1/namespaces/a/pods/b"
GET = b"GET /%b HTTP/1.1\r\nHost: a.test\r\n\r\n" % PATH
NO_ANSWER = "the upstream did not answer"


def status_of(answer: Message) -> tuple[object, ...]:
    """What the Status body of a failure says: kind, version, status, reason, code."""
    body = json.loads(answer.body)
    assert [b"application/json"] == answer.values(b"content-type")
    assert answer.status == body["code"]
    return body["kind"], body["apiVersion"], body["status"], body["reason"], body["code"]


BAD_GATEWAY = ("Status", "v1", "Failure", "InternalError", 502)
TIMEOUT = ("Status", "v1", "Failure", "Timeout", 504)


@over_both_protocols
@on_uvloop
async def test_connections_are_used_again() -> None:
    """Clients one after the other share one connection to the upstream."""
    async with running() as scene:
        for _ in range(3):
            await scene.exchange(GET)

        assert 1 == len(scene.upstream.peers)
        assert 1 == scene.process.cluster.served.pool.idle_count


@over_both_protocols
@on_uvloop
async def test_connections_are_bounded() -> None:
    """Requests that find all connections busy wait for one, in their order."""
    async with running(Setup().with_upstream(max_connections=2)) as scene:
        holds = [await scene.take_seat() for _ in range(2)]
        clients = []
        for number in range(3):
            clients.append(await scene.ask(GET.replace(PATH, b"%d" % number)))
            waiting = number + 1
            await until(lambda: scene.process.cluster.served.pool.waiting_count == waiting)  # noqa: B023  run at once
        targets = []
        await holds[0].end()
        for client in clients:
            arrival = await scene.upstream.next_request()
            targets.append(arrival.request.line)
            await arrival.peer.send(OK)
            await client.read_answer()
        await holds[1].end()

        assert [b"GET /%d HTTP/1.1" % number for number in range(3)] == targets
        assert 2 == len(scene.upstream.peers)


@over_both_protocols
@on_uvloop
async def test_idle_connections_are_closed() -> None:
    """A connection to the upstream that has been idle for the limit is closed."""
    async with running(Setup().with_upstream(idle_timeout_s=0.001)) as scene:
        await scene.exchange(GET)
        await until(lambda: scene.upstream.ended == scene.upstream.peers)

        assert 0 == scene.process.cluster.served.pool.open_count
        await scene.exchange(GET)
        assert 2 == len(scene.upstream.peers)


@over_both_protocols
@on_uvloop
async def test_a_connection_that_says_something_unasked_is_closed() -> None:
    """Bytes on an idle connection never become the answer to the next request."""
    async with running() as scene:
        await scene.exchange(GET)
        await scene.upstream.peers[0].send(OK.replace(b"ok", b"no"))
        await until(lambda: scene.upstream.ended)
        _, answer = await scene.exchange(GET)

        assert (b"ok", 2) == (answer.body, len(scene.upstream.peers))


@over_both_protocols
@on_uvloop
async def test_more_than_was_announced_is_not_passed_on() -> None:
    """What follows an answer's end reaches nobody, and its connection is not used again."""
    async with running() as scene:
        _, first = await scene.exchange(GET, OK + OK.replace(b"ok", b"no"))
        _, second = await scene.exchange(GET)

        assert (b"ok", b"ok", 2) == (first.body, second.body, len(scene.upstream.peers))


@over_both_protocols
@on_uvloop
async def test_an_upstream_that_closes_is_not_used_again() -> None:
    """`Connection: close` and HTTP/1.0 end the upstream's connection, not the client's."""
    async with running() as scene:
        client = await scene.connect()
        for version, field in ((b"1.1", b"Connection: close\r\n"), (b"1.0", b"")):
            await client.send(GET)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(
                b"HTTP/%b 200 OK\r\n%bContent-Length: 2\r\n\r\nok" % (version, field)
            )
            answer = await client.read_answer()
            await until(lambda: scene.upstream.ended == scene.upstream.peers)

            assert (b"HTTP/1.1 200 OK", b"ok", None) == (
                answer.line,
                answer.body,
                answer.value(b"connection"),
            )
        assert 2 == len(scene.upstream.peers)


@over_both_protocols
@on_uvloop
async def test_a_stale_connection_is_retried_once() -> None:
    """A request without a body that a kept connection never answered is sent once more."""
    async with running() as scene:
        await scene.exchange(GET)
        client = await scene.ask(GET)
        stale = await scene.upstream.next_request()
        stale.peer.close()
        again = await scene.upstream.next_request()

        assert stale.peer is scene.upstream.peers[0]
        assert again.peer is scene.upstream.peers[1]
        assert stale.request.head == again.request.head
        await again.peer.send(OK)
        assert b"ok" == (await client.read_answer()).body
        assert 1 == scene.process.cluster.counters.upstream_retries


@over_both_protocols
@on_uvloop
async def test_a_second_failure_is_not_retried() -> None:
    """The second connection that breaks ends the request."""
    async with running() as scene:
        await scene.exchange(GET)
        client = await scene.ask(GET)
        for _ in range(2):
            (await scene.upstream.next_request()).peer.close()
        answer = await client.read_answer()

        assert BAD_GATEWAY == status_of(answer)
        assert (2, True) == (len(scene.upstream.peers), scene.upstream.is_quiet)


@pytest.mark.parametrize(
    ("request_", "said", "is_kept"),
    [
        pytest.param(GET, b"", False, id="a-new-connection"),
        pytest.param(GET, b"HTTP/1.1 20", True, id="the-start-of-an-answer"),
        pytest.param(POST, b"", True, id="a-body"),
        pytest.param(
            b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n", b"", True, id="not-idempotent"
        ),
        pytest.param(
            b"DELETE /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
            b"",
            True,
            id="idempotent-with-a-body",
        ),
        pytest.param(GET, b"HTTP/1.1 103 Early Hints\r\n\r\n", True, id="an-interim-answer"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_what_is_not_retried(request_: bytes, said: bytes, is_kept: bool) -> None:
    """Anything else that breaks is a 502, since the upstream may have acted on it."""
    async with running() as scene:
        if is_kept:
            await scene.exchange(GET)
        client = await scene.ask(request_)
        arrival = await scene.upstream.next_request()
        await scene.deliver_answer(arrival.peer, said)
        arrival.peer.close()
        answer = await client.read_answer()
        if answer.status == 103:
            answer = await client.read_answer()

        assert BAD_GATEWAY == status_of(answer)
        assert NO_ANSWER in answer.body.decode()
        assert (1, True) == (len(scene.upstream.peers), scene.upstream.is_quiet)


POD = b"/api/v1/namespaces/a/pods/b"
HANDSHAKE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def request(line: bytes, fields: bytes = b"") -> bytes:
    """A request without a body."""
    return line + b" HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"


async def broken_by_one_of_two(request_: bytes) -> tuple[int, int]:
    """The status of the answer, and how many servers got the request, of which the first broke."""
    second = Upstream()
    second.start()
    async with running() as scene:
        pool = scene.process.cluster.served.pool
        pool.set_endpoints(
            EndpointAddress(address=Address(host="127.0.0.1", port=port))
            for port in (scene.upstream.port, second.port)
        )
        client = await scene.ask(request_)
        asked = [begin(each.next_request()) for each in (scene.upstream, second)]
        (first,), others = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        first.result().peer.close()
        (other,), answer = others, begin(client.read_answer())
        await asyncio.wait([other, answer], return_when=asyncio.FIRST_COMPLETED)
        count = 1
        if other.done():
            count += 1
            await other.result().peer.send(OK)
        other.cancel()
        status = (await answer).status
        await second.stop()
    return status, count


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(request(b"DELETE " + POD), id="delete"),
        pytest.param(request(b"PUT " + POD + b"/restart"), id="put"),
        pytest.param(request(b"GET " + POD + b"/exec?command=reboot"), id="exec"),
        pytest.param(request(b"GET /a", b"X-HTTP-Method-Override: DELETE\r\n"), id="override"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_no_command_runs_twice(request_: bytes) -> None:
    """The server that broke may have done what it was told, so no other one is told as well."""
    assert (502, 1) == await broken_by_one_of_two(request_)


@pytest.mark.parametrize("subresource", [b"exec", b"attach", b"portforward", b"proxy/x"])
@on_uvloop
async def test_no_upgrade_runs_twice(subresource: bytes) -> None:
    """A GET with an upgrade is a command."""
    line = b"GET " + POD + b"/" + subresource
    assert (502, 1) == await broken_by_one_of_two(request(line, HANDSHAKE))


@over_both_protocols
@on_uvloop
async def test_what_another_server_gets() -> None:
    """A request that is safe by its method, which was not answered."""
    for line in (b"GET " + POD, b"GET " + POD + b"/log", b"GET " + POD + b"/proxy/x"):
        assert (200, 2) == await broken_by_one_of_two(request(line))


@over_both_protocols
@on_uvloop
async def test_connect_refused() -> None:
    """An upstream that refuses connections is a 502, and the client's connection goes on."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with running(upstream_port=closed.getsockname()[1]) as scene:
            client = await scene.connect()
            for _ in range(2):
                await client.send(GET)
                answer = await client.read_answer()

                assert BAD_GATEWAY == status_of(answer)
                assert "no connection to the upstream" in answer.body.decode()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose connections nobody accepts, and where further ones do not come about."""
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

        assert TIMEOUT == status_of(answer)
        assert (
            "no connection to the upstream within 0.02 s (upstream.connectTimeout)"
            in answer.body.decode()
        )


@over_both_protocols
@on_uvloop
async def test_a_client_that_leaves_before_there_is_a_connection(deaf_port: int) -> None:
    """Its request no longer waits for one, and the proxy can stop at once."""
    async with running(upstream_port=deaf_port) as scene:
        client = await scene.ask(GET)
        pool = scene.process.cluster.served.pool
        await until(lambda: pool.waiting_count)
        await client.leave()
        await until(lambda: not pool.waiting_count)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another-version"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another-protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX A: 1\r\n\r\n", id="a-malformed-field"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", id="a-malformed-length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="two-framings",
        ),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", id="101"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000, id="an-endless-head"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_an_answer_that_cannot_be_passed_on(answer: bytes) -> None:
    """An answer that is malformed in its head is a 502, and its connection is closed."""
    async with running() as scene:
        _, got = await scene.exchange(GET, answer)
        await until(lambda: scene.upstream.ended)

        assert BAD_GATEWAY == status_of(got)


@pytest.mark.parametrize(
    ("framing", "body", "end"),
    [
        pytest.param(b"Content-Length: 100", b"partial", None, id="sized"),
        pytest.param(b"Transfer-Encoding: chunked", b"7\r\npartial\r\n", None, id="chunked"),
        pytest.param(b"Transfer-Encoding: chunked", b"7\r\npartial\r\n", b"zz\r\n", id="malformed"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_an_answer_that_breaks_off(framing: bytes, body: bytes, end: bytes | None) -> None:
    """The client gets what there is, and its connection ends so that it can tell."""
    async with running() as scene:
        client = await scene.ask(GET)
        arrival = await scene.upstream.next_request()
        await scene.deliver_answer(
            arrival.peer, b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (framing, body), end or b""
        )
        if end is None:
            arrival.peer.close()
        got = await client.read_to_end()

        assert b"HTTP/1.1 200 OK" == got.partition(b"\r\n")[0]
        assert got.endswith(body)


@over_both_protocols
@on_uvloop
async def test_a_client_that_leaves_cancels_its_request() -> None:
    """The upstream's connection is ended, the seats are free, before an answer and during one."""
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


@pytest.mark.parametrize("leave", [Peer.close, Peer.reset, Peer.end_sending])
@over_both_protocols
@on_uvloop
async def test_a_queued_client_that_leaves_frees_its_place(leave: Callable[[Peer], None]) -> None:
    """Its request is never sent, and the next in line goes on."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        queue_set = scene.level().queue_set
        hold = await scene.take_seat()
        gone = await scene.ask(GET.replace(PATH, b"gone"))
        await until(lambda: queue_set.requests_waiting == 1)
        following = await scene.ask(GET.replace(PATH, b"following"))
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


@over_both_protocols
@on_uvloop
async def test_an_upstream_that_resets() -> None:
    """A reset instead of an answer is a 502."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(GET)
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        upstream.reset()
        answer = await client.read_answer()

        assert BAD_GATEWAY == status_of(answer)
