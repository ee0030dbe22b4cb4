"""Conditions, as most kinds have them in their status (`metav1.Condition`).

Sources: Kubernetes API conventions, "Typical status properties"; apimachinery's
`ValidateConditions` and `SetStatusCondition`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.apiserver.field_errors import duplicate
from apfproxy.objects.field_errors import checked, invalid, not_supported, required, too_long
from apfproxy.objects.names import check_qualified_name

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

LONGEST_REASON = 1024
LONGEST_MESSAGE = 32 * 1024

REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of"
    " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g."
    " 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex"
    f" used for validation is '{REASON.pattern}')"
)


def find_condition(status: Object, type_: str) -> Object | None:
    """The condition of a type in a status; None if it has none."""
    for condition in status.get("conditions", ()):
        if condition["type"] == type_:
            found: Object = condition
            return found
    return None


def is_true(status: Object, type_: str) -> bool:
    """Whether the condition of a type is true."""
    condition = find_condition(status, type_)
    return condition is not None and condition["status"] == TRUE


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Put a condition into a status, in place of the one of its type if there is one.

    The list of conditions is replaced.  The condition has no `lastTransitionTime`: that is kept
    where the condition's status is, and `now` else.
    """
    old = find_condition(status, condition["type"])
    is_same = old is not None and old["status"] == condition["status"]
    changed_at = old["lastTransitionTime"] if old is not None and is_same else now
    new = {**condition, "lastTransitionTime": changed_at}
    conditions = status.get("conditions", [])
    if old is None:
        status["conditions"] = [*conditions, new]
    else:
        status["conditions"] = [new if item is old else item for item in conditions]


def validate_conditions(conditions: list[Object], path: str) -> list[FieldError]:
    """The errors of a list of conditions."""
    wrong: list[FieldError] = []
    seen: set[str] = set()
    for number, condition in enumerate(conditions):
        field = f"{path}[{number}]"
        if condition["type"] in seen:
            wrong.append(duplicate(f"{field}.type", condition["type"]))
        seen.add(condition["type"])
        wrong += validate_condition(condition, field)
    return wrong


def validate_condition(condition: Object, field: str) -> list[FieldError]:
    """The errors of one condition."""
    wrong = checked(f"{field}.type", condition["type"], check_qualified_name)
    if condition["status"] not in {TRUE, FALSE, UNKNOWN}:
        supported = (TRUE, FALSE, UNKNOWN)
        wrong.append(not_supported(f"{field}.status", condition["status"], supported))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        wrong.append(invalid(f"{field}.observedGeneration", generation, detail))
    if condition["lastTransitionTime"] is None:
        wrong.append(required(f"{field}.lastTransitionTime"))
    reason, message = condition["reason"], condition["message"]
    if not reason:
        wrong.append(required(f"{field}.reason"))
    elif not REASON.fullmatch(reason):
        wrong.append(invalid(f"{field}.reason", reason, REASON_RULE))
    for name, text, limit in (
        ("reason", reason, LONGEST_REASON),
        ("message", message, LONGEST_MESSAGE),
    ):
        if len(text.encode()) > limit:
            wrong.append(too_long(f"{field}.{name}", limit))
    return wrong
