"""Errors of fields that only objects of a server can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.objects.field_errors import (
    FieldError,
    Reason,
    checked,
    counted,
    required,
    too_long,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def named(field: str, name: str, check: Callable[[str], list[str]]) -> list[FieldError]:
    """The errors of a name that is required and breaks rules of a check from `names`."""
    return checked(field, name, check) if name else [required(field)]


def repeated(names: Iterable[str], path: str) -> list[FieldError]:
    """The errors of names that are in a list already."""
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def limited(field: str, text: str, limit: int) -> list[FieldError]:
    """The error of a text that has more bytes than allowed; lone surrogates count as one."""
    return [too_long(field, limit)] if len(text.encode(errors="replace")) > limit else []


def too_many(field: str, count: int, limit: int) -> FieldError:
    """The error of a list or map of more items than allowed."""
    return FieldError(field, Reason.TOO_MANY, f"must have at most {counted(limit, 'item')}", count)


def duplicate(field: str, value: object) -> FieldError:
    """The error of a field whose value may occur only once, and did before."""
    return FieldError(field, Reason.DUPLICATE, value=value)
