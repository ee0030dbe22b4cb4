"""A client's connection: requests in order, limits, deadlines, and how it ends."""

from __future__ import annotations

import ipaddress
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.http.read_buffer import MAX_LINGER_BYTES, READ_BYTES, WRITE_HIGH_WATER_BYTES
from apfproxy.http.request_body import MAX_DISCARDED_BODY_BYTES
from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import (
    CHUNKED_POST,
    GET,
    OK,
    POST,
    Bench,
    body,
    connection_of,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Network

REFUSED = b"HEAD /refusing HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """One that has nothing left when its clients have gone."""
    with Bench() as result:
        yield result
        for connection in list(result.listener.connections):
            connection.leave()
        result.loop.run_ready()
        result.assert_at_rest()


def test_begins_with_a_limit_on_what_it_buffers(bench: Bench) -> None:
    """The transport says that it is full well before a read's worth more would fit."""
    assert WRITE_HIGH_WATER_BYTES == bench.client().high_water


def test_many_refused_requests_do_not_nest(bench: Bench) -> None:
    """Answers that need no upstream take no stack."""
    bench.ask(REFUSED)
    client = bench.client()
    bench.send(client, REFUSED * 2000)

    assert 2000 == client.take().count(b"HTTP/1.1 429 ")


def test_answers_make_room_for_requests_not_for_reads(bench: Bench) -> None:
    """However many answers end, no more is read than can wait."""
    client = bench.ask(GET)
    client.feed(GET * (6 * READ_BYTES // len(GET)))
    held_bytes = []
    for answered in range(1, 200):
        bench.send(bench.upstreams[0], OK)
        held_bytes.append(bench.counters.listener.bytes_from_clients - answered * len(GET))

    assert max(held_bytes) <= 2 * READ_BYTES


def test_refusals_make_room_for_requests_not_for_reads(bench: Bench) -> None:
    """Requests that are answered at once are read no faster than they are answered."""
    count = 6 * READ_BYTES // len(REFUSED)
    bench.ask(REFUSED)
    client = bench.client()
    client.feed(REFUSED * count)

    assert bench.counters.listener.bytes_from_clients <= 2 * READ_BYTES
    bench.loop.run_ready()
    assert count == client.take().count(b"HTTP/1.1 429 ")


@pytest.mark.parametrize(
    "start",
    [b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 50_000, b"\r\n" * 25_000],
    ids=["long-head", "empty-lines"],
)
def test_long_start_of_a_request_waits_for_its_end(bench: Bench, start: bytes) -> None:
    """What is more than may wait, but no request yet, does not keep the rest from being read."""
    client = bench.ask(GET)
    bench.send(client, start)
    assert not client.reads
    bench.send(bench.upstreams[0], OK)

    assert client.reads


def test_malformed_request_behind_another_one(bench: Bench) -> None:
    client = bench.ask(GET + b"nonsense\r\n\r\n")
    assert b"" == client.take()
    bench.send(bench.upstreams[0], OK)
    first, _, second = client.take().partition(b"\r\n\r\nok")

    assert (b"200", b"400") == (status(first), status(second))
    assert client.has_eof


def test_request_behind_the_last_one_is_dropped(bench: Bench) -> None:
    """Connection: close means that nothing follows."""
    client = bench.ask(GET.replace(b"\r\nH", b"\r\nConnection: close\r\nH") + GET)
    bench.send(bench.upstreams[0], OK)

    assert 1 == client.take().count(b"HTTP/1.1 ")
    assert 1 == bench.upstreams[0].take().count(b"GET ")
    assert client.has_eof


def test_slow_client_makes_no_further_requests(bench: Bench) -> None:
    """What follows waits, unread and unparsed, until the answers before are taken."""
    client = bench.ask(GET + GET + GET)
    client.protocol.pause_writing()
    bench.send(bench.upstreams[0], OK)
    assert not client.reads
    client.feed(GET)
    bench.upstreams[0].take()
    client.protocol.resume_writing()
    assert 1 == bench.upstreams[0].take().count(b"GET ")
    bench.loop.run_ready()
    for _ in range(3):
        bench.send(bench.upstreams[0], OK)

    assert 4 == client.take().count(b"HTTP/1.1 200 ")


def test_client_becomes_slow_between_two_requests(bench: Bench) -> None:
    """Even just before the turn of one that waits."""
    client = bench.ask(GET + GET)
    bench.upstreams[0].take()
    bench.upstreams[0].feed(OK)
    client.protocol.pause_writing()
    bench.loop.run_ready()
    assert b"" == bench.upstreams[0].take()
    client.protocol.resume_writing()

    assert 1 == bench.upstreams[0].take().count(b"GET ")


def test_slow_client_is_closed_in_the_end(bench: Bench) -> None:
    """What it asked for in the meantime is not answered."""
    client = bench.ask(GET + GET)
    client.protocol.pause_writing()
    client.is_stuck = True
    bench.send(bench.upstreams[0], OK)
    bench.wait(90)
    assert "close" == client.ended_by
    bench.wait(90)

    assert "abort" == client.ended_by
    assert {} == bench.context.listener.connections


def test_body_nobody_wants_is_read_from_a_slow_client(bench: Bench) -> None:
    """It may take its answer only when its request is through."""
    bench.ask(REFUSED)
    client = bench.ask(b"POST /refusing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234")
    client.protocol.pause_writing()
    assert client.reads
    bench.send(client, b"56789" + REFUSED)
    assert 1 == client.take().count(b"HTTP/1.1 429 ")
    client.protocol.resume_writing()
    bench.loop.run_ready()

    assert 1 == client.take().count(b"HTTP/1.1 429 ")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"\r\n" + GET], id="with-the-request"),
        pytest.param([b"\r\n", GET], id="alone"),
        pytest.param([b"\r", b"\n" + GET], id="cut"),
        pytest.param([b"\r\n\r\n\r\n", b"\r", b"\n", GET], id="many"),
    ],
)
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
        pytest.param(b"\n", b"400", id="bare-lf-first"),
        pytest.param(b"\r\n\n", b"400", id="bare-lf-second"),
        pytest.param(b"\rG", b"400", id="bare-cr"),
        pytest.param(b"\x16\x03\x01\x02", b"400", id="tls"),
        pytest.param(b"SSH-2.0-x\r\n", b"400", id="ssh"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400", id="http-2"),
        pytest.param(b"GET / HTTP/1.1\r\nA: b\nB", b"400", id="malformed-half-way"),
        pytest.param(b"GET /" + b"a" * 65536, b"431", id="endless-line"),
        pytest.param(GET[:-2] + b"A: " + b"b" * 65536 + b"\r\n\r\n", b"431", id="long-head"),
        pytest.param(GET[:-2] + b"A: b\r\n" * 256 + b"\r\n", b"431", id="many-fields"),
        pytest.param(b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * 16384), b"414", id="target"),
        pytest.param(POST + b"Expect: x\r\n\r\n", b"417", id="expectation"),
        pytest.param(b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", b"405", id="connect"),
        pytest.param(b"GET /a?%zz HTTP/1.1\r\nHost: h\r\n", b"", id="unfinished"),
        pytest.param(b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", b"400", id="escape"),
        pytest.param(
            b"GET /api/v1/pods?timeout=x HTTP/1.1\r\nHost: h\r\n\r\n", b"400", id="timeout"
        ),
        pytest.param(CHUNKED_POST + b"\r\nx", b"400", id="chunk"),
    ],
)
def test_refuses(bench: Bench, data: bytes, code: bytes) -> None:
    """What cannot be served is answered once; the connection ends, and nothing is forwarded."""
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
        pytest.param(b"Content-Length: 4\r\n\r\nb", True, id="short"),
        pytest.param(
            b"Content-Length: %d\r\n\r\nb" % (MAX_DISCARDED_BODY_BYTES + 1), True, id="longest"
        ),
        pytest.param(
            b"Content-Length: %d\r\n\r\nb" % (MAX_DISCARDED_BODY_BYTES + 2), False, id="too-long"
        ),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n1\r\nb", False, id="chunked"),
        pytest.param(b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n", False, id="expected"),
    ],
)
def test_body_of_a_refused_request(bench: Bench, request_: bytes, is_kept: bool) -> None:
    """It is read where that is worth the connection, else the connection ends."""
    bench.ask(REFUSED)
    client = bench.ask(b"POST /refusing HTTP/1.1\r\nHost: h\r\n" + request_)
    answer = client.take()

    assert b"429" == status(answer)
    assert is_kept == (b"Connection: close" not in answer)
    assert is_kept == (not client.has_eof)


