"""Connections of HTTP/2: how they begin, are bounded, and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from h2.settings import SettingCodes
from msgspec.structs import replace

from apfproxy.http.read_buffer import ANSWER_READ_BYTES
from apfproxy.proxy.counters import Bound, Flood, GoAway
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.http2.connection import PREFACE, Http2Connection
from apfproxy.proxy.http2.frame_budget import FrameBudget
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
from tests.proxy.fakes import CHUNKED_OK, OK, Bench, broken
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer

if TYPE_CHECKING:
    from apfproxy.proxy.http2.nghttp2 import Session

EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)
LAST = 2**31 - 1


@pytest.mark.parametrize("size", [1, 5, 24, 1000])
def test_preface_in_pieces(bench: Bench, size: int) -> None:
    client = bench.client()
    stream = PREFACE + EMPTY_SETTINGS
    for start in range(0, len(stream), size):
        bench.send(client, stream[start : start + size])

    assert isinstance(client.protocol, Http2Connection)
    assert b"\x00\x00\x00\x04\x01\x00\x00\x00\x00" in client.take()
    assert len(stream) == bench.counters.listener.bytes_from_clients
    assert 1 == bench.counters.listener.http2.connections_open
    assert 1 == len(bench.listener.connections)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ([(b"host", b"other")], 400),
        ([(b"x", b"y" * 9000), (b"z", b"y" * 9000)], 431),
        ([(b"x-%d" % number, b"") for number in range(257)], 431),
        ([(b"expect", b"a miracle")], 417),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_refused(fields: list[tuple[bytes, bytes]], code: int, method: bytes) -> None:
    with Bench(downstream=replace(CLEARTEXT, max_head_bytes=16384)) as bench:
        client = Http2Peer(bench)
        stream = client.ask(b"/x", method, fields=fields)
        answer = client.answers[stream]
        assert (code, True) == (answer.status, answer.is_whole)
        assert bool(answer.body) == (method == b"GET")
        assert b"connection" not in answer.fields

        other = client.ask()
        client.get()
        assert 200 == client.answers[other].status
        bench.assert_at_rest()


@pytest.mark.interpreted
def test_an_error_in_one_stream(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("by", ["end", "reset"])
def test_client_leaves_with_requests_that_wait(by: str) -> None:
    with Bench(downstream=CLEARTEXT, seats=2, idle_upstreams=5) as bench:
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


def drain(bench: Bench) -> None:
    bench.listener.is_draining = True
    for connection in list(bench.listener.connections):
        connection.close_when_idle(bench.clock.now_ns())
    bench.loop.run_ready()


def test_goaway_by_chance() -> None:
    http2 = Http2Settings(is_cleartext=True, goaway_chance=0.02)
    with Bench(downstream=DownstreamSettings(http2=http2)) as bench:
        bench.listener.chance = iter((0.5, 0.02, 0.019)).__next__
        client = Http2Peer(bench)
        for expected in (0, 0, 1):
            client.ask()
            client.get()
            assert expected == len(client.goaways)
        bench.wait(3)
        assert client.transport.has_eof
        assert 1 == bench.counters.listener.http2.goaways[GoAway.CHANCE]


def test_flood(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
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


def test_windows_are_open_and_nothing_is_read() -> None:
    """Internal data buffering, CVE-2019-9517: of each answer no more than a read waits here."""
    streams, piece = 4, b"x" * 16384
    with Bench(downstream=CLEARTEXT, seats=streams, idle_upstreams=streams) as bench:
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


PONG = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + bytes(8)
WATCH = b"/api/v1/pods?watch=1"


@pytest.mark.parametrize("is_leaving", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_silent_client(bench: Bench, *, is_leaving: bool, is_there: bool) -> None:
    client = Http2Peer(bench)
    stream = client.ask(WATCH)
    client.get(CHUNKED_OK)
    if is_leaving:
        drain(bench)
        bench.wait(3)
        client.take()
    bench.send(client.transport, PONG)  # it is not silent yet
    for wait_s, sent in ((60, b""), (60, PING), (119, b"")):
        bench.wait(wait_s)
        assert (sent, "") == (client.transport.take(), client.transport.ended_by)
    if is_there:
        bench.send(client.transport, PONG)
        bench.wait(1)
        bench.wait(60)  # of silence
        assert PING == client.transport.take()
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
    return Bench(seats=seats, downstream=DownstreamSettings(limits=limits, http2=http2))


def held(bench: Bench) -> int:
    return bench.counters.listener.held_bytes


def connection_of(client: Http2Peer) -> Http2Connection:
    assert isinstance(client.transport.protocol, Http2Connection)
    return client.transport.protocol


def test_streams_that_wait() -> None:
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
        (b"GET", [], None),
        (b"PUT", [], None),  # while memory is short
        (b"GET", LARGE_FIELDS, None),
        (b"POST", POST_FIELDS, b""),
    ],
)
def test_no_room_for_a_stream(
    method: bytes, fields: list[tuple[bytes, bytes]], body: bytes | None
) -> None:
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
    streams = []
    while connection_of(client)._session.unsent_bytes <= CONNECTION_BYTES:  # noqa: SLF001  as such
        streams.append(client.ask())
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ANSWER_BYTES
        bench.send(bench.upstreams[0], answer + bytes(ANSWER_BYTES))
    return streams


def test_answers_that_are_not_taken() -> None:
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


@pytest.mark.parametrize(("waits_s", "is_memory_short"), [((89, 2), False), ((0.5, 0.6), True)])
def test_answers_that_are_not_taken_for_long(
    waits_s: tuple[float, float], *, is_memory_short: bool
) -> None:
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


S = 1_000_000_000


@dataclass
class Frames:
    requests: int = 0
    resets: int = 0
    own_resets: int = 0
    window_updates: int = 0
    empty_data: int = 0
    continuations: int = 0
    data_sent: int = 0
    others: int = 0
    nuisances: int = 0
    budget: FrameBudget = field(default_factory=lambda: FrameBudget(0))

    def add(self, kind: str, number: int = 1) -> None:
        setattr(self, kind, getattr(self, kind) + number)
        self.nuisances += number

    def judged(self, now_ns: int = 0) -> Flood | None:
        return self.budget.take(cast("Session", self), now_ns)


@pytest.mark.parametrize(
    ("kind", "flood"),
    [
        ("resets", Flood.RESETS),
        ("own_resets", Flood.RESETS),
        ("others", Flood.CONTROL),
        ("window_updates", Flood.WINDOW_UPDATES),
        ("empty_data", Flood.EMPTY_FRAMES),
        ("continuations", Flood.EMPTY_FRAMES),
    ],
)
def test_each_kind_has_an_end(kind: str, flood: Flood) -> None:
    for per_s, most in ((1_000_000, 2100), (20, 5000)):
        frames, found = Frames(), None
        while found is None and frames.nuisances < most:
            frames.add(kind)
            frames.requests += kind.endswith("resets")
            found = frames.judged((frames.nuisances - 1) * S // per_s)

        assert found is (flood if per_s > 20 else None)
        assert frames.nuisances > 100


@pytest.mark.parametrize(
    ("sent", "kind", "number"),
    [("data_sent", "window_updates", 2), ("requests", "resets", 1)],
)
def test_frames_for_what_was_sent_or_asked(sent: str, kind: str, number: int) -> None:
    frames = Frames()
    for _ in range(10_000):
        setattr(frames, sent, getattr(frames, sent) + 3 - number)
        frames.add(kind, number)
        assert frames.judged() is None


def test_what_was_saved_is_bounded() -> None:
    frames, others = Frames(requests=1_000_000), Frames(data_sent=1_000_000_000)
    for each in (frames, others):
        assert each.judged(86_400 * S) is None
    frames.add("others", 1001)
    others.add("window_updates", (1 << 20) + 2000)
    assert others.judged(86_400 * S) is None
    others.add("window_updates")

    assert Flood.CONTROL is frames.judged(86_400 * S)
    assert Flood.WINDOW_UPDATES is others.judged(86_400 * S)


def test_window_updates_that_come_late() -> None:
    frames = Frames()
    for _ in range(30):  # answers of 4 MiB each
        frames.requests += 1
        frames.data_sent += 256
        frames.add("others")
        assert frames.judged() is None
    frames.add("window_updates", 30 * 256 * 8)
    assert frames.judged() is None
    frames.add("window_updates", 2 * 30 + 2001)

    assert Flood.WINDOW_UPDATES is frames.judged()


@pytest.mark.parametrize(("waited_ns", "flood"), [(S, None), (S - 1, Flood.RESETS)])
def test_resets_by_clients_that_have_waited(waited_ns: int, flood: Flood | None) -> None:
    frames = Frames()
    for second in range(3):
        for _ in range(501):
            frames.add("resets")
            frames.budget.reset_after(waited_ns)
        assert flood is frames.judged(second * S)
