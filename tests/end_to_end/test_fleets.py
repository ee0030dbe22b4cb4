"""Proxies that share a limit: by each kind of store, which ends and comes back; what they show."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.cli.main import main
from apfproxy.settings import OBSERVE, FleetSettings, FlowControlSettings
from apfproxy.workers.place import STORE
from tests.end_to_end.api_servers import api_server, url_of
from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.slices_api import kubeconfig
from tests.fleet.redis_servers import RedisServer, redis_server
from tests.fleet.virtual import Shelf
from tests.support.browser import Tab
from tests.support.clocks import until
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from selenium.webdriver import Chrome

    from apfproxy.fleet.view import FleetView

LIMIT = 60
ENFORCED = FlowControlSettings(server_concurrency_limit=LIMIT)
SECRET = "s3cr3t-of-the-fleet"  # noqa: S105 - of no server
BY_RECORD = FleetSettings(store=STORE)
KEPT = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that loses nothing that it has said is written."""
ROWS = "[...document.querySelectorAll('#fleet-rows .name')].map((each) => each.textContent)"
SAID = "document.getElementById('verdict').textContent"


@asynccontextmanager
async def redis(folder: Path, *options: str) -> AsyncIterator[tuple[FleetSettings, RedisServer]]:
    path = folder / "password"
    path.write_text(SECRET)
    async with redis_server(folder, "--requirepass", SECRET, *options, password=SECRET) as server:
        yield FleetSettings(store=server.url, password_file=str(path)), server


@asynccontextmanager
async def proxies(
    fleet: FleetSettings,
    *names: str,
    record: Shelf | None = None,
    flow_control: FlowControlSettings = ENFORCED,
    upstream_port: int = 9,
) -> AsyncIterator[list[ProxyProcess]]:
    opening: dict[str, Any] = {} if record is None else {"open_store": record.open_store}
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            own = replace(fleet, member=name)
            if record is None:
                own = replace(own, refresh_interval_s=0.1, lease_s=3.0, replicas=2)
            settings = replace(settings_for(upstream_port, flow_control), fleet=own)
            process = ProxyProcess(settings, **opening)
            await process.start()
            stack.push_async_callback(process.stop)
            started.append(process)
        yield started


def view_of(process: ProxyProcess) -> FleetView:
    assert process.clusters.only is not None
    membership = process.clusters.only.membership
    assert membership is not None
    return membership.view()


def agree(processes: list[ProxyProcess], *, may_lose: bool = False) -> bool:
    """Whether all see each other, with nothing wrong, and what they use sums to the limit.

    It is never more, but where the store `may_lose` what was written.
    """
    views = [view_of(each) for each in processes]
    assert may_lose or sum(each.in_force for each in views) <= LIMIT
    return (
        all(len(each.members) == len(views) and not each.problem for each in views)
        and sum(each.claim for each in views) == LIMIT
    )


@on_uvloop
async def test_members_come_and_go(tmp_path: Path) -> None:
    """Members share the whole limit, never more; one that leaves gives its seats to the other."""
    async with api_server() as port:
        path = kubeconfig(tmp_path, url_of(port))
        fleet = FleetSettings(store="kubernetes:default/fleet", kubeconfig=path)
        async with proxies(fleet, "one") as first:
            async with proxies(fleet, "two") as second:
                await until(lambda: agree(first + second))
            await until(lambda: agree(first))

            assert LIMIT == view_of(first[0]).in_force


@pytest.mark.parametrize("options", [KEPT, ()], ids=["kept", "empty"])
@on_uvloop
async def test_store_ends_and_comes_back(
    options: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While the server is away members say so; when it is back, they share as before."""
    may_lose = not options
    async with redis(tmp_path, *options) as (fleet, server), proxies(fleet, "one", "two") as both:
        await until(lambda: agree(both))
        server.kill()
        await until(lambda: all("Redis does not" in view_of(each).problem for each in both))
        assert sum(view_of(each).in_force for each in both) <= LIMIT
        await server.start(password=SECRET)
        await until(lambda: agree(both, may_lose=may_lose))

    assert SECRET not in caplog.text


@on_uvloop
async def test_password_changes(tmp_path: Path) -> None:
    """A member that is refused takes the next password from its file."""
    async with redis(tmp_path) as (fleet, server), proxies(fleet, "one", "two") as both:
        await until(lambda: agree(both))
        async with server.client(password=SECRET) as client:
            await client.config_set("requirepass", "another")
            await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # type: ignore[no-untyped-call]  # redis-py's
        await until(lambda: all("refuses user" in view_of(each).problem for each in both))
        assert all(SECRET not in view_of(each).problem for each in both)
        (tmp_path / "password").write_text("another")
        await until(lambda: agree(both))


@on_uvloop
async def test_seats_follow_what_is_observed() -> None:
    """The proxy to which all requests come has more than its equal part, as if it enforced."""
    asked: set[asyncio.StreamWriter] = set()

    async def keep_waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.add(writer)

    flow_control = replace(ENFORCED, enforcement=OBSERVE, suggested_objects=False)
    async with AsyncExitStack() as stack:
        upstream = await asyncio.start_server(keep_waiting, "127.0.0.1", 0)
        stack.callback(upstream.close)
        one, two = await stack.enter_async_context(
            proxies(
                BY_RECORD,
                *("one", "two"),
                record=Shelf(),
                flow_control=flow_control,
                upstream_port=upstream.sockets[0].getsockname()[1],
            )
        )
        for _ in range(2 * LIMIT):
            _, client = await asyncio.open_connection("127.0.0.1", one.port)
            stack.callback(client.close)
            client.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: len(asked) == 2 * LIMIT and view_of(one).in_force > LIMIT // 2)
        assert view_of(one).in_force + view_of(two).in_force <= LIMIT
        for writer in asked:
            writer.close()


@on_uvloop
async def test_what_members_show(browser: Chrome, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages, commands and the live page have both members, and say when the store is away."""
    record, tab = Shelf(), Tab(browser)
    async with proxies(BY_RECORD, "one", "two", record=record) as both:
        await until(
            lambda: all(len(view_of(each).members) == 2 and view_of(each).claim for each in both)
        )
        url = f"http://127.0.0.1:{both[1].admin_port}"
        async with aiohttp.ClientSession(headers={"Accept": "application/json"}) as session:
            async with session.get(f"{url}/debug/fleet") as response:
                members = (await response.json())["members"]
            async with session.get(f"{url}/metrics") as response:
                metrics = await response.text()
        codes = [
            await asyncio.to_thread(main, [*words, "--admin", url])
            for words in (["limits", "--fleet"], ["limits"], ["top", "--once"])
        ]
        await tab.open(f"{url}/")
        await tab.until(f"{ROWS}.length === 2")
        rows = await tab.run(ROWS)
        record.problem = "it is away"
        said = await tab.until(f"{SAID}.includes('record has not been written') && {SAID}")
        errors = await tab.errors()
        await tab.open("about:blank")
    shown = capsys.readouterr().out

    assert [("one", False), ("two", True)] == [(each["name"], each["isSelf"]) for each in members]
    assert 'apfproxy_fleet_state{state="held"} 1.0' in metrics
    assert "apfproxy_fleet_members 2.0" in metrics
    assert [0, 0, 0] == codes
    assert f" seats now, of {LIMIT} that 2 members share (" in shown
    assert f"{LIMIT} seats for 2 workers" in shown
    assert "workers 2 seen" in shown
    assert ["two", "one"] == rows
    assert "is away" in said
    assert [] == errors
