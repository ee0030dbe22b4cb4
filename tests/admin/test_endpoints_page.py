"""The page of the servers behind, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.endpoints_page import COLUMNS, PATH, endpoints_route
from tests.admin.servers import view

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Client = TestClient[web.Request, web.Application]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Asks for the page of a server that is well, one that fails and one that is drained."""
    views = [view("http://a:1"), view("http://b:1", "failing"), view("http://c:1", "draining")]
    views[0].endpoint.counters.answers[200] = 7
    app = web.Application()
    app.add_routes([endpoints_route(lambda: views)])
    async with TestClient(TestServer(app)) as asking:
        yield asking


async def test_text(client: Client) -> None:
    """A table with a line for each."""
    lines = (await (await client.get(PATH)).text()).splitlines()

    assert [
        ", ".join(COLUMNS),
        "http://a:1, up, 1970-01-01T00:00:07Z, 1, 100.0, 5, 2, 1, 7, 0, 0,",
        "http://b:1, failing, 1970-01-01T00:00:07Z, 1, 0.0, 5, 2, 1, 0, 0, 0, connection refused",
        "http://c:1, draining, 0001-01-01T00:00:00Z, 1, 0.0, 5, 2, 1, 0, 0, 0,",
    ] == [" ".join(line.split()) for line in lines]


async def test_json(client: Client) -> None:
    """The same by the names of the columns."""
    found = await (await client.get(PATH, headers={"Accept": "application/json"})).json()

    assert ["up", "failing", "draining"] == [each["State"] for each in found]
    assert ("100.0", 7, "connection refused") == (
        found[0]["SharePercent"],
        found[0]["Answers"],
        found[1]["Problem"],
    )
