"""A kind of object in which everything is owned in some other way."""

from __future__ import annotations

from apfproxy.apiserver.schema.shared_structs import OBJECT_META, TYPE_META
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    pointer,
    required,
)

VERSION = "example.com/v1"
TIME = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:01Z"

PORT = Struct(
    "Port",
    (
        Field("port", Scalar.INT32, is_required=True),
        Field("protocol", Scalar.STRING, default="TCP"),
        Field("name", Scalar.STRING),
        pointer("ready", Scalar.BOOLEAN),
        Field("tags", List(Scalar.STRING, ListType.SET)),
    ),
)

PAIR = Struct("Pair", (Field("left", Scalar.STRING), Field("right", Scalar.STRING)))

SPEC = Struct(
    "ThingSpec",
    (
        required("size", Scalar.INT32),
        Field("title", Scalar.STRING),
        pointer("isOn", Scalar.BOOLEAN),
        Field("always", PAIR),
        pointer("maybe", PAIR),
        pointer("whole", Struct("Whole", (Field("a", Scalar.STRING),), is_atomic=True)),
        Field("limits", Map(Scalar.QUANTITY)),
        Field("groups", Map(PAIR)),
        Field("choices", Map(Scalar.STRING, is_atomic=True)),
        Field("words", List(Scalar.STRING)),
        Field("pairs", List(PAIR)),
        Field("names", List(Scalar.STRING, ListType.SET)),
        Field("ports", List(PORT, ListType.MAP, ("port", "protocol")), is_always_written=True),
        pointer("when", Scalar.TIME),
        Field("any", Scalar.ANY),
    ),
)

THING = Struct(
    "Thing",
    (
        *TYPE_META,
        Field("metadata", OBJECT_META),
        Field("spec", SPEC),
        Field("status", Struct("ThingStatus", (Field("phase", Scalar.STRING),))),
    ),
)
"""Its objects have all fields that Go writes always: see `thing`."""


def thing(**spec: object) -> dict[str, object]:
    """An object in the canonical form."""
    return {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "one"},
        "spec": {"size": 0, "always": {}, "ports": None, **spec},
        "status": {},
    }


def configuration(**spec: object) -> dict[str, object]:
    """A configuration to be applied."""
    result: dict[str, object] = {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "one"},
    }
    return {**result, "spec": spec} if spec else result
