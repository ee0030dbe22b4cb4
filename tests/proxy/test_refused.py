"""The response to what is no request: in the API's form, counted and logged."""

from __future__ import annotations

import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.proxy.refused import refused
from apfproxy.settings import HTTP_API, KUBERNETES_API, AccessLogSettings
from tests.proxy.fakes import Bench


@pytest.mark.parametrize(
    ("preset", "kind"), [(KUBERNETES_API, b"application/json"), (HTTP_API, b"text/plain")]
)
@pytest.mark.parametrize("is_logged", [False, True])
def test_refused(preset: str, kind: bytes, *, is_logged: bool) -> None:
    """Of a cluster that is known its form and its log count; nothing is logged twice."""
    with Bench(preset=preset, access_log=AccessLogSettings(path="log")) as bench:
        error = HeadError(404, "no cluster is there", b"Retry-After: 7\r\n")
        response = refused(bench.listener, bench.context, "10.0.0.7", error, is_logged=is_logged)

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
