"""Durations and parts as text."""

from __future__ import annotations

import pytest

from apfproxy.simulation.amounts import duration_text, part_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(0.00004, "40 µs", id="microseconds"),
        pytest.param(0.0123, "12.3 ms", id="milliseconds"),
        pytest.param(-0.5, "-500 ms", id="negative"),
        pytest.param(12.34, "12.3 s", id="seconds"),
        pytest.param(1234.0, "1,234 s", id="many-seconds"),
    ],
)
def test_duration_text(seconds: float, text: str) -> None:
    """A duration has the unit that suits it."""
    assert text == duration_text(seconds)


@pytest.mark.parametrize(("part", "text"), [(0.005, "0.5%"), (0.123, "12%"), (1.5, "150%")])
def test_part_text(part: float, text: str) -> None:
    """A small part has a digit more."""
    assert text == part_text(part)
