"""Rates, durations and names in sentences."""

from __future__ import annotations

import pytest

from apfproxy.admin.amounts import MAX_NAME, duration_text, name_text

DURATIONS = "0.0004=0.4 ms; 1=1 s; 2.13=2.1 s; 179=179 s; 180=3 min; 10800=3 h; 259200=3 days"


@pytest.mark.parametrize("case", DURATIONS.split("; "))
def test_duration(case: str) -> None:
    """A duration is in the unit that says it in a few digits."""
    seconds, expected = case.split("=")
    assert expected == duration_text(float(seconds))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("system:serviceaccount:a:b", "system:serviceaccount:a:b", id="word"),
        pytest.param("Zoë", "Zoë", id="letters"),
        pytest.param("ann: all is well", '"ann: all is well"', id="sentence"),
        pytest.param('a"b', r'"a\"b"', id="quote"),
        pytest.param("", '""', id="empty"),
        pytest.param("a" * (MAX_NAME + 1), "a" * (MAX_NAME - 1) + "…", id="long"),
    ],
)
def test_name(name: str, expected: str) -> None:
    """A name cannot be taken for the sentence around it."""
    assert expected == name_text(name)
