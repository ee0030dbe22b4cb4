"""Streams: each is the client of one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from apfproxy.http.read_buffer import MAX_LINGER_BYTES, READ_BYTES
from apfproxy.settings import LimitSettings
from tests.proxy.fakes import CHUNKED_OK, OK
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer, http2_bench

if TYPE_CHECKING:
    from apfproxy.proxy.http2.connection import Http2Connection
    from tests.proxy.fakes import Bench

WATCH = b"/api/v1/pods?watch=1"
SIZED_OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
SMALL_BODIES = replace(CLEARTEXT, limits=LimitSettings(max_body_bytes=3))


def test_get(bench: Bench) -> None:
    """The server gets HTTP/1.1, the client the answer with names in lower case."""
    client = Http2Peer(bench)
    for _ in range(4):  # it is known as a whole from the third time on
        stream = client.ask(fields=[(b"accept", b"*/*")])
        forwarded = bench.upstreams[0].take()
        assert forwarded.startswith(
            b"GET /api/v1/namespaces/a/pods/b HTTP/1.1\r\nHost: h\r\naccept: */*\r\n"
        )
        assert forwarded.endswith(b"Via: 2.0 apfproxy\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n")
        client.get()
        answer = client.answers[stream]
        assert (200, b"ok", True) == (answer.status, answer.body, answer.is_whole)
        assert b"2" == answer.fields[b"content-length"]
        assert b"connection" not in answer.fields


@pytest.mark.parametrize("has_length", [False, True])
def test_body_with_the_head(bench: Bench, *, has_length: bool) -> None:
    """All of it in one read: it goes on as it is, or as chunks."""
    client = Http2Peer(bench)
    fields = [(b"content-length", b"4")] if has_length else []
    stream = client.ask(b"/x", b"POST", fields, b"body")

    forwarded = bench.upstreams[0].take()
    assert has_length == forwarded.endswith(b"\r\n\r\nbody")
    assert has_length != forwarded.endswith(b"\r\n\r\n4\r\nbody\r\n0\r\n\r\n")
    client.get()
    assert client.answers[stream].is_whole


def test_body_and_trailers_in_parts(bench: Bench) -> None:
    """Frames of one read make one chunk: each would be six times as long as what it holds."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", body=b"")
    client.put(stream, b"one")
    bench.upstreams[0].take()
    for _ in range(3):
        client.h2.send_data(stream, b"x")
    client.h2.send_headers(
        stream, [(b"x-sum", b"7"), (b"x-remote-user", b"admin")], end_stream=True
    )
    client.send()

    assert b"3\r\nxxx\r\n0\r\nx-sum: 7\r\n\r\n" == bench.upstreams[0].take()
    client.get()
    assert client.answers[stream].is_whole


def test_body_over_the_limit() -> None:
    """It gets 413, and its rest is taken for a while; the connection serves others."""
    with http2_bench(idle_upstreams=2, downstream=SMALL_BODIES) as bench:
        client = Http2Peer(bench)
        known = client.ask(b"/x", b"POST", [(b"content-length", b"4")], b"body")
        unknown = client.ask(b"/x", b"POST", body=b"")
        client.put(unknown, b"body")
        long = client.ask(b"/x", b"POST", [(b"content-length", b"200000")], b"")
        assert 200_000 == client.put_all(long, 200_000)
        client.put(long, b"", is_last=True)
        bench.wait(3)
        client.take()
        assert [413] * 3 == [client.answers[each].status for each in (known, unknown, long)]
        assert client.answers[long].reset_by is None
        assert 1 == len(bench.listener.connections)

        last = client.ask()
        bench.send(next(each for each in bench.upstreams if not each.ended_by), OK)
        client.take()
        assert 200 == client.answers[last].status
        bench.assert_at_rest()


def test_nobody_takes_the_body(bench: Bench) -> None:
    """While the request waits for its seats the client may send a window, and no more."""
    client = Http2Peer(bench)
    holder = client.ask()
    waiting = client.ask(b"/x", b"POST", [(b"content-length", b"1000000")], b"")
    assert READ_BYTES == client.put_all(waiting, 1_000_000)
    assert (1, 1, 0) == bench.use()

    client.get()
    assert client.answers[holder].is_whole
    assert 1_000_000 - READ_BYTES == client.put_all(waiting, 1_000_000 - READ_BYTES)
    client.put(waiting, b"", is_last=True)
    assert 1_000_000 == len(bench.upstreams[0].take().rpartition(b"10.0.0.1\r\n\r\n")[2])
    client.get()
    assert client.answers[waiting].is_whole


