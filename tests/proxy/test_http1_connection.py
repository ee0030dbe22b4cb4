"""A client's connection: requests in order, limits, deadlines, and how it ends."""

from __future__ import annotations

import ipaddress
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.http.read_buffer import MAX_LINGER_BYTES, READ_BYTES
from apfproxy.http.request_body import MAX_DISCARDED_BODY_BYTES
from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import CHUNKED_POST, GET, OK, POST, Bench, body, connection_of, status

if TYPE_CHECKING:
    from collections.abc import Iterator


REFUSED = b"HEAD /refusing HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as result:
        yield result
        for connection in list(result.listener.connections):
            connection.leave()
        result.loop.run_ready()
        result.assert_at_rest()


def test_many_refused_requests_do_not_nest(bench: Bench) -> None:
    bench.ask(REFUSED)
    client = bench.client()
    bench.send(client, REFUSED * 2000)

    assert 2000 == client.take().count(b"HTTP/1.1 429 ")


def test_answers_make_room_for_requests_not_for_reads(bench: Bench) -> None:
    client = bench.ask(GET)
    client.feed(GET * (6 * READ_BYTES // len(GET)))
    held_bytes = []
    for answered in range(1, 200):
        bench.send(bench.upstreams[0], OK)
        held_bytes.append(bench.counters.listener.bytes_from_clients - answered * len(GET))

    assert max(held_bytes) <= 2 * READ_BYTES


@pytest.mark.parametrize("pieces", [[b"\r", b"\n" + GET], [b"\r\n\r\n\r\n", b"\r", b"\n", GET]])
def test_empty_lines_before_a_request(bench: Bench, pieces: list[bytes]) -> None:
    """RFC 9112, section 2.2: old clients end a body with one, and it means nothing."""
    client = bench.client()
    for _ in range(2):
        for piece in pieces:
            bench.send(client, piece)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        *(
            (data, b"400")
            for data in (b"\n", b"\r\n\n", b"\rG", b"\x16\x03\x01\x02", b"SSH-2.0-x\r\n")
        ),
        *(
            (data, b"400")
            for data in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", CHUNKED_POST + b"\r\nx")
        ),
        (b"GET / HTTP/1.1\r\nA: b\nB", b"400"),
        (b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", b"400"),
        (b"GET /api/v1/pods?timeout=x HTTP/1.1\r\nHost: h\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 65536, b"431"),
        (GET[:-2] + b"A: " + b"b" * 65536 + b"\r\n\r\n", b"431"),
        (GET[:-2] + b"A: b\r\n" * 256 + b"\r\n", b"431"),
        (b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * 16384), b"414"),
        (POST + b"Expect: x\r\n\r\n", b"417"),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", b"405"),
        (b"GET /a?%zz HTTP/1.1\r\nHost: h\r\n", b""),
    ],
    ids=range(17),
)
def test_refuses(bench: Bench, data: bytes, code: bytes) -> None:
    client = bench.ask(data)
    answer = client.take()

    assert code == status(answer)
    assert bool(code) == client.has_eof
    assert (b"\r\nConnection: close\r\n" in answer) == bool(code)
    assert b"" == bench.upstreams[0].take()
    assert (code == b"400") == (bench.counters.listener.malformed_requests == 1)


@pytest.mark.parametrize(
    ("request_", "is_kept"),
    [
        (b"Content-Length: %d\r\n\r\nb" % (MAX_DISCARDED_BODY_BYTES + 1), True),
        (b"Content-Length: %d\r\n\r\nb" % (MAX_DISCARDED_BODY_BYTES + 2), False),
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\nb", False),
        (b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n", False),
    ],
)
def test_body_of_a_refused_request(bench: Bench, request_: bytes, is_kept: bool) -> None:
    bench.ask(REFUSED)
    client = bench.ask(b"POST /refusing HTTP/1.1\r\nHost: h\r\n" + request_)
    answer = client.take()

    assert b"429" == status(answer)
    assert is_kept == (b"Connection: close" not in answer)
    assert is_kept == (not client.has_eof)


def test_discarded_body_is_followed_by_requests(bench: Bench) -> None:
    post = b"POST /refusing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234"
    bench.ask(REFUSED)
    client = bench.ask(post)
    assert b"429" == status(client.take())
    bench.send(client, b"567")
    bench.send(client, b"89" + REFUSED + REFUSED)
    assert 2 == client.take().count(b"HTTP/1.1 429 ")
    bench.send(client, post)
    client.take()
    bench.wait(90)
    refusal = client.take()

    assert b"408" == status(refusal)
    assert b"(downstream.idleTimeout)" in refusal


def test_slow_client_makes_no_further_requests(bench: Bench) -> None:
    """Bytes behind the last request are dropped."""
    client = bench.ask(GET + GET + GET)
    client.protocol.pause_writing()
    bench.send(bench.upstreams[0], OK)
    assert not client.reads
    client.feed(GET.replace(b"\r\nH", b"\r\nConnection: close\r\nH") + GET)
    bench.upstreams[0].take()
    client.protocol.resume_writing()
    assert 1 == bench.upstreams[0].take().count(b"GET ")
    bench.loop.run_ready()
    for _ in range(3):
        bench.send(bench.upstreams[0], OK)

    assert 4 == client.take().count(b"HTTP/1.1 200 ")
    assert 2 == bench.upstreams[0].take().count(b"GET ")
    assert client.has_eof


def test_silent_client_is_closed(bench: Bench) -> None:
    served = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    served.take()
    for client, limit_s in ((bench.client(), 32), (served, 58)):
        bench.wait(limit_s - 1)
        assert "" == client.ended_by
        bench.wait(1)
        assert ("close", b"") == (client.ended_by, client.take())


def test_slow_head_is_refused(bench: Bench) -> None:
    client = bench.ask(b"GET ")
    for _ in range(3):
        bench.wait(10)
        bench.send(client, b"/")
    bench.wait(2)
    refusal = client.take()

    assert b"408" == status(refusal)
    assert b"(downstream.headTimeout)" in refusal
    assert {408: 1} == bench.counters.listener.own_responses
    assert client.has_eof


def test_client_that_takes_nothing_is_cut_in_the_end(bench: Bench) -> None:
    client, talking = bench.ask(b"nonsense\r\n\r\n"), bench.ask(b"nonsense\r\n\r\n")
    client.is_stuck = True
    talking.feed(bytes(MAX_LINGER_BYTES))
    assert talking.reads
    bench.send(talking, b"x")
    assert not talking.reads
    bench.wait(1)
    assert "" == talking.ended_by
    bench.wait(1)
    assert ("close", "abort") == (client.ended_by, talking.ended_by)
    assert 1 == len(bench.context.listener.connections)
    bench.wait(90)

    assert "abort" == client.ended_by
    assert {} == bench.context.listener.connections


IPV4 = ipaddress.ip_network("10.0.0.0/8")
IPV6 = ipaddress.ip_network("fd00::/8")


@pytest.mark.parametrize(
    ("peer", "is_trusted", "forwarded"),
    [
        (("10.1.2.3", 1), True, b"10.1.2.3"),
        (("11.1.2.3", 1), False, b"11.1.2.3"),
        (("fd00::1%eth0", 1, 0, 2), True, b"fd00::1%eth0"),
        (("::ffff:10.1.2.3", 1), True, b"::ffff:10.1.2.3"),
        ("", False, b"unix:"),
        (None, False, b"unknown"),
    ],
)
def test_trust(peer: object, is_trusted: bool, forwarded: bytes) -> None:
    with Bench(downstream=DownstreamSettings(identity_headers_from=(IPV6, IPV4))) as bench:
        client = bench.client(peer)
        bench.send(client, GET[:-2] + b"X-Remote-User: u\r\n\r\n")
        sent = bench.upstreams[0].take()
        exchange = connection_of(client).exchange

        assert exchange is not None
        assert ("u" if is_trusted else "system:anonymous") == exchange.passage.user_name
        assert is_trusted == (b"X-Remote-User: u\r\n" in sent)
        assert sent.endswith(b"\r\nX-Forwarded-For: " + forwarded + b"\r\n\r\n")
        bench.assert_at_rest(client)


@pytest.mark.parametrize("has_come", [True, False])
def test_request_that_comes_while_an_idle_connection_is_closed(has_come: bool) -> None:
    first, second = socket.socketpair()
    with Bench() as bench, first as ours, second as peer:
        client = bench.client()
        client.plain_socket = ours
        if has_come:
            peer.sendall(GET)
        bench.wait(40)  # the first head's time is over
        ended_by = client.ended_by
        if has_come:
            bench.send(client, ours.recv(len(GET)))  # as the loop does in its next turn
            bench.send(bench.upstreams[0], OK)

        assert ("" if has_come else "close") == ended_by
        assert has_come == client.take().startswith(b"HTTP/1.1 200 ")
        bench.end(client)


CHUNKED = CHUNKED_POST + b"\r\n"
SIZED = POST + b"\r\n"


def limited(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    return Bench(downstream=DownstreamSettings(limits=LimitSettings(**limits)))


@pytest.mark.parametrize(
    ("request_", "is_refused"),
    [
        (SIZED + b"body", False),
        (SIZED.replace(b"4", b"5"), True),
        (CHUNKED + b"4\r\nbody\r\n0\r\n\r\n", False),
        (CHUNKED + b"2\r\nbo\r\n3\r\ndyy\r\n0\r\n\r\n", True),
        (CHUNKED + b"4\r\nbody\r\n", True),
    ],
)
def test_length_of_a_body(request_: bytes, *, is_refused: bool) -> None:
    with limited(max_body_bytes=4) as bench:
        client = bench.ask(request_)
        answer, forwarded = client.take(), bench.upstreams[0].take()
        if not answer and is_refused:
            assert forwarded.endswith(b"\r\n4\r\nbody\r\n")
            bench.send(client, b"1\r\ny\r\n")
            answer, forwarded = client.take(), bench.upstreams[0].take()
            assert "abort" == bench.upstreams[0].ended_by

        assert is_refused is (b"413" == status(answer))
        assert is_refused is (b"" == forwarded)
        if is_refused:
            assert "longer than 4 bytes" in json.loads(body(answer))["message"]
            assert client.has_eof
            assert 0 == bench.counters.client_aborts
        else:
            bench.send(bench.upstreams[0], OK)
            assert b"200" == status(client.take())
        bench.assert_at_rest()


@pytest.mark.parametrize("reads", [1, 2, 3], ids=["at-once", "in-two-reads", "in-three-reads"])
@pytest.mark.parametrize(("number", "is_refused"), [(3, False), (4, True)])
def test_pipelined_requests(number: int, reads: int, *, is_refused: bool) -> None:
    with limited(max_pipelined_requests=3) as bench:
        sent = GET * number
        client = bench.client()
        size = -(-len(sent) // reads)
        for start in range(0, len(sent), size):
            bench.send(client, sent[start : start + size])
        for _ in range(3):
            bench.send(bench.upstreams[0], OK)
        received = client.take()

        expected = [b"200"] * 3 + [b"400"] * is_refused
        assert expected == [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
        assert is_refused is (b"maxPipelinedRequests" in received)
        assert is_refused is client.has_eof
        for _ in range(9 * (not is_refused)):  # what has been waited for does not count
            bench.send(client, GET)
            bench.send(bench.upstreams[0], OK)
            assert b"200" == status(client.take())
        bench.end(client)
        bench.assert_at_rest()
