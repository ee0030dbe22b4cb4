"""Plots as SVG, to stand inside a page that has their colours."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 560
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 18
"""Margins, for the numbers of the axes."""

LOW = 100
"""A plot of no more pixels has half the numbers beside it."""

BAR_HEIGHT = 18
BAR_LEFT = 200
LONGEST_LABEL = 30
TICKS = (1, 2, 5, 10)
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
"""Of times, in seconds; the first of which an axis has three is its."""


NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""Tables have it."""


def escape(text: str) -> str:
    """Text from anywhere as HTML; what cannot be seen, or turns text round, has escapes."""
    seen = [
        each
        if each.isprintable() or each == NO_BREAK_SPACE
        else each.encode("unicode_escape").decode()
        for each in text
    ]
    return html.escape("".join(seen))


@dataclass(frozen=True, slots=True)
class Line:
    """Values, one for each bin; `name` is its class in the page's style."""

    name: str
    values: Sequence[float]
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over time, the first of which is drawn first; the axes end at `most_s` and `most`.

    `title` tells what it shows to who cannot see it; `height` is in pixels of a plot `WIDTH` wide.
    """

    title: str
    lines: Sequence[Line]
    bin_s: float
    most_s: float
    most: float
    height: int = 170


def plot(wanted: Plot) -> str:
    """Draw a plot."""
    height = wanted.height
    step = tick(wanted.most if height > LOW else 2 * wanted.most)
    top = max(wanted.most * 1.05, step)
    across = (WIDTH - LEFT - RIGHT) / (wanted.most_s or 1.0)
    up = (height - TOP - BOTTOM) / top
    floor = height - BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(wanted.title)}">']
    value = 0.0
    while value <= top:
        y = floor - value * up
        parts.append(
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
        value = round(value + step, 9)
    unit_s, unit = next((each for each in UNITS if each[0] * 3 <= wanted.most_s), (1, "s"))
    moment, step = 0.0, tick(wanted.most_s / unit_s)
    while moment * unit_s <= wanted.most_s:
        parts.append(
            f'<text x="{LEFT + moment * unit_s * across:.1f}" y="{height - 3}"'
            f' text-anchor="middle">{moment:g} {unit}</text>'
        )
        moment = round(moment + step, 9)
    for line in wanted.lines:
        points = [
            f"{LEFT + (index + 0.5) * wanted.bin_s * across:.1f},{floor - each * up:.1f}"
            for index, each in enumerate(line.values)
        ]
        if not points:
            continue
        first, last = points[0].partition(",")[0], points[-1].partition(",")[0]
        if line.is_area:
            around = f"{first},{floor} {' '.join(points)} {last},{floor}"
            parts.append(f'<polygon class="area {line.name}" points="{around}"/>')
        parts.append(f'<polyline class="line {line.name}" points="{" ".join(points)}"/>')
    return "".join(parts) + "</svg>"


def bars(values: Sequence[tuple[str, float]], most: float) -> str:
    """Draw a bar for each value, with its name and number; `most` is the longest there is."""
    most = most or 1.0
    height = len(values) * BAR_HEIGHT
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for index, (name, value) in enumerate(values):
        y = index * BAR_HEIGHT
        width = (WIDTH - BAR_LEFT - 60) * value / most
        shown = name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"
        parts.append(
            f'<text x="{BAR_LEFT - 6}" y="{y + 13}" text-anchor="end">{escape(shown)}</text>'
            f'<rect class="waiting" x="{BAR_LEFT}" y="{y + 3}" width="{width:.1f}" height="12">'
            f"<title>{escape(name)}: {value:.4g} s</title></rect>"
            f'<text x="{BAR_LEFT + width + 5:.1f}" y="{y + 13}">{value:.3g}</text>'
        )
    return "".join(parts) + "</svg>"


def tick(most: float) -> float:
    """A round step, of which two to five make the axis."""
    power = 1.0
    while power * 10 <= most / 2:
        power *= 10
    while power > most / 2 and power > 1e-6:  # noqa: PLR2004  nothing is shorter
        power /= 10
    return next(each * power for each in TICKS if each * power >= most / 5)
