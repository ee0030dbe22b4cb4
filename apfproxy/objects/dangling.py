"""The condition of a FlowSchema that says whether the priority level exists that it names.

Source: apiserver's `pkg/util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.objects.kinds import DANGLING
from apfproxy.objects.status_conditions import FALSE, TRUE, find_condition

if TYPE_CHECKING:
    from collections.abc import Container

    from apfproxy.objects.schema.types import Object


def due_condition(schema: Object, levels: Container[str], now: str) -> Object | None:
    """The condition `Dangling` that a schema should have at an RFC 3339 time; None if it has it."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    is_there = level in levels
    told = "and it exists" if is_there else "but there is no such object"
    condition = {
        "type": DANGLING,
        "status": FALSE if is_there else TRUE,
        "reason": "Found" if is_there else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named"
        f' "{level}" {told}',
    }
    old = find_condition(schema.get("status") or {}, DANGLING) or {}
    if condition.items() <= old.items():
        return None
    is_same = old.get("status") == condition["status"]
    changed_at = old.get("lastTransitionTime") if is_same else None
    return {**condition, "lastTransitionTime": changed_at or now}
