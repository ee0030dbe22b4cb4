"""Health pages and metrics, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.registry import Collector

from apfproxy.observe.families import NO_LABELS, gauge
from apfproxy.observe.health import READYZ, HealthRegistry
from apfproxy.observe.health_pages import health_routes
from apfproxy.observe.metrics import ScrapedPage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from prometheus_client.core import Metric

    Client = TestClient[web.Request, web.Application]


class One(Collector):
    """One family."""

    def __init__(self, *, is_canonical: bool) -> None:
        self.is_canonical = is_canonical

    def collect(self) -> Iterable[Metric]:
        """The family."""
        return [gauge("canonical", "x", [(NO_LABELS, int(self.is_canonical))])]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Talks to pages of which one check fails."""
    health = HealthRegistry()
    health.add("start", pages=(READYZ,), problem="not started yet")
    app = web.Application()
    metrics = ScrapedPage(lambda is_canonical: One(is_canonical=is_canonical))
    app.add_routes(health_routes(health, metrics))
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
        ("/readyz", 500, "[+]ping ok\n[-]start failed: not started yet\nreadyz check failed\n"),
        ("/readyz?exclude=start", 200, "ok"),
        ("/readyz/ping", 200, "ok"),
        ("/readyz/start", 500, "internal server error: not started yet\n"),
        ("/livez/start", 404, "404: Not Found"),
    ],
)
async def test_health(client: Client, path: str, status: int, text: str) -> None:
    """Pages, single checks and exclusions are those of kube-apiserver."""
    response = await client.get(path)

    assert (status, text) == (response.status, await response.text())


@pytest.mark.parametrize(
    ("accept", "line"), [("", "canonical 0.0"), ("application/openmetrics-text", "canonical 1.0")]
)
async def test_metrics(client: Client, accept: str, line: str) -> None:
    """Each format has the collector that is made for it."""
    response = await client.get("/metrics", headers={"Accept": accept})

    assert line in (await response.text()).splitlines()
