"""Tests of what a server adds to pods and keeps."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.pods import (
    admit_create,
    grace_s,
    prepare_create,
    prepare_status,
    prepare_update,
    warnings,
)
from tests.apiserver.core.pods import pod, stored

Spec = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists"}], [UNREACHABLE]),
        ([{"key": NOT_READY, "effect": "NoExecute"}], [UNREACHABLE]),
        ([{"key": NOT_READY, "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
    ],
)
def test_tolerations(tolerations: list[Spec], added: list[str]) -> None:
    """A pod stays some minutes on a node in trouble, unless it says otherwise."""
    obj = pod(tolerations=tolerations)
    admit_create(obj)

    expected = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in added
    ]
    assert [*tolerations, *expected] == obj["spec"].get("tolerations", [])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0, "PreemptLowerPriority")),
        ({"preemptionPolicy": "PreemptLowerPriority", "priority": 0}, (0, "PreemptLowerPriority")),
        (
            {"priorityClassName": "system-node-critical"},
            (2_000_001_000, "PreemptLowerPriority"),
        ),
    ],
)
def test_priority(given: Spec, expected: tuple[int, str]) -> None:
    """Every pod has a priority."""
    obj = pod(**given)

    assert "" == admit_create(obj)
    assert expected == (obj["spec"]["priority"], obj["spec"]["preemptionPolicy"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"priorityClassName": "mine"}, "no PriorityClass with name mine was found"),
        (
            {"priorityClassName": "system-cluster-critical", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; {} 2000000000 {}",
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; {}"
                " PreemptLowerPriority {}"
            ),
        ),
    ],
)
def test_refused_priority(given: Spec, expected: str) -> None:
    """A pod may not say another priority than its class does, nor name an unknown class."""
    words = ("priority admission controller computed", "from the given PriorityClass name")
    assert expected.format(*words) == admit_create(pod(**given))


def test_updates_keep_what_admission_added() -> None:
    """A replacement may leave it out."""
    old = stored()
    admit_create(old)
    new = pod()
    prepare_update(new, old)

    for field in ("priority", "preemptionPolicy", "tolerations"):
        assert old["spec"][field] == new["spec"][field]


def test_creation() -> None:
    """A new pod is pending, whatever the client says."""
    obj = pod(status={"phase": "Running"}, metadata={"generation": 7})
    prepare_create(obj)

    assert {"phase": "Pending", "qosClass": "BestEffort"} == obj["status"]
    assert 1 == obj["metadata"]["generation"]


def test_gated_creation() -> None:
    """A pod with scheduling gates says that it waits for them."""
    obj = pod(schedulingGates=[{"name": "a.b/c"}])
    prepare_create(obj)

    assert ["SchedulingGated"] == [one["reason"] for one in obj["status"]["conditions"]]


def test_update() -> None:
    """An update keeps the status and counts the generation up if something is new."""
    old = stored(status={"phase": "Running"})
    new = stored(activeDeadlineSeconds=9)
    prepare_update(new, old)

    assert old["status"] == new["status"]
    assert 2 == new["metadata"]["generation"]


def test_status_update() -> None:
    """A new status keeps everything else, and the class of service."""
    owners = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}]
    old = stored(metadata={"ownerReferences": owners}, status={"qosClass": "Burstable"})
    new = stored(
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"phase": "Running"},
        activeDeadlineSeconds=9,
    )
    prepare_status(new, old)

    assert old["spec"] == new["spec"]
    assert old["metadata"] == new["metadata"]
    assert {"phase": "Running", "qosClass": "Burstable"} == new["status"]


def test_status_update_that_names_the_class() -> None:
    """A class of service that the client gives is left for validation."""
    new = stored(status={"qosClass": "Guaranteed"})
    prepare_status(new, stored(status={"qosClass": "Burstable"}))

    assert {"qosClass": "Guaranteed"} == new["status"]


@pytest.mark.parametrize(
    ("spec", "phase", "asked_s", "expected"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
        ({"nodeName": "n"}, "Succeeded", None, 0),
    ],
)
def test_grace(spec: Spec, phase: str, asked_s: int | None, expected: int) -> None:
    """Only a pod that runs somewhere gets time to end."""
    assert expected == grace_s(pod(status={"phase": phase}, **spec), asked_s)


@pytest.mark.parametrize(
    ("name", "old", "expected"),
    [("a", None, []), ("a.b", None, ["[must not contain dots]"]), ("a.b", {}, [])],
)
def test_warnings(name: str, old: dict[str, object] | None, expected: list[str]) -> None:
    """A new pod whose name is no host's name gets a warning."""
    found = warnings({"metadata": {"name": name}}, old)

    assert expected == [text.rpartition(": ")[2] for text in found]
