"""Responses of the proxy's own, also to what is no request."""

from __future__ import annotations

import json

import httptools
import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.http.own_responses import DateLine, status_body, status_response, too_many_requests
from apfproxy.settings import HTTP_API, KUBERNETES_API, AccessLogSettings
from tests.proxy.fakes import Bench

NOON = 784_111_777
"""In seconds: the date that RFC 9110 has for an example."""


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOON + 0.5)


@pytest.mark.parametrize("is_head", [False, True])
def test_too_many_requests_is_kubernetes_own(*, is_head: bool) -> None:
    head = (
        b"HTTP/1.1 429 Too Many Requests\r\n"
        b"Cache-Control: no-cache, private\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
        b"Content-Length: 43\r\n"
        b"Retry-After: 7\r\n"
        b"X-Content-Type-Options: nosniff\r\n"
        b"A: b\r\n"
        b"Connection: close\r\n"
        b"\r\n"
    )
    body = b"" if is_head else b"Too many requests, please try again later.\n"

    assert head + body == too_many_requests(
        7, is_head=is_head, extra=b"A: b\r\n", connection=b"Connection: close\r\n"
    )


def test_date_line_is_made_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = DateLine()
    first = subject.at(7_000_000_000)
    monkeypatch.setattr("time.time", lambda: NOON + 1.0)

    assert b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" == first
    assert first is subject.at(7_499_999_999)
    assert b"Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n" == subject.at(7_500_000_000)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *((code, "BadRequest") for code in (400, 417, 431)),
        *((code, "Timeout") for code in (408, 504)),
        (501, "NotImplemented"),
        (502, "InternalError"),
    ],
)
def test_status_is_a_kubernetes_status(code: int, reason: str) -> None:
    message = 'it "failed"\r\nhere'
    expected: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
    }
    expected |= {"message": message, "reason": reason, "code": code}
    whole = status_response(code, message)

    assert expected == json.loads(status_body(code, message))
    assert whole.endswith(b"\r\n\r\n" + status_body(code, message))
    parser = httptools.HttpResponseParser(object())
    parser.feed_data(whole)
    assert code == parser.get_status_code()


@pytest.mark.parametrize(
    ("preset", "kind"), [(KUBERNETES_API, b"application/json"), (HTTP_API, b"text/plain")]
)
@pytest.mark.parametrize("is_logged", [False, True])
def test_refused(preset: str, kind: bytes, *, is_logged: bool) -> None:
    with Bench(preset=preset, access_log=AccessLogSettings(path="log")) as bench:
        error = HeadError(404, "no cluster is there", b"Retry-After: 7\r\n")
        response = bench.listener.refuse(bench.context, "10.0.0.7", error, is_logged=is_logged)

        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert b"Content-Type: %b" % kind in head
        assert head.endswith(b"Retry-After: 7\r\nConnection: close")
        assert b"no cluster is there" in body
        assert 1 == bench.counters.listener.unrouted_requests
        assert {404: 1} == bench.counters.listener.own_responses
        assert bench.context.access_log is not None
        bench.context.access_log.flush()
        assert is_logged == (b"no cluster is there" not in b"".join(bench.log_lines))
