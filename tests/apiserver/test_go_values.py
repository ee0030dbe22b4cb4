"""Values as Go prints them; the recorded requests have most."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.go_values import number, parse_uint64, source


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, "9.223372036854776e+18"),
        (10**400, "Infinity"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (100000.5, "100000.5"),
        (1234567.0, "1.234567e+06"),
        (1e21, "1e+21"),
        (-2.5e-7, "-2.5e-07"),
    ],
)
def test_number(value: float, expected: str) -> None:
    assert expected == number(value)


def test_source() -> None:
    expected = 'map[string]interface {}{"a":[]interface {}{1, "x"}, "b":interface {}(nil)}'
    assert expected == source({"b": None, "a": [1, "x"]})


def test_parse_uint64() -> None:
    assert (1 << 64) - 1 == parse_uint64("18446744073709551615")
    for text in ("+1", "18446744073709551616"):
        with pytest.raises(ValueError, match=r"strconv\.ParseUint: parsing"):
            parse_uint64(text)
