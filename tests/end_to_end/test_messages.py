"""Requests and answers of every form, over connections that are kept."""

from __future__ import annotations

import hashlib
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.peer import begin
from tests.end_to_end.scene import (
    GATHERED_BYTES,
    GET,
    NARROW,
    OK,
    REJECTING,
    Setup,
    on_uvloop,
    running,
)
from tests.support.clocks import until

if TYPE_CHECKING:
    from tests.end_to_end.peer import Message
    from tests.end_to_end.upstream import Arrival

MIB = 1 << 20
CONTENT = random.Random(1).randbytes(3 * MIB)  # noqa: S311  any bytes
PODS = b"/api/v1/namespaces/default/pods"


def sized(body: bytes, *, status: bytes = b"200 OK") -> bytes:
    """An answer with a length."""
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    """A body in chunks."""
    frames = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"".join((*frames, b"0\r\n", trailers, b"\r\n"))


def digest(data: bytes) -> str:
    """A checksum that a failed test can show."""
    return hashlib.sha256(data).hexdigest()


async def say_target(arrival: Arrival) -> None:
    """Answer with the request's target and the checksum of its body."""
    target = arrival.request.line.split(b" ")[1]
    await arrival.peer.send(sized(target + b" " + digest(arrival.request.body).encode()))


def said(target: bytes, body: bytes = b"") -> bytes:
    """What `say_target` says."""
    return target + b" " + digest(body).encode()


@on_uvloop
async def test_a_connection_is_kept() -> None:
    """HTTP/1.1 requests follow each other on one connection, and none is told that it closes."""
    async with running() as scene:
        scene.upstream.answer_with(say_target)
        client = await scene.connect()
        for number in range(3):
            await client.send(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
            answer = await client.read_answer()

            assert (said(b"/%d" % number), None) == (answer.body, answer.value(b"connection"))
        assert 1 == len(scene.upstream.peers)


@pytest.mark.parametrize(
    ("version", "connection", "is_kept", "says"),
    [
        pytest.param(b"1.1", b"Connection: close\r\n", False, b"close", id="1.1-close"),
        pytest.param(b"1.1", b"Connection: keep-alive\r\n", True, None, id="1.1-keep-alive"),
        pytest.param(b"1.0", b"", False, b"close", id="1.0"),
        pytest.param(b"1.0", b"Connection: Keep-Alive\r\n", True, b"keep-alive", id="1.0-kept"),
        pytest.param(b"1.0", b"Connection: keep-alive, close\r\n", False, b"close", id="1.0-both"),
    ],
)
@on_uvloop
async def test_what_connection_says(
    version: bytes, connection: bytes, is_kept: bool, says: bytes | None
) -> None:
    """A client's version and Connection decide whether its connection stays open."""
    async with running() as scene:
        scene.upstream.answer_with(say_target)
        request = b"GET / HTTP/%b\r\nHost: a\r\n%b\r\n" % (version, connection)
        client = await scene.ask(request)
        answer = await client.read_answer()
        if is_kept:
            await client.send(request)
            assert said(b"/") == (await client.read_answer()).body
        else:
            assert await client.is_at_end()

        assert (b"HTTP/1.1 200 OK", says) == (answer.line, answer.value(b"connection"))


@on_uvloop
async def test_http_10_becomes_1_1() -> None:
    """The upstream is asked in HTTP/1.1, with its own name as Host if the client gave none."""
    async with running() as scene:
        request, _ = await scene.exchange(b"GET /x HTTP/1.0\r\n\r\n")

        assert b"GET /x HTTP/1.1" == request.line
        assert b"127.0.0.1:%d" % scene.upstream.port == request.value(b"host")


@on_uvloop
async def test_http_10_gets_no_chunks() -> None:
    """An answer in chunks reaches an HTTP/1.0 client as bytes until the end of its connection."""
    async with running() as scene:
        client = await scene.ask(b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + chunked(b"one", b"two", trailers=b"X-Sum: 6\r\n")
        )
        answer = await client.read_answer()

        assert (b"onetwo", None, b"close") == (
            answer.body,
            answer.value(b"transfer-encoding"),
            answer.value(b"connection"),
        )


PIPELINE = b"".join(
    (
        b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST %b/two HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" % PODS,
        b"GET /three HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PUT %b/four HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS,
        chunked(b"abc", b"defg"),
        b"\r\nDELETE %b/five HTTP/1.1\r\nHost: a\r\n\r\n" % PODS,
    )
)
PIPELINED = [
    said(b"/one"),
    said(PODS + b"/two", b"hello"),
    said(b"/three"),
    said(PODS + b"/four", b"abcdefg"),
    said(PODS + b"/five"),
]


@pytest.mark.parametrize("step", [1, 2, 7, 64, len(PIPELINE)])
@on_uvloop
async def test_pipelined_requests(step: int) -> None:
    """Pipelined requests are answered in their order, however their bytes come."""
    async with running() as scene:
        scene.upstream.answer_with(say_target)
        client = await scene.connect()
        pieces = [PIPELINE[at : at + step] for at in range(0, len(PIPELINE), step)]
        await scene.deliver(client, *pieces)

        assert PIPELINED == [(await client.read_answer()).body for _ in PIPELINED]


@on_uvloop
async def test_pipelined_answers_wait_for_the_first() -> None:
    """A pipelined request is not even sent before the one before it is answered."""
    async with running() as scene:
        client = await scene.ask(PIPELINE)
        arrival = await scene.upstream.next_request()
        other = await scene.take_seat()

        assert b"GET /one HTTP/1.1" == arrival.request.line
        assert b"GET /healthz HTTP/1.1" == other.arrival.request.line
        assert scene.upstream.is_quiet
        client.close()


@on_uvloop
async def test_a_thousand_pipelined_requests() -> None:
    """So many requests in a few reads are all answered, each once."""
    async with running() as scene:
        scene.upstream.answer_with(say_target)
        client = await scene.connect()
        targets = [b"/%d" % number for number in range(1000)]
        requests = b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % each for each in targets)
        sending = begin(client.send(requests))
        answers = [(await client.read_answer()).body for _ in targets]
        await sending

        assert [said(target) for target in targets] == answers


