"""How a setting is written in the records: its default, its form and its bounds."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from apfproxy.base.address import UNIX_MODE

if TYPE_CHECKING:
    from collections.abc import Mapping

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The numbers that a setting may have, both ends included."""

    minimum: float
    maximum: float | None = None


def bounded(
    default: Any,  # noqa: ANN401 - of any type
    minimum: float,
    maximum: float | None = None,
    **metadata: object,
) -> Any:  # noqa: ANN401 - stands for the default itself, as `field` does
    """Make a field with a default and the least and greatest number that it may have."""
    bounds = Bounds(minimum=minimum, maximum=maximum)
    return field(default=default, metadata={"bounds": bounds, **metadata})


def default_of(field: Field[Any]) -> object:
    """The value of a field that nobody sets."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def with_values(record: Record, values: Mapping[str, Any]) -> Record:
    """The record with other values, by the names of its fields.

    Of several fields of which only one may be given, one that is takes the place of the others.
    """
    fields = {each.name: each for each in dataclasses.fields(record)}  # type: ignore[arg-type]  # every record is a dataclass
    chosen = {
        fields[name].metadata.get("one_of")
        for name, value in values.items()
        if value != default_of(fields[name])
    }
    left = {
        name: default_of(each)
        for name, each in fields.items()
        if name not in values and each.metadata.get("one_of") in chosen - {None}
    }
    return replace(record, **left, **values)  # type: ignore[type-var]  # as above


def path_setting() -> Any:  # noqa: ANN401 - as above
    """Make a field for the path of a file, relative to the settings file's directory."""
    return field(default=None, metadata={"form": "path"})


def header_names(*names: str) -> Any:  # noqa: ANN401 - as above
    """Make a field for names of header fields."""
    return field(default=names, metadata={"form": "header"})


def socket_mode() -> Any:  # noqa: ANN401 - as above
    """Make a field for the permissions of a Unix socket's file."""
    return field(default=UNIX_MODE, metadata={"form": "mode"})
