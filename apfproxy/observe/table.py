"""Text tables laid out as Go's text/tabwriter does for kube-apiserver's debug pages.

Each cell but the last of a row ends with a comma; a column is one space wider than its widest
cell with that comma, and at least eight wide.  The last column is not padded.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell = str | int | bool

MIN_WIDTH = 8
PADDING = 1

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def table_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The table, one line a row, each ended by a newline.

    A control character in a cell, which could fake a row, is shown as an escape.

    Args:
        header: The names of the columns.
        rows: As many cells each as there are columns.
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
    return json.dumps([dict(zip(header, row, strict=True)) for row in rows])


def cell_text(cell: Cell) -> str:
    """A cell as Go prints it, on one line."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return str(cell)
    if cell.isprintable():
        return cell
    return CONTROL_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", cell)
