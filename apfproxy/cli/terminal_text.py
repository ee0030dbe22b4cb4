"""Text for people at a terminal: aligned, and safe whatever is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def shown(text: str) -> str:
    """Text from anywhere, on one line: what could move the cursor or lie is escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int]
) -> list[str]:
    """A table as lines, two spaces between columns and none at the end; `numbers` set right."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in numbers else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
