"""Bodies of requests, on their way to the upstream."""

from __future__ import annotations

import pytest

from apfproxy.http.read_buffer import READ_BYTES
from tests.proxy.fakes import (
    CHUNKED_OK,
    CHUNKED_POST,
    GET,
    OK,
    POST,
    Bench,
    body,
    status,
)


def test_body_with_the_head(bench: Bench) -> None:
    """All of it goes on in one write."""
    client = bench.ask(POST + b"\r\nbody")
    assert bench.upstreams[0].take().endswith(b"X-Forwarded-For: 10.0.0.1\r\n\r\nbody")
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    bench.assert_at_rest()


def test_body_in_pieces(bench: Bench) -> None:
    """Each piece goes on as it comes; the connection is kept once both sides are through."""
    client = bench.ask(POST + b"\r\nb")
    for piece in (b"od", b"y"):
        bench.send(client, piece)
    assert bench.upstreams[0].take().endswith(b"\r\n\r\nbody")
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    assert 1 == bench.pool.idle_count
    bench.assert_at_rest()


def test_chunked_body_with_trailers(bench: Bench) -> None:
    """It is framed anew; trailers that may be passed on are."""
    client = bench.ask(CHUNKED_POST + b"\r\n1;x=y\r\na\r\n2\r\nb")
    bench.send(client, b"c\r\n0\r\nA: b\r\nHost: i\r\n\r\n")
    _, _, sent = bench.upstreams[0].take().partition(b"\r\n\r\n")
    assert b"2\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n" == sent
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    bench.assert_at_rest()


def test_body_waits_with_its_request(bench: Bench) -> None:
    """What comes in the queue is held, up to a bound, and sent first."""
    first = bench.ask(GET)
    size = 3 * READ_BYTES
    client = bench.ask(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
    client.feed(b"x" * size)
    assert not client.reads
    bench.upstreams[0].take()
    bench.send(bench.upstreams[0], OK)

    assert client.reads
    assert b"x" * size == body(bench.upstreams[0].take())
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(client.take())
    bench.end(first)
    bench.assert_at_rest()


def test_large_first_piece_waits_alone(bench: Bench) -> None:
    """No more is read before there is a connection to pass it on to."""
    first = bench.ask(GET)
    client = bench.client()
    client.feed((b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n") + b"x" * 50000)
    assert not client.reads
    bench.send(bench.upstreams[0], OK)

    assert client.reads
    bench.end(client)
    bench.end(first)
    bench.assert_at_rest()


def test_small_body_that_waits_pauses_nothing(bench: Bench) -> None:
    """Below the bound the client's connection stays open to hear of its end."""
    first, second = bench.ask(GET), bench.ask(POST + b"\r\nb")
    bench.send(second, b"od")
    assert second.reads
    bench.end(second)
    bench.end(first)

    bench.assert_at_rest()


def test_upstream_is_slow_to_take_a_body(bench: Bench) -> None:
    """Then the client's connection is paused, and goes on when the upstream has."""
    client = bench.ask(POST.replace(b": 4", b": 9") + b"\r\n1")
    upstream = bench.upstreams[0]
    upstream.protocol.pause_writing()
    bench.send(client, b"2")
    assert not client.reads
    upstream.protocol.resume_writing()
    bench.loop.run_ready()
    assert client.reads
    bench.send(client, b"3456789")
    assert b"123456789" == body(upstream.take())
    bench.send(upstream, OK)

    assert b"200" == status(client.take())
    upstream.protocol.pause_writing()
    upstream.protocol.resume_writing()
    bench.assert_at_rest()


def test_connection_that_still_writes_is_waited_for(bench: Bench) -> None:
    """A connection may be lent while it is slow; then the body is not read yet."""
    first = bench.ask(GET)
    bench.upstreams[0].protocol.pause_writing()
    client = bench.ask(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n")
    client.feed(b"x" * 50000)
    assert not client.reads
    bench.send(bench.upstreams[0], OK)
    assert not client.reads
    bench.upstreams[0].protocol.resume_writing()

    assert client.reads
    bench.end(client)
    bench.end(first)
    bench.assert_at_rest()


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "from-the-queue"])
def test_continue(bench: Bench, waits: bool) -> None:
    """The client is told to send its body when its turn has come, once."""
    first = bench.ask(GET) if waits else None
    client = bench.ask(POST + b"Expect: 100-continue\r\n\r\n")
    if first is not None:
        assert b"" == client.take()
        bench.send(bench.upstreams[0], OK)
        bench.end(first)
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.take()
    bench.send(bench.upstreams[0], b"HTTP/1.1 100 Continue\r\n\r\n")
    assert b"" == client.take()
    bench.send(client, b"body")
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    assert "" == client.ended_by
    bench.assert_at_rest()


def test_no_continue_for_a_body_that_comes_anyway(bench: Bench) -> None:
    """RFC 9110, section 10.1.1: it may be left out then."""
    client = bench.ask(POST + b"Expect: 100-continue\r\n\r\nb")

    assert b"" == client.take()
    bench.end(client)
    bench.assert_at_rest()


def test_answer_before_the_body_is_through(bench: Bench) -> None:
    """The client may go on after a body that is short; the upstream's connection may not."""
    client = bench.ask(POST + b"\r\nb")
    bench.send(bench.upstreams[0], b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    assert b"413" == status(client.take())
    assert "abort" == bench.upstreams[0].ended_by
    bench.assert_at_rest()
    bench.send(client, b"ody" + GET)
    bench.connect()
    bench.send(bench.upstreams[1], OK)

    assert b"200" == status(client.take())
    assert "" == client.ended_by
    bench.assert_at_rest()


def test_body_goes_on_while_the_answer_streams(bench: Bench) -> None:
    """Both directions are independent; then the connection is of further use."""
    client = bench.ask(POST + b"\r\nb")
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\no")
    bench.send(client, b"ody")
    assert bench.upstreams[0].take().endswith(b"\r\n\r\nbody")
    bench.send(bench.upstreams[0], b"kay")

    assert b"okay" == body(client.take())
    assert 1 == bench.pool.idle_count
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        pytest.param(b"", b"400", id="before-the-answer"),
        pytest.param(CHUNKED_OK, b"", id="within-the-answer"),
    ],
)
def test_body_that_breaks_off_in_nonsense(bench: Bench, answer: bytes, left: bytes) -> None:
    """The upstream's connection is given up; the client is told, if that is still possible."""
    client = bench.ask(CHUNKED_POST + b"\r\n1\r\na\r\n")
    bench.send(bench.upstreams[0], answer)
    client.take()
    bench.send(client, b"nonsense")

    assert left == status(client.take())
    assert "abort" == bench.upstreams[0].ended_by
    assert client.has_eof or client.ended_by
    bench.assert_at_rest()
