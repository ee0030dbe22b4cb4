"""Metadata and conditions of stored objects; errors, numbers and times as text."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.errors import MOST_CAUSES, invalid
from apfproxy.apiserver.go_values import number
from apfproxy.apiserver.metadata import (
    carry_over,
    count_generation,
    find_condition,
    set_condition,
    validate_conditions,
    validate_stored,
)
from apfproxy.apiserver.tables import duration
from apfproxy.objects.field_errors import required
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


@pytest.mark.parametrize("version", [None, "", "0"])
def test_what_an_update_may_leave_out(version: str | None) -> None:
    """Timestamps are put right in silence; a wrong uid or period is left for validation."""
    new = {"name": "a", "resourceVersion": version, "generation": 9}
    wrong = {"uid": "2", "creationTimestamp": "x", "deletionGracePeriodSeconds": 1}
    carry_over(new, DELETED)
    carry_over(wrong, {"uid": "1", "creationTimestamp": "y"})
    assert {name: value for name, value in DELETED.items() if name != "finalizers"} == new
    assert {"uid": "2", "creationTimestamp": "y", "deletionGracePeriodSeconds": 1} == wrong


@pytest.mark.parametrize(("old", "expected"), [({"generation": 2}, {"generation": 3}), ({}, {})])
def test_generation(old: dict[str, int], expected: dict[str, int]) -> None:
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
        ({"lastTransitionTime": None}, "lastTransitionTime Required"),
        ({"message": "a" * 32769}, "message TooLong"),
    ],
)
def test_conditions_are_judged(change: dict[str, object], expected: str) -> None:
    wrong = validate_conditions({"conditions": [{**READY, **change}]})
    assert expected == causes(wrong, "status.conditions[0]")


def test_very_many_causes() -> None:
    error = invalid("", "Pod", "a", [required("spec.x")] * (MOST_CAUSES + 2))
    assert error.message.endswith("spec.x: Required value, and 2 more]")
    assert MOST_CAUSES == len(error.status()["details"]["causes"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, "9.223372036854776e+18"), (10**400, "Infinity"), (0.0, "0"), (-0.5, "-0.5"),
        (100000.5, "100000.5"), (1234567.0, "1.234567e+06"), (1e21, "1e+21"), (-2.5e-7, "-2.5e-07"),
    ],
)  # fmt: skip
def test_number(value: float, expected: str) -> None:
    assert expected == number(value)


MINUTE_S, HOUR_S, DAY_S, YEAR_S = 60, 3600, 24 * 3600, 365 * 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2.5, "<invalid>"), (-1.5, "0s"), (0.9, "0s"), (59, "59s"), (119, "119s"), (120, "2m"),
        (121, "2m1s"), (10 * MINUTE_S, "10m"), (179 * MINUTE_S + 59, "179m"), (3 * HOUR_S, "3h"),
        (3 * HOUR_S + 5 * MINUTE_S, "3h5m"),
        (8 * HOUR_S + 59 * MINUTE_S, "8h"),
        (47 * HOUR_S, "47h"), (2 * DAY_S, "2d"), (2 * DAY_S + HOUR_S, "2d1h"),
        (8 * DAY_S + HOUR_S, "8d"), (729 * DAY_S, "729d"), (2 * YEAR_S, "2y"),
        (2 * YEAR_S + DAY_S, "2y1d"), (8 * YEAR_S + DAY_S, "8y"),
    ],
)  # fmt: skip
def test_duration(seconds: float, expected: str) -> None:
    assert expected == duration(seconds)
