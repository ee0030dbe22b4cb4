"""Connections of HTTP/2: how they begin, are bounded, and end."""

from __future__ import annotations

from typing import cast

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from msgspec.structs import replace

from apfproxy.http.read_buffer import ANSWER_READ_BYTES
from apfproxy.proxy.counters import Flood, GoAway
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.http2.connection import PREFACE, Http2Connection
from apfproxy.settings import Http2Settings
from tests.proxy.fakes import CHUNKED_OK, GET, OK, Bench, broken, status
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer, http2_bench

EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
LAST = 2**31 - 1


@pytest.mark.parametrize("size", [1, 5, 24, 1000])
def test_preface_in_pieces(bench: Bench, size: int) -> None:
    """However it is cut."""
    client = bench.client()
    stream = PREFACE + EMPTY_SETTINGS
    for start in range(0, len(stream), size):
        bench.send(client, stream[start : start + size])

    assert isinstance(client.protocol, Http2Connection)
    assert b"\x00\x00\x00\x04\x01\x00\x00\x00\x00" in client.take()
    assert len(stream) == bench.counters.listener.bytes_from_clients
    assert 1 == bench.counters.listener.http2.connections_open
    assert 1 == len(bench.listener.connections)


@pytest.mark.parametrize("begin", [b"P", b"PRO\r\n\r\n", PREFACE[:-1] + b"x\r\n\r\n"])
def test_no_preface(bench: Bench, begin: bytes) -> None:
    """It is the begin of a request of HTTP/1.1, which may be served, malformed or late."""
    client = bench.client()
    bench.send(client, begin)
    if begin == b"P":
        bench.send(client, GET.replace(b"GET", b"UT"))
        assert b"PUT" == bench.upstreams[0].take()[:3]
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())
        bench.send(client, begin)
        bench.wait(33)
    assert status(client.take()) in (b"400", b"408", b"501", b"505")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ([(b"host", b"other")], 400),
        ([(b"x", b"y" * 60_000), (b"z", b"y" * 9_000)], 431),
        ([(b"x-%d" % number, b"") for number in range(257)], 431),
        ([(b"expect", b"a miracle")], 417),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_refused(bench: Bench, fields: list[tuple[bytes, bytes]], code: int, method: bytes) -> None:
    """By the rules of HTTP/1.1; the connection goes on."""
    client = Http2Peer(bench)
    stream = client.ask(b"/x", method, fields=fields)
    answer = client.answers[stream]
    assert (code, True) == (answer.status, answer.is_whole)
    assert bool(answer.body) == (method == b"GET")
    assert b"connection" not in answer.fields

    other = client.ask()
    client.get()
    assert 200 == client.answers[other].status


