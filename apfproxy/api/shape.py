"""Checks that decoded JSON or YAML has the shape of a struct, and makes the struct.

msgspec itself stops at the first mismatch.  Whoever edits a file wants to hear of all of them, each
with its path.  What fits is what kube-apiserver's decoder accepts: null stands for an absent field
(in a list or map, for an empty element), names are case-sensitive, integers have no fraction,
unknown fields are reported apart from errors.
"""

from __future__ import annotations

import difflib
import functools
from typing import TypeVar, cast

import msgspec
from msgspec import inspect

from apfproxy.api.field_errors import FieldError, Reason
from apfproxy.api.names import well_formed

T = TypeVar("T", bound=msgspec.Struct)

UNREAD: dict[str, frozenset[str]] = {
    "FlowSchema": frozenset({"apiVersion", "kind", "status"}),
    "PriorityLevelConfiguration": frozenset({"apiVersion", "kind", "status"}),
    "ObjectMeta": frozenset(
        {"deletionGracePeriodSeconds", "deletionTimestamp", "managedFields", "selfLink"}
    ),
}
"""Fields that the API has and the structs have not, by struct: known, but not read."""

WANTED = {
    dict: "a mapping",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "an integer",
}

NAMES = {**WANTED, bool: "a truth value", int: "a number", float: "a number"}
"""What values of a type are called; the first that fits counts, since True is an int, too."""

LARGEST_INT64 = 2**63 - 1


class Reading(msgspec.Struct):
    """What reading one object has found."""

    errors: list[FieldError] = []
    """Fields whose values have the wrong type."""
    unknown: list[FieldError] = []
    """Fields that the struct does not have."""


def read_struct(cls: type[T], value: object, reading: Reading) -> T | None:
    """Make a struct of decoded data.

    Args:
        cls: The struct's class.
        value: As a JSON or YAML parser returns it.
        reading: Collects what is wrong.

    Returns:
        The struct without its unknown fields; None if there are errors.
    """
    fitted = fit(struct_type(cls), value, "", reading)
    return None if reading.errors else msgspec.convert(fitted, cls)


@functools.cache
def struct_type(cls: type[msgspec.Struct]) -> inspect.StructType:
    """The fields of a struct class and their types."""
    return cast("inspect.StructType", inspect.type_info(cls))


@functools.cache
def fields_by_name(cls: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    """The types of a struct's fields, by their names on the wire."""
    return {field.encode_name: present(field.type) for field in struct_type(cls).fields}


def present(kind: inspect.Type) -> inspect.Type:
    """The type of an optional field's value when it has one."""
    if isinstance(kind, inspect.UnionType):
        return next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    return kind


def fit(kind: inspect.Type, value: object, path: str, reading: Reading) -> object:
    """The value as msgspec accepts it for the type; what does not fit is reported."""
    if isinstance(kind, inspect.StructType):
        return fit_struct(kind, value, path, reading)
    if isinstance(kind, inspect.VarTupleType):
        if isinstance(value, list):
            item = kind.item_type
            return [
                fit(item, empty(item) if each is None else each, f"{path}[{index}]", reading)
                for index, each in enumerate(value)
            ]
        return refuse(list, value, path, reading)
    if isinstance(kind, inspect.DictType):
        if isinstance(value, dict):
            return {
                well_formed(key): fit(
                    kind.value_type,
                    "" if each is None else each,
                    f"{path}[{well_formed(key)}]",
                    reading,
                )
                for key, each in value.items()
            }
        return refuse(dict, value, path, reading)
    if isinstance(kind, inspect.StrType):
        return well_formed(value) if isinstance(value, str) else refuse(str, value, path, reading)
    if isinstance(kind, inspect.BoolType):
        return value if isinstance(value, bool) else refuse(bool, value, path, reading)
    assert isinstance(kind, inspect.IntType), f"no rule for {kind}"
    return fit_integer(kind, value, path, reading)


def fit_struct(kind: inspect.StructType, value: object, path: str, reading: Reading) -> object:
    """As `fit`, for a struct."""
    if not isinstance(value, dict):
        return refuse(dict, value, path, reading)
    fields = fields_by_name(kind.cls)
    unread = UNREAD.get(kind.cls.__name__, frozenset())
    fitted = {}
    for name, each in value.items():
        at = f"{path}.{name}" if path else name
        if name in fields:
            if each is not None:
                fitted[name] = fit(fields[name], each, at, reading)
        elif name not in unread:
            detail = suggestion(name, sorted(fields.keys() | unread))
            reading.unknown.append(FieldError(well_formed(at), Reason.UNKNOWN, detail))
    return fitted


def fit_integer(kind: inspect.IntType, value: object, path: str, reading: Reading) -> object:
    """As `fit`, for an integer, of 64 bits unless its type says otherwise."""
    if not isinstance(value, int) or isinstance(value, bool):
        return refuse(int, value, path, reading)
    largest = LARGEST_INT64 if kind.le is None else kind.le
    if not -largest - 1 <= value <= largest:
        detail = f"want an integer from {-largest - 1} to {largest}"
        reading.errors.append(FieldError(path, Reason.TYPE_INVALID, detail, str(value)[:40]))
    return value


def empty(kind: inspect.Type) -> object:
    """What null in a list stands for."""
    return "" if isinstance(kind, inspect.StrType) else {}


def refuse(wanted: type, value: object, path: str, reading: Reading) -> object:
    """Report a value of the wrong type."""
    detail = f"want {WANTED[wanted]}"
    if wanted is str and not isinstance(value, dict | list):
        detail += ": put it in quotes"
    elif wanted is list:
        detail += ": write it as [...], or each item after a dash"
    told = type_name(value) if isinstance(value, dict | list) else sample(value)
    reading.errors.append(FieldError(path, Reason.TYPE_INVALID, detail, told))
    return value


def type_name(value: object) -> str:
    """What a value's type is called outside Python."""
    return next((name for kind, name in NAMES.items() if isinstance(value, kind)), "nothing")


def sample(value: object) -> object:
    """The scalar as it is written outside Python, cut so that it fits a message."""
    if isinstance(value, bool):
        return str(value).lower()
    return well_formed(value)[:60] if isinstance(value, str) else str(value)[:60]


def suggestion(name: str, known: list[str]) -> str:
    """Which field may be meant by an unknown name."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name[:60].lower(), folded, n=1, cutoff=0.7)
    return f'did you mean "{folded[close[0]]}"?' if close else f"known here are {', '.join(known)}"
