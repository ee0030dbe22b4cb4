"""The ends of namespaces and pods."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers import runner
from apfproxy.apiserver.controllers.endings import Namespaces, PodTermination
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, forbidden
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene

BUDGETS = POD_DISRUPTION_BUDGET


async def started() -> tuple[Scene, Driver]:
    scene = Scene()
    await scene.namespace("n")
    return scene, Driver(Namespaces(scene.registry), scene)


def conditions(scene: Scene) -> dict[str, tuple[str, str]]:
    status = scene.registry.get(NAMESPACE, "", "n")["status"]
    return {each["type"]: (each["status"], each["message"]) for each in status["conditions"]}


async def budget(scene: Scene, name: str, **metadata: Any) -> None:  # noqa: ANN401  JSON
    await scene.create(BUDGETS, {"metadata": {"name": name, **metadata}}, "n")


async def test_contents_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IN_A_ROW", 1)
    scene, driver = await started()
    for name in ("a", "b"):
        await budget(scene, name)
    await driver.settle()
    assert ["a", "b"] == scene.names(BUDGETS)

    await scene.delete(NAMESPACE, "n")
    await driver.settle()

    assert [] == scene.names(BUDGETS)
    assert [] == scene.names(NAMESPACE)


async def test_finalizers_hold_namespaces() -> None:
    scene, driver = await started()
    await budget(scene, "a", finalizers=["a.b/c"])
    await scene.delete(NAMESPACE, "n")
    await driver.settle()

    assert {
        "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "Some resources are remaining: poddisruptionbudgets.policy has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances",
        ),
    } == conditions(scene)

    metadata = dict(scene.registry.get(BUDGETS, "n", "a")["metadata"])
    del metadata["finalizers"]
    await scene.change(BUDGETS, "a", {"metadata": metadata}, "n")
    await driver.settle()
    assert [] == scene.names(NAMESPACE)


async def test_pods_get_their_grace_period() -> None:
    scene, driver = await started()
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "x"}
    await scene.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "n")
    await scene.delete(NAMESPACE, "n")
    await driver.settle()
    assert conditions(scene)["NamespaceContentRemaining"][1].endswith(
        "pods. has 1 resource instances"
    )
    version = scene.store.resource_version
    await driver.look("n")
    assert version == scene.store.resource_version


async def test_other_finalizers_stay() -> None:
    scene = Scene()
    raw = {"metadata": {"name": "n"}, "spec": {"finalizers": ["a.b/c"]}}
    await scene.create(NAMESPACE, raw)
    driver = Driver(Namespaces(scene.registry), scene)
    await scene.delete(NAMESPACE, "n")
    await driver.settle()

    assert ["a.b/c"] == scene.registry.get(NAMESPACE, "", "n")["spec"]["finalizers"]


async def test_failures_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started()
    await budget(scene, "a")
    await scene.delete(NAMESPACE, "n")

    async def refuse(*_args: object) -> None:
        raise forbidden("policy", "poddisruptionbudgets", "a", "not today")

    monkeypatch.setattr(scene.registry, "delete", refuse)
    with pytest.raises(StatusError, match="not today"):
        await driver.settle()

    failed = conditions(scene)["NamespaceDeletionContentFailure"]
    assert (
        "True",
        (
            "Failed to delete all resource types, 1 remaining: "
            'poddisruptionbudgets.policy "a" is forbidden: not today'
        ),
    ) == failed


async def test_contents_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started()
    await budget(scene, "a")
    await scene.delete(NAMESPACE, "n")
    entries = scene.store.heads(BUDGETS.resource, "n")
    await scene.delete(BUDGETS, "a", "n")
    real = scene.store.heads
    monkeypatch.setattr(
        scene.store,
        "heads",
        lambda resource, name: entries if resource == BUDGETS.resource else real(resource, name),
    )
    await driver.settle()

    assert [] == scene.names(NAMESPACE)


async def test_namespaces_may_be_gone_or_stay() -> None:
    scene, driver = await started()

    await driver.look("other")
    await driver.look("n")

    assert ["n"] == scene.names(NAMESPACE)


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "is_left"),
    [
        pytest.param(30, [], False, id="at-its-time"),
        pytest.param(5, [], False, id="sooner"),
        pytest.param(30, ["a.b/c"], True, id="held"),
    ],
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
    scene.now_s += grace_s - 1
    await driver.settle()
    before = scene.registry.get(POD, "default", "p")["metadata"]["deletionGracePeriodSeconds"]
    scene.now_s += 1
    await driver.settle()

    left = [each["metadata"] for each in scene.registry.objects(POD)]
    assert (grace_s, is_left) == (before, bool(left))
    assert [0] * is_left == [each["deletionGracePeriodSeconds"] for each in left]
