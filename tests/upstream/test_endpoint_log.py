"""What the log says of how a server behind is."""

from __future__ import annotations

import logging

import pytest

from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.endpoint_log import LINE_S, EndpointLog

S = 1_000_000_000
CONNECT, BROKEN = UpstreamFailure.CONNECT, UpstreamFailure.BROKEN_ANSWER


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    """Have all lines."""
    caplog.set_level(logging.INFO, "apfproxy.upstream.endpoint_log")


def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    """One for each change; those of failures not too soon after each other."""
    log = EndpointLog("http://a:1", "blue")
    log.say("up", None, "", since_ns=0, now_ns=0)
    log.say("up", None, "", since_ns=0, now_ns=S)
    log.say("failing", CONNECT, "fails: refused", since_ns=2 * S, now_ns=2 * S)
    log.say("failing", BROKEN, "fails: broken", since_ns=2 * S, now_ns=3 * S)
    late_ns = round((2 + LINE_S) * S)
    log.say("ejected", BROKEN, "gets no requests: broken", since_ns=4 * S, now_ns=late_ns)
    log.say("draining", None, "", since_ns=14 * S, now_ns=14 * S)
    log.say("up", None, "", since_ns=15 * S, now_ns=15 * S)

    server = "blue: the server behind, http://a:1,"
    assert [
        (logging.INFO, f"{server} can be reached"),
        (logging.WARNING, f"{server} fails: refused"),
        (logging.WARNING, f"{server} still gets no requests: broken"),
        (logging.INFO, f"{server} is up again after 12 s"),
    ] == [(record.levelno, record.getMessage()) for record in caplog.records]


def test_forget(caplog: pytest.LogCaptureFixture) -> None:
    """What was said counts no more, and nobody waits for the next line."""
    log = EndpointLog("http://a:1")
    log.say("failing", CONNECT, "fails: refused", since_ns=0, now_ns=0)
    log.forget()
    log.say("failing", CONNECT, "fails: refused", since_ns=S, now_ns=S)

    assert ["the server behind, http://a:1, fails: refused"] * 2 == [
        record.getMessage() for record in caplog.records
    ]
