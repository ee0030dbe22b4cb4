"""Tests of `apfproxy.apiserver.policy.budget`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.policy.budget import (
    Controller,
    NoControllerError,
    PodState,
    assess,
    failed_status,
    is_up_to_date,
    pod_state,
)
from tests.apiserver.policy.objects import budget, pod

NOW_S = 1000.0
NOW = "1970-01-01T00:16:40Z"
OWNER = Controller("apps", "ReplicaSet", "r", "c")


def pods(
    number: int, *, controller: Controller | None = None, ready: int | None = None
) -> list[PodState]:
    """Pods of which some, all unless said otherwise, are ready."""
    healthy = number if ready is None else ready
    return [
        PodState(f"p{i}", i < healthy, is_ending=False, controller=controller)
        for i in range(number)
    ]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(), PodState("p", is_ready=True, is_ending=False, controller=None)),
        (pod(ready="False"), PodState("p", is_ready=False, is_ending=False, controller=None)),
        (
            {"metadata": {"name": "p"}, "status": {}},
            PodState("p", is_ready=False, is_ending=False, controller=None),
        ),
        (
            pod(deletionTimestamp=NOW),
            PodState("p", is_ready=True, is_ending=True, controller=None),
        ),
        (
            pod(
                ownerReferences=[
                    {"uid": "1"},
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "r",
                        "uid": "2",
                        "controller": True,
                    },
                ]
            ),
            PodState(
                "p",
                is_ready=True,
                is_ending=False,
                controller=Controller("apps", "ReplicaSet", "r", "2"),
            ),
        ),
    ],
)
def test_pod_states(made: dict[str, Any], expected: PodState) -> None:
    """Readiness, deletion and the controlling owner are what counts."""
    assert expected == pod_state(made)


@pytest.mark.parametrize(
    ("spec", "states", "numbers"),
    [
        ({}, pods(3), (0, 3, 0, 0)),
        ({"minAvailable": 2}, pods(3), (1, 3, 2, 3)),
        ({"minAvailable": 2}, pods(3, ready=1), (0, 1, 2, 3)),
        ({"minAvailable": 0}, [], (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, pods(3, controller=OWNER), (1, 3, 2, 3)),
        ({"minAvailable": "50%"}, pods(3), (0, 3, 0, 0)),
        ({"maxUnavailable": 1}, pods(3, controller=OWNER), (1, 3, 2, 3)),
        ({"maxUnavailable": 5}, pods(3, controller=OWNER), (3, 3, 0, 3)),
        ({"maxUnavailable": "30%"}, pods(4, controller=OWNER, ready=3), (1, 3, 2, 4)),
        ({"maxUnavailable": 1}, pods(3), (0, 3, 0, 0)),
    ],
)
def test_numbers(
    spec: dict[str, Any], states: list[PodState], numbers: tuple[int, int, int, int]
) -> None:
    """Allowed, healthy, desired and expected pods, as Kubernetes counts them."""
    status = assess(budget(**spec), states, NOW_S)[0]

    assert numbers == tuple(
        status[name]
        for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    )


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=50)
def test_what_is_allowed_leaves_enough(total: int, ready: int, minimum: int) -> None:
    """Evicting as many healthy pods as allowed leaves those desired."""
    status = assess(budget(minAvailable=minimum), pods(total, ready=ready), NOW_S)[0]

    allowed = status["disruptionsAllowed"]
    assert 0 <= allowed <= max(status["currentHealthy"] - minimum, 0)


@pytest.mark.parametrize(
    ("minimum", "value", "reason"),
    [(1, "True", "SufficientPods"), (2, "False", "InsufficientPods")],
)
def test_condition(minimum: int, value: str, reason: str) -> None:
    """The condition says the same as the number."""
    status = assess(budget(generation=4, minAvailable=minimum), pods(2), NOW_S)[0]

    assert [
        {
            "type": "DisruptionAllowed",
            "status": value,
            "observedGeneration": 4,
            "reason": reason,
            "message": "",
            "lastTransitionTime": NOW,
        }
    ] == status["conditions"]
    assert status["observedGeneration"] == 4


def test_without_generation() -> None:
    """What is zero is not written."""
    status = assess(budget(generation=0, minAvailable=1), pods(2), NOW_S)[0]

    assert "observedGeneration" not in status
    assert "observedGeneration" not in status["conditions"][0]


def test_evicted_pods_count_as_gone() -> None:
    """For two minutes at most, and no longer than they are there."""
    disrupted = {
        "p0": "1970-01-01T00:16:00Z",
        "p1": "1970-01-01T00:10:00Z",
        "p3": "1970-01-01T00:16:30Z",
        "p4": "1970-01-01T00:16:10Z",
        "gone": "1970-01-01T00:16:00Z",
    }
    ending = PodState("p4", is_ready=True, is_ending=True, controller=None)
    made = budget(minAvailable=1, status={"disruptedPods": disrupted})

    status, recheck_s = assess(made, [*pods(4), ending], NOW_S)

    assert {"p0": disrupted["p0"], "p3": disrupted["p3"]} == status["disruptedPods"]
    assert status["currentHealthy"] == 2
    assert recheck_s == 960 + 120


def test_nothing_to_recheck() -> None:
    """Without evicted pods nothing changes by itself."""
    status, recheck_s = assess(budget(minAvailable=1), pods(2), NOW_S)

    assert recheck_s is None
    assert "disruptedPods" not in status


def test_failures_allow_nothing() -> None:
    """A budget that cannot be worked out keeps its numbers, but for what it allows."""
    made = budget(minAvailable="3", status={"disruptionsAllowed": 2, "currentHealthy": 3})
    with pytest.raises(ValueError, match="not a percentage") as error:
        assess(made, pods(2), NOW_S)

    status = failed_status(made, str(error.value), NOW_S)

    assert (0, 3) == (status["disruptionsAllowed"], status["currentHealthy"])
    assert "SyncFailed" == status["conditions"][0]["reason"]
    assert made["status"]["disruptionsAllowed"] == 2


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"currentHealthy": 1}, False),
        ({"observedGeneration": 0}, False),
        ({"disruptedPods": {"p": NOW}}, False),
        ({"conditions": []}, False),
        (
            {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "A"}]},
            False,
        ),
    ],
)
def test_writes_that_are_needed(change: dict[str, Any], *, is_same: bool) -> None:
    """Whatever decides differs is worth a write."""
    made = budget(minAvailable=1)
    status = assess(made, pods(2), NOW_S)[0]
    made["status"] = {**status, **change}

    assert is_same is is_up_to_date(made, status)


def test_wanted_pods() -> None:
    """With a controller that knows it, the number that it wants counts; each counts once."""
    states = pods(2, controller=OWNER)
    other = Controller("apps", "ReplicaSet", "s", "d")
    states.append(PodState("p9", is_ready=True, is_ending=False, controller=other))
    scales = {OWNER: ("deployment", 4), other: ("deployment", 4)}

    status = assess(budget(minAvailable="50%"), states, NOW_S, scales.get)[0]

    assert (4, 2, 1) == tuple(
        status[name] for name in ("expectedPods", "desiredHealthy", "disruptionsAllowed")
    )


def test_missing_controller() -> None:
    """A budget that counts on a controller that is not there cannot be worked out."""

    def missing(controller: Controller) -> None:
        raise NoControllerError(controller.name)

    with pytest.raises(ValueError, match='found no controllers for pod "p0"'):
        assess(budget(maxUnavailable=1), pods(1, controller=OWNER), NOW_S, missing)
