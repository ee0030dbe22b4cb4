"""WebSockets on streams of HTTP/2, from the request to the end of the tunnel."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from apfproxy.http.read_buffer import READ_BYTES, WRITE_HIGH_WATER_BYTES
from apfproxy.http.websocket_frames import GOING_AWAY
from apfproxy.proxy.counters import Flood, ResetBy
from apfproxy.proxy.tunnel import TunnelEnd
from apfproxy.settings import UpgradeSettings, UpstreamSettings
from tests.proxy.fakes import CHUNKED_OK, OK, FakeTransport
from tests.proxy.http2.peer import Answer, Http2Peer, http2_bench

if TYPE_CHECKING:
    from tests.proxy.fakes import Bench

EXEC = b"/api/v1/namespaces/a/pods/b/exec?command=ls"
VNC = b"/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/vm/vnc"
UPGRADING = UpstreamSettings(upgrades=UpgradeSettings(allow=("/sockets/*",)))
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
    """A client that has asked for a WebSocket, and the server's side of it, newly connected."""

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
    """The server gets an upgrade, the client 200 without what is HTTP/1.1's; bytes go both ways."""
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


@pytest.mark.parametrize("path", [VNC, b"/sockets/a"], ids=["aggregated", "allowed"])
def test_other_upgrades(path: bytes) -> None:
    """What has an upgrade over HTTP/1.1 has a CONNECT; its seat goes back once it is open."""
    with http2_bench(upstream=UPGRADING) as bench:
        site = Site(bench, path)
        assert (1, 0, 0) == bench.use()
        site.agree(b"first")

        assert (200, b"first") == (site.answer.status, site.answer.body)
        assert (0, 0, 0) == bench.use()
        bench.end(site.upstream, OSError())
        assert_over(bench)


@pytest.mark.parametrize("is_last", [False, True])
def test_early_bytes(bench: Bench, *, is_last: bool) -> None:
    """They wait for the answer, no more of them than a window; then the client gets it back."""
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


def test_half_close_of_the_server(bench: Bench) -> None:
    site = Site(bench)
    site.agree(b"last")
    bench.end(site.upstream)

    answer = site.answer
    assert (b"last", True, None) == (answer.body, answer.is_whole, answer.reset_by)
    site.send(b"more")
    assert (b"more", 1) == (site.upstream.take(), bench.counters.tunnels_open)
    site.send(b"", is_last=True)
    assert "close" == site.upstream.ended_by
    assert site.answer.reset_by is None
    assert_over(bench)


@pytest.mark.parametrize("has_ended", [False, True])
def test_client_resets(bench: Bench, *, has_ended: bool) -> None:
    """It is a break of the server's connection, whether or not the server sends any more."""
    site = Site(bench)
    site.agree()
    if has_ended:
        bench.end(site.upstream)
    site.client.reset(site.stream)

    assert "abort" == site.upstream.ended_by
    assert 1 == bench.counters.client_aborts
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


