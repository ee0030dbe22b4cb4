"""Tests of pods as rows of a table."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.pods import POD, pod_cells
from apfproxy.objects.go_text import parse_time
from tests.apiserver.core.pods import container, pod

Spec = dict[str, Any]

NOW_S = parse_time("2026-01-01T01:00:00Z")


def status(name: str = "c", restarts: int = 0, *, ready: bool = False, **state: object) -> Spec:
    """The status of a container; `last` is the state before."""
    last = state.pop("last", {})
    made: Spec = {"name": name, "restartCount": restarts, "ready": ready, "state": state}
    return {**made, "lastState": last}


def ended(code: int = 0, **fields: object) -> Spec:
    """The state of a container that has ended."""
    return {"exitCode": code, **fields}


def row(status: Spec, metadata: Spec | None = None, **spec: object) -> tuple[object, ...]:
    """The cells of readiness, reason and restarts."""
    return tuple(pod_cells(pod(status=status, metadata=metadata, **spec), NOW_S)[1:4])


RUNNING = status(ready=True, running={})
READY = {"type": "Ready", "status": "True"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
TWO = {"containers": [container(), container(name="d")]}
INIT = {"initContainers": [container(name="i"), container(name="j")]}
SIDECAR = {"initContainers": [container(name="i", restartPolicy="Always")]}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("given", "spec", "expected"),
    [
        pytest.param({"phase": "Pending"}, {}, ("0/1", "Pending", "0"), id="pending"),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted"}, {}, ("0/1", "Evicted", "0"), id="reason"
        ),
        pytest.param(
            {"conditions": [GATED]},
            {},
            ("0/1", "SchedulingGated", "0"),
            id="gated",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [RUNNING]},
            {},
            ("1/1", "Running", "0"),
            id="running",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [status(running={})]},
            {},
            ("0/1", "Running", "0"),
            id="not-ready",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [
                    status(
                        restarts=3,
                        waiting={"reason": "CrashLoopBackOff"},
                        last={"terminated": ended(1, finishedAt="2026-01-01T00:55:00Z")},
                    )
                ],
            },
            {},
            ("0/1", "CrashLoopBackOff", "3 (5m ago)"),
            id="waiting",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [status(restarts=1, terminated=ended(2))]},
            {},
            ("0/1", "ExitCode:2", "1"),
            id="exit-code",
        ),
        pytest.param(
            {"containerStatuses": [status(terminated=ended(137, signal=9))]},
            {},
            ("0/1", "Signal:9", "0"),
            id="signal",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [
                    status(terminated=ended(reason="Completed")),
                    status("d", ready=True, running={}),
                ],
            },
            TWO,
            ("1/2", "NotReady", "0"),
            id="one-completed",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [READY],
                "containerStatuses": [
                    status(terminated=ended(reason="Completed")),
                    status("d", ready=True, running={}),
                ],
            },
            TWO,
            ("1/2", "Running", "0"),
            id="one-completed-and-ready",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    status("i", 2, terminated=ended()),
                    status("j", 1, running={}),
                ],
            },
            INIT,
            ("0/1", "Init:1/2", "3"),
            id="initializing",
        ),
        pytest.param(
            {"initContainerStatuses": [status("i", terminated=ended(1))]},
            INIT,
            ("0/1", "Init:ExitCode:1", "0"),
            id="init-failed",
        ),
        pytest.param(
            {"initContainerStatuses": [status("i", terminated=ended(1, reason="Error"))]},
            INIT,
            ("0/1", "Init:Error", "0"),
            id="init-failed-for-a-reason",
        ),
        pytest.param(
            {"initContainerStatuses": [status("i", waiting={"reason": "ImagePullBackOff"})]},
            INIT,
            ("0/1", "Init:ImagePullBackOff", "0"),
            id="init-waiting",
        ),
        pytest.param(
            {"initContainerStatuses": [status("i", waiting={"reason": "PodInitializing"})]},
            INIT,
            ("0/1", "Init:0/2", "0"),
            id="init-about-to-start",
        ),
        pytest.param(
            {
                "phase": "Running",
                "initContainerStatuses": [
                    {**status("i", 4, ready=True, running={}), "started": True}
                ],
                "containerStatuses": [RUNNING],
            },
            SIDECAR,
            ("2/2", "Running", "4"),
            id="sidecar",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [{"type": "Initialized", "status": "True"}],
                "initContainerStatuses": [status("i", 7, running={})],
                "containerStatuses": [RUNNING],
            },
            INIT,
            ("1/1", "Init:0/2", "0"),
            id="initialized-before",
        ),
    ],
)
def test_status(given: Spec, spec: Spec, expected: tuple[str, ...]) -> None:
    """The status column shows what the containers wait for or ended with."""
    assert expected == row(given, **spec)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Failed"}, "Failed"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
    ],
)
def test_deleted(given: Spec, expected: str) -> None:
    """A deleted pod that still runs is terminating, or nobody knows."""
    assert expected == row(given, DELETED)[1]


def test_wide_columns() -> None:
    """Wide output tells the address, the node and the gates."""
    obj = pod(
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
        status={
            "podIP": "10.0.0.1",
            "nominatedNodeName": "m",
            "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
        },
        nodeName="n",
        readinessGates=[{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}],
    )

    assert ("60m", "10.0.0.1", "n", "m", "1/3") == tuple(pod_cells(obj, NOW_S)[4:])
    assert ("<none>",) * 4 == tuple(pod_cells(pod(), NOW_S)[5:])
    assert len(POD.columns) == len(pod_cells(obj, NOW_S))


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        ("Succeeded", "The pod has completed successfully."),
        ("Failed", "The pod failed."),
        ("Running", None),
        ("", None),
    ],
)
def test_conditions(phase: str, told: str | None) -> None:
    """The rows of pods that run no more say so."""
    expected = [{"type": "Completed", "status": "True", "reason": phase, "message": told}]
    assert (expected if told else []) == list(POD.row_conditions(pod(status={"phase": phase})))