def test_discarded_body_is_followed_by_requests(bench: Bench) -> None:
    """Where the body ends, the next request begins, even in the same read."""
    bench.ask(REFUSED)
    client = bench.ask(b"POST /refusing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234")
    assert b"429" == status(client.take())
    bench.send(client, b"567")
    bench.send(client, b"89" + REFUSED + REFUSED)
    assert 2 == client.take().count(b"HTTP/1.1 429 ")
    bench.send(client, b"POST /refusing HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n1")
    bench.send(client, b"2")
    bench.send(client, b"(nonsense")

    assert [b"429", b"400"] == [part[:3] for part in client.take().split(b"HTTP/1.1 ")[1:]]


def test_discarded_body_has_a_deadline(bench: Bench) -> None:
    """A body that does not come does not keep the connection."""
    bench.ask(REFUSED)
    client = bench.ask(b"POST /refusing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234")
    client.take()
    bench.wait(90)
    refusal = client.take()

    assert b"408" == status(refusal)
    assert b"(downstream.idleTimeout)" in refusal


def test_silent_client_is_closed(bench: Bench) -> None:
    """Without a byte there is nobody to tell, and so it is after a last answer."""
    client = bench.client()
    bench.wait(31)
    assert "" == client.ended_by
    bench.wait(1)
    assert ("close", b"") == (client.ended_by, client.take())

    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    client.take()
    bench.wait(89)
    assert "" == client.ended_by
    bench.wait(1)
    assert ("close", b"") == (client.ended_by, client.take())


