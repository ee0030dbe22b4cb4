"""The dumps of several workers as one."""

from __future__ import annotations

from typing import Any

from apfproxy.admin.dumps import PRIORITY_LEVEL_COLUMNS
from apfproxy.admin.merged_dumps import merged_levels, merged_rows


def level(name: str, *, is_idle: bool, requests: int) -> dict[str, Any]:
    """A row of a worker's dump."""
    values = (name, requests, is_idle, False, *[requests] * 6)
    return dict(zip(PRIORITY_LEVEL_COLUMNS, values, strict=True))


def test_levels() -> None:
    """Numbers add up; a level is idle where it is in all workers."""
    first = [level("b", is_idle=True, requests=0), level("a", is_idle=False, requests=2)]
    second = [level("b", is_idle=True, requests=0), level("a", is_idle=True, requests=1)]

    assert merged_levels([first, second]) == [
        ("a", 3, False, False, *[3] * 6),
        ("b", 0, True, False, *[0] * 6),
    ]


def test_rows() -> None:
    """Rows are by level, and within it in the order of the workers and of their rows."""
    first = [{"Level": "a", "Index": 0}, {"Level": "b", "Index": 0}]
    second = [{"Level": "a", "Index": 1}, {"Level": "a", "Index": 0}]
    rows = merged_rows([first, second], ("Level", "Index"))

    assert rows == [("a", 0), ("a", 1), ("a", 0), ("b", 0)]
