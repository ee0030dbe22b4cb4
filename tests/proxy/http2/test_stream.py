"""Streams: each is the client of one exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.http.read_buffer import MAX_LINGER_BYTES, READ_BYTES
from apfproxy.settings import LimitSettings
from tests.proxy.fakes import CHUNKED_OK, OK
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer, http2_bench

if TYPE_CHECKING:
    from apfproxy.proxy.http2.connection import Http2Connection
    from tests.proxy.fakes import Bench

WATCH = b"/api/v1/pods?watch=1"


def test_get(bench: Bench) -> None:
    """The server gets HTTP/1.1, the client the answer with names in lower case."""
    client = Http2Peer(bench)
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
    bench.assert_at_rest()


def test_the_same_head_again(bench: Bench) -> None:
    """It is known as a whole from the third time on."""
    client = Http2Peer(bench)
    for _ in range(4):
        stream = client.ask()
        client.get()
        assert 200 == client.answers[stream].status
    bench.assert_at_rest()


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
    bench.assert_at_rest()


def test_body_and_trailers_in_parts(bench: Bench) -> None:
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", body=b"")
    client.h2.send_data(stream, b"one")
    client.send()
    client.h2.send_data(stream, b"two")
    client.h2.send_headers(
        stream, [(b"x-sum", b"7"), (b"x-remote-user", b"admin")], end_stream=True
    )
    client.send()

    assert (
        bench.upstreams[0].take().endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\nx-sum: 7\r\n\r\n")
    )
    client.get()
    assert client.answers[stream].is_whole
    bench.assert_at_rest()


def test_body_over_the_limit() -> None:
    """It gets 413, and the connection serves others."""
    limits = LimitSettings(max_body_bytes=3)
    with http2_bench(idle_upstreams=2, downstream=replace(CLEARTEXT, limits=limits)) as bench:
        client = Http2Peer(bench)
        known = client.ask(b"/x", b"POST", [(b"content-length", b"4")], b"body")
        unknown = client.ask(b"/x", b"POST", body=b"")
        client.h2.send_data(unknown, b"body")
        client.send()

        assert [413, 413] == [client.answers[each].status for each in (known, unknown)]
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
    while room := client.h2.local_flow_control_window(waiting):
        client.h2.send_data(waiting, bytes(min(room, 16384)))
        client.send()
    sent = READ_BYTES
    assert 0 == client.h2.local_flow_control_window(waiting)
    assert (1, 1, 0) == bench.use()

    client.get()
    assert client.answers[holder].is_whole
    while sent < 1_000_000:
        size = min(client.h2.local_flow_control_window(waiting), 16384, 1_000_000 - sent)
        assert size, "what is passed on makes room"
        sent += size
        client.h2.send_data(waiting, bytes(size), end_stream=sent == 1_000_000)
        client.send()
    assert 1_000_000 == len(bench.upstreams[0].take().rpartition(b"10.0.0.1\r\n\r\n")[2])
    client.get()
    assert client.answers[waiting].is_whole
    bench.assert_at_rest()


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
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
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
    bench.assert_at_rest()


def test_streams_that_take_nothing_hold_up_no_other() -> None:
    """Their windows are full, and answers beside them on the connection come at once."""
    with http2_bench(seats=5, idle_upstreams=5) as bench:
        client = Http2Peer(bench, acknowledges=False)
        client.h2.increment_flow_control_window(1 << 20)
        stuck = [client.ask() for _ in range(4)]
        size = 1 << 20
        for upstream in bench.upstreams[1:]:  # the last ones are taken first
            bench.send(upstream, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            bench.send(upstream, bytes(size))
        client.take()
        assert [65535] * 4 == [len(client.answers[each].body) for each in stuck]

        for _ in range(3):
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
    bench.assert_at_rest()


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
    bench.assert_at_rest()


def test_interim_and_trailers(bench: Bench) -> None:
    client = Http2Peer(bench)
    stream = client.ask()
    bench.send(bench.upstreams[0], b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    client.get(CHUNKED_OK + b"2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")

    answer = client.answers[stream]
    assert ([103], b"ok", [(b"x-sum", b"7")]) == (answer.interim, answer.body, answer.trailers)
    assert answer.is_whole
    bench.assert_at_rest()


def test_expectation(bench: Bench) -> None:
    """The client is asked for its body once there is a connection for it."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", [(b"expect", b"100-continue")], b"")
    assert [100] == client.answers[stream].interim
    client.h2.end_stream(stream)
    client.send()
    client.get()

    assert client.answers[stream].is_whole
    bench.assert_at_rest()


