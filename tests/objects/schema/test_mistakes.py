"""Tests of what is told of values of wrong types and of unknown fields."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.schema import reading
from apfproxy.objects.schema.mistakes import find_mistakes
from apfproxy.objects.schema.types import Field, List, Map, Scalar, Struct, pointer

INNER = Struct("Inner", (Field("text", Scalar.STRING),))
OUTER = Struct(
    "Outer",
    (
        Field("smallNumber", Scalar.INT32),
        Field("largeNumber", Scalar.INT64),
        Field("flag", Scalar.BOOLEAN),
        pointer("text", Scalar.STRING),
        Field("texts", List(Scalar.STRING)),
        pointer("inner", INNER),
        Field("inners", List(INNER)),
        Field("labels", Map(Scalar.STRING)),
    ),
)
"""One field of each type."""


def read(value: object) -> list[str]:
    """What is wrong with a value."""
    mistakes = find_mistakes(OUTER, value)
    assert {Reason.TYPE_INVALID} >= {error.reason for error in mistakes.errors}
    assert {Reason.UNKNOWN} >= {error.reason for error in mistakes.unknown}
    return [str(error) for error in mistakes.errors + mistakes.unknown]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, {}),
        (
            {"smallNumber": -(2**31), "largeNumber": 2**63 - 1},
            {"smallNumber": -(2**31), "largeNumber": 2**63 - 1},
        ),
        ({"smallNumber": None, "text": None, "texts": None, "labels": None}, {}),
        ({"flag": True, "text": ""}, {"flag": True, "text": ""}),
        ({"texts": ["a", None]}, {"texts": ["a", ""]}),
        (
            {"inner": {}, "inners": [{"text": "b"}, None]},
            {"inner": {}, "inners": [{"text": "b"}, {}]},
        ),
        ({"labels": {"a": "b", "c": None}}, {"labels": {"a": "b", "c": ""}}),
    ],
)
def test_fits(value: dict[str, Any], expected: dict[str, Any]) -> None:
    """Null is absence, or an empty element; what has no mistakes can be read."""
    assert [] == read(value)
    assert expected == reading.read(OUTER, value).obj


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], 'Invalid value: "a list": want a mapping'),
        ("x", 'Invalid value: "x": want a mapping'),
        (
            {"smallNumber": 2**31},
            (
                'smallNumber: Invalid value: "2147483648": want an integer from '
                f"{-(2**31)} to {2**31 - 1}"
            ),
        ),
        (
            {"largeNumber": -(2**63) - 1},
            (
                f'largeNumber: Invalid value: "{-(2**63) - 1}": want an integer from '
                f"{-(2**63)} to {2**63 - 1}"
            ),
        ),
        ({"largeNumber": True}, 'largeNumber: Invalid value: "true": want an integer'),
        ({"largeNumber": 1.0}, 'largeNumber: Invalid value: "1.0": want an integer'),
        ({"flag": "yes"}, 'flag: Invalid value: "yes": want true or false'),
        ({"text": 1}, 'text: Invalid value: "1": want a string: put it in quotes'),
        ({"text": {}}, 'text: Invalid value: "a mapping": want a string'),
        (
            {"texts": "a"},
            'texts: Invalid value: "a": want a list: write it as [...], or each item after a dash',
        ),
        ({"texts": ["a", 2]}, 'texts[1]: Invalid value: "2": want a string: put it in quotes'),
        ({"inners": [{"text": []}]}, 'inners[0].text: Invalid value: "a list": want a string'),
        ({"labels": []}, 'labels: Invalid value: "a list": want a mapping'),
        ({"labels": {"a": 1}}, 'labels[a]: Invalid value: "1": want a string: put it in quotes'),
    ],
)
def test_does_not_fit(value: object, message: str) -> None:
    """A value of the wrong type is reported with its path and what would fit."""
    assert [message] == read(value)


def test_all_mistakes_are_reported() -> None:
    """One reading finds all values that do not fit."""
    assert 3 == len(read({"flag": 1, "text": 2, "texts": 3}))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smallnumber", 'did you mean "smallNumber"?'),
        ("lables", 'did you mean "labels"?'),
        (
            "qqqq",
            "known here are flag, inner, inners, labels, largeNumber, smallNumber, text, texts",
        ),
    ],
)
def test_unknown_field(name: str, hint: str) -> None:
    """An unknown field is no error, and comes with a hint at what may be meant."""
    assert [f"{name}: Unknown field: {hint}"] == read({name: 1})
    assert ["inner.x: Unknown field: known here are text"] == read({"inner": {"x": 1}})
