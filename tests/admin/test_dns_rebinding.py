"""Names by which the admin listener may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin import own_names
from apfproxy.admin.admin import build_admin_app
from apfproxy.base.health_checks import HealthRegistry
from tests.admin.scene import WALL_OFFSET_NS, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Talks over loopback to an admin listener."""
    scene = Scene(())
    app = build_admin_app(scene.controller, scene.metrics, HealthRegistry(), lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/debug/live", "/events", "/metrics", "/nothing"])
async def test_page_of_another_site(client: Client, path: str) -> None:
    """What comes over loopback by a public name reads nothing, and learns why."""
    response = await client.get(path, headers={"Host": "rebound.example:8081"})
    text = await response.text()

    assert 403 == response.status
    assert "not 'rebound.example:8081'" in text
    assert "text/plain" == response.content_type


async def test_not_over_loopback(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """From elsewhere the listener is read by whatever name it has there."""
    monkeypatch.setattr(own_names, "is_loopback", lambda _: False)
    response = await client.get("/debug/live", headers={"Host": "admin.example"})

    assert 200 == response.status


async def test_other_methods(client: Client) -> None:
    """What does not read is for others to refuse."""
    response = await client.post("/debug/live", headers={"Host": "admin.example"})

    assert 405 == response.status
