"""A kind of object in which everything is owned in some other way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from apfproxy.apiserver.ownership.field_set import FieldSet, Path, union
from apfproxy.apiserver.schema.shared_structs import OBJECT_META
from apfproxy.apiserver.schema.types import structs

Object = dict[str, Any]

VERSION = "example.com/v1"
TIME = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:01Z"

STRUCTS = structs(
    "p",
    """
Thing +object: Its objects have all fields that Go writes always, as `thing` has.
ThingSpec: Each of its fields is owned in some other way.
  size     int32                 +required                         -
  title    string                                                  -
  isOn     *bool                                                   -
  always   Pair                                                    -
  maybe    *Pair                                                   -
  whole    *Whole                                                  -
  limits   map[string]quantity                                     -
  groups   map[string]Pair                                         -
  choices  map[string]string     +atomic                           -
  words    []string                                                -
  pairs    []Pair                                                  -
  names    []string              +set                              -
  ports    []Port                +keys=port,protocol +written      -
  when     *time                                                   -
  any      any                                                     -
ThingStatus: -
  phase    string                                                  -
Pair: -
  left     string                                                  -
  right    string                                                  -
Whole +atomic: -
  a        string                                                  -
Port: -
  port     int32                 +required +omitempty              -
  protocol string                +default=TCP                      -
  name     string                                                  -
  ready    *bool                                                   -
  tags     []string              +set                              -
""",
    {"ObjectMeta": OBJECT_META},
)
THING, SPEC = STRUCTS["Thing"], STRUCTS["ThingSpec"]


def thing(**spec: object) -> Object:
    return {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "one"},
        "spec": {"size": 0, "always": {}, "ports": None, **spec},
        "status": {},
    }


def configuration(**spec: object) -> Object:
    result = {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "one"}}
    return {**result, "spec": spec} if spec else result


def of_paths(*paths: Path) -> FieldSet:
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
