"""Metadata and status conditions of all kinds of objects, and changes of both.

Sources: apimachinery's `ValidateObjectMeta`, `ValidateObjectMetaUpdate`, `ValidateConditions` and
`SetStatusCondition`, and its package managedfields; apiserver's `BeforeUpdate`; Kubernetes API
conventions, "Typical status properties".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from apfproxy.objects import field_errors, validation
from apfproxy.objects.field_errors import checked, invalid, limited, not_supported, required
from apfproxy.objects.names import check_dns_subdomain, check_qualified_name
from apfproxy.objects.validation import FIELD, validate_bare_finalizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

    CheckName = Callable[[str], list[str]]

TIMESTAMPS = ("creationTimestamp", "deletionTimestamp")
IMMUTABLE = ("name", "namespace", "uid", *TIMESTAMPS, "deletionGracePeriodSeconds")
IMMUTABLE_DETAIL = "field is immutable"

LONGEST_GENERATED_NAME, SUFFIX_LENGTH = 63, 5
"""Kubernetes cuts a generated name, so that it can be used as a label, and adds a suffix."""
LONGEST_MANAGER, LONGEST_SUBRESOURCE = 128, 256
"""Bytes of the names of a field manager and of a subresource."""

TRUE, FALSE = "True", "False"
STATUSES = (TRUE, FALSE, "Unknown")
LONGEST_REASON, LONGEST_MESSAGE = 1024, 32 * 1024
REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of"
    " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g."
    " 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex"
    f" used for validation is '{REASON.pattern}')"
)


def check_path_segment(value: str) -> list[str]:
    """Find what keeps the value from being one segment of a URL's path: required of all names."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def generated_name(prefix: str, suffix: str) -> str:
    """Make a name of `generateName` as Kubernetes does: the prefix is cut so that both fit."""
    return prefix[: LONGEST_GENERATED_NAME - SUFFIX_LENGTH] + suffix


def validate_named(
    metadata: Object, *, is_namespaced: bool, check_name: CheckName = check_path_segment
) -> list[FieldError]:
    """Find the errors in canonical metadata that all kinds refuse, of an object with a name."""
    errors = validation.validate_metadata(
        metadata, is_namespaced=is_namespaced, check_name=check_name
    )
    return errors + _validate_managed_fields(metadata)


def validate_stored(
    metadata: Object, *, is_namespaced: bool, check_name: CheckName = check_dns_subdomain
) -> list[FieldError]:
    """Find the same errors, and finalizers without a domain, which most kinds refuse, too."""
    errors = validate_named(metadata, is_namespaced=is_namespaced, check_name=check_name)
    return errors + validate_bare_finalizers(metadata)


def validate_any_update(new: Object, old: Object, *, is_namespaced: bool) -> list[FieldError]:
    """Find the errors in metadata that replaces old metadata, of objects of any kind.

    The rules of its kind may find the same errors again: Kubernetes reports them twice, too.
    """
    return validate_named(new, is_namespaced=is_namespaced) + _validate_changes(new, old)


def validate_core_update(new: Object, old: Object) -> list[FieldError]:
    """Find the errors that kinds of the core, and those like them, see in changes to metadata."""
    return _validate_changes(new, old) + validate_bare_finalizers(new)