def test_server_takes_nothing(bench: Bench) -> None:
    """The client may send a window's worth, and goes on once the server takes it."""
    site = Site(bench)
    site.agree()
    assert isinstance(site.upstream.protocol, TunnelEnd)
    site.upstream.protocol.pause_writing()
    for _ in range(4):
        site.send(b"x" * (READ_BYTES // 4))
    assert 0 == site.client.h2.local_flow_control_window(site.stream)
    site.upstream.protocol.resume_writing()
    bench.loop.run_ready()
    site.client.take()

    assert READ_BYTES == site.client.h2.local_flow_control_window(site.stream)
    site.client.reset(site.stream)
    assert_over(bench)


def test_client_takes_nothing(bench: Bench) -> None:
    """Past its window and the mark the server is not read, until the client goes on."""
    site = Site(bench)
    site.agree()
    site.client._acknowledges = False  # noqa: SLF001
    window = 65535
    sent = 0
    while site.upstream.reads:
        site.say(b"x" * 10000)
        sent += 10000
        assert sent <= window + WRITE_HIGH_WATER_BYTES + 10000
    assert window == len(site.answer.body)
    site.client.h2.increment_flow_control_window(sent)
    site.client.h2.increment_flow_control_window(sent, site.stream)
    site.client.send()

    assert sent == len(site.answer.body)
    assert site.upstream.reads
    site.client.reset(site.stream)
    assert_over(bench)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(OK, 502, id="ok"),
        pytest.param(CHUNKED_OK + b"2\r\nok\r\n0\r\nA: b\r\n\r\n", 502, id="chunked"),
        pytest.param(OK.replace(b"200 OK", b"403 Forbidden"), 403, id="forbidden"),
        pytest.param(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", 502, id="redirect"),
        pytest.param(AGREED + b"\r\n", 502, id="no-accept"),
        pytest.param(AGREED + b"Sec-WebSocket-Accept: YWJj\r\n\r\n", 502, id="another-accept"),
    ],
)
def test_refused_by_the_server(bench: Bench, said: bytes, code: int) -> None:
    """The client sees no success that is no WebSocket; what it goes on to send is nobody's."""
    site = Site(bench)
    site.send(b"early")
    site.say(said)

    answer = site.answer
    assert (code, True, NO_ERROR) == (answer.status, answer.is_whole, answer.reset_by)
    assert (b"", "abort") == (site.upstream.take(), site.upstream.ended_by)
    assert 0 == bench.counters.tunnels_open
    assert_over(bench)


@pytest.mark.parametrize(
    ("protocol", "path", "fields", "code"),
    [
        pytest.param(b"connect-udp", EXEC, HANDSHAKE, 501, id="protocol"),
        pytest.param(b"websocket", b"/api/v1/pods", HANDSHAKE, 405, id="list"),
        pytest.param(b"websocket", EXEC, HANDSHAKE[1:], 400, id="no-version"),
        pytest.param(b"websocket", EXEC, [(b"sec-websocket-version", b"8")], 426, id="version"),
        pytest.param(
            *(b"websocket", EXEC, [*HANDSHAKE, (b"sec-websocket-key", b"YWJj")], 400), id="key"
        ),
        pytest.param(
            *(b"websocket", EXEC, [*HANDSHAKE, (b"content-length", b"3")], 400), id="length"
        ),
        pytest.param(
            *(b"websocket", EXEC, [*HANDSHAKE, (b"content-length", b"0")], 400), id="no-length"
        ),
    ],
)
def test_refused(
    bench: Bench, protocol: bytes, path: bytes, fields: list[tuple[bytes, bytes]], code: int
) -> None:
    """The same as an upgrade of HTTP/1.1, and what would be a normal request there."""
    client = Http2Peer(bench)
    stream = client.ask(path, b"CONNECT", fields, b"", protocol)

    answer = client.answers[stream]
    assert (code, NO_ERROR) == (answer.status, answer.reset_by)
    assert not {b"connection", b"upgrade"} & answer.fields.keys()
    assert (b"13" if code == 426 else None) == answer.fields.get(b"sec-websocket-version")
    assert b"" == bench.upstreams[0].take()
    assert_over(bench)


def test_trailers(bench: Bench) -> None:
    """There are none in a tunnel: RFC 9113, section 8.5."""
    site = Site(bench)
    site.agree()
    site.client.h2.send_headers(site.stream, [(b"a", b"b")], end_stream=True)
    site.client.send()

    assert PROTOCOL_ERROR == site.answer.reset_by
    assert "abort" == site.upstream.ended_by
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


def test_server_that_breaks(bench: Bench) -> None:
    """What it may have begun is not begun at another one."""
    bench.pool.endpoints[0].is_one_of_several = True
    site = Site(bench)
    bench.end(site.upstream)

    assert (502, 2) == (site.answer.status, len(bench.upstreams))
    assert_over(bench)


def test_time(bench: Bench) -> None:
    """A server has all the time to answer, and a tunnel of which nothing comes its own."""
    site = Site(bench)
    bench.wait(3600)
    assert 0 == site.answer.status
    site.agree()
    bench.wait(IDLE_S - 1)
    site.send(b"x")
    bench.wait(IDLE_S - 1)
    assert "" == site.upstream.ended_by
    bench.wait(2)

    assert CANCEL == site.answer.reset_by
    assert "abort" == site.upstream.ended_by
    assert_over(bench)


def test_drain(bench: Bench) -> None:
    """A close frame says that the proxy goes away; END_STREAM follows once the server has left."""
    site = Site(bench)
    site.agree(b"\x82\x04last")
    for each in [each for each in bench.listener.connections if each.has_websocket]:
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


def test_stop(bench: Bench) -> None:
    site = Site(bench)
    site.agree(b"\x82\x04la")
    for each in sorted(bench.listener.connections, key=lambda each: each.has_seats):
        each.leave()
    bench.loop.run_ready()

    assert (b"\x82\x04la", CANCEL) == (site.answer.body, site.answer.reset_by)
    assert "abort" == site.upstream.ended_by
    assert_over(bench)


def test_error_ends_the_tunnel_alone(bench: Bench) -> None:
    """Both of its sides; the connection goes on."""
    site = Site(bench)
    site.agree()
    assert isinstance(site.upstream.protocol, TunnelEnd)
    bench.loop.errors = []
    site.upstream.protocol.fail(RuntimeError("on purpose"))
    bench.loop.run_ready()

    assert 2 == site.answer.reset_by
    assert "abort" == site.upstream.ended_by
    assert "" == site.client.transport.ended_by
    assert_over(bench)