def test_slow_head_is_refused(bench: Bench) -> None:
    """The time is for the whole head: more bytes do not put it off."""
    client = bench.ask(b"GET ")
    for _ in range(3):
        bench.wait(10)
        bench.send(client, b"/")
    bench.wait(2)
    refusal = client.take()

    assert b"408" == status(refusal)
    assert b"(downstream.headTimeout)" in refusal
    assert {408: 1} == bench.counters.requests_by_status
    assert client.has_eof


@pytest.mark.parametrize("answer", [b"", OK[:-1]], ids=["refused", "broken-off"])
def test_client_that_takes_nothing_is_cut_in_the_end(bench: Bench, answer: bytes) -> None:
    """What is unsent holds the connection for a time, not for ever."""
    client = bench.ask(GET if answer else b"nonsense\r\n\r\n")
    client.is_stuck = True
    if answer:
        bench.send(bench.upstreams[0], answer)
        bench.end(bench.upstreams[0])
    bench.wait(2)
    assert "close" == client.ended_by
    assert 1 == len(bench.context.listener.connections)
    bench.wait(90)

    assert "abort" == client.ended_by
    assert {} == bench.context.listener.connections


def test_lingers_for_a_while(bench: Bench) -> None:
    client = bench.ask(b"nonsense\r\n\r\n")
    bench.send(client, GET)
    bench.wait(1)
    assert "" == client.ended_by
    bench.wait(1)

    assert ("close", b"") == (client.ended_by, bench.upstreams[0].take())
    assert {} == bench.context.listener.connections


def test_lingering_takes_only_so_much(bench: Bench) -> None:
    """Of a client that sends on and on no more is read; it has time to read the answer, too."""
    client = bench.ask(b"nonsense\r\n\r\n")
    client.feed(bytes(MAX_LINGER_BYTES))
    assert client.reads
    bench.send(client, b"x")
    assert not client.reads
    bench.wait(1)
    assert "" == client.ended_by
    bench.wait(1)

    assert "abort" == client.ended_by
    assert {} == bench.context.listener.connections


def test_end_during_the_wait_for_pending_requests(bench: Bench) -> None:
    client = bench.ask(GET + GET)
    bench.upstreams[0].take()
    bench.upstreams[0].feed(OK)
    connection_of(client).abort()
    bench.loop.run_ready()

    assert b"" == bench.upstreams[0].take()


