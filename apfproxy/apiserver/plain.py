"""Kinds that are kept as clients write them: their metadata is checked, and little else.

They are what clients need around the kinds that the server is about: leader election, records of
events, configuration, and the controllers that own pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.kind import Column, all_right
from apfproxy.apiserver.metadata import validate_core_update, validate_stored
from apfproxy.apiserver.schema.shared_structs import OBJECT_META, TYPE_META
from apfproxy.apiserver.schema.types import Field, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.apiserver.kind import Check, CheckFromOld
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

NONE = "<none>"
NAME = Column("Name", "string", "Unique within the namespace.", format="name")
AGE = Column("Age", "string", "Time since the server created the object.")


def plain_struct(name: str, package: str, description: str, *fields: Field) -> Struct:
    """The struct of a kind's objects whose content is not in `spec` and `status`."""
    metadata = Field("metadata", OBJECT_META, "Name, labels and the like.", number=1)
    return Struct(name, (*TYPE_META, metadata, *fields), package, description)


def checks(
    *,
    is_namespaced: bool = True,
    check: Check = all_right,
    check_change: CheckFromOld = all_right,
) -> tuple[Check, CheckFromOld]:
    """What is checked of new objects, and of those that replace old ones, beside the metadata."""

    def validate(obj: Object) -> list[FieldError]:
        metadata = obj["metadata"]
        errors = validate_stored(metadata, is_namespaced=is_namespaced)
        return errors + check(obj)

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        errors = validate_core_update(new["metadata"], old["metadata"])
        return errors + check(new) + check_change(new, old)

    return validate, validate_update


def named_cells(
    middle: Callable[[Object], Sequence[object]],
) -> Callable[[Object, float], Sequence[object]]:
    """The cells of rows that begin with the object's name and end with its age."""

    def cells(obj: Object, now_s: float) -> Sequence[object]:
        metadata = obj["metadata"]
        return metadata["name"], *middle(obj), age(metadata.get("creationTimestamp"), now_s)

    return cells
