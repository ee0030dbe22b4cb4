"""What waits on a connection of HTTP/2 is counted, bounded, and never counted longer."""

from __future__ import annotations

import pytest

from apfproxy.proxy.counters import Bound, GoAway
from apfproxy.proxy.http2.connection import Http2Connection
from apfproxy.settings import DownstreamSettings, Http2Settings, LimitSettings
from tests.end_to_end.http2.frames import (
    Code,
    FrameReader,
    Kind,
    continuation,
    headers,
    literal,
    request,
)
from tests.proxy.fakes import OK, Bench
from tests.proxy.http2.peer import Http2Peer, http2_bench

LARGE_FIELDS = [(b"x-%d" % each, b"y" * 1000) for each in range(5)]
POST_FIELDS = [(b"content-length", b"4")]
CONNECT = [(b"sec-websocket-version", b"13")]
EXEC = b"/api/v1/namespaces/a/pods/b/exec?command=ls"
CONNECTION_BYTES = 1 << 18
ANSWER_BYTES = 60_000
"""Less than a read, so the server is through with each at once."""


def bench_of(most: int | None = None, *, seats: int = 1) -> Bench:
    limits = LimitSettings(max_held_bytes=most, max_held_bytes_per_connection=CONNECTION_BYTES)
    http2 = Http2Settings(is_cleartext=True)
    return http2_bench(seats=seats, downstream=DownstreamSettings(limits=limits, http2=http2))


def held(bench: Bench) -> int:
    return bench.counters.listener.held_bytes


def connection_of(client: Http2Peer) -> Http2Connection:
    assert isinstance(client.transport.protocol, Http2Connection)
    return client.transport.protocol


def test_streams_that_wait() -> None:
    """Each is counted until it gets its seats, or its client has reset it."""
    with bench_of() as bench:
        client = Http2Peer(bench)
        client.ask()
        assert 0 == held(bench)
        client.ask()
        of_one = held(bench)
        assert 0 < of_one < 1000
        third = client.ask(fields=LARGE_FIELDS)
        assert 5000 < held(bench) < 7000
        client.reset(third)
        assert of_one == held(bench)
        client.ask()
        client.transport.end()
        bench.assert_at_rest()


@pytest.mark.parametrize(
    ("method", "fields", "body"),
    [
        pytest.param(b"GET", [], None, id="queued"),
        pytest.param(b"PUT", [], None, id="memory-is-short"),
        pytest.param(b"GET", LARGE_FIELDS, None, id="large"),
        pytest.param(b"POST", POST_FIELDS, b"", id="gathered"),
    ],
)
def test_no_room_for_a_stream(
    method: bytes, fields: list[tuple[bytes, bytes]], body: bytes | None
) -> None:
    """Its client may send it again; the others go on."""
    with bench_of(20) as bench:
        client = Http2Peer(bench)
        first = client.ask()
        bench.listener.holdings.set_short(is_short=method == b"PUT")
        refused = client.ask(b"/api/v1/namespaces/a/pods/c", method, fields, body)
        bench.listener.holdings.set_short(is_short=False)

        assert Code.REFUSED_STREAM == client.answers[refused].reset_by
        client.get()
        assert client.answers[first].is_whole
        again = client.ask()
        client.get()
        assert 200 == client.answers[again].status
        bound = Bound.OVERLOAD if method == b"PUT" else Bound.PROCESS
        assert 1 == bench.counters.listener.held_refusals[bound]
        bench.assert_at_rest()


def test_block_that_is_not_whole() -> None:
    """What has come of it is counted once it is much, until it is whole or its client gone."""
    with bench_of() as bench:
        client = Http2Peer(bench)
        more = literal(b"x-more", b"y" * 5000)
        bench.send(client.transport, headers(1, request(), is_whole=False))
        assert 0 == held(bench)
        bench.send(client.transport, continuation(1, more, is_whole=False))
        assert 5000 < held(bench) < 5200
        bench.send(client.transport, continuation(1, b""))
        assert b"x-more: yyy" in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.send(client.transport, headers(3, more, is_whole=False))
        assert 5000 < held(bench)
        client.transport.end()
        bench.assert_at_rest()


def test_no_room_for_a_block() -> None:
    """Its connection ends, since nothing else can come on it."""
    with bench_of(6000) as bench:
        client = Http2Peer(bench)
        client.send(headers(1, request() + literal(b"x-more", b"y" * 5000), is_whole=False))

        assert [Code.ENHANCE_YOUR_CALM] == [code for _, code in client.goaways]
        assert 1 == bench.counters.listener.http2.goaways[GoAway.MEMORY]
        bench.assert_at_rest()


