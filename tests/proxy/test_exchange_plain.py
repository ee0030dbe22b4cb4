"""Exchanges with an API that is not Kubernetes: answers, upgrades and streams that never end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import (
    HTTP_API,
    OBSERVE,
    AccessLogSettings,
    DownstreamSettings,
    LimitSettings,
)
from tests.proxy.fakes import Bench, FakeTransport, connection_of, status

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDSHAKE = (
    b"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket, SPDY/3.1\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHING = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"
)
ENDLESS = STREAM.replace(b"text/event-stream", b"text/plain")
GET = b"GET /api/v1/pods?watch=1&timeout=soon HTTP/1.1\r\nHost: h\r\n\r\n"
JSON = b"Accept: text/html, application/json;q=0.9\r\n\r\n"


@pytest.fixture
def plain() -> Iterator[Bench]:
    with Bench(preset=HTTP_API) as result:
        yield result


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_a_web_socket_takes_a_seat_until_it_is_open(enforcement: str) -> None:
    with Bench(preset=HTTP_API, enforcement=enforcement) as bench:
        client = bench.ask(HANDSHAKE)
        connection = connection_of(client)
        bench.connect()
        upstream = bench.upstreams[-1]
        assert (1, 0, 0) == bench.use()
        assert b"\r\nUpgrade: websocket\r\n" in upstream.take()
        bench.send(upstream, SWITCHING)

        assert b"101" == status(client.take())
        assert (0, 0, 0) == bench.use()
        assert connection.has_websocket
        bench.wait(3600)
        bench.send(upstream, b"hello")
        assert b"hello" == client.take()
        bench.assert_at_rest(client, upstream)
        assert [] == bench.passage_errors


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_an_event_stream_gives_its_seat_back(enforcement: str) -> None:
    limits = LimitSettings(slow_reader_grace_s=1.0)
    downstream = DownstreamSettings(limits=limits)
    with Bench(preset=HTTP_API, enforcement=enforcement, downstream=downstream) as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], STREAM)
        assert (0, 0, 0) == bench.use()
        client.protocol.pause_writing()
        bench.send(bench.upstreams[0], b"5\r\ndata:\r\n")
        for _ in range(20):
            bench.wait(1)
            for each in tuple(bench.context.slow_readers.watched):
                each.on_sweep(1_000_000_000)
        client.protocol.resume_writing()
        bench.wait(3600)
        assert not client.is_closing()
        bench.send(bench.upstreams[0], b"0\r\n\r\n")

        assert client.take().endswith(b"5\r\ndata:\r\n5\r\ndata:\r\n0\r\n\r\n")
        bench.assert_at_rest()
        assert [] == bench.passage_errors


UPLOAD = b"PUT /file HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"3e8\r\n" + b"x" * 1000 + b"\r\n"


def flow(bench: Bench, sender: FakeTransport, piece: bytes, *, times: int, every_s: float) -> None:
    for _ in range(times):
        bench.send(sender, piece)
        bench.wait(every_s)


def test_an_upload_that_flows_has_no_limit(plain: Bench) -> None:
    client = plain.ask(UPLOAD)
    flow(plain, client, PIECE, times=200, every_s=2)
    assert b"" == client.take()
    plain.send(client, b"0\r\n\r\n")
    plain.wait(59)
    plain.send(plain.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    assert b"200" == status(client.take())
    plain.assert_at_rest()


def test_an_upload_that_stands_still(plain: Bench) -> None:
    plain.context.in_force.min_body_rate_bytes = 0
    client = plain.ask(UPLOAD)
    flow(plain, client, PIECE, times=10, every_s=16)
    for _ in range(3):
        plain.wait(15)
        assert b"" == client.take()
    plain.wait(15)

    assert b"408" == status(client.take())
    plain.assert_at_rest()


def test_an_upload_that_comes_too_slowly(plain: Bench) -> None:
    client = plain.ask(UPLOAD)
    flow(plain, client, PIECE, times=100, every_s=2)
    assert b"" == client.take()
    flow(plain, client, b"1\r\nx\r\n", times=400, every_s=2)

    assert b"408" == status(client.take())
    plain.assert_at_rest()


def test_an_upload_that_the_server_does_not_take(plain: Bench) -> None:
    client = plain.ask(UPLOAD)
    flow(plain, client, PIECE, times=50, every_s=2)
    plain.upstreams[0].protocol.pause_writing()
    plain.send(client, PIECE)
    plain.wait(14)
    assert b"" == client.take()
    for _ in range(5):
        plain.wait(15)

    assert b"504" == status(client.take())
    plain.assert_at_rest()


def test_an_answer_that_flows_has_no_limit(plain: Bench) -> None:
    client = plain.ask(GET)
    plain.send(plain.upstreams[0], ENDLESS)
    flow(plain, plain.upstreams[0], b"1\r\n.\r\n", times=60, every_s=59)
    assert (1, 0, 0) == plain.use()
    plain.send(plain.upstreams[0], b"0\r\n\r\n")

    assert client.take().endswith(b"1\r\n.\r\n0\r\n\r\n")
    plain.assert_at_rest()


@pytest.mark.parametrize(("bytes_", "is_cut"), [(1, True), (20_000, False)])
def test_an_answer_whose_client_is_slow(plain: Bench, bytes_: int, *, is_cut: bool) -> None:
    client = plain.ask(GET)
    plain.send(plain.upstreams[0], ENDLESS)
    client.protocol.pause_writing()
    for _ in range(8):
        client.protocol.resume_writing()
        plain.send(plain.upstreams[0], b"%x\r\n%b\r\n" % (bytes_, b"x" * bytes_))
        client.protocol.pause_writing()
        plain.wait(15)

    assert is_cut == client.is_closing()
    plain.assert_at_rest(client)


def test_an_answer_that_stands_still_is_logged() -> None:
    with Bench(preset=HTTP_API, access_log=AccessLogSettings(path="-")) as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], ENDLESS)
        bench.wait(15)
        bench.wait(45)
        assert client.is_closing()
        bench.assert_at_rest()
        (line,) = bench.logged()

    assert "the answer stood still (downstream.requestTimeout)" == line["why"]


def test_what_was_gathered_is_not_waited_for_again() -> None:
    with Bench(preset=HTTP_API, gathered_body_bytes=32768) as bench:
        client = bench.ask(UPLOAD.replace(b"Transfer-Encoding: chunked", b"Content-Length: 90000"))
        bench.send(client, b"x" * 32768)
        flow(bench, client, b"x" * 300, times=190, every_s=1)
        assert b"" == client.take()
        bench.send(client, b"x" * (90000 - 32768 - 190 * 300))
        bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        assert b"200" == status(client.take())
        bench.assert_at_rest()
