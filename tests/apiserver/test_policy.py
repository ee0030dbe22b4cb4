"""Disruption budgets, the arithmetic of what they allow, and evictions."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.controllers.disruption import (
    Budget,
    PodController,
    PodState,
    scaled,
)
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, conflict
from apfproxy.apiserver.metadata import find_condition
from apfproxy.apiserver.policy import (
    ATTEMPTS,
    POD_DISRUPTION_BUDGET,
    STATUS_NUMBERS,
    charge,
    evict,
    is_matched,
    percentage,
    spares_unhealthy,
)
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


NOW = "1970-01-01T00:16:40Z"


def budget(*, generation: int = 1, status: Object | None = None, **spec: Any) -> Object:  # noqa: ANN401  JSON
    zeros = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    named = {"name": "b", "namespace": "default", "resourceVersion": "1"}
    return {
        "metadata": {**named, "generation": generation},
        "spec": spec,
        "status": {"observedGeneration": 1, **zeros, **(status or {})},
    }


def pod(*, ready: str = "True", phase: str = "Running", **metadata: Any) -> Object:  # noqa: ANN401  JSON
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": {},
        "status": {"phase": phase, "conditions": conditions},
    }


NOW_S = 1000.0
OWNER, OTHER = (PodController("apps", "ReplicaSet", name, name) for name in "rs")


def pods(
    number: int, ready: int | None = None, owner: PodController | None = OWNER
) -> list[PodState]:
    healthy = number if ready is None else ready
    return [PodState(i < healthy, is_ending=False, controller=owner) for i in range(number)]


def assessed(
    budget: dict[str, Any],
    pods: list[PodState],
    scales: dict[PodController, tuple[str, int]] | None = None,
) -> tuple[dict[str, Any], float | None]:
    known = scales or {}
    return selected(pods).assess(budget, NOW_S, lambda each: known.get(each, (each.uid, None)))


def selected(pods: list[PodState]) -> Budget:
    found = Budget({}, ())
    for number, state in enumerate(pods):
        found.note(f"p{number}", state)
    return found


@pytest.mark.parametrize(
    ("spec", "states", "numbers"),
    [
        ({}, pods(3), (0, 3, 0, 0)),
        ({"minAvailable": 2}, pods(3, owner=None), (1, 3, 2, 3)),
        ({"minAvailable": 2}, pods(3, ready=1), (0, 1, 2, 3)),
        ({"minAvailable": 0}, [], (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, pods(3), (1, 3, 2, 3)),
        ({"minAvailable": "50%"}, pods(3, owner=None), (0, 3, 0, 0)),
        ({"maxUnavailable": 1}, pods(3), (1, 3, 2, 3)),
        ({"maxUnavailable": 5}, pods(3), (3, 3, 0, 3)),
        ({"maxUnavailable": "30%"}, pods(4, ready=3), (1, 3, 2, 4)),
        ({"maxUnavailable": 1}, pods(3, owner=None), (0, 3, 0, 0)),
    ],
)
def test_numbers(
    spec: dict[str, Any], states: list[PodState], numbers: tuple[int, int, int, int]
) -> None:
    status, recheck_s = assessed(budget(generation=4, **spec), states)

    (condition,) = status.pop("conditions")
    assert {"observedGeneration": 4, **dict(zip(STATUS_NUMBERS, numbers, strict=True))} == status
    is_allowed, prefix = ("True", "S") if numbers[0] else ("False", "Ins")
    assert {
        "type": "DisruptionAllowed",
        "status": is_allowed,
        "observedGeneration": 4,
        "reason": f"{prefix}ufficientPods",
        "message": "",
        "lastTransitionTime": NOW,
    } == condition
    assert recheck_s is None


STATES = st.none() | st.builds(
    PodState, st.booleans(), st.booleans(), st.sampled_from([None, OWNER, OTHER])
)


@given(st.lists(st.tuples(st.sampled_from("pqr"), STATES)))
def test_pods_are_counted_as_they_come_and_go(notes: list[tuple[str, PodState | None]]) -> None:
    found = Budget({}, ())
    states: dict[str, PodState | None] = {}
    for name, state in notes:
        assert found.note(name, state) is (states.get(name) != state)
        states[name] = state
    left = {name: state for name, state in states.items() if state is not None}

    assert left == found.states
    assert found.healthy == sum(each.is_ready and not each.is_ending for each in left.values())
    assert dict(Counter(each.controller for each in left.values())) == dict(found.controllers)


def test_budgets_that_cannot_be_worked_out() -> None:
    with pytest.raises(ValueError, match="not a percentage"):
        assessed(budget(minAvailable="3"), pods(2))
    with pytest.raises(ValueError, match='found no controllers for pod "p0"'):
        selected(pods(1)).assess(budget(maxUnavailable=1), NOW_S, lambda _: None)


@pytest.mark.parametrize("value", ["50", "%", "-5%", "5%%", "5 %", "\u0665%", "5%\n", f"{10**19}%"])
def test_other_texts_are_no_percentages(value: str) -> None:
    assert percentage(value) is None


@given(st.integers(0, 200), st.integers(0, 10_000))
@settings(max_examples=50)
def test_percentages_are_rounded_up(percent: int, total: int) -> None:
    assert math.ceil(percent * total / 100) == scaled(f"0{percent}%", total)


ALLOWED = dict.fromkeys(
    ("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy"), 1
)


def test_selectors_of_budgets() -> None:
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
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", ready=ready)
    if status is not None:
        await scene.budget("b")
        changes = {"status": {"expectedPods": 2, **status}}
        await scene.change(POD_DISRUPTION_BUDGET, "b", changes, "default", "status")
    return scene


async def evicted(scene: Scene, **options: Any) -> int:  # noqa: ANN401  of DeleteOptions
    named = {"metadata": {"name": "p"}}
    try:
        done = await evict(scene.registry, "default", "p", named, DeleteOptions(**options))
    except StatusError as error:
        return error.code
    return int(done["code"])


async def test_budgets_note_evictions() -> None:
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
