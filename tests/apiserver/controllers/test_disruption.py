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


CASES = {
    "numbers-follow-pods": """
        pod p; pod q; budget b 1; = 1 2 1 2
        pod r False; = 1 2 1 3
        pod s; delete p; = 1 2 1 4
        end p; = 1 2 1 3
    """,
    "a-pod-counts-while-the-selector-matches": """
        pod p; pod q; budget b 1 web; = 1 2 1 2
        label p db; = 0 1 1 1
        select b 0 db; = 1 1 0 1
    """,
    "an-evicted-pod-counts-again-after-two-minutes": """
        pod p; pod q; budget b 1; = 1 2 1 2
        evicted b p; = 0 1 1 2; wait 119; = 0 1 1 2; wait 1; = 1 2 1 2
    """,
    "neither-its-own-write-nor-an-unimportant-change-makes-it-write": """
        pod p; budget b 1; looks 2; restart; looks 1
        annotate p; looks 0; writes 0
    """,
    "a-pod-concerns-the-budgets-that-match-it": """
        pod p; budget b 1; budget c 1 db; looks 4
        end p; looks 2; = 0 0 1 0
        pod q; delete q; end q; looks 0
        pod r; looks 2; delete r; end r; looks 2
        unbudget c; looks 0
    """,
    "nothing-is-kept-of-budgets-that-are-gone": """
        pod p; budget b 1; looks 2; unbudget b; looks 0; end p; looks 0; empty
    """,
}
"""`=` has the allowed disruptions of budget b, and its healthy, desired and expected pods; all pods
are labelled `app=web`."""


async def act(scene: Scene, step: list[str]) -> None:
    match step:
        case ["pod", name, *ready]:
            await scene.pod(name, ready=ready[0] if ready else "True")
        case ["budget", name, least, *apps]:
            await scene.budget(name, minAvailable=int(least), selector=selector(apps))
        case ["select", name, least, *apps]:
            spec = {"minAvailable": int(least), "selector": selector(apps)}
            await scene.change(POD_DISRUPTION_BUDGET, name, {"spec": spec}, "default")
        case ["evicted", name, pod]:
            status = scene.registry.get(POD_DISRUPTION_BUDGET, "default", name)["status"]
            status = {**status, "disruptedPods": {pod: NOW}, "disruptionsAllowed": 0}
            changes = {"status": status}
            await scene.change(POD_DISRUPTION_BUDGET, name, changes, "default", "status")
        case ["label" | "annotate" as verb, name, *app]:
            changes = (
                {"labels": {"app": app[0]}} if verb == "label" else {"annotations": {"a": "b"}}
            )
            metadata = {**scene.registry.get(POD, "default", name)["metadata"], **changes}
            await scene.change(POD, name, {"metadata": metadata}, "default")
        case ["delete", name]:
            await scene.delete(POD, name, "default")
        case ["end", name]:
            await scene.registry.delete(POD, "default", name, GONE)
        case ["unbudget", name]:
            await scene.delete(POD_DISRUPTION_BUDGET, name, "default")
        case ["wait", seconds]:
            scene.now_s += int(seconds)


def selector(apps: list[str]) -> Object:
    return {"matchLabels": {"app": apps[0]}} if apps else {}


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
async def test_budgets_and_pods(steps: str) -> None:
    scene, driver = await started()
    written = 0
    for step in steps.strip().replace("\n", ";").split(";"):
        match step.split():
            case ["=", *expected]:
                await driver.settle()
                assert tuple(map(int, expected)) == numbers(scene), step
            case ["looks", number]:
                written = scene.store.resource_version
                await driver.settle()
                assert int(number) == driver.looks, step
                driver.looks = 0
            case ["writes", number]:
                assert int(number) == scene.store.resource_version - written
            case ["restart"]:
                driver = Driver(Disruption(scene.registry), scene)
            case ["empty"]:
                assert "<Disruption in 0 namespaces>" == repr(driver.controller)
                assert await driver.look("default", "b") is None
            case words:
                await act(scene, words)


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
    scene, driver = await started("p", "q", "gone", "ending", "ended")
    for name in ("p", "gone", "ending"):
        await disrupt(scene, name)
    await disrupt(scene, "q", reason="TerminationByKubelet")
    await disrupt(scene, "ended")
    status = {**scene.registry.get(POD, "default", "ended")["status"], "phase": "Succeeded"}
    await scene.change(POD, "ended", {"status": status}, "default", "status")
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
    for name in ("ending", "ended"):
        assert ("True", "EvictionByEvictionAPI", NOW) == target(scene, name)


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
