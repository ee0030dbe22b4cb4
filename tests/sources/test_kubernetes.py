"""The objects of a Kubernetes API as the configuration."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.sources import dangling_status
from apfproxy.sources.kubernetes import KubernetesObjects
from tests.sources.kubernetes_double import LEVELS, SCHEMAS, KubernetesDouble, level, schema
from tests.sources.test_files import Loads, Threads
from tests.sources.test_stored_objects import until
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BUILT_IN = {
    "catch-all",
    "exempt",
    "global-default",
    "leader-election",
    "node-high",
    "system",
    "workload-high",
    "workload-low",
}


class Source:
    """A source over an API that a test plays, with a controller."""

    def __init__(self, *, with_suggested: bool = True, writes_status: bool = False) -> None:
        self.api = KubernetesDouble()
        self.controller = Controller(VirtualClock(), 100, 0)
        self.loads = Loads()
        api: Any = self.api
        self.objects = KubernetesObjects(
            api,
            self.controller,
            with_suggested=with_suggested,
            writes_status=writes_status,
            on_load=self.loads,
            sleep=self._sleep,
        )

    async def _sleep(self, _: float) -> None:
        await asyncio.sleep(0)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Follow the objects meanwhile."""
        self.objects.load_first()
        watching = spawn(self.objects.watch(), name="watching")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait((watching,))
            await self.objects.api.close()


@pytest.mark.parametrize(
    ("with_suggested", "expected"), [(True, BUILT_IN), (False, {"catch-all", "exempt"})]
)
def test_first(*, with_suggested: bool, expected: set[str]) -> None:
    """Until the API's objects come the built-in ones are in force, and it is said why."""
    source = Source(with_suggested=with_suggested)
    source.objects.load_first()

    assert expected == set(source.controller.levels)
    assert [(0, 0)] == source.loads.outcomes
    assert source.objects.problem() == (
        "https://api: prioritylevelconfigurations: not listed yet; flowschemas: not listed yet;"
        " the built-in objects are in force"
    )


async def test_follows() -> None:
    """What the API has is in force, then what it changes; the mandatory objects always are."""
    source = Source()
    source.api.put(LEVELS, level("mine"))
    async with source.followed():
        await source.objects.wait_until_synced(10)
        is_synced = source.objects.is_synced
        first = set(source.controller.levels)
        source.api.put(LEVELS, level("other"))
        await until(lambda: "other" in source.controller.levels)
        source.api.delete(LEVELS, "mine")
        await until(lambda: "mine" not in source.controller.levels)
        problem = source.objects.problem()
        source.api.problem = "me.crt: is no PEM"
        told = source.objects.problem()

    assert is_synced
    assert "https://api: me.crt: is no PEM" == told
    assert {"mine", "catch-all", "exempt"} == first
    assert {"other", "catch-all", "exempt"} == set(source.controller.levels)
    assert problem is None
    assert source.api.is_closed


async def test_one_resource_is_not_enough(caplog: pytest.LogCaptureFixture) -> None:
    """Before both resources are listed nothing of them is in force."""
    source = Source()
    source.api.put(LEVELS, level("mine"))
    source.api.refused = {SCHEMAS}
    async with source.followed():
        await until(lambda: source.objects.reflectors["PriorityLevelConfiguration"].is_synced)
        await source.objects.wait_until_synced(0)
        is_synced = source.objects.is_synced
        before = set(source.controller.levels)
        problem = source.objects.problem() or ""
        source.api.refused = set()
        await until(lambda: "mine" in source.controller.levels)

    assert not is_synced
    assert before == BUILT_IN
    assert problem.endswith(
        "answered 403; give the proxy's user the cluster role of"
        " config/kubernetes/rbac/reader.yaml; the built-in objects are in force"
    )
    assert "did not come within 0 s; the built-in ones serve until they do" in caplog.text


async def test_invalid_object() -> None:
    """An object that is not valid is told of, and hinders no other, from the first list on."""
    source = Source()
    source.api.put(LEVELS, level("mine"))
    for name in ("bad", "exempt"):
        source.api.put(LEVELS, {"metadata": {"name": name}, "spec": {"type": "Odd"}})
    async with source.followed():
        await source.objects.wait_until_synced(10)
        first = set(source.controller.levels)
        problems = [str(each) for each in source.objects.problems]
        source.api.put(LEVELS, {"metadata": {"name": "mine"}, "spec": {"type": "Odd"}})
        source.api.put(LEVELS, level("other"))
        await until(lambda: "other" in source.controller.levels)
        during = set(source.controller.levels)
        for name in ("bad", "exempt", "mine"):
            source.api.delete(LEVELS, name)
        await until(lambda: "mine" not in source.controller.levels)

    assert {"mine", "catch-all", "exempt"} == first
    assert ["bad", "exempt"] == [each.split('"')[1] for each in problems]
    assert problems[0].startswith('https://api: PriorityLevelConfiguration "bad": spec')
    assert {"mine", "other", "catch-all", "exempt"} == during
    assert {"other", "catch-all", "exempt"} == set(source.controller.levels)
    assert () == source.objects.problems


async def test_loss() -> None:
    """While the API refuses, its last objects stay in force."""
    source = Source()
    source.api.put(LEVELS, level("mine"))
    async with source.followed():
        await source.objects.wait_until_synced(10)
        source.api.refused = {LEVELS, SCHEMAS}
        source.api.cut()
        await until(lambda: source.objects.problem() is not None)
        problem = source.objects.problem() or ""
        during = set(source.controller.levels)
        source.api.refused = set()
        source.api.put(LEVELS, level("other"))
        await until(lambda: "other" in source.controller.levels)

    assert problem.endswith("the last known objects are in force")
    assert {"mine", "catch-all", "exempt"} == during


async def test_status() -> None:
    """The condition Dangling is written on request, and what hinders that is said."""
    source = Source(writes_status=True)
    source.api.put(SCHEMAS, schema("mine", "none"))
    source.api.refused = {dangling_status.MANAGER}
    async with source.followed():
        await until(lambda: source.objects.problem() is not None and source.objects.is_synced)
        await until(lambda: "status" in (source.objects.problem() or ""))
        problem = source.objects.problem() or ""
        source.api.refused = set()
        await until(lambda: bool(source.api.applied))
        await until(lambda: source.objects.problem() is None)

    assert "https://api: status of FlowSchemas: answered 403" in problem
    assert "config/kubernetes/rbac/status.yaml" in problem
    assert ["mine"] == [name for name, _, _ in source.api.applied]


async def test_only_the_commit_is_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are read and checked in a thread: thousands of them take their time."""
    source = Source()
    async with source.followed():
        await until(lambda: source.objects.is_synced)
        threads = Threads(monkeypatch)
        source.api.put(LEVELS, level("mine"))
        await until(lambda: "mine" in source.controller.levels)

    threads.check()