def test_nobody_takes_a_body_that_came_with_its_head(bench: Bench) -> None:
    client = Http2Peer(bench)
    client.ask()
    waiting = client.h2.get_next_available_stream_id()
    head = {b":method": b"POST", b":scheme": b"http", b":authority": b"h", b":path": b"/x"}
    client.h2.send_headers(waiting, list(head.items()))
    for size in (16384, 16384, 15000):
        client.h2.send_data(waiting, bytes(size))
    client.send()

    assert READ_BYTES - 16384 * 2 - 15000 == client.h2.local_flow_control_window(waiting)


def test_client_takes_nothing(bench: Bench) -> None:
    """Its window is full: the server is not read any more, until there is room."""
    client = Http2Peer(bench, acknowledges=False)
    stream = client.ask()
    size = 1 << 20
    bench.send(bench.upstreams[0], SIZED_OK % size)
    client.get(bytes(size))
    assert not bench.upstreams[0].reads
    assert 65535 == len(client.answers[stream].body)

    client.h2.increment_flow_control_window(size)
    client.h2.increment_flow_control_window(size, stream)
    for _ in range(20):
        client.send()
        bench.send(bench.upstreams[0], b"")
    assert bench.upstreams[0].reads
    assert (size, True) == (len(client.answers[stream].body), client.answers[stream].is_whole)


def test_streams_that_take_nothing_hold_up_no_other() -> None:
    """Their windows are full, and answers beside them on the connection come at once."""
    with http2_bench(seats=5, idle_upstreams=5) as bench:
        client = Http2Peer(bench, acknowledges=False)
        client.h2.increment_flow_control_window(1 << 20)
        stuck = [client.ask() for _ in range(4)]
        for upstream in bench.upstreams[1:]:  # the last ones are taken first
            bench.send(upstream, SIZED_OK % (1 << 20) + bytes(1 << 20))
        client.take()
        assert [65535] * 4 == [len(client.answers[each].body) for each in stuck]

        other = client.ask()
        client.get()
        assert (b"ok", True) == (client.answers[other].body, client.answers[other].is_whole)
        for each in stuck:
            client.reset(each)
        bench.assert_at_rest()


def test_client_gives_up(bench: Bench) -> None:
    """A reset is a client that left: its seats go to the next."""
    client = Http2Peer(bench)
    first, second = client.ask(), client.ask()
    assert (1, 1, 0) == bench.use()
    client.reset(first)

    assert (1, 0, 1) == bench.use()
    assert 1 == bench.counters.client_aborts
    client.reset(second)


@pytest.mark.parametrize("is_over", [False, True])
def test_server_breaks_off(bench: Bench, *, is_over: bool) -> None:
    """The client gets what there is, and can tell that it is not all."""
    client = Http2Peer(bench)
    stream = client.ask()
    bench.send(bench.upstreams[0], CHUNKED_OK + b"2\r\nok\r\n" + b"0\r\n\r\n" * is_over)
    bench.end(bench.upstreams[0])
    bench.loop.run_ready()
    client.take()

    answer = client.answers[stream]
    assert (b"ok", is_over) == (answer.body, answer.is_whole)
    assert (None if is_over else 2) == answer.reset_by


