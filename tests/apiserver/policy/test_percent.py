"""Tests of `apfproxy.apiserver.policy.percent`."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.policy.percent import percentage, scaled


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("50%", 50),
        ("050%", 50),
        ("50", None),
        ("%", None),
        ("", None),
        ("-5%", None),
        ("5%%", None),
        ("5 %", None),
        ("\u0665%", None),
        ("5%\n", None),
        ("9" * 5000 + "%", None),
    ],
)
def test_percentages(value: str, expected: int | None) -> None:
    """ASCII digits with a percent sign are a percentage; nothing else is."""
    assert expected == percentage(value)


@given(st.integers(0, 200), st.integers(0, 10_000))
@settings(max_examples=50)
def test_percentages_are_rounded_up(percent: int, total: int) -> None:
    """A fraction of a pod is a whole one."""
    assert math.ceil(percent * total / 100) == scaled(f"{percent}%", total)


def test_numbers_stay() -> None:
    """A number is not scaled."""
    assert scaled(3, 100) == 3


def test_other_texts_have_no_scale() -> None:
    """A number as a text is no number."""
    with pytest.raises(ValueError, match="string is not a percentage"):
        scaled("3", 100)
