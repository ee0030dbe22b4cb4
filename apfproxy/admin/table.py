"""Text tables laid out as Go's text/tabwriter does for kube-apiserver's debug pages.

Each cell but the last of a row ends with a comma; a column is one space wider than its widest
cell with that comma, and at least eight wide.  The last column is not padded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell = str | int | bool

MIN_WIDTH = 8
PADDING = 1

LARGEST_SHORT = 0xFFFF
"""Code points from there on take eight digits as an escape."""


def table_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The table, one line a row, each ended by a newline.

    What cannot be printed, and could fake a row or turn one around, is shown as an escape.
    """
    lines = [tuple(header)]
    lines.extend(tuple(map(cell_text, row)) for row in rows)
    widths = [
        max(MIN_WIDTH, max(map(len, column)) + 1 + PADDING) for column in zip(*lines, strict=True)
    ]
    template = "".join(f"{{:<{width}}}" for width in widths[:-1])
    return "".join(
        template.format(*(f"{cell}," for cell in line[:-1])) + line[-1] + "\n" for line in lines
    )


def table_json(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The table as a JSON array of objects whose keys are the names of the columns."""
    # Row by row: one call for a large table would block all other threads.
    texts = (json.dumps(dict(zip(header, row, strict=True))) for row in rows)
    return f"[{', '.join(texts)}]"


def cell_text(cell: Cell) -> str:
    """A cell as Go prints it, on one line."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return str(cell)
    if cell.isprintable():
        return cell
    return "".join(map(_printed, cell))


def _printed(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code <= LARGEST_SHORT else f"\\U{code:08x}"
