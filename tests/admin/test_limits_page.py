"""`/debug/limits`, asked for over HTTP."""

from __future__ import annotations

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.admin import build_admin_app
from apfproxy.admin.limits_page import PATH
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.flowcontrol.level_summary import LevelsSummary, summarize_levels
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import WALL_OFFSET_NS, Scene


async def test_limits() -> None:
    """The page has the summary of the levels as they are."""
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.ticket("ann")
    app = build_admin_app(scene.controller, scene.scrape, HealthRegistry(), lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app)) as client:
        response = await client.get(PATH)
        found = msgspec.convert(await response.json(), LevelsSummary)

    assert response.content_type == "application/json"
    assert summarize_levels(scene.controller) == found
    assert found.sums.seats_in_use == 1
