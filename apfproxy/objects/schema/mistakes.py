"""Finds all values of wrong types and all unknown fields in what people write by hand.

`reading` stops at the first wrong value, as Kubernetes does.  Whoever edits a file wants to hear of
all of them, each with its path and a cure.  What passes here passes there: null stands for an
absent field (in a list or map, for an empty element), names are case-sensitive, integers have no
fraction.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.objects.field_errors import FieldError, Reason
from apfproxy.objects.schema.reading import INT_LIMITS, mismatches, unknown_fields
from apfproxy.objects.schema.types import List, Map, Scalar, Struct, Type

if TYPE_CHECKING:
    from collections.abc import Iterable

WANTED = {
    dict: "a mapping",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "an integer",
}

NAMES = {**WANTED, bool: "a truth value", int: "a number", float: "a number"}
"""What values of a type are called; the first that fits counts, since True is an int, too."""

LONGEST_SHOWN = 60
LONGEST_NUMBER = 40


class Mistakes(NamedTuple):
    """What is wrong with the structure of an object.

    Attributes:
        errors: Values of wrong types.
        unknown: Fields that the schema does not have.
    """

    errors: list[FieldError]
    unknown: list[FieldError]


def find_mistakes(schema: Struct, raw: object) -> Mistakes:
    """The mistakes in decoded JSON or YAML, of a schema without quantities."""
    errors = [mistake(path, error.kind, error.value) for path, error in mismatches(schema, raw)]
    unknown = [
        FieldError(path, Reason.UNKNOWN, suggestion(name, sorted(struct.by_name)))
        for path, struct, name in unknown_fields(schema, raw, "")
    ]
    return Mistakes(errors, unknown)


def mistake(path: str, kind: Type | None, value: object) -> FieldError:
    """What is wrong with a value that is not of the type; texts have None."""
    wanted = wanted_type(kind)
    detail, shown = f"want {WANTED[wanted]}", sample(value)
    if isinstance(kind, Scalar) and wanted is int and type(value) is int:
        limit = INT_LIMITS[kind]
        detail += f" from {-limit} to {limit - 1}"
        shown = str(value)[:LONGEST_NUMBER]
    elif isinstance(value, dict | list):
        shown = type_name(value)
    elif wanted is str:
        detail += ": put it in quotes"
    if wanted is list:
        detail += ": write it as [...], or each item after a dash"
    return FieldError(path, Reason.TYPE_INVALID, detail, shown)


def wanted_type(kind: Type | None) -> type:
    """The Python type of a schema type's values; times are strings."""
    if isinstance(kind, Struct | Map):
        return dict
    if isinstance(kind, List):
        return list
    if kind is Scalar.BOOLEAN:
        return bool
    return int if kind in INT_LIMITS else str


def type_name(value: object) -> str:
    """What a value's type is called outside Python."""
    return next((name for kind, name in NAMES.items() if isinstance(value, kind)), "nothing")


def sample(value: object) -> str:
    """The scalar as it is written outside Python, cut so that it fits a message."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:LONGEST_SHOWN]


def suggestion(name: str, known: list[str]) -> str:
    """Which field may be meant by an unknown name."""
    close = closest(name, known)
    return f'did you mean "{close}"?' if close else f"known here are {', '.join(known)}"


def closest(name: str, known: Iterable[str], likeness: float = 0.7) -> str:
    """The known name that is most like a misspelt one, upper and lower case alike; "" if none is.

    Of a long name only its begin is compared, which bounds the time.  Two names are alike by their
    common parts: 1 for the same, 0 for nothing in common.
    """
    folded = {each[:LONGEST_SHOWN].lower(): each for each in known}
    close = difflib.get_close_matches(name[:LONGEST_SHOWN].lower(), folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else ""
