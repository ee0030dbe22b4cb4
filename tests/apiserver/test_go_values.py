"""Values as Go prints them."""

from __future__ import annotations

import re

import pytest

from apfproxy.apiserver.go_values import parse_uint64, printed, source, type_name

TOO_LARGE = 2**63
"""The first number that is no int64."""


@pytest.mark.parametrize(
    ("value", "text", "go_source", "go_type"),
    [
        (None, "<nil>", "interface {}(nil)", "<nil>"),
        (True, "true", "true", "bool"),
        ("a", "a", '"a"', "string"),
        (-5, "-5", "-5", "int64"),
        (TOO_LARGE, "9.223372036854776e+18", "9.223372036854776e+18", "float64"),
        (0.0, "0", "0", "float64"),
        (100000.5, "100000.5", "100000.5", "float64"),
        (1234567.0, "1.234567e+06", "1.234567e+06", "float64"),
        (1e21, "1e+21", "1e+21", "float64"),
        (-2.5e-7, "-2.5e-07", "-2.5e-07", "float64"),
        ([1, "a"], "[1 a]", '[]interface {}{1, "a"}', "[]interface {}"),
        (
            {"b": [], "a": {}},
            "map[a:map[] b:[]]",
            'map[string]interface {}{"a":map[string]interface {}{}, "b":[]interface {}{}}',
            "map[string]interface {}",
        ),
    ],
)
def test_printed(value: object, text: str, go_source: str, go_type: str) -> None:
    """Members are sorted, and large numbers are floats."""
    assert (text, go_source, go_type) == (printed(value), source(value), type_name(value))


def test_parse_uint64() -> None:
    assert (1 << 64) - 1 == parse_uint64("18446744073709551615")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("+1", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
    ],
)
def test_parse_uint64_refuses(text: str, wrong: str) -> None:
    message = f'strconv.ParseUint: parsing "{text}": {wrong}'
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_uint64(text)