def test_head_has_no_body(bench: Bench) -> None:
    """Its length is that of the body that GET would have."""
    client = Http2Peer(bench)
    stream = client.ask(method=b"HEAD")
    client.get(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")

    answer = client.answers[stream]
    assert (b"7", b"", True) == (answer.fields[b"content-length"], answer.body, answer.is_whole)
    bench.assert_at_rest()


def test_deadline(bench: Bench) -> None:
    """A request that takes too long gets 504; its stream alone ends."""
    client = Http2Peer(bench)
    late = client.ask()
    bench.wait(60)
    client.take()

    assert (504, True) == (client.answers[late].status, client.answers[late].is_whole)
    assert [] == client.goaways
    client.ask()
    bench.connect()
    bench.send(bench.upstreams[1], OK)
    bench.assert_at_rest()


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
    bench.assert_at_rest()


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

    assert 2 == client.answers[stream].reset_by
    assert "" == client.transport.ended_by
    assert 0 == bench.counters.listener.http2.streams_open
    bench.assert_at_rest()


def answered_early(bench: Bench) -> tuple[Http2Peer, int]:
    """A client that has its answer, and some of 2 MiB left to say; the stream lingers."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", [(b"content-length", b"%d" % (1 << 21))], b"")
    client.h2.send_data(stream, b"body")
    client.send()
    client.get()
    assert (200, True) == (client.answers[stream].status, client.answers[stream].is_whole)
    bench.assert_at_rest()
    return client, stream


def send_as_much_as_it_may(client: Http2Peer, stream: int, most: int) -> int:
    sent = 0
    while sent < most and (room := client.h2.local_flow_control_window(stream)):
        size = min(room, 16384, most - sent)
        client.h2.send_data(stream, bytes(size))
        client.send()
        sent += size
    return sent


def test_answer_before_the_end_of_the_request(bench: Bench) -> None:
    """The client may say the rest: a reset that comes at once costs some clients the answer."""
    client, stream = answered_early(bench)
    rest = (1 << 20) - 4

    assert rest == send_as_much_as_it_may(client, stream, rest)
    assert client.answers[stream].reset_by is None
    bench.wait(2.1)
    client.take()
    assert 0 == client.answers[stream].reset_by
    assert 1 == len(bench.listener.connections)


def test_rest_of_a_request_that_ends(bench: Bench) -> None:
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", [(b"content-length", b"9")], b"")
    client.h2.send_data(stream, b"body")
    client.send()
    client.get()
    client.h2.send_data(stream, b"whole", end_stream=True)
    client.send()
    bench.wait(3)
    client.take()

    assert client.answers[stream].reset_by is None
    assert 1 == len(bench.listener.connections)
    bench.assert_at_rest()


def test_rest_of_a_request_that_is_too_long(bench: Bench) -> None:
    """Of what nobody wants no more than 1 MiB, and what has room already, is taken."""
    client, stream = answered_early(bench)

    sent = send_as_much_as_it_may(client, stream, (1 << 21) - 4)

    assert MAX_LINGER_BYTES <= sent <= MAX_LINGER_BYTES + READ_BYTES
    bench.wait(2.1)
    client.take()
    assert 0 == client.answers[stream].reset_by


def test_refused_body_is_taken_for_a_while() -> None:
    limits = LimitSettings(max_body_bytes=3)
    with http2_bench(downstream=replace(CLEARTEXT, limits=limits)) as bench:
        client = Http2Peer(bench)
        stream = client.ask(b"/x", b"POST", [(b"content-length", b"200000")], b"")
        assert (413, None) == (client.answers[stream].status, client.answers[stream].reset_by)
        assert 200_000 == send_as_much_as_it_may(client, stream, 200_000)
        client.h2.end_stream(stream)
        client.send()
        bench.wait(3)
        client.take()

        assert client.answers[stream].reset_by is None
        assert 1 == len(bench.listener.connections)
        bench.assert_at_rest()


def test_client_that_never_takes_the_rest(bench: Bench) -> None:
    """The stream of an answer that is through is reset after a time, and only that."""
    client = Http2Peer(bench, acknowledges=False)
    stream = client.ask()
    bench.send(
        bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + bytes(70000)
    )
    client.take()
    bench.assert_at_rest()
    bench.wait(91)
    client.take()

    assert 8 == client.answers[stream].reset_by
    assert 1 == len(bench.listener.connections)


def test_full_transport_while_a_stream_is_given_up(bench: Bench) -> None:
    """A connection that is full for a moment lives on; one that stays so is cut."""
    client = Http2Peer(bench, acknowledges=False)
    client.ask()
    bench.send(
        bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + bytes(70000)
    )
    client.take()
    client.ask(WATCH)
    client.get(CHUNKED_OK + b"2\r\n{}\r\n")
    bench.wait(80)
    cast("Http2Connection", client.transport.protocol).pause_writing()
    bench.wait(11)
    assert "" == client.transport.ended_by

    bench.wait(91)
    assert "abort" == client.transport.ended_by
    bench.assert_at_rest()


def test_body_byte_by_byte(bench: Bench) -> None:
    """Frames of one read make one chunk: each would be six times as long as what it holds."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", b"POST", body=b"")
    bench.upstreams[0].take()
    for _ in range(5):
        client.h2.send_data(stream, b"x")
    client.h2.end_stream(stream)
    client.send()

    assert b"5\r\nxxxxx\r\n0\r\n\r\n" == bench.upstreams[0].take()
