"""Tests of values as Go prints them."""

from __future__ import annotations

import re

import pytest

from apfproxy.apiserver.go_values import parse_uint64, printed, source, type_name

LARGE = 2**63
"""The first number that is no int64."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "<nil>"),
        (True, "true"),
        (False, "false"),
        ("a", "a"),
        (5, "5"),
        (-5, "-5"),
        (LARGE, "9.223372036854776e+18"),
        (1.0, "1"),
        (-0.5, "-0.5"),
        (0.0, "0"),
        (100000.5, "100000.5"),
        (1234567.0, "1.234567e+06"),
        (1e21, "1e+21"),
        (0.00001, "1e-05"),
        (-2.5e-7, "-2.5e-07"),
        ([1, "a", None], "[1 a <nil>]"),
        ({"b": [], "a": {}}, "map[a:map[] b:[]]"),
    ],
)
def test_printed(value: object, expected: str) -> None:
    """Members are sorted, and large numbers are floats."""
    assert expected == printed(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "interface {}(nil)"),
        ("a", '"a"'),
        (True, "true"),
        ([1], "[]interface {}{1}"),
        ({"b": 1, "a": "x"}, 'map[string]interface {}{"a":"x", "b":1}'),
    ],
)
def test_source(value: object, expected: str) -> None:
    """A value as it would stand in a program."""
    assert expected == source(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "<nil>"),
        (True, "bool"),
        (1, "int64"),
        (LARGE, "float64"),
        (1.5, "float64"),
        ("a", "string"),
        ([], "[]interface {}"),
        ({}, "map[string]interface {}"),
    ],
)
def test_type_name(value: object, expected: str) -> None:
    """Types of decoded JSON."""
    assert expected == type_name(value)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("18446744073709551615", (1 << 64) - 1)])
def test_parse_uint64(text: str, value: int) -> None:
    """Decimal integers of 64 bits without a sign are parsed."""
    assert value == parse_uint64(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("+1", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
    ],
)
def test_parse_uint64_refuses(text: str, wrong: str) -> None:
    """All else is refused, with the message of Go."""
    with pytest.raises(
        ValueError, match=re.escape(f'strconv.ParseUint: parsing "{text}": {wrong}')
    ):
        parse_uint64(text)
