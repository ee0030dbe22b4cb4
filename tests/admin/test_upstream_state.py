"""The server behind in the live page's JSON."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from apfproxy.admin.upstream_state import upstream_state
from apfproxy.settings import Address
from apfproxy.upstream.counters import UpstreamFailure
from tests.admin.servers import StillPool, StillUpstream
from tests.proxy.watched import NEVER, Scene

S = 1_000_000_000
POOL: Any = StillPool(StillUpstream())


async def test_state() -> None:
    """It has totals, rates of the last seconds, and why the server fails."""
    scene = Scene(replace(NEVER, url=Address(host="h", port=443, is_tls=True)))
    watch, [server] = scene.watch, scene.servers
    counters = server.counters
    assert ("unknown", None, None) == tuple(
        upstream_state(watch, POOL)[name] for name in ("state", "problem", "since")
    )
    counters.answers.update({200: 3, 204: 2, 404: 5, 999: 1})
    for _ in range(11):
        counters.head_ns.observe(S)
    for _ in range(20):
        counters.fail(UpstreamFailure.CONNECT, "connection refused")
    await scene.look(10)
    found = upstream_state(watch, POOL, 200)
    endpoints = found.pop("endpoints")

    assert {
        "address": "https://h:443",
        "state": "failing",
        "problem": "connection refused",
        "since": 1110.0,
        "answers": {"1xx": 0, "2xx": 5, "3xx": 0, "4xx": 5, "5xx": 1},
        "failures": {
            "connect": 20,
            "connect-timeout": 0,
            "tls": 0,
            "answer-timeout": 0,
            "broken-answer": 0,
        },
        "answersPerSecond": {"1xx": 0.0, "2xx": 0.5, "3xx": 0.0, "4xx": 0.5, "5xx": 0.1},
        "failuresPerSecond": 2.0,
        "awaiting": 0,
        "silentSeconds": 0.0,
        "p50": 0.9,
        "p99": 0.998,
        "connections": {"open": 5, "idle": 2},
        "endpointCount": 1,
        "healthyCount": 0,
        "seatsPerEndpoint": 200,
    } == found
    assert ["http://h:1"] == [each["url"] for each in endpoints]
