"""Upgrades from the request to the end of the tunnel, and that all is given back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.http.websocket_frames import GOING_AWAY
from apfproxy.proxy.early_seats import INITIAL_EVENTS_END
from apfproxy.proxy.server import exchanges
from apfproxy.proxy.tunnel import Tunnel, TunnelEnd
from tests.proxy.fakes import CHUNKED_OK, GET, OK, Bench, broken, status

if TYPE_CHECKING:
    from apfproxy.proxy.exchange import Exchange
    from tests.proxy.fakes import FakeTransport

HANDSHAKE = (
    b"Host: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5, v4\r\n\r\n"
)
EXEC = b"GET /api/v1/namespaces/a/pods/b/exec?command=ls HTTP/1.1\r\n" + HANDSHAKE
WATCH = b"GET /api/v1/pods?watch=1&sendInitialEvents=true HTTP/1.1\r\n" + HANDSHAKE
SPDY = (
    b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
    b"Upgrade: SPDY/3.1\r\nContent-Length: 4\r\n\r\nbody"
)
MOVED = b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
CHUNKED_MOVED = MOVED.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + (
    b"2\r\nok\r\n0\r\nA: b\r\n\r\n"
)
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
AGREED = SWITCHING + b"Sec-WebSocket-Protocol: v5\r\n\r\n"
AGREED_TO_SPDY = SWITCHING.replace(b"websocket", b"SPDY/3.1") + b"\r\n"
IDLE_S = 14400.0
FRAME = b"\x82\x05hello"
LONG_FRAME = b"\x82\x7e\x00\x7f" + b"x" * 127


def asked(bench: Bench, request: bytes = EXEC) -> tuple[FakeTransport, FakeTransport]:
    client = bench.ask(request)
    bench.connect()
    return client, bench.upstreams[-1]


def opened(bench: Bench) -> tuple[FakeTransport, FakeTransport]:
    client, upstream = asked(bench)
    upstream.take()
    bench.send(upstream, AGREED)
    client.take()
    return client, upstream


def assert_over(bench: Bench, *ending: FakeTransport) -> None:
    bench.assert_at_rest(*ending)
    assert 0 == bench.counters.tunnels_open
    assert 0 == bench.counters.listener.connections_open
    assert {} == bench.context.listener.connections
    assert bench.pool.open_count == bench.pool.idle_count


class Watched:
    """Transports whose end would be that of their request."""

    def __init__(self) -> None:
        self.transports: set[object] = set()

    def watch(self, transport: object, on_disconnect: object) -> None:  # noqa: ARG002  as of `Disconnects`
        self.transports.add(transport)

    def forget(self, transport: object) -> None:
        self.transports.discard(transport)


def test_an_upgrade(bench: Bench) -> None:
    client, upstream = asked(bench)
    request = upstream.take()
    assert 2 == len(bench.upstreams)
    assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in request
    assert b"\r\nSec-WebSocket-Protocol: v5, v4\r\n" in request
    bench.send(upstream, AGREED)

    head = client.take()
    assert b"101" == status(head)
    assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in head
    assert b"\r\nSec-WebSocket-Protocol: v5\r\n" in head
    assert b"X-Kubernetes-PF-" not in head
    assert 1 == bench.counters.tunnels_open
    assert {"SPDY/3.1": 0, "websocket": 1} == bench.counters.tunnels_by_protocol
    assert {101: 1} == bench.counters.responses
    assert (0, 0, 0) == bench.use()
    assert_over(bench, client, upstream)


@pytest.mark.parametrize("slow", ["client", "upstream"])
def test_backpressure(bench: Bench, slow: str) -> None:
    ends = opened(bench)
    one, other = ends if slow == "client" else ends[::-1]
    assert isinstance(one.protocol, TunnelEnd)
    assert len(one.protocol.get_buffer(-1)) + one.high_water <= 131072
    one.protocol.pause_writing()
    assert (True, False) == (one.reads, other.reads)
    bench.send(other, b"waits")
    assert b"" == one.take()
    one.protocol.resume_writing()
    bench.loop.run_ready()

    assert b"waits" == one.take()
    assert_over(bench, one, other)


def test_early_bytes_that_wait(bench: Bench) -> None:
    early = bytes(range(256)) * 1000
    client, upstream = asked(bench, EXEC + early)
    upstream.take()
    assert not client.reads
    bench.send(upstream, AGREED)

    assert client.reads
    assert early == upstream.take()
    assert_over(bench, client, upstream)


def test_client_that_waits_for_the_upstream_may_end_its_half(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched()
    monkeypatch.setattr(bench.context.listener, "disconnects", watched)
    client, upstream = asked(bench, EXEC + b"x" * 40_000)
    assert {client} == watched.transports
    upstream.protocol.pause_writing()
    bench.send(upstream, AGREED)

    assert (False, set()) == (client.reads, watched.transports)
    upstream.protocol.resume_writing()
    assert_over(bench, client, upstream)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (OK, b"200"),
        (OK.replace(b"200 OK", b"403 Forbidden"), b"403"),
        (CHUNKED_OK + b"2\r\nok\r\n0\r\n\r\n", b"200"),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", b"400"),
        (AGREED_TO_SPDY, b"502"),
        (AGREED.replace(b"v5", b"v1"), b"502"),
        (AGREED.replace(b"Connection: Upgrade\r\n", b""), b"502"),
        (MOVED, b"502"),
        (MOVED.replace(b"Content-Length: 0", b"Content-Length: 9"), b"502"),
        (CHUNKED_MOVED, b"502"),
        (b"no HTTP\r\n\r\n", b"502"),
    ],
)
def test_refused_upgrades(bench: Bench, answer: bytes, code: bytes) -> None:
    client, upstream = asked(bench, EXEC + GET)
    upstream.take()
    bench.send(client, GET)
    bench.send(upstream, answer)
    bench.send(client, GET)

    got = client.take()
    assert code == status(got)
    assert b"\r\nConnection: close\r\n" in got
    assert b"Location" not in got
    assert 1 == got.count(b"HTTP/1.1 ")
    assert client.has_eof
    assert (b"", "abort") == (upstream.take(), upstream.ended_by)
    assert b"" == bench.upstreams[0].take()
    assert 0 == bench.counters.tunnels_open
    bench.assert_at_rest()


@pytest.mark.parametrize("side", ["client", "upstream"])
def test_idle_limit(bench: Bench, side: str) -> None:
    ends = opened(bench)
    bench.wait(IDLE_S - 1)
    bench.send(ends[side == "upstream"], b"x")
    bench.wait(IDLE_S - 1)
    assert ("", "") == (ends[0].ended_by, ends[1].ended_by)
    bench.wait(2)

    assert ("abort", "abort") == (ends[0].ended_by, ends[1].ended_by)
    assert_over(bench)


def test_a_watch_holds_its_seat(bench: Bench) -> None:
    client, upstream = asked(bench, WATCH)
    waiting = bench.ask(GET)
    assert (1, 1, 0) == bench.use()
    bench.send(upstream, AGREED + b"frame")
    bench.send(upstream, b"frame")
    assert (1, 1, 0) == bench.use()
    bench.send(upstream, INITIAL_EVENTS_END)
    assert (1, 0, 0) == bench.use()
    assert 1 == bench.counters.tunnels_open
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(waiting.take())
    assert 1 == sum(bench.costs._watches.values())  # noqa: SLF001  nothing else tells
    assert_over(bench, client, upstream, waiting)


def test_client_hears_that_the_proxy_goes_away(bench: Bench) -> None:
    client, upstream = opened(bench)
    bench.send(upstream, FRAME)
    exchange = exchange_of_tunnel(bench)
    assert exchange.has_websocket
    exchange.close_websocket()
    assert FRAME + GOING_AWAY == client.take()
    assert not exchange.has_websocket
    exchange.close_websocket()
    bench.send(upstream, FRAME)
    bench.send(client, b"reply")
    assert (b"", b"reply") == (client.take(), upstream.take())
    bench.end(upstream)
    bench.end(client)

    assert ("close", "close") == (client.ended_by, upstream.ended_by)
    assert_over(bench)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, len(LONG_FRAME) - 1])
def test_a_close_frame_stands_between_frames(bench: Bench, at: int) -> None:
    client, upstream = opened(bench)
    bench.send(upstream, LONG_FRAME[:at])
    exchange_of_tunnel(bench).close_websocket()
    assert LONG_FRAME[:at] == client.take()
    bench.send(upstream, LONG_FRAME[at:] + FRAME)

    assert LONG_FRAME[at:] + GOING_AWAY == client.take()
    assert_over(bench, upstream, client)


def exchange_of_tunnel(bench: Bench) -> Exchange:
    (exchange,) = exchanges(bench.context.listener.connections)
    return exchange


@pytest.mark.parametrize("event", ["_from_upstream", "on_end"])
def test_an_error_ends_both_sides(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    errors = bench.loop.errors = []
    with monkeypatch.context() as patch:
        patch.setattr(Tunnel, event, broken)
        client, upstream = opened(bench)
        bench.send(upstream, b"o")
        bench.end(client)
        assert {ZeroDivisionError} == {type(error) for error in errors}
        assert client.ended_by
        assert "abort" == upstream.ended_by
    bench.loop.run_ready()
    assert_over(bench)


PIECES = st.binary(min_size=1, max_size=40) | st.sampled_from([
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n", b"x" * 70_000,
])  # fmt: skip
STEPS = st.lists(
    st.tuples(st.booleans(), PIECES | st.sampled_from(["pause", "resume"])), max_size=20
)


@settings(max_examples=60)
@given(
    steps=STEPS,
    early=st.tuples(st.binary(max_size=9), st.binary(max_size=9)),
    cuts=st.lists(st.integers(1, len(AGREED)), max_size=3),
)
def test_bytes_are_untouched(
    steps: list[tuple[bool, bytes | str]], early: tuple[bytes, bytes], cuts: list[int]
) -> None:
    with Bench() as bench:
        client = bench.ask(EXEC)
        bench.connect()
        upstream = bench.upstreams[-1]
        upstream.take()
        sent = {True: early[0], False: early[1]}
        # What the client sends before it knows the answer belongs to the tunnel, too.
        if early[0]:
            bench.send(client, early[0])
        answer = AGREED + early[1]
        ends = sorted({0, *cuts, len(answer)})
        for start, end in itertools.pairwise(ends):
            bench.send(upstream, answer[start:end])
        assert client.written.startswith(b"HTTP/1.1 101 ")
        head, _, _ = bytes(client.written).partition(b"\r\n\r\n")
        paused: dict[bool, bool] = {True: False, False: False}
        for is_client, step in steps:
            side = client if is_client else upstream
            if isinstance(step, bytes):
                sent[is_client] += step
                bench.send(side, step)
            elif paused[is_client] != (step == "pause"):
                paused[is_client] = step == "pause"
                (
                    side.protocol.pause_writing
                    if paused[is_client]
                    else side.protocol.resume_writing
                )()
                bench.loop.run_ready()
        for is_client, side in ((True, client), (False, upstream)):
            if paused[is_client]:
                side.protocol.resume_writing()
        bench.loop.run_ready()

        assert sent[True] == bytes(upstream.written)
        assert head + b"\r\n\r\n" + sent[False] == bytes(client.written)
        bench.assert_at_rest(client, upstream)
