"""The admin listener's pages, asked for over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.admin import (
    DUMPS,
    DUMPS_INDEX,
    INDEX,
    ITEMS_AT_ONCE,
    build_admin_app,
    gathered,
)
from apfproxy.admin.live_page import LIVE_INDEX
from apfproxy.base.health_checks import READYZ, HealthRegistry
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import WALL_OFFSET_NS, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]

JSON = {"Accept": "application/json"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
def scene() -> Scene:
    """One request executes."""
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.ticket("ann\n\udcff")
    return scene


@pytest.fixture
def health() -> HealthRegistry:
    """Checks as a process has them."""
    health = HealthRegistry()
    health.add("shutdown", pages=(READYZ,))
    return health


@pytest.fixture
async def client(scene: Scene, health: HealthRegistry) -> AsyncIterator[Client]:
    """Talks to the admin listener of the scene; leaves compressed bodies as they are."""
    app = build_admin_app(scene.controller, scene.scrape, health, lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app), auto_decompress=False) as client:
        yield client


@pytest.mark.parametrize("path", ["/", *INDEX, *DUMPS_INDEX])
async def test_every_page_answers(client: Client, path: str) -> None:
    """Each page of the index is there, and is neither cached nor guessed at."""
    response = await client.get(path, headers=PLAIN)

    assert response.status == 200
    assert response.content_type == "text/plain"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-cache, private"


async def test_index(client: Client) -> None:
    """The index names every page, also as JSON."""
    text = await (await client.get("/")).text()
    paths = await (await client.get("/", headers=JSON)).json()

    named = [line.split()[0] for line in text.splitlines()]
    first = [*INDEX, *DUMPS_INDEX, *LIVE_INDEX]
    assert first == named[: len(first)]
    assert {"paths": named} == paths


async def test_unknown_path(client: Client) -> None:
    """What is not there says where to look."""
    for path in ("/nothing", "/readyz/nothing", f"{DUMPS}/nothing"):
        response = await client.get(path)

        assert response.status == 404
        assert await response.text() == "404 page not found; / lists what there is\n"


async def test_other_methods(client: Client) -> None:
    """Pages are only read."""
    response = await client.post("/metrics")

    assert response.status == 405
    assert response.headers["Allow"] == "GET,HEAD"


async def test_metrics_are_compressed_if_wanted(client: Client) -> None:
    """A scraper that takes gzip gets it; the content is the same text."""
    plain = await client.get("/metrics", headers=PLAIN)
    packed = await client.get("/metrics", headers={"Accept-Encoding": "gzip"})

    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    name = b"apiserver_flowcontrol_current_executing_requests"
    assert name in await plain.read()
    assert name in gzip.decompress(await packed.read())


async def test_metrics_are_text(client: Client) -> None:
    """Whatever a scraper prefers, bounds of buckets are written as kube-apiserver writes them."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0, */*;q=0.1", **PLAIN}
    response = await client.get("/metrics", headers=accept)

    assert response.content_type == "text/plain"
    assert 'le="1"' in await response.text()


async def test_health(client: Client, health: HealthRegistry) -> None:
    """A failing check is a 500 that says why; other pages stay well."""
    health.report("shutdown", "process is shutting down")
    ready = await client.get("/readyz")
    live = await client.get("/livez")

    expected = "[+]ping ok\n[-]shutdown failed: process is shutting down\nreadyz check failed\n"
    assert (500, expected) == (ready.status, await ready.text())
    assert (live.status, await live.text()) == (200, "ok")


async def test_health_parameters(client: Client, health: HealthRegistry) -> None:
    """A page can list its checks and leave some out."""
    health.report("shutdown", "process is shutting down")
    response = await client.get("/readyz?verbose&exclude=shutdown")

    expected = "[+]ping ok\n[+]shutdown excluded: ok\nreadyz check passed\n"
    assert (200, expected) == (response.status, await response.text())


async def test_health_of_one_check(client: Client, health: HealthRegistry) -> None:
    """A check has a path of its own."""
    health.report("shutdown", "process is shutting down")
    ping = await client.get("/readyz/ping")
    shutdown = await client.get("/readyz/shutdown")

    assert (ping.status, await ping.text()) == (200, "ok")
    expected = "internal server error: process is shutting down\n"
    assert (500, expected) == (shutdown.status, await shutdown.text())


async def test_dump_as_text(client: Client) -> None:
    """The dump is a table; a name that is no proper text cannot break it."""
    response = await client.get(f"{DUMPS}/dump_requests?includeRequestDetails=1", headers=PLAIN)
    lines = (await response.text()).splitlines()

    assert len(lines) == 2
    assert "ann\\u000a\\udcff" in re.split(", +", lines[1])


async def test_dump_as_json(client: Client) -> None:
    """The same as objects whose keys are the columns, with numbers and truth values."""
    response = await client.get(f"{DUMPS}/dump_requests", headers=JSON)
    (row,) = await response.json()

    assert response.content_type == "application/json"
    assert row["FlowSchemaName"] == "everyone"
    assert row["QueueIndex"] == -1
    assert row["ArriveTime"] == "2026-10-20T07:27:16Z"
    levels = await (await client.get(f"{DUMPS}/dump_priority_levels", headers=JSON)).json()
    idle = {level["PriorityLevelName"]: level["IsIdle"] for level in levels}
    assert idle == {"catch-all": False, "exempt": True}


async def test_details_are_asked_for(client: Client) -> None:
    """An empty parameter asks for nothing."""
    for query, expected in (
        ("", False),
        ("?includeRequestDetails=", False),
        ("?includeRequestDetails=1", True),
    ):
        (row,) = await (await client.get(f"{DUMPS}/dump_requests{query}", headers=JSON)).json()

        assert expected == ("UserName" in row)


async def test_large_dumps_let_others_go_on() -> None:
    """What a dump has is read in small parts, with the event loop's turns in between."""
    turns = 0
    is_done = False
    seen = []

    def count() -> None:
        nonlocal turns
        turns += 1
        if not is_done:
            asyncio.get_running_loop().call_soon(count)

    def items() -> Iterator[int]:
        for number in range(10 * ITEMS_AT_ONCE + 1):
            seen.append(turns)
            yield number

    asyncio.get_running_loop().call_soon(count)
    found = await gathered(items())
    is_done = True
    turns_of = Counter(seen)

    assert list(range(10 * ITEMS_AT_ONCE + 1)) == found
    assert max(turns_of.values()) <= ITEMS_AT_ONCE