REQUESTS = {
    "sized": b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" % PODS,
    "chunked": b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS
    + chunked(b"hel", b"lo", trailers=b"X-Sum: 5\r\n"),
    "plain": b"GET %b?limit=5 HTTP/1.1\r\nHost: a\r\nAccept: x\r\nConnection: X-A\r\nX-A: 1\r\n\r\n"
    % PODS,
}
DATE = re.compile(rb"(?m)^Date: [^\r\n]*\r\n")
ANSWERS = {
    "sized": sized(b"hello"),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunked(b"hel", b"lo", trailers=b"X-Sum: 5\r\n"),
    "until-close": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nhello",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + sized(b"hello"),
    "no-content": b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
}


def normal(message: Message) -> tuple[object, ...]:
    """The parts of a message that must not depend on how its bytes came.

    The proxy dates responses itself, and a test may last longer than a second.
    """
    return DATE.sub(b"", message.head), message.body, message.trailers


@pytest.mark.parametrize("form", REQUESTS)
@on_uvloop
async def test_requests_cut_anywhere(form: str) -> None:
    """A request arrives the same, wherever its bytes are cut in two on the way."""
    raw = REQUESTS[form]
    async with running() as scene:
        arrived = set()
        client = await scene.connect()
        for cut in range(len(raw)):
            await scene.deliver(client, raw[:cut], raw[cut:])
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(OK)
            await client.read_answer()
            arrived.add(normal(arrival.request))

        assert 1 == len(arrived)


@pytest.mark.parametrize("form", ANSWERS)
@on_uvloop
async def test_answers_cut_anywhere(form: str) -> None:
    """An answer arrives the same, wherever its bytes are cut in two on the way."""
    raw = ANSWERS[form]
    async with running() as scene:
        arrived = set()
        client = await scene.connect()
        for cut in range(len(raw)):
            await client.send(GET)
            arrival = await scene.upstream.next_request()
            await scene.deliver_answer(arrival.peer, raw[:cut], raw[cut:])
            if form == "until-close":
                arrival.peer.close()
            answer = await client.read_answer()
            if answer.status == 103:
                answer = await client.read_answer()
            arrived.add(normal(answer))

        assert 1 == len(arrived)


