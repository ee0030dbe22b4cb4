"""Tests of `apfproxy.apiserver.status_conditions`."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.status_conditions import find_condition, set_condition, validate_conditions

GOOD = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2006-01-02T15:04:05Z",
    "reason": "Fine",
    "message": "",
}


def test_conditions_are_found_by_type() -> None:
    """A status has at most one condition of a type, and perhaps none at all."""
    assert GOOD == find_condition({"conditions": [{**GOOD, "type": "Other"}, GOOD]}, "Ready")
    assert find_condition({"conditions": [GOOD]}, "Other") is None
    assert find_condition({}, "Ready") is None


def test_new_conditions_come_last() -> None:
    """A condition that is new has changed now."""
    status: dict[str, Any] = {"conditions": [GOOD]}

    set_condition(status, {"type": "New", "status": "True"}, "now")

    new = {"type": "New", "status": "True", "lastTransitionTime": "now"}
    assert {"conditions": [GOOD, new]} == status


@pytest.mark.parametrize(("value", "time"), [("True", "2006-01-02T15:04:05Z"), ("False", "now")])
def test_time_is_kept_while_the_status_is(value: str, time: str) -> None:
    """The time says when the status changed, not the message; the place stays."""
    last = {**GOOD, "type": "Last"}
    before = {"conditions": [GOOD, last]}
    status = dict(before)

    set_condition(status, {"type": "Ready", "status": value, "message": "new"}, "now")

    changed = {"type": "Ready", "status": value, "message": "new", "lastTransitionTime": time}
    assert {"conditions": [changed, last]} == status
    assert {"conditions": [GOOD, last]} == before


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"type": ""}, "type", "FieldValueInvalid"),
        ({"status": "Maybe"}, "status", "FieldValueNotSupported"),
        ({"observedGeneration": -1}, "observedGeneration", "FieldValueInvalid"),
        ({"lastTransitionTime": None}, "lastTransitionTime", "FieldValueRequired"),
        ({"reason": ""}, "reason", "FieldValueRequired"),
        ({"reason": "no good"}, "reason", "FieldValueInvalid"),
        ({"reason": "a" * 1025}, "reason", "FieldValueTooLong"),
        ({"message": "a" * 32769}, "message", "FieldValueTooLong"),
    ],
)
def test_each_field_is_judged(change: dict[str, object], field: str, reason: str) -> None:
    """The first error of a wrong field names it."""
    wrong = validate_conditions([{**GOOD, **change}], "status.conditions")

    assert (f"status.conditions[0].{field}", reason) == (wrong[0].field, wrong[0].reason)


def test_types_are_unique() -> None:
    """The second condition of a type is wrong."""
    wrong = validate_conditions([GOOD, GOOD], "status.conditions")

    assert ['status.conditions[1].type: Duplicate value: "Ready"'] == [str(each) for each in wrong]


def test_good_conditions() -> None:
    """Nothing is wrong with a complete condition."""
    assert [] == validate_conditions([{**GOOD, "observedGeneration": 3}], "status.conditions")
