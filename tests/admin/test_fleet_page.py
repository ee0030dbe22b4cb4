"""The page of the fleet, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.fleet_page import COLUMNS, NO_FLEET, PATH, fleet_route
from apfproxy.fleet.view import FleetView
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView as View

AS_JSON = {"Accept": "application/json"}


async def answer(view: View | None, headers: dict[str, str] | None = None) -> tuple[str, str]:
    """Content type and text of the page of a fleet."""
    app = web.Application()
    app.add_routes([fleet_route(lambda: view)])
    async with (
        TestClient(TestServer(app)) as client,
        client.get(PATH, headers=headers) as response,
    ):
        return response.content_type, await response.text()


async def test_text() -> None:
    """A table with a line for each member."""
    _, text = await answer(fleet(member("a", is_self=True), member("b\n", age_s=4.0)))

    assert [
        ", ".join(COLUMNS),
        "a, true, held, 200, 33.3, 150, 150, 600, true, 0.4",
        "b\\u000a, false, silent, 200, 33.3, 150, 150, 600, true, 4.0",
    ] == [" ".join(line.split()) for line in text.splitlines()]


async def test_record_away() -> None:
    """How the others are is not known."""
    _, text = await answer(
        fleet(member("a", is_self=True), member("b", age_s=4.0), state="partitioned")
    )

    states = [line.split(", ")[2].strip() for line in text.splitlines()]
    assert ["State", "partitioned", "unknown"] == [each.rstrip(",") for each in states]


async def test_json() -> None:
    """All that the member sees, as it is."""
    content_type, text = await answer(fleet(), AS_JSON)

    assert ("application/json", fleet()) == (
        content_type,
        msgspec.json.decode(text, type=FleetView),
    )


async def test_no_fleet() -> None:
    """Where there is none it is said, in JSON as null."""
    assert ("text/plain", NO_FLEET) == await answer(None)
    assert ("application/json", "null") == await answer(None, AS_JSON)


async def test_no_limit() -> None:
    """Of no seats at all nobody has a share."""
    _, text = await answer(fleet(member("a", 0, 0), limit=0))

    assert "0, , 0," in " ".join(text.split())
