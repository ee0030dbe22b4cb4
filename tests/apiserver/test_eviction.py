"""Evictions, beside the recorded requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, conflict
from apfproxy.apiserver.metadata import find_condition
from apfproxy.apiserver.policy import (
    ATTEMPTS,
    POD_DISRUPTION_BUDGET,
    charge,
    evict,
    is_matched,
    spares_unhealthy,
)
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.budgets import NOW, budget, pod
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

ALLOWED = dict.fromkeys(
    ("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy"), 1
)


def test_selectors() -> None:
    """An empty selector matches all pods; none, and one that makes no sense, matches none."""
    wrong = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    selectors: list[Object] = [{"matchLabels": {"app": "web"}}, {}, wrong]
    specs: list[Object] = [{"selector": each} for each in selectors]

    found = [is_matched(budget(**spec), pod(labels={"app": "web"})) for spec in [*specs, {}]]
    assert [True, True, False, False] == found


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "is_spared"),
    [
        ({}, 1, 1, True),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, 1, False),
        ({}, 0, 0, False),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 1, True),
    ],
)
def test_unhealthy_pods(policy: Object, healthy: int, desired: int, *, is_spared: bool) -> None:
    """They may go while enough others are healthy, or always, as the policy says."""
    made = budget(status={"currentHealthy": healthy, "desiredHealthy": desired}, **policy)

    assert is_spared is spares_unhealthy(made, pod(ready="False"))
    assert not spares_unhealthy(made, pod())


MANY = {f"p{i}": NOW for i in range(2001)}
FAILED = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "so"}


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        ({"disruptionsAllowed": -1}, 403, "pdb disruptions allowed is negative"),
        ({"disruptionsAllowed": 1, "disruptedPods": MANY}, 403, "DisruptedPods map too big - too"),
        ({"observedGeneration": -1}, 429, " is still being processed by the server."),
        ({"currentHealthy": 1, "desiredHealthy": 1}, 429, " needs 1 healthy pods and has 1 curr"),
        ({"conditions": [FAILED]}, 429, " does not allow evicting pods currently because it"),
    ],
)
def test_budgets_refuse(status: Object, code: int, told: str) -> None:
    """With a cause; 403 where it is no use to try again."""
    with pytest.raises(StatusError) as error:
        charge(budget(status=status), "p", NOW)

    found = error.value
    assert code == found.code
    if code == 403:
        assert f'poddisruptionbudget.policy "b" is forbidden: {told}' in found.message
    else:
        (cause,) = (found.details or {})["causes"]
        assert "DisruptionBudget" == cause["reason"]
        assert f"The disruption budget b{told}" in cause["message"]


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
    assert 0 == found["status"]["disruptionsAllowed"]
    assert ["InsufficientPods"] == [each["reason"] for each in found["status"]["conditions"]]
    assert "kube-apiserver" in {each["manager"] for each in found["metadata"]["managedFields"]}
    ending = scene.registry.get(POD, "default", "p")
    assert "deletionTimestamp" in ending["metadata"]
    told = find_condition(ending["status"], "DisruptionTarget") or {}
    assert ("True", "EvictionByEvictionAPI", None, 1) == tuple(
        told.get(name) for name in ("status", "reason", "lastProbeTime", "observedGeneration")
    )
    assert 201 == await evicted(scene, grace_period_s=0)
    assert [] == scene.names(POD)


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
