"""Fitting decoded data to structs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from apfproxy.api.field_errors import Reason
from apfproxy.api.meta import ObjectMeta
from apfproxy.api.shape import Reading, read_struct


class Inner(msgspec.Struct):
    """A part."""

    text: str = ""


class Outer(msgspec.Struct, rename="camel"):
    """One field of each type."""

    small_number: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    large_number: int = 0
    flag: bool = False
    text: str | None = None
    texts: tuple[str, ...] = ()
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    labels: dict[str, str] = {}


def read(value: object) -> tuple[Outer | None, list[str]]:
    """The struct of the value, and what is wrong with it."""
    reading = Reading()
    found = read_struct(Outer, value, reading)
    assert {Reason.TYPE_INVALID} >= {error.reason for error in reading.errors}
    assert {Reason.UNKNOWN} >= {error.reason for error in reading.unknown}
    return found, [str(error) for error in reading.errors + reading.unknown]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, Outer()),
        ({"smallNumber": -(2**31), "largeNumber": 2**63 - 1}, Outer(-(2**31), 2**63 - 1)),
        ({"smallNumber": None, "text": None, "texts": None, "labels": None}, Outer()),
        ({"flag": True, "text": ""}, Outer(flag=True, text="")),
        ({"texts": ["a", None]}, Outer(texts=("a", ""))),
        (
            {"inner": {}, "inners": [{"text": "b"}, None]},
            Outer(inner=Inner(), inners=(Inner("b"), Inner())),
        ),
        ({"labels": {"a": "b", "c": None}}, Outer(labels={"a": "b", "c": ""})),
        ({"text": "\ud800\U0001f600"}, Outer(text="\ufffd\U0001f600")),
        ({"labels": {"\udfff": "\ud800"}}, Outer(labels={"\ufffd": "\ufffd"})),
    ],
)
def test_fits(value: dict[str, Any], expected: Outer) -> None:
    """Null is absence, or an empty element; lone surrogates are replaced."""
    assert (expected, []) == read(value)


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
    assert (None, [message]) == read(value)


def test_all_mistakes_are_reported() -> None:
    """One reading finds all values that do not fit."""
    assert len(read({"flag": 1, "text": 2, "texts": 3})[1]) == 3


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
    assert (Outer(), [f"{name}: Unknown field: {hint}"]) == read({name: 1})
    assert (Outer(inner=Inner()), ["inner.x: Unknown field: known here are text"]) == read(
        {"inner": {"x": 1}}
    )


def test_fields_that_are_known_but_not_read() -> None:
    """What the API has and the struct has not is dropped in silence."""
    reading = Reading()

    assert ObjectMeta(name="a") == read_struct(
        ObjectMeta, {"name": "a", "managedFields": 7, "selfLink": "/"}, reading
    )
    assert Reading() == reading
