"""How tests of rules show errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError


def causes(errors: list[FieldError], path: str = "") -> str:
    """The field below the path and the reason of each error: `a.b Invalid, c Required`."""
    found = [f"{error.field} {error.reason.removeprefix('FieldValue')}" for error in errors]
    return ", ".join(each.removeprefix(path).removeprefix(".").lstrip() for each in found)
