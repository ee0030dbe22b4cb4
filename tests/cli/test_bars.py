"""Bars in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from apfproxy.cli.bars import Bar


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        (0, 10, ""),
        (10, 10, "████"),
        (20, 10, "████"),
        (5, 10, "██"),
        (4, 10, "█▋"),
        (0.001, 10, "▏"),
        (0, 0, ""),
    ],
)
def test_bar(value: float, most: float, expected: str) -> None:
    """A bar is as long as its part of the column; a little is seen."""
    assert expected == Bar(value, most).text(4, is_plain=False).plain


@pytest.mark.parametrize(("value", "expected"), [(0, ""), (0.001, "#"), (5, "##"), (10, "####")])
def test_plain(value: float, expected: str) -> None:
    """Where there are only plain letters, they are whole."""
    assert expected == Bar(value, 10).text(4, is_plain=True).plain


def test_console() -> None:
    """A bar fills the width that there is."""
    console = Console(file=io.StringIO(), width=6)
    with console.capture() as capture:
        console.print(Bar(1, 1))

    assert "██████\n" == capture.get()
