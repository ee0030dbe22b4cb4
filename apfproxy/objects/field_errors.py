"""Errors of fields, worded and classified as Kubernetes does."""

from __future__ import annotations

import difflib
import enum
from typing import TYPE_CHECKING

import msgspec

from apfproxy.objects.go_text import as_json, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_VALUE = 64 * 1024
LONGEST_COMPARED = 60
NOT_NEGATIVE = "must be greater than or equal to 0"


class Reason(enum.StrEnum):
    """Why a field is refused; the `reason` of a cause in a Kubernetes Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    DUPLICATE = "FieldValueDuplicate"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    UNKNOWN = "UnknownField"
    """No cause in Kubernetes, where an unknown field fails the decoding of the whole body."""


INTRODUCTIONS = {
    Reason.REQUIRED: "Required value",
    Reason.INVALID: "Invalid value",
    Reason.NOT_SUPPORTED: "Unsupported value",
    Reason.FORBIDDEN: "Forbidden",
    Reason.DUPLICATE: "Duplicate value",
    Reason.TOO_LONG: "Too long",
    Reason.TOO_MANY: "Too many",
    Reason.TYPE_INVALID: "Invalid value",
    Reason.UNKNOWN: "Unknown field",
}

VALUELESS = frozenset({Reason.REQUIRED, Reason.FORBIDDEN, Reason.TOO_LONG, Reason.UNKNOWN})
"""Reasons whose message leaves the value out: there is none, or it would not help."""


class FieldError(msgspec.Struct, frozen=True):
    """One field that is refused.

    Attributes:
        field: Path from the object's root, such as `spec.rules[0].subjects`; "" for the root.
        value: The refused value, where `reason` is one that shows it.
    """

    field: str
    reason: Reason
    detail: str = ""
    value: object = None

    @property
    def message(self) -> str:
        parts = [INTRODUCTIONS[self.reason]]
        if self.reason is Reason.NOT_SUPPORTED and isinstance(self.value, str):
            parts.append(as_json(self.value))  # its type has a name of its own in Go
        elif self.reason not in VALUELESS:
            parts.append(shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def shown(value: object) -> str:
    """The value as Go shows it, cut to `LONGEST_VALUE` characters."""
    text = quoted(value) if isinstance(value, str) else as_json(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, Reason.REQUIRED, detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError(field, Reason.INVALID, detail, value)


def checked(field: str, value: str, check: Callable[[str], list[str]]) -> list[FieldError]:
    return [invalid(field, value, wrong) for wrong in check(value)]


def checked_name(
    field: str, value: str, check: Callable[[str], list[str]], if_absent: str = ""
) -> list[FieldError]:
    return checked(field, value, check) if value else [required(field, if_absent)]


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(field, Reason.FORBIDDEN, detail)


def not_supported(field: str, value: object, supported: tuple[str, ...]) -> FieldError:
    choices = ", ".join(f'"{choice}"' for choice in sorted(supported))
    return FieldError(field, Reason.NOT_SUPPORTED, f"supported values: {choices}", value)


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(field, Reason.TOO_LONG, f"may not be more than {counted(limit, 'byte')}")


def limited(field: str, text: str, limit: int) -> list[FieldError]:
    """The error of a text of too many bytes; lone surrogates count as one."""
    if len(text) * 4 <= limit or len(text.encode(errors="replace")) <= limit:
        return []  # a character has four bytes at most
    return [too_long(field, limit)]


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(field, Reason.TOO_MANY, f"must have at most {counted(limit, 'item')}", count)


def duplicate(field: str, value: object) -> FieldError:
    return FieldError(field, Reason.DUPLICATE, value=value)


def repeated(names: Iterable[str], path: str) -> list[FieldError]:
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def suggestion(name: str, known: list[str]) -> str:
    close = closest(name, known)
    return f'did you mean "{close}"?' if close else f"known here are {', '.join(known)}"


def closest(name: str, known: Iterable[str], likeness: float = 0.7) -> str:
    """The known name that is most like a misspelt one, upper and lower case alike; "" if none is.

    Only the begin of a long name is compared, which bounds the time.  The likeness of two names is
    1 if they are the same, 0 if they have nothing in common.
    """
    folded = {each[:LONGEST_COMPARED].lower(): each for each in known}
    close = difflib.get_close_matches(name[:LONGEST_COMPARED].lower(), folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else ""


def one_line(text: str) -> str:
    """The text with invisible characters escaped: a name may hold anything."""
    if text.isprintable():
        return text
    shown = [each if each.isprintable() else ascii(each)[1:-1] for each in text]
    return "".join(shown)
