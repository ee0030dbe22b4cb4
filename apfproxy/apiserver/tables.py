"""Rows of Tables and values of selectable fields, by the paths of fields; ages in a row.

A path, such as `spec.nodeName`, is compiled once: lists of 100 000 objects are shown as Tables.

Sources: Kubernetes documentation, "Additional printer columns"; `HumanDuration` of apimachinery:
the older, the coarser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from apfproxy.apiserver.schema.types import Scalar, Struct
from apfproxy.objects.go_text import parse_time
from apfproxy.objects.types import Object

ZEROS: dict[Scalar, object] = {Scalar.BOOLEAN: False, Scalar.INT32: 0, Scalar.INT64: 0}
"""Holds what absent fields stand for that are no texts."""
Cell = Callable[[Object, float], object]
"""Gives what a row shows of an object; the second argument is now, in seconds since 1970."""
seconds_of = lru_cache(maxsize=4096)(parse_time)

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

FORMS = (
    (10 * MINUTE_S, MINUTE_S, "m", 1, "s"),
    (3 * HOUR_S, MINUTE_S, "m", 0, ""),
    (8 * HOUR_S, HOUR_S, "h", MINUTE_S, "m"),
    (48 * HOUR_S, HOUR_S, "h", 0, ""),
    (8 * DAY_S, DAY_S, "d", HOUR_S, "h"),
    (2 * YEAR_S, DAY_S, "d", 0, ""),
    (8 * YEAR_S, YEAR_S, "y", DAY_S, "d"),
)
"""Seconds that are too many for the form; its larger unit with its letter; the smaller one of what
remains, 0 for none."""


def age(creation_timestamp: str | None, now_s: float) -> str:
    """Show how long ago an RFC 3339 time was, if it is known."""
    if not creation_timestamp:
        return UNKNOWN
    return duration(now_s - seconds_of(creation_timestamp))


def duration(seconds: float) -> str:
    """Show a duration in one or two units; up to two seconds below zero count as none."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 2 * MINUTE_S:
        return f"{max(whole, 0)}s"
    for limit, unit, letter, rest_unit, rest_letter in FORMS:
        if whole < limit:
            count, rest = divmod(whole, unit)
            rest_count = rest // rest_unit if rest_unit else 0
            return f"{count}{letter}" + (f"{rest_count}{rest_letter}" if rest_count else "")
    return f"{whole // YEAR_S}y"


def age_of(obj: Object, now_s: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now_s)


class Column(msgspec.Struct, frozen=True):
    """A column of a Table.

    Attributes:
        cell: A path, or a function; "" if the kind gives all cells of a row.
        type: `string`, `integer`, `boolean`.
        format: `name` for the object's name.
        priority: 0 is shown always, 1 in wide output.
        absent: What is shown where nothing is at the path.
    """

    name: str
    cell: str | Cell
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    absent: object = ""

    @property
    def definition(self) -> Object:
        shown = {"name": self.name, "type": self.type, "description": self.description}
        return {**shown, "format": self.format, "priority": self.priority}


wide = partial(Column, priority=1)
"""A column of wide output."""
NONE = "<none>"
NAME = Column("Name", "metadata.name", "Unique within the namespace.", format="name")
NAME_IN_CLUSTER = msgspec.structs.replace(NAME, description="Unique within the cluster.")
AGE = Column("Age", age_of, "Time since the server created the object.")


def at(path: str, absent: object = "") -> Callable[..., Any]:
    """Make a function that finds the value at a path of an object, its first argument."""
    *parents, last = path.split(".")
    if len(parents) == 1:
        (parent,) = parents
        return lambda obj, _now_s=0: (obj.get(parent) or {}).get(last, absent)

    def value(obj: Object, _now_s: float = 0) -> object:
        for name in parents:
            obj = obj.get(name) or {}
        return obj.get(last, absent)

    return value


def row_of(columns: Sequence[Column]) -> Callable[[Object, float], Sequence[object]]:
    cells = [at(one.cell, one.absent) if isinstance(one.cell, str) else one.cell for one in columns]
    return lambda obj, now_s: tuple([cell(obj, now_s) for cell in cells])


def values_at(paths: Sequence[str], schema: Struct) -> Callable[[Object], dict[str, str]]:
    """Make a function that gives the values at paths of an object, as field selectors do."""
    values = []
    for path in paths:
        kind: Any = schema
        for name in path.split("."):
            kind = kind.by_name[name].type
        values.append((path, at(path, ZEROS.get(kind, ""))))
    return lambda obj: {path: _text(value(obj)) for path, value in values}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value).lower()
