"""Metadata and conditions of stored objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.metadata import (
    carry_over,
    check_path_segment,
    count_generation,
    find_condition,
    generated_name,
    keep_metadata,
    set_condition,
    validate_any_update,
    validate_conditions,
    validate_core_update,
    validate_manager,
    validate_stored,
)
from apfproxy.objects.validation import LARGEST_ANNOTATIONS_BYTES
from tests.apiserver.causes import causes

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
CONTROLLERS = [{**OWNER, "name": name, "controller": True} for name in "abc"]
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
        ("name", "a.b", ""),
        ("name", "", "Required"),
        ("generateName", "a-", ""),
        ("generateName", "A_", "Invalid"),
        ("namespace", "b", "Forbidden"),
        ("generation", -1, "Invalid"),
        ("labels", {"a b": "c", "a/b": "f g"}, "Invalid, Invalid"),
        ("annotations", {"Example.COM/A": "any \n", "b c": ""}, "Invalid"),
        ("annotations", {"a": "x" * (LARGEST_ANNOTATIONS_BYTES - 1)}, ""),
        ("annotations", {"a": "x" * LARGEST_ANNOTATIONS_BYTES}, "TooLong"),
        ("finalizers", ["orphan", "kubernetes", "example.com/x"], ""),
        ("finalizers", ["a/x", "x", "a b"], "Invalid, [1] Invalid, [2] Invalid"),
        ("finalizers", ["orphan", "foregroundDeletion"], "Invalid"),
        ("ownerReferences", [OWNER, CONTROLLERS[0]], ""),
        (
            "ownerReferences",
            [dict.fromkeys(OWNER, "")],
            "apiVersion Invalid, kind Invalid, name Invalid, uid Invalid",
        ),
        ("ownerReferences", [{**OWNER, "apiVersion": "a/b/v1"}], "apiVersion Invalid"),
        ("ownerReferences", [{**OWNER, "apiVersion": "/"}], "apiVersion Invalid"),
        ("ownerReferences", [{**OWNER, "kind": "Event"}], "Invalid"),
        ("ownerReferences", CONTROLLERS, "Invalid, Invalid"),
        ("managedFields", [{"manager": "m", "operation": "Apply"}], ""),
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
    assert all("Pod/a and Pod/" in each.detail for each in found if value is CONTROLLERS)


@pytest.mark.parametrize(
    ("namespace", "expected"), [("b", ""), ("", "Required"), ("b.c", "Invalid")]
)
def test_namespaces(namespace: str, expected: str) -> None:
    metadata = {"name": "A b", "namespace": namespace}
    found = validate_stored(metadata, is_namespaced=True, check_name=check_path_segment)

    assert expected == causes(found, "metadata.namespace")


@pytest.mark.parametrize(
    ("old", "changes", "expected"),
    [
        (STORED, {"generation": 3, "labels": {"a": "b"}, "generateName": "A"}, ""),
        (STORED, {"resourceVersion": ""}, "resourceVersion Invalid"),
        (STORED, {"generation": 1}, "generation Invalid"),
        (STORED, {"name": "b", "uid": "2"}, "name Invalid, uid Invalid"),
        (DELETED, {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "deletionTimestamp Invalid"),
        (DELETED, {"deletionGracePeriodSeconds": 1}, "deletionGracePeriodSeconds Invalid"),
        (STORED, {"finalizers": ["a/b"]}, ""),
        (STORED, {"finalizers": ["x"]}, "finalizers[0] Invalid"),
        (DELETED, {"finalizers": []}, ""),
        (DELETED, {"finalizers": ["a/b", "c/d"]}, "finalizers Forbidden"),
        (STORED, {"labels": {"a b": "c"}}, "labels Invalid"),
    ],
)
def test_updates(old: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    assert expected == causes(validate_core_update({**old, **changes}, old), "metadata")


def test_updates_of_any_kind() -> None:
    new = {**STORED, "generateName": "A", "uid": "2", "labels": {"-": ""}}

    found = causes(validate_any_update(new, STORED, is_namespaced=False), "metadata")

    assert "labels Invalid, uid Invalid, labels Invalid" == found


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


@pytest.mark.parametrize(
    ("old", "spec", "expected"),
    [
        ({"generation": 2}, 1, {"generation": 2}),
        ({"generation": 2}, 2, {"generation": 3}),
        ({}, 1, {}),
    ],
)
def test_generation(old: dict[str, int], spec: int, expected: dict[str, int]) -> None:
    new = {"metadata": {"generation": 7}, "spec": spec}

    count_generation(new, {"metadata": old, "spec": 1})

    assert expected == new["metadata"]


def test_every_character_that_cannot_be_printed_is_told_with_its_byte() -> None:
    assert ["U+0007 (at position 2)", "U+000A (at position 5)"] == [
        error.detail.removeprefix("invalid character ") for error in validate_manager("é\a b\n")
    ]


def test_names() -> None:
    """A path can hold them; of a generated one, the prefix gives way so that the suffix fits."""
    assert [0, 1, 1, 2] == [len(check_path_segment(each)) for each in ("A b", ".", "..", "a/b%")]
    assert ["ab-12345", "a" * 58 + "12345"] == [
        generated_name(each, "12345") for each in ("ab-", "a" * 63)
    ]


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
        ({"observedGeneration": 3}, ""),
        ({"type": ""}, "type Invalid, {}type Invalid"),
        ({"status": "Maybe"}, "status NotSupported"),
        ({"observedGeneration": -1}, "observedGeneration Invalid"),
        ({"lastTransitionTime": None}, "lastTransitionTime Required"),
        ({"reason": ""}, "reason Required"),
        ({"reason": "no good"}, "reason Invalid"),
        ({"reason": "a" * 1025}, "reason TooLong"),
        ({"message": "a" * 32769}, "message TooLong"),
    ],
)
def test_conditions_are_judged(change: dict[str, object], expected: str) -> None:
    path = "status.conditions[0]."
    wrong = validate_conditions({"conditions": [{**READY, **change}]})

    assert (path + expected.format(path) if expected else "") == causes(wrong)
