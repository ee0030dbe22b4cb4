"""A whole proxy in one event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
import pytest
from msgspec import structs

from apfproxy.app import cluster as cluster_module
from apfproxy.app.process import ProxyProcess
from apfproxy.base import tasks
from apfproxy.base.errors import ListenError, OperatorError
from apfproxy.base.faults import Part
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.decode import Problem
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    KubernetesSettings,
)
from apfproxy.sources import object_counts
from apfproxy.sources.in_force import InForce, ObjectFiles
from apfproxy.sources.kubernetes import KubernetesObjects
from apfproxy.sources.stored_objects import StoredObjects
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until
from tests.support.objects import SCHEMA_YAML, level_yaml
from tests.support.processes import page, settings_for, started, upstream

if TYPE_CHECKING:
    from pathlib import Path

    import yarl

KUBECONFIG = """\
current-context: here
contexts: [{name: here, context: {cluster: here, user: ""}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
"""


@on_uvloop
async def test_forwards_and_shows_itself() -> None:
    """A started process forwards, answers on its admin listener, and ends with a drain."""
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


async def test_observing_shows() -> None:
    """Readiness lists that nothing is limited, without failing for it; a metric tells it, too."""
    settings = settings_for(9, FlowControlSettings(enforcement="observe"))
    async with started(settings) as process, aiohttp.ClientSession() as session:
        status, ready = await page(session, process.admin_port, "/readyz?verbose")
        _, metrics = await page(session, process.admin_port, "/metrics")

    assert 200 == status
    assert (
        "\n[!]enforcement: flow control only observes:"
        " no request is rejected or delayed (flowControl.enforcement)\n"
    ) in ready
    assert '\napfproxy_enforcement{mode="enforce"} 0.0\n' in metrics
    assert '\napfproxy_enforcement{mode="observe"} 1.0\n' in metrics
    assert '\napfproxy_healthcheck{name="enforcement"} 0.0\n' in metrics
    assert '\napfproxy_healthcheck{name="shutdown"} 1.0\n' in metrics


async def test_objects_take_effect_and_problems_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken change shows in readyz without failing it, and the next good one clears that."""
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


@pytest.mark.parametrize("is_store", [True, False], ids=["store", "kubernetes"])
async def test_an_object_that_is_not_valid(
    is_store: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    kubernetes = KubernetesSettings(
        is_enabled=True, kubeconfig=str(path), first_sync_timeout_s=0.001
    )
    flow_control = FlowControlSettings(store=str(tmp_path / "objects.db"))
    if not is_store:
        flow_control = FlowControlSettings(kubernetes=kubernetes)
    # Only this test is to say what comes.
    for kind in (StoredObjects, KubernetesObjects):
        monkeypatch.setattr(kind, "watch", lambda _source, _beat: asyncio.Event().wait())
    process = ProxyProcess(settings_for(9, flow_control))
    await process.start()
    assert isinstance(process.cluster.objects.source, StoredObjects | KubernetesObjects)
    prepare = InForce.prepare
    bad = Problem("there", ("no good",), None, "FlowSchema", "bad")
    monkeypatch.setattr(InForce, "prepare", lambda in_force, read: prepare(in_force, [*read, bad]))
    await process.cluster.objects.source.reload()
    problem = process.health.problem("configuration")
    *_, event = process.configuration_events
    generation = process.cluster.controller.generation
    await process.stop()

    left_out = "what is not valid stays as it last was valid, or is left out: "
    assert f'{left_out}there: FlowSchema "bad": no good' == problem
    assert f"Generation {generation} is in force, but {problem}" == event.message


async def test_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process does not start either where its cluster cannot for an error of ours."""
    monkeypatch.setattr(cluster_module.Cluster, "begin", lambda _: 1 // 0)

    with pytest.raises(OperatorError, match="an error of the proxy itself"):
        await ProxyProcess(settings_for(9)).start()


@pytest.mark.parametrize("setting", ["listen", "admin"])
async def test_port_in_use(setting: str) -> None:
    """A port in use is named with the setting it is from, and nothing goes on running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        settings = structs.replace(settings_for(9), admin=address)
        if setting == "listen":
            settings = structs.replace(
                settings, downstream=DownstreamSettings(listen=address), admin=None
            )
        with pytest.raises(ListenError) as caught:
            await ProxyProcess(settings).start()

    assert str(caught.value).startswith(f"cannot listen on {address}: address already in use; ")
    assert caught.value.setting == setting


async def test_object_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of objects arrive where costs are estimated, also after an error of ours."""
    monkeypatch.setattr(tasks, "FIRST_PAUSE_S", 0.001)
    fetch, told = object_counts._fetch, asyncio.Queue[Mapping[str, int]]()  # noqa: SLF001  an error that only a bug could be
    problems: list[str | None] = []

    async def fail_once(session: aiohttp.ClientSession, url: yarl.URL) -> dict[str, int]:
        problems.append(process.health.problem("object-counts"))
        if len(problems) == 1:
            raise ZeroDivisionError("a bug")
        return await fetch(session, url)

    monkeypatch.setattr(object_counts, "_fetch", fail_once)
    monkeypatch.setattr(
        LearnedCosts, "set_object_counts", lambda _costs, counts, _now_ns: told.put_nowait(counts)
    )
    async with upstream() as server:
        url = str(server.make_url("/metrics"))
        settings = settings_for(server.port or 0, FlowControlSettings(object_counts_from=url))
        async with started(settings) as process:
            counts = await told.get()

    assert "ago: ZeroDivisionError: a bug" in (problems[1] or "")
    assert {"pods": 3} == counts


async def test_limits_are_adjusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are adjusted period after period, whatever fails, and that can be seen."""
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


async def test_an_error_of_a_watcher_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that an error kept out is in force later, and readyz says so in between."""
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("first"))
    monkeypatch.setattr(tasks, "FIRST_PAUSE_S", 0.001)
    process = ProxyProcess(settings_for(9, FlowControlSettings(objects=(str(path),))))
    await process.start()
    with monkeypatch.context() as patch:
        patch.setattr(Controller, "commit", lambda *_: 1 // 0)
        path.write_text(level_yaml("second"))
        await until(lambda: process.health.problem("objects"))
    await until(lambda: "second" in process.cluster.controller.levels)
    problem = process.health.problem("objects") or ""
    is_ready = process.health.page("readyz", verbose=False).is_healthy
    errors = process.faults.totals[Part.OBJECTS]
    await process.stop()

    assert "ago: ZeroDivisionError" in problem
    assert is_ready
    assert 1 <= errors
