"""Connections of HTTP/2: how they begin, are bounded, and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.forwarding import Forwarding
from apfproxy.proxy.http2.connection import PREFACE, Http2Connection
from apfproxy.settings import DownstreamSettings
from tests.proxy.fakes import GET, OK, Bench, broken, status
from tests.proxy.http2.peer import Http2Peer, http2_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
LAST = 2**31 - 1


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A data plane with one seat and one idle connection to its upstream."""
    with http2_bench() as result:
        yield result


# The begin.


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


@pytest.mark.parametrize("begin", [b"P", b"PRI", PREFACE[:-1]])
def test_preface_that_does_not_come(bench: Bench, begin: bytes) -> None:
    """The rest is waited for as long as for a head."""
    client = bench.client()
    bench.send(client, begin)
    assert b"" == client.take()
    bench.wait(33)

    assert b"408" == status(client.take())
    bench.assert_at_rest()


@pytest.mark.parametrize("begin", [b"PRO", PREFACE[:-1] + b"x", PREFACE[:10] + b"\n\n"])
def test_no_preface(bench: Bench, begin: bytes) -> None:
    """It is a request of HTTP/1.1 that is malformed."""
    client = bench.client()
    bench.send(client, begin + b"\r\n\r\n")

    assert status(client.take()) in (b"400", b"501", b"505")


def test_http_1_beside_it(bench: Bench) -> None:
    """Who speaks HTTP/1.1 is served as ever, also where the first byte comes alone."""
    for cut in (1, 2, 3, len(GET)):
        client = bench.client()
        bench.send(client, GET[:cut])
        bench.send(client, GET[cut:])
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())
        bench.end(client)
    bench.assert_at_rest()


def test_only_where_it_is_on() -> None:
    """By default nobody speaks HTTP/2 without TLS."""
    with Bench(downstream=DownstreamSettings()) as bench:
        client = bench.client()
        bench.send(client, PREFACE + EMPTY_SETTINGS)
        assert b"HTTP/1.1 " == client.take()[:9]


# Requests.


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
    bench.send(bench.upstreams[0], OK)
    client.take()
    assert 200 == client.answers[other].status
    bench.assert_at_rest()


@pytest.mark.interpreted
def test_an_error_in_one_stream(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reset, and the others go on."""
    bench.loop.errors = []
    client = Http2Peer(bench)
    monkeypatch.setattr(Forwarding, "on_connection", broken)
    bad = client.ask()
    monkeypatch.undo()
    assert 2 == client.answers[bad].reset_by
    assert 1 == len(bench.loop.errors)

    good = client.ask()
    bench.connect()
    bench.send(bench.upstreams[-1], OK)
    client.take()
    assert 200 == client.answers[good].status
    bench.assert_at_rest()


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
    bench.assert_at_rest()


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
        bench.assert_at_rest()


def test_head_is_refused(bench: Bench) -> None:
    """Without a body, which some clients would take for a broken rule."""
    client = Http2Peer(bench)
    stream = client.ask(method=b"HEAD", fields=[(b"host", b"other")])

    answer = client.answers[stream]
    assert (400, b"", True) == (answer.status, answer.body, answer.is_whole)