@pytest.mark.parametrize("form", REQUESTS)
@on_uvloop
async def test_requests_byte_by_byte(form: str) -> None:
    """A request that comes byte by byte arrives as one that comes whole, also before another."""
    raw = REQUESTS[form]
    async with running() as scene:
        whole, _ = await scene.exchange(raw)
        client = await scene.connect()
        await scene.deliver(client, *(raw[at : at + 1] for at in range(len(raw))))
        await scene.deliver(client, GET)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        following = await scene.upstream.next_request()
        await following.peer.send(OK)

        assert normal(whole) == normal(arrival.request)
        assert b"GET /healthz HTTP/1.1" == following.request.line
        assert [b"ok", b"ok"] == [(await client.read_answer()).body for _ in range(2)]


def pieces_of(data: bytes) -> tuple[bytes, ...]:
    """The data in pieces of odd sizes, so that no frame of the proxy's falls on theirs."""
    return tuple(data[at : at + 99_991] for at in range(0, len(data), 99_991))


@pytest.mark.parametrize("form", ["sized", "chunked"])
@on_uvloop
async def test_large_requests(form: str) -> None:
    """Several MiB of a request's body arrive unchanged."""
    if form == "sized":
        framing, body = b"Content-Length: %d" % len(CONTENT), CONTENT
    else:
        framing, body = b"Transfer-Encoding: chunked", chunked(*pieces_of(CONTENT))
    async with running() as scene:
        client = await scene.ask(b"POST %b HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % (PODS, framing))
        sending = begin(client.send(body))
        arrival = await scene.upstream.next_request()
        await sending
        await arrival.peer.send(OK)

        assert digest(CONTENT) == digest(arrival.request.body)
        assert b"ok" == (await client.read_answer()).body


@pytest.mark.parametrize("form", ["sized", "chunked", "until-close"])
@on_uvloop
async def test_large_answers(form: str) -> None:
    """Several MiB of an answer's body arrive unchanged."""
    framing, body = b"", CONTENT
    if form == "sized":
        framing = b"Content-Length: %d\r\n" % len(CONTENT)
    elif form == "chunked":
        framing, body = b"Transfer-Encoding: chunked\r\n", chunked(*pieces_of(CONTENT))
    async with running() as scene:
        hold = await scene.take_seat()
        reading = begin(hold.client.read_answer())
        await hold.arrival.peer.send(b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (framing, body))
        if form == "until-close":
            hold.arrival.peer.close()
        answer = await reading

        assert digest(CONTENT) == digest(answer.body)
        assert (form == "sized") == (answer.value(b"content-length") is not None)


@on_uvloop
async def test_bodies_are_streamed() -> None:
    """Each part of a body is passed on before the next one is there, both ways."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        for part in (b"one", b"two"):
            await client.send(b"3\r\n%b\r\n" % part)
            assert part == await upstream.read_chunk()
        await client.send(b"0\r\n\r\n")
        assert b"" == await upstream.read_chunk()
        await upstream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.read_head()
        for part in (b"four", b"five"):
            await upstream.send(b"4\r\n%b\r\n" % part)
            assert part == await client.read_chunk()
        await upstream.send(b"0\r\n\r\n")
        assert b"" == await client.read_chunk()


@on_uvloop
async def test_an_answer_before_the_end_of_the_request() -> None:
    """An answer that comes while the body is still on its way reaches the client at once."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" % PODS
            + b"first".ljust(GATHERED_BYTES)
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        assert b"first" == (await upstream.read_exactly(GATHERED_BYTES)).rstrip()
        await upstream.send(sized(b"no", status=b"413 Content Too Large"))
        answer = await client.read_answer()

        assert (413, b"no", b"close") == (answer.status, answer.body, answer.value(b"connection"))
        assert await client.is_at_end()
        assert await upstream.is_at_end()


@on_uvloop
async def test_trailers() -> None:
    """Trailers pass both ways, but for those that a trailer must not be."""
    trailers = b"X-Sum: 5\r\nContent-Length: 9\r\nX_Remote.User: root\r\nHost: b\r\n"
    async with running() as scene:
        request, answer = await scene.exchange(
            b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS
            + chunked(b"hello", trailers=trailers),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + chunked(b"hello", trailers=trailers),
        )

        assert (b"hello", b"X-Sum: 5\r\n") == (request.body, request.trailers)
        assert (b"hello", b"X-Sum: 5\r\n") == (answer.body, answer.trailers)


@on_uvloop
async def test_interim_answers() -> None:
    """Interim answers reach a client of HTTP/1.1, in their order, and none of HTTP/1.0."""
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </%d>\r\n\r\n"
    async with running() as scene:
        for version, expected in ((b"1.1", [103, 103, 200]), (b"1.0", [200])):
            client = await scene.ask(b"GET / HTTP/%b\r\nHost: a\r\n\r\n" % version)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(interim % 1 + interim % 2 + OK)

            assert expected == [(await client.read_answer()).status for _ in expected]


@pytest.mark.parametrize(
    ("method", "answer", "length"),
    [
        pytest.param(b"HEAD", b"200 OK\r\nContent-Length: 1234\r\n", b"1234", id="head"),
        pytest.param(b"HEAD", b"200 OK\r\n", None, id="head-of-unknown-length"),
        pytest.param(b"HEAD", b"200 OK\r\nTransfer-Encoding: chunked\r\n", None, id="head-chunked"),
        pytest.param(b"GET", b"204 No Content\r\n", None, id="204"),
        pytest.param(b"GET", b"304 Not Modified\r\nContent-Length: 99\r\n", b"99", id="304"),
    ],
)
@on_uvloop
async def test_answers_without_a_body(method: bytes, answer: bytes, length: bytes | None) -> None:
    """An answer that has no body is whole with its head, on both connections."""
    async with running() as scene:
        client = await scene.connect()
        for _ in range(2):
            await client.send(b"%b /x HTTP/1.1\r\nHost: a\r\n\r\n" % method)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(b"HTTP/1.1 %b\r\n" % answer)
            got = await client.read_answer(to_head=True)

            assert (answer[:3], length) == (b"%d" % got.status, got.value(b"content-length"))
        assert 1 == len(scene.upstream.peers)


EXPECTING = (
    b"POST %b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n" % PODS
)


@on_uvloop
async def test_the_body_is_asked_for() -> None:
    """A client that expects a 100 gets one, and its body arrives, without the expectation."""
    async with running() as scene:
        client = await scene.ask(EXPECTING)
        interim = await client.read_answer()
        await client.send(b"hello")
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
        answer = await client.read_answer()

        assert b"HTTP/1.1 100 Continue\r\n\r\n" == interim.head
        assert (b"hello", []) == (arrival.request.body, arrival.request.values(b"expect"))
        assert (200, b"ok") == (answer.status, answer.body)


@on_uvloop
async def test_a_body_that_comes_unasked() -> None:
    """A client that sends its body without waiting for the 100 is served all the same."""
    async with running() as scene:
        request, answer = await scene.exchange(EXPECTING + b"hello")

        assert (b"hello", 200) == (request.body, answer.status)


@on_uvloop
async def test_the_body_is_asked_for_once_admitted() -> None:
    """A queued request gets its 100 with its turn, not before."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        hold = await scene.take_seat()
        client = await scene.ask(EXPECTING)
        await until(lambda: scene.level().queue_set.requests_waiting)
        sent_before = scene.process.cluster.counters.listener.bytes_to_clients
        await hold.end()
        assert 0 == sent_before
        assert 100 == (await client.read_answer()).status
        await client.send(b"hello")
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)

        assert (b"hello", 200) == (arrival.request.body, (await client.read_answer()).status)


@on_uvloop
async def test_a_rejected_body_is_not_asked_for() -> None:
    """A rejected request gets its 429 and no 100, and nothing of it reaches the upstream."""
    async with running(Setup(objects=REJECTING, seats=1)) as scene:
        hold = await scene.take_seat()
        client = await scene.ask(EXPECTING)
        answer = await client.read_answer()

        assert (429, b"close") == (answer.status, answer.value(b"connection"))
        assert await client.is_at_end()
        assert (1, True) == (len(scene.upstream.peers), scene.upstream.is_quiet)
        await hold.end()


@on_uvloop
async def test_another_expectation_is_refused() -> None:
    """An expectation that is not known gets a 417 and is not forwarded."""
    async with running() as scene:
        client = await scene.ask(EXPECTING.replace(b"100-continue", b"miracles"))

        assert 417 == (await client.read_answer()).status
        assert await client.is_at_end()
        assert [] == scene.upstream.peers
