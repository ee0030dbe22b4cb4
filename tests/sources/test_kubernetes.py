"""The objects of a Kubernetes API as the configuration."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.sources.kubernetes import KubernetesObjects
from tests.sources.test_files import Loads
from tests.support.clocks import VirtualClock, until
from tests.support.kubernetes_api import LEVELS, SCHEMAS, KubernetesDouble
from tests.support.objects import level

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
        self.objects.load_first()
        watching = spawn(self.objects.watch(lambda: None), name="watching")
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
        await until(lambda: source.objects.reflectors[0].is_synced)
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
