"""The objects of a Kubernetes API as the configuration."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.sources.kubernetes import KubernetesObjects
from tests.sources.test_object_files import Loads
from tests.sources.test_service_endpoints import Service
from tests.support.clocks import VirtualClock, until
from tests.support.kubernetes_api import LEVELS, SCHEMAS, SLICES, KubernetesDouble
from tests.support.objects import level, schema

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


FOLDER = Path(__file__).parents[2] / "config" / "kubernetes" / "rbac"


def manifests(name: str) -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((FOLDER / name).read_text())
    return {document["kind"]: document for document in documents}


def rights(
    name: str, kind: str = "ClusterRole", group: str = "flowcontrol.apiserver.k8s.io"
) -> set[tuple[str, str]]:
    rules = manifests(name)[kind]["rules"]
    assert [[group]] == [rule["apiGroups"] for rule in rules]
    return {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


async def test_rights() -> None:
    source = Source(writes_status=True)
    source.api.put(SCHEMAS, schema("mine", "none"))
    source.objects.load_first()
    watching = spawn(source.objects.watch(lambda: None), name="watching")
    await until(lambda: bool(source.api.applied))
    watching.cancel()
    asked = set(source.api.asked)

    assert asked == rights("reader.yaml") | rights("status.yaml")
    assert {("list", LEVELS), ("watch", LEVELS), ("list", SCHEMAS), ("watch", SCHEMAS)} == rights(
        "reader.yaml"
    )


async def test_rights_of_endpoints() -> None:
    service = Service()
    async with service.followed():
        await service.until(lambda: ("watch", SLICES) in service.api.asked)

    assert set(service.api.asked) == rights("endpoints.yaml", "Role", "discovery.k8s.io")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("reader.yaml", "ClusterRole"), ("status.yaml", "ClusterRole"), ("endpoints.yaml", "Role")],
)
def test_bindings(name: str, kind: str) -> None:
    """A role is bound to the service account alone."""
    found = manifests(name)
    account = manifests("reader.yaml")["ServiceAccount"]["metadata"]
    binding = found[f"{kind}Binding"]
    role = found[kind]["metadata"]

    assert (kind, role["name"]) == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
    assert role.get("namespace") == binding["metadata"].get("namespace")
    assert [{"kind": "ServiceAccount", **account}] == binding["subjects"]
