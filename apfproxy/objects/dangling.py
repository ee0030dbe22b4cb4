"""The condition of a FlowSchema that says whether the priority level exists that it names.

Source: apiserver's `pkg/util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from apfproxy.objects.types import Object

DANGLING = "Dangling"
"""Type of the condition."""


def due_condition(schema: Object, levels: Container[str], now: str) -> Object | None:
    """The condition `Dangling` that a schema should have at an RFC 3339 time; None if it has it."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    is_there = level in levels
    told = "and it exists" if is_there else "but there is no such object"
    condition = {
        "type": DANGLING,
        "status": "False" if is_there else "True",
        "reason": "Found" if is_there else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named"
        f' "{level}" {told}',
    }
    conditions = (schema.get("status") or {}).get("conditions", ())
    old: Object = next((each for each in conditions if each["type"] == DANGLING), {})
    if condition.items() <= old.items():
        return None
    is_same = old.get("status") == condition["status"]
    changed_at = old.get("lastTransitionTime") if is_same else None
    return {**condition, "lastTransitionTime": changed_at or now}
