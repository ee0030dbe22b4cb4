"""Evictions; `tests/conformance` has what Kubernetes responds to most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, conflict
from apfproxy.apiserver.policy.eviction import (
    ATTEMPTS,
    charge,
    evict,
    ignores_budgets,
    is_matched,
    mark_target,
    may_start,
    spares_unhealthy,
)
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Scene
from tests.apiserver.policy.objects import NOW, budget, pod

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

ALLOWED = {
    "observedGeneration": 1,
    "disruptionsAllowed": 1,
    "currentHealthy": 2,
    "desiredHealthy": 1,
}


@pytest.mark.parametrize(
    ("made", "is_ignored", "may"),
    [
        (pod(phase="Succeeded"), True, False),
        (pod(phase="Failed"), True, False),
        (pod(phase="Pending"), True, True),
        (pod(), False, True),
        (pod(phase="Unknown"), False, True),
        (pod(deletionTimestamp=NOW), True, False),
    ],
)
def test_budgets_protect_pods_that_run(made: Object, *, is_ignored: bool, may: bool) -> None:
    assert (is_ignored, may) == (ignores_budgets(made), may_start(made))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"selector": {"matchLabels": {"app": "web"}}}, True),
        ({"selector": {}}, True),
        ({"selector": {"matchLabels": {"app": "db"}}}, False),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}, False),
        ({}, False),
    ],
)
def test_selectors(spec: Object, expected: bool) -> None:
    """An empty selector matches all pods; none, and one that makes no sense, matches none."""
    assert expected is is_matched(budget(**spec), pod(labels={"app": "web"}))


@pytest.mark.parametrize(
    ("spec", "healthy", "desired", "is_spared"),
    [
        ({}, 1, 1, True),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, 1, False),
        ({}, 0, 0, False),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 1, True),
    ],
)
def test_unhealthy_pods(spec: Object, healthy: int, desired: int, *, is_spared: bool) -> None:
    """They may go while enough others are healthy, or always, as the policy says."""
    made = budget(status={"currentHealthy": healthy, "desiredHealthy": desired}, **spec)

    assert is_spared is spares_unhealthy(made, pod(ready="False"))
    assert not spares_unhealthy(made, pod())


def condition(reason: str, message: str) -> list[Object]:
    """The condition that nothing is allowed."""
    named = {"type": "DisruptionAllowed", "status": "False"}
    return [{**named, "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (
            {"disruptionsAllowed": 1, "observedGeneration": 0},
            429,
            " is still being processed by the server.",
        ),
        ({"disruptionsAllowed": -1}, 403, "pdb disruptions allowed is negative"),
        (
            {"disruptionsAllowed": 1, "disruptedPods": {f"p{i}": NOW for i in range(2001)}},
            403,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
        (
            {"currentHealthy": 1, "desiredHealthy": 1},
            429,
            " needs 1 healthy pods and has 1 currently",
        ),
        (
            {"currentHealthy": 2, "desiredHealthy": 1},
            429,
            " does not allow evicting pods currently",
        ),
        (
            {"conditions": condition("SyncFailed", "broken")},
            429,
            " does not allow evicting pods currently because it failed sync: broken",
        ),
        (
            {"currentHealthy": 2, "conditions": condition("Other", "so")},
            429,
            " does not allow evicting pods currently (Other): so",
        ),
        (
            {"currentHealthy": 2, "conditions": condition("InsufficientPods", "")},
            429,
            " does not allow evicting pods currently",
        ),
    ],
)
def test_budgets_refuse(status: Object, code: int, told: str) -> None:
    """With a cause; 403 where it is no use to try again."""
    with pytest.raises(StatusError) as error:
        charge(budget(status=status), "p", NOW)

    assert code == error.value.code
    if code == 403:
        assert f'poddisruptionbudget.policy "b" is forbidden: {told}' == error.value.message
    else:
        cause = {"reason": "DisruptionBudget", "message": f"The disruption budget b{told}"}
        assert {"causes": [cause]} == error.value.details
        assert (10 if "processed" in told else 0) == error.value.retry_after_s


def test_evictions_count_down() -> None:
    """The last one allowed changes the condition, too."""
    made = budget(status={"disruptionsAllowed": 2})
    status = made["status"]

    charge(made, "p", NOW)
    assert (1, {"p": NOW}, False) == (
        status["disruptionsAllowed"],
        status["disruptedPods"],
        "conditions" in status,
    )
    charge(made, "q", NOW)
    assert {"p": NOW, "q": NOW} == status["disruptedPods"]
    assert "InsufficientPods" == status["conditions"][0]["reason"]


@pytest.mark.parametrize("generation", [0, 3])
def test_pods_say_why_they_end(generation: int) -> None:
    made = pod(generation=generation)

    mark_target(made, NOW)

    last = made["status"]["conditions"][-1]
    assert ("DisruptionTarget", "True", None) == (
        last["type"],
        last["status"],
        last["lastProbeTime"],
    )
    assert generation == last.get("observedGeneration", 0)


async def started(status: Object | None = None, *, ready: str = "True") -> Scene:
    """A scene with one pod, and a budget if there is a status for it."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", ready=ready)
    if status is not None:
        await scene.budget("b")
        changes = {"status": {"expectedPods": 2, **status}}
        await scene.change(POD_DISRUPTION_BUDGET, "b", changes, "default", "status")
    return scene


