"""Structs that are declared as text."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.schema.shared_structs import OBJECT_META, SHARED
from apfproxy.apiserver.schema.types import Field, SchemaError, Struct, Union, structs

PART = Struct("Part", (), "p", "A part.")
OTHERS = {"Part": PART, "ObjectMeta": OBJECT_META}
WRITTEN = {"is_always_written": True}


def test_structs() -> None:
    """Structs may stand in any order, have marks, and lines that go on."""
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
    """An error has the line that is wrong."""
    with pytest.raises(SchemaError, match=message):
        structs("p", text)
