"""Streams, each of which is the client of one exchange or one end of a tunnel."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode

import pytest
from msgspec.structs import replace

from apfproxy.http.read_buffer import MAX_LINGER_BYTES, READ_BYTES
from apfproxy.http.websocket_frames import GOING_AWAY
from apfproxy.proxy.counters import Flood, ResetBy
from apfproxy.proxy.server import exchanges
from apfproxy.settings import HTTP_API, LimitSettings
from tests.proxy.fakes import CHUNKED_OK, OK, Bench, FakeTransport
from tests.proxy.http2.peer import CLEARTEXT, Answer, Http2Peer

WATCH = b"/api/v1/pods?watch=1"
SIZED_OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
SMALL_BODIES = replace(CLEARTEXT, limits=LimitSettings(max_body_bytes=3))


def test_body_over_the_limit() -> None:
    with Bench(idle_upstreams=2, downstream=SMALL_BODIES) as bench:
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


def test_client_takes_nothing(bench: Bench) -> None:
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


@pytest.mark.parametrize(
    ("rest", "taken", "is_over"),
    [((1 << 20) - 4, (1 << 20) - 4, False), ((1 << 21) - 4, MAX_LINGER_BYTES, False), (5, 5, True)],
)
def test_rest_of_a_request_that_is_answered(
    bench: Bench, rest: int, taken: int, *, is_over: bool
) -> None:
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


EXEC = b"/api/v1/namespaces/a/pods/b/exec?command=ls"
HANDSHAKE = [
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-protocol", b"v5.channel.k8s.io, v4.channel.k8s.io"),
    (b"sec-websocket-extensions", b"permessage-deflate"),
]
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nContent-Length: 0\r\n"
)
NO_ERROR, PROTOCOL_ERROR, CANCEL = 0, 1, 8
IDLE_S = 14400.0


class Site:
    def __init__(self, bench: Bench, path: bytes = EXEC) -> None:
        self._bench = bench
        self.client = Http2Peer(bench)
        self.stream = self.client.ask(path, b"CONNECT", HANDSHAKE, b"", b"websocket")
        bench.connect()
        self.upstream: FakeTransport = bench.upstreams[-1]
        self.request = self.upstream.take()

    @property
    def answer(self) -> Answer:
        self.client.take()
        return self.client.answers[self.stream]

    def agree(self, behind: bytes = b"") -> None:
        found = re.search(rb"\r\nsec-websocket-key: (\S+)\r\n", self.request)
        assert found is not None
        digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()  # noqa: S324  the protocol's
        accept = b"Sec-WebSocket-Accept: %b\r\n\r\n" % b64encode(digest)
        self.say(AGREED + accept + behind)

    def say(self, data: bytes) -> None:
        self._bench.send(self.upstream, data)

    def send(self, data: bytes, *, is_last: bool = False) -> None:
        self.client.put(self.stream, data, is_last=is_last)


def assert_over(bench: Bench) -> None:
    bench.assert_at_rest()
    http2 = bench.counters.listener.http2
    assert (0, 0) == (bench.counters.tunnels_open, http2.streams_open)
    assert bench.pool.open_count == bench.pool.idle_count


def test_tunnel(bench: Bench) -> None:
    site = Site(bench)
    assert site.request.startswith(b"GET " + EXEC + b" HTTP/1.1\r\nConnection: Upgrade\r\n")
    assert b"\r\nUpgrade: websocket\r\n" in site.request
    assert b"\r\nsec-websocket-extensions: permessage-deflate\r\n" in site.request
    assert 2 == len(bench.upstreams)
    site.agree(b"first")

    answer = site.answer
    assert (200, b"first", False) == (answer.status, answer.body, answer.is_whole)
    assert b"v5.channel.k8s.io" == answer.fields[b"sec-websocket-protocol"]
    absent = {b"connection", b"upgrade", b"sec-websocket-accept", b"content-length"}
    assert not absent & answer.fields.keys()
    assert 1 == bench.counters.tunnels_open
    assert {"SPDY/3.1": 0, "websocket": 1} == bench.counters.tunnels_by_protocol
    assert (0, 0, 0) == bench.use()
    before = bench.counters.listener.bytes_from_clients
    site.send(b"ping")
    site.say(b"pong")
    assert (b"ping", b"firstpong") == (site.upstream.take(), site.answer.body)
    assert 9 + 4 == bench.counters.listener.bytes_from_clients - before
    site.send(b"", is_last=True)
    assert site.upstream.has_eof
    bench.end(site.upstream)
    assert (True, None) == (site.answer.is_whole, site.answer.reset_by)
    assert 0 == bench.counters.client_aborts
    assert_over(bench)


@pytest.mark.parametrize("is_last", [False, True])
def test_early_bytes(bench: Bench, *, is_last: bool) -> None:
    site = Site(bench)
    early = bytes(range(256)) * (READ_BYTES // 256)
    for start in range(0, READ_BYTES, 16384):
        part = early[start : start + 16384]
        site.send(part, is_last=is_last and start + len(part) == READ_BYTES)
    assert 0 == site.client.h2.local_flow_control_window(site.stream)
    assert b"" == site.upstream.take()
    site.agree()
    site.client.take()

    assert (early, is_last) == (site.upstream.take(), site.upstream.has_eof)
    if not is_last:
        assert READ_BYTES == site.client.h2.local_flow_control_window(site.stream)
        site.send(b"", is_last=True)
    bench.end(site.upstream)
    assert site.answer.is_whole
    assert_over(bench)


@pytest.mark.parametrize("has_ended", [False, True])
def test_server_breaks(bench: Bench, *, has_ended: bool) -> None:
    site = Site(bench)
    site.agree()
    if has_ended:
        site.send(b"", is_last=True)
    bench.end(site.upstream, ConnectionResetError())

    assert (False, CANCEL) == (site.answer.is_whole, site.answer.reset_by)
    assert "" == site.client.transport.ended_by
    assert_over(bench)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (CHUNKED_OK + b"2\r\nok\r\n0\r\nA: b\r\n\r\n", 502),
        (OK.replace(b"200 OK", b"403 Forbidden"), 403),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", 502),
        (AGREED + b"\r\n", 502),
        (AGREED + b"Sec-WebSocket-Accept: YWJj\r\n\r\n", 502),
    ],
)
def test_refused_by_the_server(bench: Bench, said: bytes, code: int) -> None:
    site = Site(bench)
    site.send(b"early")
    site.say(said)

    answer = site.answer
    assert (code, True, NO_ERROR) == (answer.status, answer.is_whole, answer.reset_by)
    assert (b"", "abort") == (site.upstream.take(), site.upstream.ended_by)
    assert 0 == bench.counters.tunnels_open
    assert_over(bench)


@pytest.mark.parametrize("waited_s", [0, 2])
def test_trailers_without_end(bench: Bench, waited_s: int) -> None:
    """Each ends a request to the server, so at once they are MadeYouReset, CVE-2025-8671."""
    client, http2 = Http2Peer(bench), bench.counters.listener.http2
    for _ in range(600):
        stream = client.ask(EXEC, b"CONNECT", HANDSHAKE, b"", b"websocket")
        bench.connect()
        bench.wait(waited_s)
        client.h2.send_headers(stream, [(b"a", b"b")], end_stream=True)
        client.send()
        if client.transport.ended_by:
            break

    assert (not waited_s) == http2.floods[Flood.RESETS]
    assert http2.resets[ResetBy.PROXY] > 500
    assert_over(bench)


def test_drain(bench: Bench) -> None:
    site = Site(bench)
    site.agree(b"\x82\x04last")
    for each in exchanges(bench.listener.connections):
        each.close_websocket()
    bench.loop.run_ready()
    assert (b"\x82\x04last" + GOING_AWAY, False) == (site.answer.body, site.answer.is_whole)
    site.send(b"reply")
    assert b"reply" == site.upstream.take()
    bench.end(site.upstream)
    site.send(b"", is_last=True)

    assert (b"\x82\x04last" + GOING_AWAY, True) == (site.answer.body, site.answer.is_whole)
    assert "close" == site.upstream.ended_by
    assert_over(bench)


def counting(seats: int = 1) -> Bench:
    bench = Bench(
        preset=HTTP_API,
        downstream=CLEARTEXT,
        gathered_body_bytes=32768,
        seats=seats,
        idle_upstreams=seats,
    )
    bench.controller.reads_completions = True
    return bench


CHAT = b"/v1/chat/completions"
PROMPT = b'{"messages":[{"content":"%b"}],"model":"m%d"}'


def models(bench: Bench) -> list[str]:
    found = [each.passage.completion for each in exchanges(bench.listener.connections)]
    return [each.model for each in found if each is not None]


@pytest.mark.parametrize("is_sized", [False, True])
def test_the_body_of_a_completion_is_waited_for(*, is_sized: bool) -> None:
    with counting() as bench:
        client = Http2Peer(bench)
        body = PROMPT % (b"x" * 600_000, 1)
        length = [(b"content-length", b"%d" % len(body))] if is_sized else []
        stream = client.ask(CHAT, b"POST", length, b"")
        for start in range(0, len(body), 16384):
            assert (0, 0, 0) == bench.use()
            client.put(stream, body[start : start + 16384])
        client.put(stream, b"", is_last=True)

        assert ["m1"] == models(bench)
        assert (1, 0, 0) == bench.use()
        client.get()
        assert 200 == client.answers[stream].status
        assert_over(bench)


def test_the_model_is_of_one_request_of_many_with_the_same_head() -> None:
    with counting(seats=3) as bench:
        client = Http2Peer(bench)
        for number in range(3):
            body = PROMPT % (b"", number)
            client.ask(CHAT, b"POST", [(b"content-length", b"%d" % len(body))], body)

        assert ["m0", "m1", "m2"] == models(bench)


def test_completions_that_a_connection_has_no_room_for_are_served_unread() -> None:
    with counting(seats=8) as bench:
        client = Http2Peer(bench)
        body = PROMPT % (b"x" * 600_000, 1)
        length = [(b"content-length", b"%d" % len(body))]
        streams = [client.ask(CHAT, b"POST", length, b"") for _ in range(8)]
        for stream in streams:
            for start in range(0, len(body), 16384):
                client.put(stream, body[start : start + 16384])
            client.put(stream, b"", is_last=True)

        assert sorted(["m1"] * 6 + [""] * 2) == sorted(models(bench))
        assert not any(bench.counters.listener.held_refusals.values())
        for upstream in bench.upstreams:
            bench.send(upstream, OK)
        client.take()
        assert [200] * 8 == [client.answers[each].status for each in streams]
