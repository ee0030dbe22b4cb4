"""The ends of namespaces and pods."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers import runner
from apfproxy.apiserver.controllers.endings import Namespaces, PodTermination
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse

BUDGETS = POD_DISRUPTION_BUDGET
FINE = {
    "NamespaceDeletionDiscoveryFailure": "All resources successfully discovered",
    "NamespaceDeletionGroupVersionParsingFailure": "All legacy kube types successfully parsed",
    "NamespaceDeletionContentFailure": (
        "All content successfully deleted, may be waiting on finalization"
    ),
    "NamespaceContentRemaining": "All content successfully removed",
    "NamespaceFinalizersRemaining": "All content-preserving finalizers finished",
}
REMAINING = "Some resources are remaining: {} has 1 resource instances"


async def started(*budgets: str, **metadata: Any) -> tuple[Scene, Driver]:  # noqa: ANN401  JSON
    scene = Scene()
    await scene.namespace("n")
    for name in budgets:
        await scene.create(BUDGETS, {"metadata": {"name": name, **metadata}}, "n")
    return scene, Driver(Namespaces(scene.registry), scene)


async def end(scene: Scene, driver: Driver) -> dict[str, str]:
    """Delete the namespace: those of its conditions that are true; the others say all is fine."""
    await scene.delete(NAMESPACE, "n")
    await driver.settle()
    if not scene.names(NAMESPACE):
        return {}
    conditions = scene.registry.get(NAMESPACE, "", "n")["status"]["conditions"]
    told = {each["type"]: (each["status"], each["message"]) for each in conditions}
    found = {name: text for name, (status, text) in told.items() if status == "True"}
    fine = {name: ("False", text) for name, text in FINE.items() if name not in found}
    assert fine.items() <= told.items()
    assert told.keys() == FINE.keys()
    return found


async def test_contents_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IN_A_ROW", 1)
    scene, driver = await started("a", "b")
    await driver.settle()
    await driver.look("other")
    await driver.look("n")
    assert [["a", "b"], ["n"]] == [scene.names(BUDGETS), scene.names(NAMESPACE)]
    await end(scene, driver)
    assert [[], []] == [scene.names(BUDGETS), scene.names(NAMESPACE)]


async def test_finalizers_hold_namespaces() -> None:
    scene, driver = await started("a", finalizers=["a.b/c"])
    assert {
        "NamespaceContentRemaining": REMAINING.format("poddisruptionbudgets.policy"),
        "NamespaceFinalizersRemaining": (
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances"
        ),
    } == await end(scene, driver)

    metadata = dict(scene.registry.get(BUDGETS, "n", "a")["metadata"])
    del metadata["finalizers"]
    await scene.change(BUDGETS, "a", {"metadata": metadata}, "n")
    await driver.settle()
    assert [] == scene.names(NAMESPACE)


async def test_pods_get_their_grace_period() -> None:
    scene, driver = await started()
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "x"}
    await scene.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "n")
    assert {"NamespaceContentRemaining": REMAINING.format("pods.")} == await end(scene, driver)

    version = scene.store.resource_version
    await driver.look("n")
    assert version == scene.store.resource_version


async def test_other_finalizers_stay() -> None:
    scene = Scene()
    await scene.create(NAMESPACE, {"metadata": {"name": "n"}, "spec": {"finalizers": ["a.b/c"]}})
    await end(scene, Driver(Namespaces(scene.registry), scene))

    assert ["a.b/c"] == scene.registry.get(NAMESPACE, "", "n")["spec"]["finalizers"]


async def test_refused_deletions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started("a")
    await scene.delete(NAMESPACE, "n")
    with monkeypatch.context() as patch:
        patch.setattr(scene.registry, "delete", refuse)
        with pytest.raises(StatusError, match="not today"):
            await driver.settle()
    conditions = scene.registry.get(NAMESPACE, "", "n")["status"]["conditions"]
    told = {each["type"]: each["message"] for each in conditions if each["status"] == "True"}
    failed = told["NamespaceDeletionContentFailure"]

    assert failed.startswith("Failed to delete all resource types, 1 remaining: Operation cannot")
    assert failed.endswith("not today")


async def test_contents_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started("a")
    entries = scene.store.heads(BUDGETS.resource, "n")
    await scene.delete(BUDGETS, "a", "n")
    real = scene.store.heads
    monkeypatch.setattr(
        scene.store,
        "heads",
        lambda resource, name: entries if resource == BUDGETS.resource else real(resource, name),
    )
    await end(scene, driver)

    assert [] == scene.names(NAMESPACE)


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "is_left"),
    [(30, [], False), (5, [], False), (30, ["a.b/c"], True)],
    ids=["at-its-time", "sooner", "held"],
)
async def test_pods_end_with_their_grace_period(
    grace_s: int, finalizers: list[str], *, is_left: bool
) -> None:
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", annotations={"deletionTimestamp": "a word"}, finalizers=finalizers)
    driver = Driver(PodTermination(scene.registry), scene)
    await driver.settle()
    assert driver.queue.next_s is None
    for seconds in (30, grace_s):
        options = DeleteOptions(grace_period_s=seconds)
        await scene.registry.delete(POD, "default", "p", options)
        await driver.settle()
    left = []
    for seconds in (grace_s - 1, 1):
        scene.now_s += seconds
        await driver.settle()
        pods = [each["metadata"] for each in scene.registry.objects(POD)]
        left.append([each["deletionGracePeriodSeconds"] for each in pods])

    assert [[grace_s], [0] * is_left] == left
