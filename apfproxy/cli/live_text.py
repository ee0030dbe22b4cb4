"""Numbers and names as `apfproxy top` shows them: short, on one line, and safe."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from apfproxy.cli.terminal_text import shown

MAX_NAME = 120
"""Characters of a name that are ever shown; a name may have thousands."""

LARGEST_PLAIN = 99_999
LEAST_WHOLE = 9.95
"""Rates from here on are shown without a fraction."""
UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


def number(value: float) -> str:
    """A number in at most five characters, as far as it goes."""
    for unit, letter in UNITS:
        if value > LARGEST_PLAIN and value >= unit:
            return f"{value / unit:.4g}"[:4].rstrip(".") + letter
    return str(round(value))


def rate(value: float) -> str:
    """Something per second; small ones not as nothing."""
    if 0 < value < LEAST_WHOLE:
        return f"{value:.1f}"
    return number(value)


def line(text: str = "", style: str = "") -> Text:
    """Text that is never wrapped."""
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def name_text(name: str, style: str = "") -> Text:
    """A name from anywhere."""
    return line(shown(name[:MAX_NAME]), style)


def alarm(value: float) -> Text:
    """A rate that had better be nothing."""
    return Text(rate(value), "bold red" if value else "")


def new_table() -> Table:
    """A table without lines around its cells, as wide as the terminal."""
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True, header_style="bold")
