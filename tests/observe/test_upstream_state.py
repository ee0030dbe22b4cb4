"""The server behind in the live page's JSON."""

from __future__ import annotations

import asyncio

from apfproxy.observe.upstream_state import upstream_state
from apfproxy.proxy.counters import UpstreamCounters, UpstreamFailure
from apfproxy.proxy.upstream_watch import UpstreamWatch
from apfproxy.settings import Address, HealthCheckSettings, UpstreamSettings
from tests.observe.scene import StillPool

S = 1_000_000_000


class Nobody:
    """Is never asked."""

    async def probe(self, *, asks: bool) -> bool:
        """Fail."""
        raise AssertionError(asks)

    def count_awaiting(self) -> int:
        """Count those that wait for an answer."""
        return 3


async def test_state() -> None:
    """It has totals, rates of the last seconds, and why the server fails."""
    now_ns = 0
    counters = UpstreamCounters()
    watch = UpstreamWatch(
        UpstreamSettings(
            url=Address(host="h", port=443, is_tls=True),
            health_check=HealthCheckSettings(interval_s=None),
        ),
        counters,
        Nobody(),
        asyncio.get_running_loop(),
        lambda: now_ns,
        lambda: 7.0,
    )
    assert ("unknown", None, None) == tuple(
        upstream_state(watch, StillPool())[name] for name in ("state", "problem", "since")
    )
    counters.answers.update({200: 3, 204: 2, 404: 5, 999: 1})
    for _ in range(11):
        counters.head_ns.observe(S)
    for _ in range(20):
        counters.fail(UpstreamFailure.CONNECT, "connection refused")
    now_ns = 10 * S
    watch.look()

    assert {
        "address": "https://h:443",
        "state": "failing",
        "problem": "connection refused",
        "since": 7.0,
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
    } == upstream_state(watch, StillPool())
