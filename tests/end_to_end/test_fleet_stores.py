"""Proxies that share a limit by each kind of store, which ends and comes back."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import FleetSettings, FlowControlSettings
from tests.end_to_end.api_servers import api_server
from tests.end_to_end.scene import on_uvloop
from tests.fleet.redis_servers import RedisServer, redis_server
from tests.support.clocks import until
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from apfproxy.fleet.view import FleetView

pytestmark = pytest.mark.e2e

LIMIT = 60
SECRET = "s3cr3t-of-the-fleet"  # noqa: S105 - of nobody


@asynccontextmanager
async def redis(folder: Path, *options: str) -> AsyncIterator[tuple[FleetSettings, RedisServer]]:
    """Settings of a fleet in Redis, with a password; and the server."""
    path = folder / "password"
    path.write_text(SECRET)
    async with redis_server(folder, "--requirepass", SECRET, *options, password=SECRET) as server:
        yield FleetSettings(store=server.url, password_file=str(path)), server


@asynccontextmanager
async def kubernetes(folder: Path) -> AsyncIterator[FleetSettings]:
    """Settings of a fleet in a ConfigMap."""
    async with api_server() as port:
        path = folder / "kubeconfig"
        cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "a", "context": {"cluster": "a", "user": ""}}
        document = {"current-context": "a", "contexts": [context], "clusters": [cluster]}
        path.write_text(json.dumps(document))
        yield FleetSettings(store="kubernetes:default/fleet", kubeconfig=str(path))


@asynccontextmanager
async def proxies(fleet: FleetSettings, *names: str) -> AsyncIterator[list[ProxyProcess]]:
    """Members of these names, which look at the record ten times a second."""
    flow_control = FlowControlSettings(server_concurrency_limit=LIMIT)
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            own = replace(fleet, member=name, refresh_interval_s=0.1, lease_s=3.0, replicas=2)
            process = ProxyProcess(replace(settings_for(9, flow_control), fleet=own))
            await process.start()
            stack.push_async_callback(process.stop)
            started.append(process)
        yield started


def view_of(process: ProxyProcess) -> FleetView:
    """The fleet, as a member sees it."""
    membership = process.cluster.membership
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


@pytest.mark.parametrize("kind", ["redis", "kubernetes"])
@on_uvloop
async def test_members_come_and_go(kind: str, tmp_path: Path) -> None:
    """Members share the whole limit, never more; whoever leaves gives its seats to the other."""
    async with AsyncExitStack() as stack:
        if kind == "redis":
            fleet, _ = await stack.enter_async_context(redis(tmp_path))
        else:
            fleet = await stack.enter_async_context(kubernetes(tmp_path))
        async with proxies(fleet, "one") as first:
            async with proxies(fleet, "two") as second:
                await until(lambda: agree(first + second))
            await until(lambda: agree(first))

            assert LIMIT == view_of(first[0]).in_force


KEPT = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that loses nothing that it has said is written."""


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