@pytest.mark.interpreted
def test_an_error_in_one_stream(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reset, and the others go on."""
    bench.loop.errors = []
    client = Http2Peer(bench)
    monkeypatch.setattr(Exchange, "on_connection", broken)
    bad = client.ask()
    monkeypatch.undo()
    assert 2 == client.answers[bad].reset_by
    assert 1 == len(bench.loop.errors)

    good = client.ask()
    bench.connect()
    bench.send(bench.upstreams[-1], OK)
    client.take()
    assert 200 == client.answers[good].status


def test_reset_with_the_request(bench: Bench) -> None:
    """What is reset within one read is never begun."""
    client = Http2Peer(bench)
    for _ in range(10):
        stream = client.h2.get_next_available_stream_id()
        pseudo = {b":method": b"GET", b":scheme": b"http", b":authority": b"h", b":path": b"/"}
        client.h2.send_headers(stream, list(pseudo.items()), end_stream=True)
        client.h2.reset_stream(stream)
    client.send()

    assert b"" == bench.upstreams[0].take()
    assert 0 == bench.counters.listener.http2.requests


@pytest.mark.parametrize("by", ["end", "reset"])
def test_client_leaves_with_requests_that_wait(by: str) -> None:
    """None of them gets a seat that another of them gives back: nobody would want its answer."""
    with http2_bench(seats=2, idle_upstreams=5) as bench:
        client = Http2Peer(bench)
        streams = [client.ask(b"/x", b"POST") for _ in range(5)]
        assert (2, 3, 0) == bench.use()
        assert 2 == sum(bool(each.take()) for each in bench.upstreams)
        if by == "end":
            bench.end(client.transport)
        else:
            for stream in streams:
                client.h2.reset_stream(stream)
            client.send()

        assert b"" == b"".join(each.take() for each in bench.upstreams)
        assert 5 == bench.counters.client_aborts
        assert 0 == bench.counters.listener.http2.streams_open
        assert (by == "end") == (not bench.counters.listener.http2.connections_open)
        assert (by == "end") == (not bench.listener.connections)
        bench.assert_at_rest()


def test_idle(bench: Bench) -> None:
    """Its end is announced, then said, then there; a request of that moment is still served."""
    client = Http2Peer(bench)
    client.ask()
    bench.send(bench.upstreams[0], OK)
    bench.wait(91)
    client.take()
    assert [(LAST, 0)] == client.goaways
    late = client.h2.get_next_available_stream_id()
    assert 3 == late
    bench.wait(3)
    client.take()

    assert [(LAST, 0), (1, 0)] == client.goaways
    assert client.transport.has_eof
    assert 1 == bench.counters.listener.http2.goaways[GoAway.IDLE]


def test_drain(bench: Bench) -> None:
    """Requests that are under way, or come before the client knows, are answered."""
    client = Http2Peer(bench)
    first = client.ask()
    drain(bench)
    bench.wait(3)
    assert "" == client.transport.ended_by
    client.get()

    assert [(LAST, 0), (first, 0)] == client.goaways
    assert client.answers[first].is_whole
    assert client.transport.has_eof
    assert 1 == bench.counters.listener.http2.goaways[GoAway.DRAIN]


def test_request_before_the_goaway_is_sent(bench: Bench) -> None:
    """It is not taken: the GOAWAY that waits says so, and the client will send it elsewhere."""
    client = Http2Peer(bench)
    first = client.ask(b"/x", b"POST")
    connection = cast("Http2Connection", client.transport.protocol)
    drain(bench)
    connection.pause_writing()
    bench.wait(3)
    late = client.ask(b"/late", b"POST")
    connection.resume_writing()
    client.take()
    assert [(LAST, 0), (first, 0)] == client.goaways
    client.get()

    assert client.answers[first].is_whole
    assert late not in client.answers
    assert 1 == bench.counters.listener.http2.requests
    assert client.transport.has_eof


@pytest.mark.parametrize("closes", [False, True])
def test_client_sends_on_while_it_gets_the_last_answer(bench: Bench, *, closes: bool) -> None:
    """What it sends is read and thrown away: unread, it would have the answer cut by a reset."""
    client = Http2Peer(bench)
    client.ask()
    drain(bench)
    bench.wait(3)
    bench.send(bench.upstreams[0], OK)
    assert client.transport.has_eof
    bench.send(client.transport, PING)
    assert ("", True) == (client.transport.ended_by, client.transport.reads)
    if closes:
        bench.end(client.transport)
    else:
        bench.wait(3)

    assert "close" == client.transport.ended_by
    assert {} == bench.listener.connections
    assert b"12345678" not in client.transport.take()


@pytest.mark.parametrize("when", ["announced", "leaving"])
def test_drain_of_a_client_that_takes_nothing(bench: Bench, when: str) -> None:
    """What is written has its time to get through, then the connection is cut."""
    client = Http2Peer(bench)
    client.ask()
    drain(bench)
    if when == "leaving":
        bench.wait(3)
    connection = cast("Http2Connection", client.transport.protocol)
    output = connection._output  # noqa: SLF001  full from then on
    write = output.write

    def fill(data: bytes | bytearray | memoryview) -> None:
        write(data)
        connection.pause_writing()

    output.write = fill
    bench.send(bench.upstreams[0], OK)
    bench.wait(3)
    assert "" == client.transport.ended_by
    assert [connection] == list(bench.listener.connections)
    bench.wait(91)
    assert "abort" == client.transport.ended_by
    assert {} == bench.listener.connections


def drain(bench: Bench) -> None:
    bench.listener.is_draining = True
    for connection in list(bench.listener.connections):
        connection.close_when_idle(bench.clock.now_ns())
    bench.loop.run_ready()


def test_goaway_by_chance() -> None:
    """Now and then a request ends its connection, once it is answered."""
    http2 = Http2Settings(is_cleartext=True, goaway_chance=0.02)
    with http2_bench(downstream=replace(CLEARTEXT, http2=http2)) as bench:
        bench.listener.chance = iter((0.5, 0.02, 0.019)).__next__
        client = Http2Peer(bench)
        for expected in (0, 0, 1):
            client.ask()
            client.get()
            assert expected == len(client.goaways)
        bench.wait(3)
        assert client.transport.has_eof
        assert 1 == bench.counters.listener.http2.goaways[GoAway.CHANCE]


@pytest.mark.parametrize(("waited_s", "goes_on"), [(1.0, True), (0.9, False)])
def test_clients_that_give_up(waited_s: float, *, goes_on: bool) -> None:
    """A server that hangs must not cost the connection, watches and all, when clients give up."""
    with http2_bench(seats=100, idle_upstreams=0) as bench:
        client = Http2Peer(bench)
        for _ in range(60):
            streams = [client.ask() for _ in range(90)]
            while bench.connecting:
                bench.connect()
            bench.wait(waited_s)
            for stream in streams:
                client.h2.reset_stream(stream, ErrorCodes.CANCEL)
            client.send()
            if client.transport.ended_by:
                break

        assert goes_on == (not client.transport.ended_by)
        assert goes_on == (not bench.counters.listener.http2.floods[Flood.RESETS])
        bench.assert_at_rest()


def test_flood(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Frames that bring nothing end the connection, and say why; others are served."""
    client, other = Http2Peer(bench), Http2Peer(bench)
    client.transport.feed(PING * 1500)
    bench.loop.run_ready()
    client.take()

    assert (0, 11) == client.goaways[-1]
    assert "close" == client.transport.ended_by
    assert 1 == bench.counters.listener.http2.floods[Flood.CONTROL]
    assert ["a flood of control-frames from 10.0.0.1: the connection is closed"] == caplog.messages
    stream = other.ask()
    bench.send(bench.upstreams[0], OK)
    other.take()
    assert 200 == other.answers[stream].status


def test_broken_protocol(bench: Bench) -> None:
    client = Http2Peer(bench)
    client.ask()
    client.send(b"\x00\x00\x01\x04\x00\x00\x00\x00\x00x")

    assert 6 == client.goaways[-1][1]
    assert "close" == client.transport.ended_by
    assert 1 == bench.counters.listener.http2.goaways[GoAway.PROTOCOL]


def test_transport_is_full(bench: Bench) -> None:
    client = Http2Peer(bench)
    connection = cast("Http2Connection", client.transport.protocol)
    connection.pause_writing()
    streams = []
    for _ in range(3):
        streams.append(client.ask())
        bench.send(bench.upstreams[0], OK)
    assert b"" == client.transport.take()
    connection.resume_writing()
    client.take()

    assert [200] * 3 == [client.answers[each].status for each in streams]


def test_windows_are_open_and_nothing_is_read() -> None:
    """Internal data buffering, CVE-2019-9517: of each answer no more than a read waits here."""
    streams, piece = 4, b"x" * 16384
    with http2_bench(seats=streams, idle_upstreams=streams) as bench:
        client = Http2Peer(bench)
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: LAST})
        client.h2.increment_flow_control_window(LAST - 65535)
        client.send()
        connection = cast("Http2Connection", client.transport.protocol)
        connection.pause_writing()
        for _ in range(streams):
            client.ask()
        for upstream in bench.upstreams:
            bench.send(upstream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            while upstream.reads:
                bench.send(upstream, piece)

        assert b"" == client.transport.take()
        assert bench.counters.pool.bytes_received <= streams * (ANSWER_READ_BYTES + len(piece))
        bench.end(client.transport)
        bench.assert_at_rest()


PINGED = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)
PONG = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + bytes(8)
WATCH = b"/api/v1/pods?watch=1"


