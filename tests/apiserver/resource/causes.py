"""How tests of ResourceSlices show errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"


def causes(errors: list[FieldError]) -> list[tuple[str, str]]:
    """The path and the reason of each error, in order."""
    return [(error.field, str(error.reason)) for error in errors]
