"""Tables of figures, printed row by row as they are measured."""

from __future__ import annotations

import re

COLUMN = re.compile(r"\s*(.*?)\s*([<>])(\+?)(\d+)(\S*)\s*")


class Table:
    """Rows of figures under a heading.

    Columns are divided by `|`; each is a heading and the format of its figures, such as
    `p99 ms >9.2f`.  A text in place of a figure is aligned alike, and None leaves the cell empty.
    """

    def __init__(self, columns: str) -> None:
        self._headings: list[str] = []
        self._formats: list[tuple[str, str]] = []
        for column in columns.split("|"):
            found = COLUMN.fullmatch(column)
            assert found is not None, column
            heading, align, sign, width, rest = found.groups()
            self._headings.append(heading)
            self._formats.append((align + width, align + sign + width + rest))

    def head(self, more: str = "") -> None:
        self.row(*self._headings, more=more)

    def row(self, *cells: object, more: str = "") -> None:
        texts = []
        for cell, (of_text, of_figure) in zip(cells, self._formats, strict=True):
            is_figure = isinstance(cell, int | float)
            shown = "" if cell is None else cell
            texts.append(format(shown, of_figure if is_figure else of_text))
        print("".join(texts) + more, flush=True)
