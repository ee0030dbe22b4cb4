"""What two proxies that share a limit show of each other."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.cli.main import main
from apfproxy.fleet.view import FleetView
from apfproxy.settings import FleetSettings, FlowControlSettings
from apfproxy.workers.place import STORE
from tests.end_to_end.scene import on_uvloop
from tests.fleet.memory_store import MemoryRecord
from tests.support.browser import Tab
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from selenium.webdriver import Chrome

LIMIT = 60
ROWS = "[...document.querySelectorAll('#fleet-rows .name')].map((each) => each.textContent)"
TITLE = "document.getElementById('fleet-title').textContent"
SAID = "document.getElementById('verdict').textContent"


@contextlib.asynccontextmanager
async def two_proxies() -> AsyncIterator[tuple[MemoryRecord, list[str]]]:
    """The store, and the admin listeners of two proxies that share `LIMIT` seats by it."""
    record = MemoryRecord()
    flow_control = FlowControlSettings(server_concurrency_limit=LIMIT)
    processes = [
        ProxyProcess(
            replace(
                settings_for(9, flow_control),
                fleet=FleetSettings(store=STORE, member=name),
            ),
            open_store=record.open_store,
        )
        for name in ("one", "two")
    ]
    for process in processes:
        await process.start()
    try:
        yield record, [f"http://127.0.0.1:{process.admin_port}" for process in processes]
    finally:
        for process in processes:
            await process.stop()


async def ask(url: str, path: str) -> Any:  # noqa: ANN401 - any JSON, or text
    async with (
        aiohttp.ClientSession(headers={"Accept": "application/json"}) as session,
        session.get(url + path) as response,
    ):
        assert 200 == response.status
        if response.content_type == "application/json":
            return await response.json()
        return await response.text()


async def fleet_of(url: str) -> FleetView:
    """The fleet as a proxy sees it."""
    return msgspec.convert(await ask(url, "/debug/fleet"), FleetView)


async def both(urls: list[str]) -> list[FleetView]:
    """What each sees, once each has seen the other and holds seats."""
    while True:
        views = [await fleet_of(url) for url in urls]
        if all(len(view.members) == len(urls) and view.claim for view in views):
            return views
        await asyncio.sleep(0)


@pytest.mark.e2e
@on_uvloop
async def test_pages() -> None:
    """Each shows both, by their names; the metrics have its own claim."""
    async with two_proxies() as (_, urls):
        views = await both(urls)
        metrics = await ask(urls[0], "/metrics")
        live = await ask(urls[0], "/debug/live")

    assert [["one", "two"]] * 2 == [[each.name for each in view.members] for view in views]
    assert [["one"], ["two"]] == [
        [each.name for each in view.members if each.is_self] for view in views
    ]
    assert all(view.claims <= LIMIT == view.limit for view in views)
    assert 'apfproxy_fleet_state{state="held"} 1.0' in metrics
    assert "apfproxy_fleet_members 2.0" in metrics
    assert ("held", 2, True) == (
        live["fleet"]["state"],
        live["fleet"]["memberCount"],
        live["fleet"]["isOfWorkers"],
    )


@pytest.mark.e2e
@on_uvloop
async def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands show both."""
    async with two_proxies() as (_, urls):
        await both(urls)
        limits = await asyncio.to_thread(main, ["limits", "--fleet", "--admin", urls[1]])
        levels = await asyncio.to_thread(main, ["limits", "--admin", urls[1]])
        top = await asyncio.to_thread(main, ["top", "--once", "--admin", urls[1]])
    shown = capsys.readouterr().out

    assert (0, 0, 0) == (limits, levels, top)
    assert f" seats now, of {LIMIT} that 2 members share (" in shown
    assert f"{LIMIT} seats for 2 workers" in shown
    assert "this one" not in shown
    assert "workers 2 seen" in shown


@pytest.mark.e2e
@on_uvloop
async def test_live_page(browser: Chrome) -> None:
    """The live page has both, and says in words that the store is away."""
    tab = Tab(browser)
    async with two_proxies() as (record, urls):
        await both(urls)
        await tab.open(f"{urls[0]}/")
        await tab.until(f"{ROWS}.length === 2")
        rows, title = await tab.run(ROWS), await tab.run(TITLE)
        record.is_away = True
        said = await tab.until(f"{SAID}.includes('record has not been written') && {SAID}")
        errors = await tab.errors()
        await tab.open("about:blank")

    assert ["one", "two"] == rows
    assert "Workers" == title
    assert "is away" in said
    assert [] == errors
