"""The rules of stored metadata, which all kinds share, and what an update may not change.

Sources: apimachinery's `ValidateObjectMeta` and `ValidateObjectMetaUpdate`, and its package
managedfields; apiserver's `BeforeUpdate`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from apfproxy.apiserver.field_errors import limited
from apfproxy.objects.field_errors import forbidden, invalid
from apfproxy.objects.names import check_dns_subdomain
from apfproxy.objects.validation import (
    FIELD,
    validate_bare_finalizers,
    validate_collections,
    validate_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
IMMUTABLE_DETAIL = "field is immutable"

LONGEST_GENERATED_NAME = 63
"""Kubernetes cuts a generated name to this, so that it can be used as a label."""
SUFFIX_LENGTH = 5
"""Characters that Kubernetes adds to `generateName`."""

MANAGED_FIELDS = f"{FIELD}.managedFields"
OPERATIONS: Final = frozenset({"Apply", "Update"})
LONGEST_MANAGER: Final = 128
"""Bytes of a field manager's name."""
LONGEST_SUBRESOURCE: Final = 256


def check_path_segment(value: str) -> list[str]:
    """What keeps the value from being one segment of a URL's path: required of all names."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def generated_name(prefix: str, suffix: str) -> str:
    """The name that Kubernetes makes of `generateName`: the prefix, cut so that the suffix fits."""
    return prefix[: LONGEST_GENERATED_NAME - SUFFIX_LENGTH] + suffix


def validate_stored(
    metadata: Object,
    *,
    is_namespaced: bool,
    check_name: Callable[[str], list[str]] = check_dns_subdomain,
    allows_bare_finalizers: bool = False,
) -> list[FieldError]:
    """What is wrong with the metadata, canonical, of an object to be created that has its name.

    `check_name` is from `names`; bare finalizers are of any name without a domain.
    """
    errors = validate_metadata(metadata, is_namespaced=is_namespaced, check_name=check_name)
    errors += validate_managed_fields(metadata.get("managedFields", ()), MANAGED_FIELDS)
    return errors if allows_bare_finalizers else errors + validate_bare_finalizers(metadata)


def validate_any_update(new: Object, old: Object, *, is_namespaced: bool) -> list[FieldError]:
    """What is wrong with metadata that replaces old metadata, of objects of any kind.

    The rules of its kind may find the same errors again: Kubernetes reports them twice, too.
    """
    errors = validate_stored(
        new,
        is_namespaced=is_namespaced,
        check_name=check_path_segment,
        allows_bare_finalizers=True,
    )
    return errors + validate_changes(new, old)


def validate_changes(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with changes to metadata, and with what changes most often."""
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        added = set(new.get("finalizers", ())) - set(old.get("finalizers", ()))
        if added:
            shown = ", ".join(json.dumps(each) for each in sorted(added))
            detail = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{shown}}}"
            )
            errors.append(forbidden(f"{FIELD}.finalizers", detail))
    if not new.get("resourceVersion"):
        detail = "must be specified for an update"
        errors.append(invalid(f"{FIELD}.resourceVersion", "", detail))
    generation = new.get("generation", 0)
    if generation < old.get("generation", 0):
        errors.append(invalid(f"{FIELD}.generation", generation, "must not be decremented"))
    errors += [
        invalid(f"{FIELD}.{name}", new.get(name), IMMUTABLE_DETAIL)
        for name in IMMUTABLE
        if new.get(name) != old.get(name)
    ]
    errors += validate_collections(new)
    return errors + validate_managed_fields(new.get("managedFields", ()), MANAGED_FIELDS)


def validate_core_update(new: Object, old: Object) -> list[FieldError]:
    """What kinds of the core, and those like them, find wrong with changes to metadata."""
    errors = validate_changes(new, old)
    return errors + validate_bare_finalizers(new)


def validate_managed_fields(entries: list[Object], field: str) -> list[FieldError]:
    """What is wrong with entries that are to be stored."""
    errors: list[FieldError] = []
    for position, entry in enumerate(entries):
        path = f"{field}[{position}]"
        operation = entry.get("operation", "")
        if operation not in OPERATIONS:
            detail = "must be `Apply` or `Update`"
            errors.append(invalid(f"{path}.operation", operation, detail))
        fields_type = entry.get("fieldsType", "")
        if fields_type not in {"", "FieldsV1"}:
            errors.append(invalid(f"{path}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += validate_manager(entry.get("manager", ""), f"{path}.manager")
        subresource = entry.get("subresource", "")
        errors += limited(f"{path}.subresource", subresource, LONGEST_SUBRESOURCE)
    return errors


def validate_manager(manager: str, field: str = "fieldManager") -> list[FieldError]:
    """What is wrong with the name of a field manager; "" stands for none."""
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
    """Give new metadata, in place, what an update may leave out and what it may not change.

    A resource version that it names is the old one's.
    """
    copy_field("generation", new, old)
    if not new.get("uid"):
        copy_field("uid", new, old)
    if new.get("resourceVersion") in {None, "", "0"}:
        copy_field("resourceVersion", new, old)
    if "creationTimestamp" in old:
        new["creationTimestamp"] = old["creationTimestamp"]
    if "deletionTimestamp" in old:
        new["deletionTimestamp"] = old["deletionTimestamp"]
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
    managed = new["metadata"].get("managedFields")
    metadata = dict(old["metadata"])
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = managed
    new["metadata"] = metadata


def keep_spec(new: Object, old: Object) -> None:
    """Let a new object's specification be the old one's."""
    new["spec"] = old["spec"]


def keep_status(new: Object, old: Object) -> None:
    """Let the status be the old one's; count the generation up if the specification differs."""
    new["status"] = old["status"]
    count_generation(new, old)


def count_generation(new: Object, old: Object) -> None:
    """Set a new object's generation: the old one, or the next if the specification differs."""
    generation = old["metadata"].get("generation", 0)
    if new.get("spec") != old.get("spec"):
        generation += 1
    if generation:
        new["metadata"]["generation"] = generation
    else:
        new["metadata"].pop("generation", None)
