"""How the tables of core/v1 write their structs and lists."""

from __future__ import annotations

from apfproxy.apiserver.schema.types import Field, List, ListType, Scalar, Struct

PACKAGE = "io.k8s.api.core.v1"
"""As OpenAPI names it."""

BOOLEAN = Scalar.BOOLEAN
INT32 = Scalar.INT32
INT64 = Scalar.INT64
STRING = Scalar.STRING
STRINGS = List(STRING)


def struct(name: str, description: str, *fields: Field, is_atomic: bool = False) -> Struct:
    """A struct of core/v1 with all its fields."""
    return Struct(name, fields, PACKAGE, description, is_atomic)


def open_struct(name: str, description: str, *fields: Field) -> Struct:
    """A struct of core/v1 that has more fields than are listed; they are kept as they come."""
    return Struct(name, fields, PACKAGE, description, keeps_unknown=True)


def keyed(item: Struct, *keys: str, retains_keys: bool = False) -> List:
    """A list whose items are identified by fields; patches merge by the first of them."""
    return List(item, ListType.MAP, keys, keys[0], is_merged=True, retains_keys=retains_keys)


def time_field(name: str, description: str, number: int) -> Field:
    """A time that Go has no pointer for, and thus writes as null where it is not set."""
    return Field(name, Scalar.TIME, description, is_always_written=True, number=number)


OBJECT_REFERENCE = struct(
    "ObjectReference",
    "Names an object of any kind, or a part of it.",
    Field("kind", STRING, "Its kind.", number=1),
    Field("namespace", STRING, "Its namespace.", number=2),
    Field("name", STRING, "Its name.", number=3),
    Field("uid", STRING, "Its UID.", number=4),
    Field("apiVersion", STRING, "Group and version of its kind.", number=5),
    Field("resourceVersion", STRING, "Its version, if one is meant.", number=6),
    Field("fieldPath", STRING, "The part, such as spec.containers{name}.", number=7),
    is_atomic=True,
)