def test_interim_and_trailers(bench: Bench) -> None:
    """The client is asked for its body once there is a connection for it."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", [(b"expect", b"100-continue")], b"")
    client.put(stream, b"", is_last=True)
    bench.send(bench.upstreams[0], b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    client.get(CHUNKED_OK + b"2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")

    answer = client.answers[stream]
    assert ([100, 103], b"ok", [(b"x-sum", b"7")]) == (answer.interim, answer.body, answer.trailers)
    assert answer.is_whole


def test_head_has_no_body(bench: Bench) -> None:
    """Its length is that of the body that GET would have."""
    client = Http2Peer(bench)
    stream = client.ask(method=b"HEAD")
    client.get(SIZED_OK % 7)

    answer = client.answers[stream]
    assert (b"7", b"", True) == (answer.fields[b"content-length"], answer.body, answer.is_whole)


def test_deadline(bench: Bench) -> None:
    """A request that takes too long gets 504; its stream alone ends."""
    client = Http2Peer(bench)
    late = client.ask()
    bench.wait(60)
    client.take()

    assert (504, True) == (client.answers[late].status, client.answers[late].is_whole)
    assert [] == client.goaways


def test_watch_is_ended_by_a_drain(bench: Bench) -> None:
    client = Http2Peer(bench)
    stream = client.ask(WATCH)
    bench.send(bench.upstreams[0], CHUNKED_OK + b"2\r\n{}\r\n")
    connections = list(bench.listener.connections)
    assert [False, True] == [each.can_end_watch for each in connections]
    for connection in connections:
        connection.end_watch()
    bench.loop.run_ready()
    client.take()

    assert (b"{}", True) == (client.answers[stream].body, client.answers[stream].is_whole)


@pytest.mark.parametrize("path", [b"/x", WATCH])
def test_cluster_is_gone(bench: Bench, path: bytes) -> None:
    """The client is told; its connection goes on, with requests of other clusters perhaps."""
    client = Http2Peer(bench)
    stream = client.ask(path)
    bench.send(bench.upstreams[0], CHUNKED_OK + b"2\r\n{}\r\n")
    (serving,) = [each for each in bench.listener.connections if each.is_serving(bench.context)]
    serving.leave()
    bench.loop.run_ready()
    client.take()

    assert (2, "") == (client.answers[stream].reset_by, client.transport.ended_by)
    assert 0 == bench.counters.listener.http2.streams_open


@pytest.mark.parametrize(
    ("rest", "taken", "is_over"),
    [
        pytest.param((1 << 20) - 4, (1 << 20) - 4, False, id="all"),
        pytest.param((1 << 21) - 4, MAX_LINGER_BYTES, False, id="too-much"),
        pytest.param(5, 5, True, id="to-its-end"),
    ],
)
def test_rest_of_a_request_that_is_answered(
    bench: Bench, rest: int, taken: int, *, is_over: bool
) -> None:
    """It is thrown away for a while: a reset that comes at once costs some clients the answer."""
    client = Http2Peer(bench)
    size = b"%d" % (9 if is_over else 1 << 21)
    stream = client.ask(b"/x", b"POST", [(b"content-length", size)], b"")
    client.put(stream, b"body")
    client.get()
    answer = client.answers[stream]
    assert (200, True) == (answer.status, answer.is_whole)

    assert taken <= client.put_all(stream, rest) <= taken + READ_BYTES
    if is_over:
        client.put(stream, b"", is_last=True)
    assert answer.reset_by is None
    bench.wait(2.1)
    client.take()
    assert (None if is_over else 0) == answer.reset_by
    assert 1 == len(bench.listener.connections)


def unfinished(bench: Bench) -> tuple[Http2Peer, int]:
    """A client that takes but a window of an answer that is through."""
    client = Http2Peer(bench, acknowledges=False)
    stream = client.ask()
    bench.send(bench.upstreams[0], SIZED_OK % 70000 + bytes(70000))
    client.take()
    bench.assert_at_rest()
    return client, stream


def test_client_that_never_takes_the_rest(bench: Bench) -> None:
    """The stream of an answer that is through is reset after a time, and only that."""
    client, stream = unfinished(bench)
    bench.wait(91)
    client.take()

    assert 8 == client.answers[stream].reset_by
    assert 1 == len(bench.listener.connections)


def test_full_transport_while_a_stream_is_given_up(bench: Bench) -> None:
    """A connection that is full for a moment lives on; one that stays so is cut."""
    client, _ = unfinished(bench)
    client.ask(WATCH)
    client.get(CHUNKED_OK + b"2\r\n{}\r\n")
    bench.wait(80)
    cast("Http2Connection", client.transport.protocol).pause_writing()
    bench.wait(11)
    assert "" == client.transport.ended_by

    bench.wait(91)
    assert "abort" == client.transport.ended_by
