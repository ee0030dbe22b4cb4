"""Health pages and metrics, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.registry import Collector

from apfproxy.admin.families import NO_LABELS, gauge
from apfproxy.admin.health_pages import health_routes
from apfproxy.admin.metrics import ScrapedPage
from apfproxy.base.health_checks import READYZ, HealthRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from prometheus_client.core import Metric

    Client = TestClient[web.Request, web.Application]


class One(Collector):
    """One family."""

    def collect(self) -> Iterable[Metric]:
        """The family."""
        return [gauge("some", "x", [(NO_LABELS, 1)])]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Talks to pages of which one check fails."""
    health = HealthRegistry()
    health.add("start", pages=(READYZ,), problem="not started yet")
    app = web.Application()
    app.add_routes(health_routes(health, ScrapedPage(One())))
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


async def test_metrics(client: Client) -> None:
    """They are those of the collector."""
    response = await client.get("/metrics")

    assert "some 1.0" in (await response.text()).splitlines()