def _validate_changes(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    added = set(new.get("finalizers", ())) - set(old.get("finalizers", ()))
    if added and "deletionTimestamp" in old:
        shown = ", ".join(json.dumps(each) for each in sorted(added))
        detail = "no new finalizers can be added if the object is being deleted, found new"
        detail += f" finalizers []string{{{shown}}}"
        errors.append(field_errors.forbidden(f"{FIELD}.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{FIELD}.resourceVersion", "", "must be specified for an update"))
    generation = new.get("generation", 0)
    if generation < old.get("generation", 0):
        errors.append(invalid(f"{FIELD}.generation", generation, "must not be decremented"))
    errors += [
        invalid(f"{FIELD}.{name}", new.get(name), IMMUTABLE_DETAIL)
        for name in IMMUTABLE
        if new.get(name) != old.get(name)
    ]
    return errors + validation.validate_collections(new) + _validate_managed_fields(new)


def _validate_managed_fields(metadata: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, entry in enumerate(metadata.get("managedFields", ())):
        path = f"{FIELD}.managedFields[{position}]"
        operation, fields_type = entry.get("operation", ""), entry.get("fieldsType", "")
        if operation not in {"Apply", "Update"}:
            errors.append(invalid(f"{path}.operation", operation, "must be `Apply` or `Update`"))
        if fields_type not in {"", "FieldsV1"}:
            errors.append(invalid(f"{path}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += validate_manager(entry.get("manager", ""), f"{path}.manager")
        errors += limited(f"{path}.subresource", entry.get("subresource", ""), LONGEST_SUBRESOURCE)
    return errors


def validate_manager(manager: str, field: str = "fieldManager") -> list[FieldError]:
    """Find the errors in the name of a field manager; "" stands for none."""
    errors = limited(field, manager, LONGEST_MANAGER)
    if manager.isprintable():
        return errors
    offset = 0
    for char in manager:
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {offset})"
            errors.append(invalid(field, manager, detail))
        offset += len(char.encode(errors="replace"))
    return errors


def carry_over(new: Object, old: Object) -> None:
    """Give new metadata, in place, what an update may leave out and what it may not change."""
    copy_field("generation", new, old)
    if not new.get("uid"):
        copy_field("uid", new, old)
    if new.get("resourceVersion") in {None, "", "0"}:
        copy_field("resourceVersion", new, old)
    new.update({name: old[name] for name in TIMESTAMPS if name in old})
    if "deletionGracePeriodSeconds" not in new:
        copy_field("deletionGracePeriodSeconds", new, old)


def copy_field(name: str, new: Object, old: Object) -> None:
    """Let a field be as it was: absent, too."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep_metadata(new: Object, old: Object) -> None:
    """Let a new object's metadata be the old one's, `managedFields` apart."""
    kept = dict(old["metadata"])
    copy_field("managedFields", kept, new["metadata"])
    new["metadata"] = kept


def keep_spec(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]


def keep_status(new: Object, old: Object) -> None:
    """Let the status be the old one's; count the generation up if the specification differs."""
    new["status"] = old["status"]
    count_generation(new, old)


def count_generation(new: Object, old: Object) -> None:
    """Set a new object's generation: the old one, or the next if the specification differs."""
    generation = old["metadata"].get("generation", 0) + (new.get("spec") != old.get("spec"))
    if generation:
        new["metadata"]["generation"] = generation
    else:
        new["metadata"].pop("generation", None)


def find_condition(status: Object, type_: str) -> Object | None:
    found: Iterable[Object] = status.get("conditions", ())
    return next((condition for condition in found if condition["type"] == type_), None)


def is_true(status: Object, type_: str) -> bool:
    condition = find_condition(status, type_)
    return condition is not None and condition["status"] == TRUE


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Put a condition into a status, in place of the one of its type if there is one.

    The list of conditions is replaced.  The condition has no `lastTransitionTime`: that is kept
    where the condition's status is, and `now` else.
    """
    old = find_condition(status, condition["type"])
    conditions = status.get("conditions", [])
    new = {**condition, "lastTransitionTime": now}
    if old is None:
        status["conditions"] = [*conditions, new]
        return
    if old["status"] == condition["status"]:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    status["conditions"] = [new if item is old else item for item in conditions]


def validate_condition(condition: Object, field: str) -> list[FieldError]:
    wrong = checked(f"{field}.type", condition["type"], check_qualified_name)
    if condition["status"] not in STATUSES:
        wrong.append(not_supported(f"{field}.status", condition["status"], STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        wrong.append(invalid(f"{field}.observedGeneration", generation, detail))
    if condition["lastTransitionTime"] is None:
        wrong.append(required(f"{field}.lastTransitionTime"))
    if not (reason := condition["reason"]):
        wrong.append(required(f"{field}.reason"))
    elif not REASON.fullmatch(reason):
        wrong.append(invalid(f"{field}.reason", reason, REASON_RULE))
    wrong += limited(f"{field}.reason", reason, LONGEST_REASON)
    return wrong + limited(f"{field}.message", condition["message"], LONGEST_MESSAGE)


def validate_conditions(
    status: Object, check: Callable[[Object, str], list[FieldError]] = validate_condition
) -> list[FieldError]:
    wrong: list[FieldError] = []
    seen: set[str] = set()
    for number, condition in enumerate(status.get("conditions", ())):
        field, type_ = f"status.conditions[{number}]", condition.get("type", "")
        if type_ in seen:
            wrong.append(field_errors.duplicate(f"{field}.type", type_))
        seen.add(type_)
        wrong += check(condition, field)
    return wrong
