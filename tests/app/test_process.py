"""A whole proxy in one event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec.structs import replace

from apfproxy.app import cluster as cluster_module
from apfproxy.app.process import ProxyProcess
from apfproxy.base.faults import Part
from apfproxy.base.service_manager import ServiceManager
from apfproxy.base.signals import Signals
from apfproxy.flowcontrol.controller import Controller
from apfproxy.settings import (
    AUTO_SEATS,
    UNSAID,
    Address,
    AutoLimitSettings,
    EndpointSettings,
    FlowControlSettings,
)
from apfproxy.sources.in_force import ObjectFiles
from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.scene import Setup, on_uvloop, running
from tests.support.clocks import until
from tests.support.objects import SCHEMA_YAML, level_yaml
from tests.support.processes import page, settings_for, upstream

if TYPE_CHECKING:
    from pathlib import Path


@on_uvloop
async def test_forwards_and_shows_itself() -> None:
    async with upstream() as server, aiohttp.ClientSession() as session:
        process = ProxyProcess(settings_for(server.port or 0))
        await process.start()
        forwarded = await page(session, process.port, "/api/v1/pods?limit=1")
        ready = await page(session, process.admin_port, "/readyz?verbose")
        _, metrics = await page(session, process.admin_port, "/metrics")
    await process.drain()

    assert forwarded == (200, "/api/v1/pods?limit=1")
    checks = (
        *("ping", "sweep", "upstream", "limits", "configuration", "settings"),
        *("shutdown", "admin-access", "objects"),
    )
    assert ready == (200, "".join(f"[+]{name} ok\n" for name in checks) + "readyz check passed\n")
    assert "\napfproxy_config_" in metrics
    assert process.health.problem("shutdown") == "the process is shutting down"
    assert process.admin_port is None


@pytest.mark.parametrize("is_worker", [False, True])
async def test_admin_listener_that_others_reach(
    is_worker: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log warns of it; a worker has none, and leaves that to its parent."""
    caplog.set_level(logging.INFO)
    manager = ServiceManager({})
    manager.shows_state = is_worker
    settings = replace(settings_for(9), admin=Address(host="0.0.0.0", port=0))  # noqa: S104
    process = ProxyProcess(settings, manager=manager)
    await process.start()
    port = process.admin_port
    with Signals() as signals:
        process.attend(signals)
    await process.stop()

    assert is_worker == (port is None)
    assert is_worker == ("admin on its parent's address" in caplog.text)
    assert is_worker != ("admin: others than this machine reach it" in caplog.text)


async def test_objects_take_effect_and_problems_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("first"))
    process = ProxyProcess(settings_for(9, FlowControlSettings(objects=(str(path),))))
    seen = []
    # Only this test is to say when the file is read.
    monkeypatch.setattr(ObjectFiles, "watch", lambda _files, _beat: asyncio.Event().wait())
    await process.start()
    assert isinstance(process.cluster.objects.source, ObjectFiles)
    broken = level_yaml("first").replace(
        "nominalConcurrencyShares: ", "nominalConcurrencyShares: no"
    )
    line = 1 + broken[: broken.index(": no")].count("\n")  # of the field
    for text in (
        broken,
        SCHEMA_YAML.replace("NAME", "x").replace("LEVEL", "gone"),
        level_yaml("second"),
    ):
        path.write_text(text)
        await process.cluster.objects.source.reload()
        seen.append(process.health.problem("configuration"))
    is_ready = process.health.page("readyz", verbose=False).is_healthy
    await process.stop()

    assert is_ready
    assert seen[0] is not None
    assert seen[0].startswith(f"the last change is not in force: {path}:{line}: ")
    assert seen[1] is not None
    assert seen[1].startswith("FlowSchema 'x': spec.priorityLevelConfiguration.name: ")
    assert seen[2] is None
    assert "second" in process.cluster.controller.levels
    assert (process.cluster.config_status.succeeded, process.cluster.config_status.failed) == (3, 1)


async def test_limits_are_adjusted(monkeypatch: pytest.MonkeyPatch) -> None:
    adjusted = asyncio.Event()
    outcomes = iter([ValueError("a bug"), None])

    def adjust(_controller: Controller) -> None:
        outcome = next(outcomes, None)
        if outcome is not None:
            raise outcome
        adjusted.set()

    monkeypatch.setattr(Controller, "adjust_limits", adjust)
    monkeypatch.setattr(cluster_module, "ADJUSTMENT_PERIOD_S", 0.001)
    monkeypatch.setattr(cluster_module, "STALE_LIMITS_S", 0.0)
    process = ProxyProcess(settings_for(9))
    idle = process.health.problem("limits")
    await process.start()
    await adjusted.wait()
    totals = process.faults.totals
    await process.stop()

    assert idle is None
    assert {Part.LIMITS: 1} == {part: total for part, total in totals.items() if total}


@on_uvloop
async def test_limit_that_is_found() -> None:
    """It outlives other changes of the settings, and ends with its own."""
    async with running(Setup()) as scene:
        cluster = scene.process.cluster

        async def change(**values: Any) -> None:  # noqa: ANN401  of settings
            flow_control = FlowControlSettings(**values)
            settings = replace(cluster.settings, flow_control=flow_control)
            (await cluster.prepare(settings)).commit()

        await change(server_concurrency_limit=AUTO_SEATS)
        found = cluster.found_limit
        assert found is not None
        assert (found.meter, 100) == (
            cluster.served.load_meter,
            cluster.controller.server_concurrency_limit,
        )

        found.finder.adopt(0.0, 77)
        await change(server_concurrency_limit=AUTO_SEATS, suggested_objects=False)
        assert (found, 77) == (cluster.found_limit, cluster.controller.server_concurrency_limit)
        narrow = AutoLimitSettings(max=50)
        await change(server_concurrency_limit=AUTO_SEATS, auto_limit=narrow)
        assert 50 == cluster.controller.server_concurrency_limit

        await change(server_concurrency_limit=30)
        assert (None, None) == (cluster.found_limit, cluster.served.load_meter)
        assert 30 == cluster.controller.server_concurrency_limit


@on_uvloop
async def test_seats_of_the_servers_that_are_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apfproxy.app.cluster")
    async with running(Setup()) as scene:
        cluster, pool = scene.process.cluster, scene.process.cluster.served.pool
        cluster.name = "blue"
        settings = replace(
            cluster.settings,
            flow_control=FlowControlSettings(per_endpoint=100),
            upstream=replace(
                cluster.settings.upstream,
                url=UNSAID,
                endpoints=tuple(
                    EndpointSettings(url=Address(host="127.0.0.1", port=port)) for port in (7, 8, 9)
                ),
            ),
        )
        (await cluster.prepare(settings)).commit()
        assert 300 == cluster.controller.server_concurrency_limit
        for endpoint in pool.endpoints:
            for _ in range(5):
                endpoint.fail(UpstreamFailure.BROKEN_ANSWER, "reset")
        await until(lambda: cluster.controller.server_concurrency_limit == 200)
        for watch in cluster.upstream.watches.values():
            watch.fail((None, "a test"), 0)
        await until(lambda: cluster.controller.server_concurrency_limit == 100)
        events = [each.message for each in scene.process.configuration_events]

    texts = ["blue: 300 seats, since 3 of 3 servers are well"]
    texts += ["blue: 200 seats, since 2 of 3 servers are well"]
    texts += ["blue: 100 seats, as for one server, since none is well"]
    said = [each.getMessage() for each in caplog.records if each.name == "apfproxy.app.cluster"]
    assert texts == events[-3:] == said
