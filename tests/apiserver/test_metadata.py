"""Metadata and conditions of stored objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.metadata import (
    carry_over,
    count_generation,
    find_condition,
    keep_metadata,
    set_condition,
    validate_conditions,
    validate_core_update,
    validate_stored,
)
from apfproxy.objects.validation import LARGEST_ANNOTATIONS_BYTES
from tests.apiserver.causes import causes

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
STORED: dict[str, Any] = {
    "name": "a",
    "uid": "1",
    "resourceVersion": "5",
    "generation": 2,
    "creationTimestamp": "2024-01-01T00:00:00Z",
}
DELETED: dict[str, Any] = {
    **STORED,
    "deletionTimestamp": "2024-01-02T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "finalizers": ["a/b"],
}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("annotations", {"a": "x" * (LARGEST_ANNOTATIONS_BYTES - 1)}, ""),
        ("annotations", {"a": "x" * LARGEST_ANNOTATIONS_BYTES}, "TooLong"),
        ("ownerReferences", [{**OWNER, "apiVersion": "a/b/v1"}], "apiVersion Invalid"),
        ("ownerReferences", [{**OWNER, "apiVersion": "/"}], "apiVersion Invalid"),
        (
            "managedFields",
            [{"manager": "é" * 64 + "\n", "fieldsType": "V2", "subresource": "x" * 257}],
            (
                "[0].operation Invalid, [0].fieldsType Invalid, [0].manager TooLong,"
                " [0].manager Invalid, [0].subresource TooLong"
            ),
        ),
    ],
)
def test_new_objects(field: str, value: object, expected: str) -> None:
    found = validate_stored({"name": "a", field: value}, is_namespaced=False)

    assert expected == causes(found, f"metadata.{field}")


@pytest.mark.parametrize(
    ("old", "changes", "expected"),
    [
        (STORED, {"resourceVersion": ""}, "resourceVersion Invalid"),
        (STORED, {"generation": 1}, "generation Invalid"),
        (DELETED, {"finalizers": ["a/b", "c/d"]}, "finalizers Forbidden"),
    ],
)
def test_updates(old: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    assert expected == causes(validate_core_update({**old, **changes}, old), "metadata")


@pytest.mark.parametrize("version", [None, "", "0"])
def test_what_an_update_may_leave_out(version: str | None) -> None:
    """Timestamps are put right in silence; a wrong uid or period is left for validation."""
    new = {"name": "a", "resourceVersion": version, "generation": 9}
    wrong = {"uid": "2", "creationTimestamp": "x", "deletionGracePeriodSeconds": 1}

    carry_over(new, DELETED)
    carry_over(wrong, {"uid": "1", "creationTimestamp": "y"})

    assert {name: value for name, value in DELETED.items() if name != "finalizers"} == new
    assert {"uid": "2", "creationTimestamp": "y", "deletionGracePeriodSeconds": 1} == wrong


@pytest.mark.parametrize("managed", [{"managedFields": [{"manager": "new"}]}, {}])
def test_kept_metadata(managed: dict[str, Any]) -> None:
    old = {"metadata": {**STORED, "managedFields": [{"manager": "old"}]}}
    before = copy.deepcopy(old)
    new: dict[str, Any] = {"metadata": {"name": "b", "labels": {"a": "b"}, **managed}}

    keep_metadata(new, old)

    assert ({**STORED, **managed}, before) == (new["metadata"], old)


@pytest.mark.parametrize(("old", "expected"), [({"generation": 2}, {"generation": 3}), ({}, {})])
def test_generation(old: dict[str, int], expected: dict[str, int]) -> None:
    """An object that never had one gets none."""
    new = {"metadata": {"generation": 7}, "spec": 2 if old else 1}

    count_generation(new, {"metadata": old, "spec": 1})

    assert expected == new["metadata"]


READY = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2006-01-02T15:04:05Z",
    "reason": "Fine",
    "message": "",
}


@pytest.mark.parametrize(
    ("type_", "value", "time", "place"),
    [
        ("New", "True", "now", 2),
        ("Ready", "True", "2006-01-02T15:04:05Z", 0),
        ("Ready", "False", "now", 0),
    ],
)
def test_conditions_are_set(type_: str, value: str, time: str, place: int) -> None:
    before = [READY, {**READY, "type": "Last"}]
    status: dict[str, Any] = {"conditions": [*before]}
    kept = status["conditions"]

    set_condition(status, {"type": type_, "status": value, "message": "new"}, "now")

    changed = {"type": type_, "status": value, "message": "new", "lastTransitionTime": time}
    assert changed == find_condition(status, type_)
    assert changed == status["conditions"][place]
    assert before == kept


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"observedGeneration": -1}, "observedGeneration Invalid"),
        ({"reason": "no good"}, "reason Invalid"),
        ({"reason": "a" * 1025}, "reason TooLong"),
        ({"message": "a" * 32769}, "message TooLong"),
    ],
)
def test_conditions_are_judged(change: dict[str, object], expected: str) -> None:
    wrong = validate_conditions({"conditions": [{**READY, **change}]})

    assert expected == causes(wrong, "status.conditions[0]")
