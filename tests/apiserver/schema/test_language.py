"""Structs that are declared as text, and those that clients send."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS, OBJECT_META, SHARED
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    Map,
    SchemaError,
    Struct,
    Type,
    Union,
    structs,
)

PART = Struct("Part", (), "p", "A part.")
OTHERS = {"Part": PART, "ObjectMeta": OBJECT_META}


def test_structs() -> None:
    text = """
A +atomic +union=d:b,c: What
        it is.
  b  B  One
        thing.
  +open c
        d
  +open e

B +typed: Another.
C +object: An object.
  4 other string  More.
  1 metadata ObjectMeta  Once more.
CSpec: Its own.
"""
    made = structs("p", text, OTHERS)
    a, c = made["A"], made["C"]

    assert ["A", "B", "C", "CSpec"] == list(made)
    assert ("What it is.", True, frozenset("cde")) == (a.description, a.is_atomic, a.kept)
    assert Union(("b", "c"), "d") == a.union
    assert (Field("b", made["B"], "One thing."),) == a.fields
    assert ["kind", "apiVersion"] == list(made["B"].by_name)
    assert ["kind", "apiVersion", "metadata", "spec", "other"] == list(c.by_name)
    assert "Once more." == c.by_name["metadata"].description
    assert (made["CSpec"], 2) == (c.by_name["spec"].type, c.by_name["spec"].number)
    assert SHARED["ObjectMeta"] is c.by_name["metadata"].type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "no name, colon and description: A"),
        ("A: x.\nA: y.", "A is declared twice: A: y."),
        ("A +x: y.", r"no mark \+x is known: A \+x: y."),
        ("A: x.\n  1 a string", "no name, type and description: 1 a string"),
        ("A: x.\n  1 a string +x=1  y.", r"no mark \+x is known: 1 a string"),
        ("A: x.\n  1 a B  y.", "no type B is known, .*: 1 a B  y."),
        ("A: x.\n  1 a []A  y.", r"no type A is known, or it contains itself: 1 a \[\]A  y."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        structs("p", text)


ROOTS = (
    *(version.schema for kind in KINDS for version in kind.versions),
    *EVICTIONS.values(),
    DELETE_OPTIONS,
)
"""What clients send."""


def structs_of(kind: Type, found: dict[str, Struct]) -> dict[str, Struct]:
    if isinstance(kind, List | Map):
        return structs_of(kind.item if isinstance(kind, List) else kind.value, found)
    if isinstance(kind, Struct):
        name = f"{kind.package}.{kind.name}"
        if name in found:
            assert found[name].by_name.keys() == kind.by_name.keys(), f"two structs {name}"
            return found
        found[name] = kind
        for field in kind.fields:
            structs_of(field.type, found)
    return found


def test_numbers() -> None:
    structs: dict[str, Struct] = {}
    for root in ROOTS:
        structs_of(root, structs)

    for name, struct in structs.items():
        lost = [field.name for field in struct.fields if not field.number]
        assert set(lost) <= ({"kind", "apiVersion"} if struct in ROOTS else set()), name
        numbers = [field.number for field in struct.fields if field.number]
        assert len(set(numbers)) == len(numbers), name
