"""The page of the top flows, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.top_flows import TopFlows
from apfproxy.admin.top_flows_page import PATH, top_flows_route
from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.queue_set import Flow
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Client = TestClient[web.Request, web.Application]

JSON = {"Accept": "application/json"}
COUNTERS = FlowSchemaCounters("level", "schema")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Asks for the page of two flows, one of which waited, while the other was rejected."""
    clock = VirtualClock()
    top_flows = TopFlows(8, clock)
    top_flows.on_no_seats(Flow(1, "ann\n\udcff", COUNTERS), 3_000_000_000, is_rejected=False)
    top_flows.on_no_seats(Flow(2, "bob", COUNTERS), 0, is_rejected=True)
    app = web.Application()
    app.add_routes([top_flows_route(lambda: top_flows)])
    async with TestClient(TestServer(app)) as asking:
        yield asking
    top_flows.close()


async def test_text(client: Client) -> None:
    """A table, in which no name can fake a row."""
    response = await client.get(PATH)

    assert [
        "FlowSchemaName, PriorityLevelName, Flow,            SeatSeconds, WaitSeconds, Rejected",
        "schema,         level,             ann\\u000a\\udcff, 0.000,       3.000,       0",
        "schema,         level,             bob,             0.000,       0.000,       1",
    ] == [line.rstrip() for line in (await response.text()).splitlines()]


async def test_json(client: Client) -> None:
    """The same with its bounds."""
    found = await (await client.get(PATH, headers=JSON)).json()

    assert (300.0, 8) == (found["halfLifeSeconds"], found["capacity"])
    assert {"total": 3.0, "maxOverestimate": 0.0} == found["measures"]["waitSeconds"]
    assert {
        "flowSchema": "schema",
        "priorityLevel": "level",
        "flow": "bob",
        "seatSeconds": 0.0,
        "waitSeconds": 0.0,
        "rejected": 1.0,
    } == found["flows"][1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("by=rejected", ["bob"]), ("by=waitSeconds&limit=1", ["ann\n\udcff"]), ("by=seatSeconds", [])],
)
async def test_choice(client: Client, query: str, expected: list[str]) -> None:
    """By one measure only, and only so many."""
    found = await (await client.get(f"{PATH}?{query}", headers=JSON)).json()

    assert expected == [each["flow"] for each in found["flows"]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("by=x", "by must be one of seatSeconds, waitSeconds, rejected\n"),
        ("limit=0", "limit must be a number from 1 to 1000\n"),
        ("limit=1001", "limit must be a number from 1 to 1000\n"),
        ("limit=99999999999999999999", "limit must be a number from 1 to 1000\n"),
        ("limit=x", "limit must be a number from 1 to 1000\n"),
        ("limit=", "limit must be a number from 1 to 1000\n"),
    ],
)
async def test_wrong_choice(client: Client, query: str, message: str) -> None:
    """What cannot be shown is refused with what could."""
    response = await client.get(f"{PATH}?{query}")

    assert (400, message) == (response.status, await response.text())
