"""Clients that hold a connection of HTTP/2 and do too little with it."""

from __future__ import annotations

import pytest

from apfproxy.proxy.counters import GoAway
from tests.end_to_end.http2.frames import (
    GET,
    PREFACE,
    Code,
    Kind,
    headers,
    ping,
    request,
    settings,
)
from tests.end_to_end.http2.scenes import cleartext


@pytest.mark.parametrize(
    "begin",
    [b"", headers(1, GET, is_whole=False), headers(1, GET)[:12]],
    ids=["nothing", "a block without its end", "a frame without its end"],
)
def test_no_request(begin: bytes) -> None:
    """The connection is ended, pings or not, once the time for a request's head is over."""
    with cleartext(head_timeout_s=0.2) as server, server.connect() as client:
        client.send(PREFACE, settings(), ping(), begin)

        assert Code.NO_ERROR == client.until(Kind.GOAWAY).code
        assert [] == [each for each in client.end() if each.kind != Kind.GOAWAY]
        assert 1 == server.scene.process.cluster.counters.listener.http2.goaways[GoAway.IDLE]


def test_a_body_that_does_not_come() -> None:
    """Its request gets a response when its time is over; the connection goes on."""
    sized = request(b"POST", b"/", (b"content-length", b"10"))
    with cleartext(request_timeout_s=0.2) as server, server.connect() as client:
        client.begin()
        client.send(headers(1, sized, ends=False))

        assert 408 == client.status(1)
        client.send(headers(3, GET))
        assert 200 == client.status(3)
        assert Code.NO_ERROR == client.until(Kind.RST_STREAM, 1).code