async def evicted(scene: Scene, **options: Any) -> int:  # noqa: ANN401  of DeleteOptions
    """Evict the pod; returns the code of the response."""
    named = {"metadata": {"name": "p"}}
    try:
        done = await evict(scene.registry, "default", "p", named, DeleteOptions(**options))
    except StatusError as error:
        return error.code
    return int(done["code"])


async def test_dry_run() -> None:
    """Nothing changes, neither the pod nor the budget."""
    scene = await started(ALLOWED)
    version = scene.store.resource_version

    assert 201 == await evicted(scene, is_dry_run=True)
    assert version == scene.store.resource_version


async def test_budgets_note_evictions() -> None:
    """Under the name of the server; the pod gets its time to end."""
    scene = await started(ALLOWED)

    assert 201 == await evicted(scene)
    found = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")
    assert {"p": "2001-09-09T01:46:40Z"} == found["status"]["disruptedPods"]
    assert "kube-apiserver" in {each["manager"] for each in found["metadata"]["managedFields"]}
    assert "deletionTimestamp" in scene.registry.get(POD, "default", "p")["metadata"]
    assert 201 == await evicted(scene, grace_period_s=0)
    assert [] == scene.names(POD)


async def test_several_budgets() -> None:
    scene = await started()
    await scene.budget("b")
    await scene.budget("c")

    assert 500 == await evicted(scene)


@pytest.mark.parametrize("wanted", ["1", ""])
@pytest.mark.parametrize("option", ["uid", "resource_version"])
async def test_preconditions(option: str, wanted: str) -> None:
    """An eviction may be meant for one state of one pod."""
    scene = await started()

    assert 409 == await evicted(scene, **{option: wanted})
    metadata = scene.registry.get(POD, "default", "p")["metadata"]
    right = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
    assert 201 == await evicted(scene, **right)


@pytest.mark.parametrize(
    ("phase", "is_exact", "code", "attempts"),
    [
        ("Pending", False, 409, ATTEMPTS),
        ("Pending", True, 409, 1),
        ("Running", False, 429, 1),
        ("Running", True, 409, 1),
    ],
)
async def test_pods_that_keep_changing(
    phase: str, is_exact: bool, code: int, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No budget protects a pod that has not started: its deletion is tried again, some times.

    For one that is not healthy the budget has to be asked again.  Neither is done if the client
    wanted that very state.
    """
    scene = await started(ALLOWED, ready="False")
    status = scene.registry.get(POD, "default", "p")["status"]
    written = await scene.change(
        POD, "p", {"status": {**status, "phase": phase}}, "default", "status"
    )
    tried = []

    async def refuse(_kind: object, _namespace: str, name: str, _options: DeleteOptions) -> None:
        tried.append(name)
        raise conflict("", "pods", name, "modified")

    monkeypatch.setattr(scene.registry, "delete", refuse)
    version = written["metadata"]["resourceVersion"] if is_exact else None

    assert (code, attempts) == (await evicted(scene, resource_version=version), len(tried))
