"""Validates `metadata.managedFields`, and names of field managers.

Source: apimachinery, package managedfields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.objects.field_errors import invalid, limited

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.schema.types import Object

OPERATIONS: Final = frozenset({"Apply", "Update"})
LONGEST_MANAGER: Final = 128
"""Bytes of a field manager's name."""
LONGEST_SUBRESOURCE: Final = 256


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
