"""Bars for tables in a terminal, as wide as their column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

EIGHTHS = " ▏▎▍▌▋▊▉"
WHOLE = "█"
PLAIN = "#"


class Bar:
    """A value as a bar, of which `most` fills the column; a value above nothing is always seen."""

    def __init__(self, value: float, most: float, style: str = "") -> None:
        self._part = min(1.0, value / most) if most > 0 else 0.0
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield self.text(options.max_width, is_plain=options.ascii_only)

    def text(self, width: int, *, is_plain: bool) -> Text:
        """The bar in so many columns."""
        eighths = round(self._part * width * 8)
        if self._part:
            eighths = max(1, eighths)
        if is_plain:
            drawn = PLAIN * -(-eighths // 8)
        else:
            drawn = WHOLE * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        return Text(drawn, self._style, no_wrap=True, overflow="crop")