def watching(bench: Bench) -> tuple[Http2Peer, int]:
    client = Http2Peer(bench)
    stream = client.ask(WATCH)
    client.get(CHUNKED_OK)
    return client, stream


@pytest.mark.parametrize("is_leaving", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_silent_client(bench: Bench, *, is_leaving: bool, is_there: bool) -> None:
    """It is probed for as long as it responds; else its connection is closed, with all streams."""
    client, stream = watching(bench)
    if is_leaving:
        drain(bench)
        bench.wait(3)
        client.take()
    bench.send(client.transport, PONG)  # it is not silent yet
    bench.wait(60)
    assert b"" == client.transport.take()
    bench.wait(60)
    assert PINGED == client.transport.take()
    bench.wait(119)
    assert (b"", "") == (client.transport.take(), client.transport.ended_by)
    if is_there:
        bench.send(client.transport, PONG)
        bench.wait(1)
        bench.wait(60)  # of silence
        assert PINGED == client.transport.take()
        bench.send(client.transport, PONG)
    bench.wait(1)

    assert ("" if is_there else "close") == client.transport.ended_by
    assert is_there != bench.counters.listener.http2.goaways[GoAway.SILENT]
    assert is_there == bool(bench.listener.connections)
    if is_there:
        client.get(b"2\r\n{}\r\n")
        assert b"{}" == client.answers[stream].body
        client.reset(stream)
        bench.wait(91)  # without a request it is not probed, but idle
        client.take()
        assert [(LAST, 0)] == client.goaways[:1]
