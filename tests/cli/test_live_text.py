"""Numbers and names as top shows them."""

from __future__ import annotations

import pytest

from apfproxy.cli.live_text import MAX_NAME, name_text, number, rate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (99_999, "99999"),
        (123_456, "123k"),
        (1_234_567, "1.23M"),
        (9_876_543_210, "9.87G"),
    ],
)
def test_number(value: float, text: str) -> None:
    """Large numbers are short."""
    assert text == number(value)


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.25, "0.2"), (9.96, "10"), (10.4, "10")])
def test_rate(value: float, text: str) -> None:
    """Small rates have a digit more."""
    assert text == rate(value)


def test_name() -> None:
    """A name is cut, and shows no control character."""
    assert "a\\x1b" == name_text("a\x1b").plain
    assert MAX_NAME == len(name_text("x" * 999).plain)
