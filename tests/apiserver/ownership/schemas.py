"""A kind of object in which everything is owned in some other way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from apfproxy.apiserver.ownership.field_set import FieldSet, Path, union
from apfproxy.apiserver.schema.shared_structs import OBJECT_META, TYPE_META
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    required,
)

Object = dict[str, Any]

VERSION = "example.com/v1"
TIME = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:01Z"

PORT = Struct(
    "Port",
    (
        Field("port", Scalar.INT32, is_required=True),
        Field("protocol", Scalar.STRING, default="TCP"),
        Field("name", Scalar.STRING),
        Field("ready", Scalar.BOOLEAN, is_pointer=True),
        Field("tags", List(Scalar.STRING, ListType.SET)),
    ),
)

WHOLE = Struct("Whole", (Field("a", Scalar.STRING),), is_atomic=True)
PAIR = Struct("Pair", (Field("left", Scalar.STRING), Field("right", Scalar.STRING)))

SPEC = Struct(
    "ThingSpec",
    (
        required("size", Scalar.INT32),
        Field("title", Scalar.STRING),
        Field("isOn", Scalar.BOOLEAN, is_pointer=True),
        Field("always", PAIR),
        Field("maybe", PAIR, is_pointer=True),
        Field(
            "whole", Struct("Whole", (Field("a", Scalar.STRING),), is_atomic=True), is_pointer=True
        ),
        Field("limits", Map(Scalar.QUANTITY)),
        Field("groups", Map(PAIR)),
        Field("choices", Map(Scalar.STRING, is_atomic=True)),
        Field("words", List(Scalar.STRING)),
        Field("pairs", List(PAIR)),
        Field("names", List(Scalar.STRING, ListType.SET)),
        Field("ports", List(PORT, ListType.MAP, ("port", "protocol")), is_always_written=True),
        Field("when", Scalar.TIME, is_pointer=True),
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


def thing(**spec: object) -> Object:
    """An object in the canonical form."""
    return {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "one"},
        "spec": {"size": 0, "always": {}, "ports": None, **spec},
        "status": {},
    }


def configuration(**spec: object) -> Object:
    """A configuration to be applied."""
    result = {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "one"}}
    return {**result, "spec": spec} if spec else result


def of_paths(*paths: Path) -> FieldSet:
    """The set of these paths."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for element in reversed(path):
            node = {element: node}
        result = union(result, node)
    return result


def rows(table: str) -> list[Any]:
    """The cases of a table: a line a case, the name first; lines that begin with `|` go on."""
    text = table.strip().replace("\n|", " |")
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return [pytest.param(*cells, id=name.replace(" ", "-")) for name, *cells in lines]


texts = st.sampled_from(["", "a", "b", "c"])
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "name": texts,
            "ready": st.booleans(),
            "tags": st.lists(texts, unique=True, max_size=2),
        },
    ),
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
    max_size=3,
)
pairs = st.fixed_dictionaries({}, optional={"left": texts, "right": texts})
maps = st.dictionaries(texts, texts, max_size=2)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "title": texts,
        "always": pairs,
        "maybe": st.none() | pairs,
        "limits": maps,
        "groups": st.dictionaries(texts, pairs, max_size=2),
        "choices": maps,
        "words": st.lists(texts, max_size=2),
        "names": st.lists(texts, unique=True, max_size=3),
        "ports": ports,
    },
)
