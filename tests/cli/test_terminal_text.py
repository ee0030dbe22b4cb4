"""Text for people at a terminal."""

from __future__ import annotations

import pytest

from apfproxy.cli.terminal_text import aligned, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain \u00e9", "plain \u00e9", id="plain"),
        pytest.param("a\x1b[2Jb\n", "a\\x1b[2Jb\\n", id="escapes"),
        pytest.param("a\udcff", "a\\udcff", id="no-unicode"),
        pytest.param("\u202eabc", "\\u202eabc", id="right-to-left"),
    ],
)
def test_shown(text: str, expected: str) -> None:
    """What could move the cursor, or hide something, is escaped."""
    assert expected == shown(text)


def test_aligned() -> None:
    """Columns are as wide as their widest cell; numbers are set to the right."""
    assert ["NAME    N", "a       1", "bcd   234"] == aligned(
        ["NAME", "N"], [["a", "1"], ["bcd", "234"]], frozenset({1})
    )