def test_no_room_for_a_block_beside_other_requests() -> None:
    with bench_of(6000) as bench:
        client = Http2Peer(bench)
        first = client.ask()
        large = literal(b"x-more", b"y" * 5000)
        bench.send(client.transport, headers(3, request() + large, is_whole=False))
        bench.wait(1)
        bench.send(client.transport, continuation(3, b""))
        bench.wait(2)
        bench.send(bench.upstreams[0], OK)
        sent = FrameReader().feed(client.transport.take())
        assert [Code.REFUSED_STREAM] == [each.code for each in sent if each.kind == Kind.RST_STREAM]
        assert Kind.GOAWAY not in [each.kind for each in sent]
        assert (first, True) in [(each.stream_id, each.ends) for each in sent]

        bench.send(client.transport, headers(5, request()))
        bench.send(client.transport, headers(7, request() + large, is_whole=False))
        bench.wait(2)
        sent = FrameReader().feed(client.transport.take())
        assert [Code.ENHANCE_YOUR_CALM] == [each.code for each in sent]
        bench.assert_at_rest()


def answers_not_taken(bench: Bench, client: Http2Peer) -> list[int]:
    """Streams whose answers are through but for their client."""
    streams = []
    while connection_of(client)._session.unsent_bytes <= CONNECTION_BYTES:  # noqa: SLF001  as such
        streams.append(client.ask())
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ANSWER_BYTES
        bench.send(bench.upstreams[0], answer + bytes(ANSWER_BYTES))
    return streams


def test_answers_that_are_not_taken() -> None:
    """Their connection gets no others until they are."""
    with bench_of() as bench:
        client = Http2Peer(bench, acknowledges=False)
        taken = answers_not_taken(bench, client)
        assert 6 == len(taken)
        refused = client.ask()
        assert Code.REFUSED_STREAM == client.answers[refused].reset_by
        for stream in taken[1:]:  # the first has had the connection's window
            client.h2.increment_flow_control_window(ANSWER_BYTES, stream)
        client.h2.increment_flow_control_window(len(taken) * ANSWER_BYTES)
        client.send()
        assert all(client.answers[stream].is_whole for stream in taken)
        served = client.ask()
        client.get()

        assert client.answers[served].is_whole
        bench.assert_at_rest()


@pytest.mark.parametrize(
    ("waits_s", "is_memory_short"),
    [
        pytest.param((89, 2), False, id="idle-timeout"),
        pytest.param((0.5, 0.6), True, id="short-memory"),
    ],
)
def test_answers_that_are_not_taken_for_long(
    waits_s: tuple[float, float], *, is_memory_short: bool
) -> None:
    """They are given up, while memory is short after a second: nobody may be there."""
    with bench_of() as bench:
        client = Http2Peer(bench, acknowledges=False)
        last = answers_not_taken(bench, client)[-1]
        for wait_s, is_reset in zip(waits_s, (False, True), strict=True):
            bench.wait(wait_s)
            if is_memory_short:
                for connection in list(bench.listener.connections):
                    connection.relieve(bench.clock.now_ns())
                bench.wait(0)
            client.take()
            assert is_reset == (client.answers[last].reset_by is not None)

        assert 0 == connection_of(client)._session.unsent_bytes  # noqa: SLF001  nothing else tells
        bench.assert_at_rest()


def test_bytes_before_a_tunnel() -> None:
    """They are counted until it is there, or its stream gone; without room it is reset."""
    with bench_of(30_000) as bench:
        client = Http2Peer(bench)
        stream = client.ask(EXEC, b"CONNECT", CONNECT, b"", b"websocket")
        before = held(bench)
        client.put(stream, bytes(9000))
        assert before + 9000 == held(bench)
        client.put(stream, bytes(9000))

        assert Code.ENHANCE_YOUR_CALM == client.answers[stream].reset_by
        assert 1 == bench.counters.listener.held_refusals[Bound.ADDRESS]
        bench.assert_at_rest()


def test_field_that_the_library_does_not_take() -> None:
    """Its stream gets 431, and the others go on."""
    with bench_of() as bench:
        client = Http2Peer(bench)
        first = client.ask()
        block = request() + literal(b"x-long", b"y" * 66_000)
        parts = [block[at : at + 16384] for at in range(0, len(block), 16384)]
        bench.send(
            client.transport,
            headers(3, parts[0], is_whole=False)
            + b"".join(continuation(3, part, is_whole=False) for part in parts[1:-1])
            + continuation(3, parts[-1]),
        )
        [head, body] = FrameReader().feed(client.transport.take())
        assert b"431" == dict(client.h2.decoder.decode(head.payload, raw=True))[b":status"]
        assert b"longer than 64 KiB" in body.payload
        client.get()
        assert client.answers[first].is_whole
        bench.assert_at_rest()
