"""The events of the live pages of several workers, over real Unix sockets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apfproxy.admin import worker_feeds
from tests.admin.several_workers import SEATS, machine

if TYPE_CHECKING:
    import pytest
    from aiohttp import ClientResponse


async def event_of(response: ClientResponse, wanted: str) -> Any:  # noqa: ANN401 - JSON
    """The data of the next event of a name."""
    name = ""
    async for line in response.content:
        field, _, value = line.decode().strip().partition(": ")
        if field == "event":
            name = value
        elif field == "data" and name == wanted:
            return json.loads(value)
    raise AssertionError(f"no event {wanted}")


async def test_events() -> None:
    """A page gets the history of both, then their state."""
    async with machine() as (found, client):
        found.workers[1].scene.ticket("ann")
        async with client.get("/events") as response, client.get("/events") as another:
            history = await event_of(response, "history")
            state = await event_of(response, "state")
            await event_of(another, "state")

    assert list(history) == ["times", "levels"]
    assert state["serverConcurrencyLimit"] == 2 * SEATS
    assert sum(level["executing"] for level in state["levels"]) == 1


async def test_nobody_answers() -> None:
    """Without workers there are no events, and it is said why."""
    async with machine() as (found, client):
        found.admins.clear()
        found.add_silent()
        async with client.get("/events") as response:
            assert response.status == 503
            assert (await response.text()).startswith("no worker answers\nworker 3: ")


async def test_no_more_pages_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cluster that is looked at takes connections to all workers."""
    monkeypatch.setattr(worker_feeds, "MAX_FEEDS", 0)
    async with machine() as (_, client), client.get("/clusters/a/events") as response:
        assert response.status == 503
        assert "close one" in await response.text()


async def test_events_of_one_worker() -> None:
    """They are its own; of one that is not there, there are none."""
    async with machine() as (found, client):
        found.workers[0].scene.ticket("ann")
        async with client.get("/events?worker=2") as response:
            state = await event_of(response, "state")
        async with client.get("/events?worker=3") as response:
            status, text = response.status, await response.text()

    assert [each["name"] for each in state["workers"]] == ["2"]
    assert sum(level["executing"] for level in state["levels"]) == 0
    assert (status, text) == (404, "worker: there is none named '3'; there are 1, 2\n")
