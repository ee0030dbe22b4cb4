"""Structs that are declared as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.schema.language import SchemaError, structs
from apfproxy.apiserver.schema.shared_structs import OBJECT_META, SHARED
from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, Struct, Union

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Type

PART = Struct("Part", (), "p", "A part.")
OTHERS = {"Part": PART, "ObjectMeta": OBJECT_META}
WRITTEN = {"is_always_written": True}


@pytest.mark.parametrize(
    ("line", "type_", "expected"),
    [
        ("string", Scalar.STRING, {}),
        ("*int32", Scalar.INT32, {"is_pointer": True}),
        ("string +required", Scalar.STRING, WRITTEN | {"is_required": True}),
        ("Part +required +omitempty", PART, {"is_required": True}),
        ("bool +written", Scalar.BOOLEAN, WRITTEN),
        ("time", Scalar.TIME, WRITTEN),
        ("*microtime", Scalar.MICRO_TIME, {"is_pointer": True}),
        ("time +omitempty", Scalar.TIME, {}),
        ("string +default=TCP +enum=TCP|UDP", Scalar.STRING,
         {"default": "TCP", "enum": ("TCP", "UDP")}),
        ("string +default=", Scalar.STRING, {"default": ""}),
        ("*Part +replaced", PART, {"is_pointer": True, "is_replaced": True}),
        ("[]byte", Scalar.BASE64, {}),
        ("map[string][]byte", Map(Scalar.BASE64), {}),
        ("map[string]any +atomic", Map(Scalar.ANY, is_atomic=True), {}),
        ("[]Part", List(PART), {}),
        ("[]Part +keys=a,b +retainkeys",
         List(PART, ListType.MAP, ("a", "b"), "a", is_merged=True, retains_keys=True), {}),
        ("[]string +set", List(Scalar.STRING, ListType.SET), {}),
        ("[]string +untyped +merged", List(Scalar.STRING, None, is_merged=True), {}),
    ],
)  # fmt: skip
def test_fields(line: str, type_: Type, expected: dict[str, Any]) -> None:
    """Each mark of a field says what it is for."""
    made = structs("p", f"A: Text.\n  7 x  {line}  Is it?\n", OTHERS)["A"]

    assert (Field("x", type_, "Is it?", number=7, **expected),) == made.fields


def test_structs() -> None:
    """Structs may stand in any order, have marks, and lines that go on."""
    text = """
A +open +atomic +union=d:b,c: What
        it is.
  b  B  One
        thing.

B +typed: Another.
C +object: An object.
  4 other string  More.
  1 metadata ObjectMeta  Once more.
CSpec: Its own.
"""
    made = structs("p", text, OTHERS)
    a, c = made["A"], made["C"]

    assert ["A", "B", "C", "CSpec"] == list(made)
    assert ("What it is.", True, True) == (a.description, a.is_atomic, a.keeps_unknown)
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
