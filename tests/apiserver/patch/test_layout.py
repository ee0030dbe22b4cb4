"""Tests of the order in which patched objects are shown."""

from __future__ import annotations

import json

import pytest

from apfproxy.apiserver.patch.layout import laid_out, touched_by
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type

INNER = Struct("Inner", (Field("y", Scalar.STRING), Field("x", Scalar.STRING)))
OUTER = Struct(
    "Outer",
    (
        Field("kind", Scalar.STRING),
        Field("inner", INNER),
        Field("many", List(INNER)),
        Field("labels", Map(Scalar.STRING)),
    ),
)
PARTS = {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("type_", "value", "touched", "expected"),
    [
        pytest.param(OUTER, {"inner": PARTS, "kind": 1}, None, "kind inner y x", id="fields"),
        pytest.param(OUTER, {"kind": 1, "inner": PARTS}, {}, "inner y x kind", id="touched"),
        pytest.param(OUTER, {"inner": PARTS}, {"inner": {"x": 5}}, "inner x y", id="below"),
        pytest.param(OUTER, {"labels": {"b": 1, "a": 2}}, None, "labels a b", id="map"),
        pytest.param(OUTER, {"many": [PARTS]}, {"many": {"0": {}}}, "many x y", id="items"),
        pytest.param(OUTER, {"many": [PARTS]}, None, "many y x", id="untouched-items"),
        pytest.param(OUTER, {"z": {"b": 1, "a": 2}, "kind": 1}, None, "kind z b a", id="unknown"),
        pytest.param(Scalar.STRING, {"b": 1, "a": [{"c": 1}]}, None, "b a c", id="wrong-type"),
    ],
)
def test_laid_out(type_: Type, value: object, touched: object, expected: str) -> None:
    """What is touched is sorted, the rest in the order of fields."""
    text = json.dumps(laid_out(type_, value, touched))

    assert expected == " ".join(part for part in text.split('"') if part.isalpha())


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (None, {}),
        ([], {}),
        ([{"path": "/a"}], {}),
        ([{"path": "/a/b~1c/d"}, {"from": "/a/e/f", "path": ""}], {"a": {"b/c": {}, "e": {}}}),
    ],
)
def test_touched_by(operations: object, expected: object) -> None:
    """An operation goes through the parents of what it names."""
    assert expected == touched_by(operations)
