"""Typed objects, and the condition of a FlowSchema."""

from __future__ import annotations

from uuid import UUID

import pytest

from apfproxy.objects.types import (
    FlowSchema,
    Object,
    ObjectMeta,
    PriorityLevelConfiguration,
    due_condition,
    stable_uid,
)


def test_stable_uid() -> None:
    """A uid is kept; without one it depends on kind and name alone."""
    a = FlowSchema(metadata=ObjectMeta(name="a"))
    made = stable_uid(a)

    assert "u-1" == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", uid="u-1")))
    assert made == str(UUID(made))
    assert made == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", annotations={"x": "y"})))
    assert made != stable_uid(FlowSchema(metadata=ObjectMeta(name="b")))
    assert made != stable_uid(PriorityLevelConfiguration(metadata=a.metadata))


BEFORE, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(status: str, *, time: str = BEFORE, level: str = "mine") -> Object:
    told = "and it exists" if status == "False" else "but there is no such object"
    return {
        "type": "Dangling",
        "status": status,
        "reason": "Found" if status == "False" else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named"
        f' "{level}" {told}',
        "lastTransitionTime": time,
    }


FOUND, LOST = condition("False"), condition("True")
NOW_FOUND, NOW_LOST = condition("False", time=NOW), condition("True", time=NOW)


@pytest.mark.parametrize(
    ("status", "levels", "expected"),
    [
        (None, {"mine"}, NOW_FOUND),
        ({}, set(), NOW_LOST),
        ({"conditions": [FOUND]}, {"mine"}, None),
        ({"conditions": [LOST]}, set(), None),
        ({"conditions": [LOST]}, {"mine"}, NOW_FOUND),
        ({"conditions": [FOUND]}, set(), NOW_LOST),
        ({"conditions": [condition("True", level="other")]}, set(), LOST),  # missing as long
        ({"conditions": [{"type": "Other", "status": "True"}]}, set(), NOW_LOST),
    ],
)
def test_due_condition(status: Object | None, levels: set[str], expected: Object | None) -> None:
    """A condition is due where it is missing or wrong, and its time is that of its status."""
    schema: Object = {"spec": {"priorityLevelConfiguration": {"name": "mine"}}}
    if status is not None:
        schema["status"] = status

    assert expected == due_condition(schema, levels, NOW)
