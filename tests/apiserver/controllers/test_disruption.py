"""Tests of `apfproxy.apiserver.controllers.disruption`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from apfproxy.apiserver.controllers.disruption import Disruption
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.metadata import find_condition
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import NOW, Driver, Scene

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

GONE = DeleteOptions(grace_period_s=0)


async def started(*pods: str) -> tuple[Scene, Driver]:
    scene = Scene()
    await scene.namespace()
    for name in pods:
        await scene.pod(name)
    return scene, Driver(Disruption(scene.registry), scene)


def numbers(scene: Scene, name: str = "b") -> tuple[int, int, int, int]:
    status = scene.registry.get(POD_DISRUPTION_BUDGET, "default", name)["status"]
    return (
        status["disruptionsAllowed"],
        status["currentHealthy"],
        status["desiredHealthy"],
        status["expectedPods"],
    )


async def test_pods_come_and_go() -> None:
    scene, driver = await started("p", "q")
    await scene.budget("b", minAvailable=1)
    await driver.settle()
    assert (1, 2, 1, 2) == numbers(scene)

    await scene.pod("r", ready="False")
    await driver.settle()
    assert (1, 2, 1, 3) == numbers(scene)

    await scene.pod("s")
    await scene.delete(POD, "p", "default")
    await driver.settle()
    assert (1, 2, 1, 4) == numbers(scene)

    scene.now_s += 100
    await scene.registry.delete(POD, "default", "p", GONE)
    await driver.settle()
    assert (1, 2, 1, 3) == numbers(scene)


async def test_selectors_and_labels_change() -> None:
    scene, driver = await started("p", "q")
    await scene.budget("b", minAvailable=1, selector={"matchLabels": {"app": "web"}})
    await driver.settle()

    pod = scene.registry.get(POD, "default", "p")
    metadata = {**pod["metadata"], "labels": {"app": "db"}}
    await scene.change(POD, "p", {"metadata": metadata}, "default")
    await driver.settle()
    assert (0, 1, 1, 1) == numbers(scene)

    budget = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")
    spec = {**budget["spec"], "selector": {"matchLabels": {"app": "db"}}, "minAvailable": 0}
    await scene.change(POD_DISRUPTION_BUDGET, "b", {"spec": spec}, "default")
    await driver.settle()
    assert (1, 1, 0, 1) == numbers(scene)


async def test_evicted_pods_are_spared_at_last() -> None:
    scene, driver = await started("p", "q")
    await scene.budget("b", minAvailable=1)
    await driver.settle()
    budget = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")
    disrupted = {"p": "2001-09-09T01:46:40Z"}
    status = {**budget["status"], "disruptedPods": disrupted, "disruptionsAllowed": 0}
    await scene.change(POD_DISRUPTION_BUDGET, "b", {"status": status}, "default", "status")
    await driver.settle()
    assert (0, 1, 1, 2) == numbers(scene)
    assert scene.now_s + 120 == driver.queue.next_s

    scene.now_s += 120
    await driver.settle()
    assert (1, 2, 1, 2) == numbers(scene)


async def test_right_statuses_are_left_alone() -> None:
    scene, driver = await started("p")
    await scene.budget("b", minAvailable=1)
    await driver.settle()
    version, looks = scene.store.resource_version, driver.looks

    pod = scene.registry.get(POD, "default", "p")
    metadata = {**pod["metadata"], "annotations": {"a": "b"}}
    await scene.change(POD, "p", {"metadata": metadata}, "default")
    await driver.settle()

    assert version + 1 == scene.store.resource_version
    assert looks == driver.looks


async def test_other_budgets_are_left_alone() -> None:
    scene, driver = await started()
    await scene.budget("b", minAvailable=1, selector={"matchLabels": {"app": "db"}})
    await driver.settle()
    looks = driver.looks

    await scene.pod("p")
    await scene.delete(POD, "p", "default")
    await driver.settle()

    assert looks == driver.looks


async def test_budgets_may_be_gone() -> None:
    scene, driver = await started("p")
    await scene.budget("b", minAvailable=1)
    await driver.settle()
    await scene.delete(POD_DISRUPTION_BUDGET, "b", "default")
    assert await driver.look("default", "b") is None
    await scene.registry.delete(POD, "default", "p", GONE)
    await driver.settle()

    assert await driver.look("default", "b") is None
    assert "<Disruption in 0 namespaces>" == repr(driver.controller)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"minAvailable": "5"}, "string is not a percentage"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "is not a valid label selector operator",
        ),
    ],
)
async def test_budgets_that_make_no_sense(spec: dict[str, Any], told: str) -> None:
    """Such as a stricter server would not have stored: they allow nothing, and say why."""
    scene, _ = await started("p")
    budget = await scene.budget("b", minAvailable=0)
    scene.store.put(
        POD_DISRUPTION_BUDGET.resource, {**budget, "spec": {"selector": {}, **spec}}, {}
    )
    driver = Driver(Disruption(scene.registry), scene)
    await driver.settle()

    status = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")["status"]
    (condition,) = status["conditions"]
    assert ("False", "SyncFailed") == (condition["status"], condition["reason"])
    assert told in condition["message"]


async def test_some_of_many_budgets() -> None:
    """A pod that goes concerns the budgets that it belonged to; a budget that goes none."""
    scene, driver = await started("p")
    await scene.budget("b", minAvailable=1)
    await scene.budget("c", minAvailable=1, selector={"matchLabels": {"app": "db"}})
    await driver.settle()
    looks = driver.looks

    await scene.registry.delete(POD, "default", "p", GONE)
    await driver.settle()
    assert looks + 2 == driver.looks  # one because of the pod, one because of its own write
    await scene.delete(POD_DISRUPTION_BUDGET, "c", "default")
    await driver.settle()

    assert looks + 2 == driver.looks
    assert (0, 0, 1, 0) == numbers(scene)


async def disrupt(scene: Scene, name: str, **more: object) -> None:
    status = scene.registry.get(POD, "default", name)["status"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": NOW,
        **more,
    }
    status = {**status, "conditions": [*status["conditions"], condition]}
    await scene.change(POD, name, {"status": status}, "default", "status")


def target(scene: Scene, name: str) -> tuple[str, str, str]:
    pod = scene.registry.get(POD, "default", name)
    condition = find_condition(pod["status"], "DisruptionTarget")
    assert condition is not None
    return condition["status"], condition["reason"], condition["lastTransitionTime"]


async def test_disruptions_that_do_not_come() -> None:
    scene, driver = await started("p", "q", "gone", "ending")
    for name in ("p", "gone", "ending"):
        await disrupt(scene, name)
    await disrupt(scene, "q", reason="TerminationByKubelet")
    await driver.settle()
    scene.now_s += 119
    await driver.settle()
    assert ("True", "EvictionByEvictionAPI", NOW) == target(scene, "p")

    await scene.delete(POD, "ending", "default")
    await scene.registry.delete(POD, "default", "gone", GONE)
    scene.now_s += 1
    await driver.settle()
    later = "2001-09-09T01:48:40Z"
    assert ("False", "EvictionByEvictionAPI", later) == target(scene, "p")
    assert ("True", "TerminationByKubelet", NOW) == target(scene, "q")
    assert ("True", "EvictionByEvictionAPI", NOW) == target(scene, "ending")


async def controlled(scene: Scene, name: str, kind: Kind, raw: Object, above: str = "") -> str:
    metadata: Object = {"name": name, "namespace": "default"}
    if above:
        metadata["ownerReferences"] = [json.loads(above)]
    created = await scene.create(kind, {"metadata": metadata, "spec": raw}, "default")
    reference = {
        "apiVersion": kind.api_version("v1"),
        "kind": kind.name,
        "name": name,
        "uid": created["metadata"]["uid"],
        "controller": True,
    }
    return json.dumps(reference)


async def test_wanted_numbers() -> None:
    """A percentage is of what the controllers of the pods want, and follows their scale."""
    scene, driver = await started()
    deployment = await controlled(scene, "d", DEPLOYMENT, {"replicas": 4})
    replica_set = await controlled(scene, "r", REPLICA_SET, {"replicas": 9}, above=deployment)
    await scene.pod("p", ownerReferences=[json.loads(replica_set)])
    await scene.pod("q", ownerReferences=[json.loads(replica_set)])
    await scene.budget("b", minAvailable="50%")
    await driver.settle()
    assert (0, 2, 2, 4) == numbers(scene)

    await scene.change(DEPLOYMENT, "d", {"spec": {"replicas": 2}}, "default")
    await driver.settle()
    assert (1, 2, 1, 2) == numbers(scene)


async def test_controller_that_is_not_there() -> None:
    scene, driver = await started()
    stateful_set = await controlled(scene, "s", STATEFUL_SET, {"replicas": 4})
    other = {**json.loads(stateful_set), "uid": "another"}
    await scene.pod("p", ownerReferences=[other])
    await scene.budget("b", maxUnavailable=1)
    await driver.settle()

    status = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")["status"]
    condition = find_condition(status, "DisruptionAllowed")
    assert condition is not None
    assert ("SyncFailed", 'found no controllers for pod "p"') == (
        condition["reason"],
        condition["message"],
    )