IPV4 = ipaddress.ip_network("10.0.0.0/8")
IPV6 = ipaddress.ip_network("fd00::/8")


@pytest.mark.parametrize(
    ("peer", "networks", "is_trusted", "forwarded"),
    [
        pytest.param(("10.1.2.3", 1), (IPV6, IPV4), True, b"10.1.2.3", id="ipv4"),
        pytest.param(("11.1.2.3", 1), (IPV4, IPV6), False, b"11.1.2.3", id="ipv4-outside"),
        pytest.param(("fd00::1", 1, 0, 0), (IPV6,), True, b"fd00::1", id="ipv6"),
        pytest.param(("fd00::1%eth0", 1, 0, 2), (IPV6,), True, b"fd00::1%eth0", id="ipv6-scope"),
        pytest.param(("::ffff:10.1.2.3", 1), (IPV4,), True, b"::ffff:10.1.2.3", id="mapped"),
        pytest.param("", (IPV4,), False, b"unix:", id="unix"),
        pytest.param(None, (IPV4,), False, b"unknown", id="no-address"),
    ],
)
def test_trust(
    peer: object, networks: tuple[Network, ...], is_trusted: bool, forwarded: bytes
) -> None:
    """Only networks that the settings name may name the user; the upstream learns who said it."""
    with Bench(downstream=DownstreamSettings(identity_headers_from=networks)) as bench:
        client = bench.client(peer)
        bench.send(client, GET[:-2] + b"X-Remote-User: u\r\n\r\n")
        sent = bench.upstreams[0].take()
        exchange = connection_of(client).exchange

        assert exchange is not None
        assert ("u" if is_trusted else "system:anonymous") == exchange.passage.user_name
        assert is_trusted == (b"X-Remote-User: u\r\n" in sent)
        assert sent.endswith(b"\r\nX-Forwarded-For: " + forwarded + b"\r\n\r\n")
        bench.end(client)
        bench.assert_at_rest()


@pytest.mark.parametrize("has_come", [True, False])
def test_request_that_comes_while_an_idle_connection_is_closed(has_come: bool) -> None:
    """What the kernel has already is read and answered; without it the connection ends."""
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
        pytest.param(SIZED + b"body", False, id="sized-fits"),
        pytest.param(SIZED.replace(b"4", b"5") + b"bodyy", True, id="sized"),
        pytest.param(SIZED.replace(b"4", b"5"), True, id="sized-before-it-comes"),
        pytest.param(CHUNKED + b"4\r\nbody\r\n0\r\n\r\n", False, id="chunked-fits"),
        pytest.param(CHUNKED + b"2\r\nbo\r\n3\r\ndyy\r\n0\r\n\r\n", True, id="chunked"),
        pytest.param(CHUNKED + b"4\r\nbody\r\n", True, id="grows"),
    ],
)
def test_length_of_a_body(request_: bytes, *, is_refused: bool) -> None:
    """One that is too long gets a 413 with the limit; what was forwarded of it is cut."""
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


def test_idle_connections_can_be_hastened(bench: Bench) -> None:
    """What has begun, if only with a byte, goes on; nothing is put off."""
    clients = [bench.client(), bench.ask(b"G"), bench.ask(GET)]
    for client in clients:
        connection_of(client).close_when_idle(bench.clock.now_ns() + 1_000_000_000)
        connection_of(client).close_when_idle(bench.clock.now_ns() + 9_000_000_000)
    bench.wait(2)

    assert ["close", "", ""] == [client.ended_by for client in clients]
    assert 2 == bench.counters.listener.connections_open
    assert 3 == bench.counters.listener.connections_accepted
    bench.end(clients[2])


def test_nothing_is_sent_after_the_end(bench: Bench) -> None:
    """Once it is closed, all that may still be asked of it does nothing."""
    client = bench.ask(GET)
    connection = connection_of(client)
    exchange = connection.exchange
    assert exchange is not None
    connection.abort()
    connection.send(b"x")
    connection.pause_reading()
    connection.resume_reading()
    connection.abort_after_write()
    connection.close_when_idle(0)

    assert b"" == client.take()
    assert "abort" == client.ended_by
    connection.on_exchange_end(exchange, bench.clock.now_ns())
    exchange.on_client_left()
    bench.loop.run_ready()
