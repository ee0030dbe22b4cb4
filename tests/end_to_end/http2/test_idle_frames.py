"""Clients that hold a connection of HTTP/2 and do nothing with it, or too little."""

from __future__ import annotations

import pytest

from apfproxy.proxy.counters import GoAway
from tests.end_to_end.http2.frames import (
    END_STREAM,
    GET,
    PREFACE,
    Code,
    Kind,
    Setting,
    headers,
    ping,
    request,
    settings,
    window_update,
)
from tests.end_to_end.http2.scenes import LARGE, Server, cleartext


def goaways(server: Server, why: GoAway) -> int:
    """How many connections were ended for that."""
    return server.scene.process.cluster.counters.listener.http2.goaways[why]


def test_a_window_that_never_opens() -> None:
    """The answer's stream is reset; another one on the same connection was answered meanwhile."""
    with cleartext(idle_timeout_s=0.2) as server, server.connect() as client:
        client.begin((Setting.INITIAL_WINDOW_SIZE, 0))
        client.send(headers(1, GET), headers(3, request(b"HEAD")))

        assert 200 == client.status(1)
        assert 200 == client.status(3)
        assert Code.CANCEL == client.until(Kind.RST_STREAM, 1).code


def test_a_long_answer_that_is_not_taken() -> None:
    """It holds no other one up."""
    with cleartext() as server, server.connect() as client:
        client.begin((Setting.INITIAL_WINDOW_SIZE, 10))
        client.send(headers(1, request(b"GET", LARGE)))
        assert 10 == len(client.until(Kind.DATA, 1).payload)

        client.send(headers(3, GET))
        assert b"hello worl" == client.until(Kind.DATA, 3).payload
        client.send(window_update(3, 1))
        assert b"d" == client.until(Kind.DATA, 3).payload


def test_windows_that_open_late() -> None:
    """A client that was busy may say at once that it has read all that came meanwhile."""
    with cleartext() as server, server.connect() as client:
        client.begin((Setting.INITIAL_WINDOW_SIZE, 1 << 20))
        client.send(window_update(0, 1 << 30))
        for stream_id in range(1, 201, 2):
            client.send(headers(stream_id, request(b"GET", LARGE)), window_update(0, 1))
            assert 200 == client.status(stream_id)
            client.until(Kind.DATA, stream_id, flags=END_STREAM)
        client.send(window_update(0, 1 << 14) * 4000)
        client.send(ping())
        client.until(Kind.PING)
        client.send(headers(201, GET))

        assert 200 == client.status(201)


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        headers(1, GET, is_whole=False),
        headers(1, GET)[:12],
    ],
    ids=["nothing", "a block without its end", "a frame without its end"],
)
def test_no_request(begin: bytes) -> None:
    """The connection is ended, pings or not, once the time for a request's head is over."""
    with cleartext(head_timeout_s=0.2) as server, server.connect() as client:
        client.send(PREFACE, settings(), ping(), begin)

        assert Code.NO_ERROR == client.until(Kind.GOAWAY).code
        assert [] == [each for each in client.end() if each.kind != Kind.GOAWAY]
        assert 1 == goaways(server, GoAway.IDLE)


def test_half_a_preface() -> None:
    """It may yet become HTTP/1.1, which ends it."""
    with cleartext(head_timeout_s=0.2) as server, server.connect() as client:
        client.send(PREFACE[:20])

        client.end()


def test_more_parameters_than_there_are() -> None:
    """A frame of SETTINGS has as many as the library takes."""
    with cleartext() as server, server.connect() as client:
        client.send(PREFACE, settings(*((Setting.MAX_FRAME_SIZE, 1 << 14),) * 2000))

        assert Code.ENHANCE_YOUR_CALM == client.until(Kind.GOAWAY).code
        client.end()
        assert 1 == goaways(server, GoAway.FLOOD)


def test_a_body_that_does_not_come() -> None:
    """Its request gets an answer when its time is over; the connection goes on."""
    sized = request(b"POST", b"/", (b"content-length", b"10"))
    with cleartext(request_timeout_s=0.2) as server, server.connect() as client:
        client.begin()
        client.send(headers(1, sized, ends=False))

        assert 408 == client.status(1)
        client.send(headers(3, GET))
        assert 200 == client.status(3)
        assert Code.NO_ERROR == client.until(Kind.RST_STREAM, 1).code
