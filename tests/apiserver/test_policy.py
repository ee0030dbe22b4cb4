"""Disruption budgets: their rules, and the arithmetic of what they allow."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.controllers.disruption import (
    Budget,
    PodController,
    PodState,
    decisive,
    pod_state,
    scaled,
)
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET, STATUS_NUMBERS, percentage
from tests.apiserver.budgets import NOW, budget, pod

RULES = POD_DISRUPTION_BUDGET.rules
SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
NOW_S = 1000.0
OWNER, OTHER = (PodController("apps", "ReplicaSet", name, name) for name in "rs")
OWNERS = [
    {"uid": "1"},
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True},
]


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
    ("made", "ready", "ending", "controller"),
    [
        (pod(), True, False, None),
        (pod(ready="False"), False, False, None),
        ({"metadata": {"name": "p"}, "status": {}}, False, False, None),
        (pod(deletionTimestamp=NOW), True, True, None),
        (pod(ownerReferences=OWNERS), True, False, OWNER),
    ],
)
def test_pod_states(
    made: dict[str, Any], ready: bool, ending: bool, controller: PodController | None
) -> None:
    assert PodState(ready, ending, controller) == pod_state(made)


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
    """Allowed, healthy, desired and expected pods, as Kubernetes counts them."""
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


def test_each_scale_counts_once() -> None:
    states = [*pods(2), *pods(1, owner=OTHER)]
    scales = {OWNER: ("deployment", 4), OTHER: ("deployment", 4)}

    status, _ = assessed(budget(generation=0, minAvailable="50%"), states, scales)

    assert (4, 2, 1) == tuple(
        status[name] for name in ("expectedPods", "desiredHealthy", "disruptionsAllowed")
    )
    assert "observedGeneration" not in status
    assert "observedGeneration" not in status["conditions"][0]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=50)
def test_what_is_allowed_leaves_enough(total: int, ready: int, minimum: int) -> None:
    """Evicting as many healthy pods as allowed leaves those desired."""
    status, _ = assessed(budget(minAvailable=minimum), pods(total, ready))

    assert 0 <= status["disruptionsAllowed"] <= max(status["currentHealthy"] - minimum, 0)


def test_evicted_pods_count_as_gone() -> None:
    """For two minutes at most, and no longer than they are there."""
    seconds = {"p0": "16:00", "p1": "10:00", "p3": "16:30", "p4": "16:10", "gone": "16:00"}
    disrupted = {name: f"1970-01-01T00:{time}Z" for name, time in seconds.items()}
    ending = PodState(is_ready=True, is_ending=True, controller=None)
    made = budget(minAvailable=1, status={"disruptedPods": disrupted})

    status, recheck_s = assessed(made, [*pods(4), ending])

    assert {"p0": disrupted["p0"], "p3": disrupted["p3"]} == status["disruptedPods"]
    assert (2, 960 + 120) == (status["currentHealthy"], recheck_s)


def test_budgets_that_cannot_be_worked_out() -> None:
    with pytest.raises(ValueError, match="not a percentage"):
        assessed(budget(minAvailable="3"), pods(2))
    with pytest.raises(ValueError, match='found no controllers for pod "p0"'):
        selected(pods(1)).assess(budget(maxUnavailable=1), NOW_S, lambda _: None)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"currentHealthy": 1}, False),
        ({"observedGeneration": 0}, False),
        ({"disruptedPods": {"p": NOW}}, False),
        ({"conditions": []}, False),
        ({"conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "A"}]}, False),
    ],
)
def test_writes_that_are_needed(change: dict[str, Any], *, is_same: bool) -> None:
    made = budget(minAvailable=1)
    status, _ = assessed(made, pods(2))
    made["status"] = {**status, **change}

    assert is_same is (decisive(made["status"]) == decisive(status))


@pytest.mark.parametrize("value", ["50", "%", "-5%", "5%%", "5 %", "\u0665%", "5%\n", f"{10**19}%"])
def test_other_texts_are_no_percentages(value: str) -> None:
    assert percentage(value) is None


@given(st.integers(0, 200), st.integers(0, 10_000))
@settings(max_examples=50)
def test_percentages_are_rounded_up(percent: int, total: int) -> None:
    assert math.ceil(percent * total / 100) == scaled(f"0{percent}%", total)


def test_statuses() -> None:
    """No number of pods is negative, and conditions are whole."""
    condition = {"type": "A", "status": "True", "lastTransitionTime": None, "reason": "R"}
    new = budget(status={"currentHealthy": -1, "conditions": [{**condition, "message": ""}]})

    found = [wrong.field for wrong in RULES.validate_status(new, budget())]

    assert ["status.conditions[0].lastTransitionTime", "status.currentHealthy"] == found
