"""A report over time as SVG in the reader's colours: levels are rows, configurations columns."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = dict[str, Any]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 580, 46, 8, 8, 18
"""A plot and its margins, in pixels."""
HIGH, LOW = 170, 90
HEADING = 24
GAP = 16
TICKS = (1, 2, 5, 10)
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
"""Units of times, in seconds; an axis has the first of which there are three."""
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

LEGEND = (
    ("seats", "seats in use"),
    ("limit", "current limit"),
    ("nominal", "nominal limit"),
    ("waiting", "waiting requests"),
    ("rejected", "rejected a second"),
    ("goodput", "responses a second"),
)
SERVER = "server"
SERVER_KINDS = (("seats", HIGH), ("goodput", LOW))
LEVEL_KINDS = (("seats", HIGH), ("waiting", LOW), ("rejected", LOW))
STYLE = """
svg { --ink: #1c2430; --soft: #5b6675; --rule: #d5dbe3; --paper: #fff; --seats: #2f6fde;
  --waiting: #c26a00; --rejected: #c9302c; --limit: #157a55; --goodput: #7a3fc2; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4e9f0; --soft: #9aa7b8; --rule: #364152;
  --paper: #12171f; --seats: #6ea2ff; --waiting: #f0a544; --rejected: #ff7b76; --limit: #4fc794;
  --goodput: #b98cf2; } }
.paper { fill: var(--paper); } text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.heading { fill: var(--ink); font-size: 14px; } .axis { stroke: var(--rule); }
.line { fill: none; stroke-width: 1.5; } .area { opacity: .22; }
.line.seats { stroke: var(--seats); } .area.seats { fill: var(--seats); }
.line.waiting { stroke: var(--waiting); } .area.waiting { fill: var(--waiting); }
.line.rejected { stroke: var(--rejected); } .area.rejected { fill: var(--rejected); }
.line.goodput { stroke: var(--goodput); }
.limit { stroke: var(--limit); } .nominal { stroke: var(--soft); stroke-dasharray: 4 4; }
"""


class Plot(NamedTuple):
    """Values by bins of time, under their names; those in `AREAS` have their area filled."""

    lines: dict[str, Sequence[float]]
    bin_s: float


AREAS = frozenset({"seats", "waiting", "rejected"})


def picture(report: Row) -> str:
    """Draw the server, if the report has it, and the levels that had requests anywhere."""
    configurations = report["configurations"]
    columns = [GAP + index * (WIDTH + GAP) for index in range(len(configurations))]
    parts = []
    y = HEADING
    for index, (x, each) in enumerate(zip(columns, configurations, strict=True)):
        letter = f"{'AB'[index]}: " if len(configurations) > 1 else ""
        parts.append(heading(x, y, letter + each["name"]))
    y += HEADING
    has_server = any(SERVER in each["series"] for each in configurations)
    for index, (name, text) in enumerate(LEGEND if has_server else LEGEND[:-1]):
        x = GAP + index * 124
        parts.append(
            f'<line class="line {name}" x1="{x}" x2="{x + 14}" y1="{y - 4}" y2="{y - 4}"/>'
            f'<text x="{x + 20}" y="{y}">{text}</text>'
        )
    names = dict.fromkeys(
        row["priorityLevel"] for each in configurations for row in each["levels"] if row["requests"]
    )
    for name in [None, *names] if has_server else names:
        y += HEADING + GAP
        parts.append(heading(GAP, y, name or SERVER))
        y += GAP
        for kind, height in LEVEL_KINDS if name else SERVER_KINDS:
            plots = [plot_of(kind, name, each) for each in configurations]
            drawn = [(x, each) for x, each in zip(columns, plots, strict=True) if each]
            lines = [each.lines for _, each in drawn]
            most = max((value for each in lines for of in each.values() for value in of), default=0)
            if not most and kind != "seats":
                continue
            most_s = max(each.bin_s * len(each.lines[kind]) for _, each in drawn)
            parts += [
                f'<g transform="translate({x},{y})">{plot(each, height, most or 1.0, most_s)}</g>'
                for x, each in drawn
            ]
            y += height
    return document(columns[-1] + WIDTH + GAP, y + GAP, parts)


def document(width: float, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}"><style>{STYLE}</style>'
        f'<rect class="paper" width="{width}" height="{height}"/>{"".join(parts)}</svg>\n'
    )


def heading(x: float, y: float, text: str) -> str:
    return f'<text class="heading" x="{x}" y="{y}">{escape(text)}</text>'


def plot_of(kind: str, name: str | None, configuration: Row) -> Plot | None:
    """The values of one kind of a level, or of the server; None where there is none."""
    if name is None:
        server = configuration["series"].get(SERVER)
        wanted = ("limit", "seats") if kind == "seats" else (kind,)
        bin_s = configuration["series"]["binSeconds"]
        return server and Plot({each: server[each] for each in wanted}, bin_s)
    row = next((row for row in configuration["levels"] if row["priorityLevel"] == name), None)
    if row is None:
        return None
    bin_s = configuration["series"]["binSeconds"]
    values = configuration["series"]["levels"][name]
    if kind == "rejected":
        return Plot({kind: [each / bin_s for each in values[kind]]}, bin_s)
    if kind == "waiting":
        return Plot({kind: values[kind]}, bin_s)
    lines = {"nominal": [row["nominalLimit"]] * len(values["seats"])}
    if not row["isExempt"]:
        lines["limit"] = values["limit"]
    return Plot(lines | {"seats": values["seats"]}, bin_s)


def plot(wanted: Plot, height: int, most: float, most_s: float) -> str:
    """Draw values over time, with axes that end at `most` and `most_s`."""
    unit_s, unit = next((each for each in UNITS if each[0] * 3 <= most_s), (1, "s"))
    whole_s = most_s or 1.0
    marks = []
    moment, step = 0.0, tick(most_s / unit_s)
    while moment * unit_s <= most_s:
        marks.append((moment * unit_s / whole_s, f"{moment:g} {unit}"))
        moment = round(moment + step, 9)
    bin_part = wanted.bin_s / whole_s
    lines = {
        name: [((index + 0.5) * bin_part, value) for index, value in enumerate(values)]
        for name, values in wanted.lines.items()
    }
    return chart(lines, marks, height, most, AREAS)


def chart(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    marks: Iterable[tuple[float, str]],
    height: int,
    most: float,
    areas: frozenset[str] = frozenset(),
) -> str:
    """Draw lines of points and the marks below them, whose places across are from 0 to 1."""
    step = tick(most if height > LOW else 2 * most)
    top = max(most * 1.05, step)
    across, floor = WIDTH - LEFT - RIGHT, height - BOTTOM
    up = (floor - TOP) / top
    parts = list(levels_of(top, step, floor, up))
    parts += (
        f'<text x="{LEFT + place * across:.1f}" y="{height - 3}" text-anchor="middle">{text}</text>'
        for place, text in marks
    )
    for name, values in lines.items():
        xs = [f"{LEFT + place * across:.1f}" for place, _ in values]
        points = " ".join(
            f"{x},{floor - value * up:.1f}" for x, (_, value) in zip(xs, values, strict=True)
        )
        if points and name in areas:
            around = f"{xs[0]},{floor} {points} {xs[-1]},{floor}"
            parts.append(f'<polygon class="area {name}" points="{around}"/>')
        parts.append(f'<polyline class="line {name}" points="{points}"/>')
    return "".join(parts)


def levels_of(top: float, step: float, floor: float, up: float) -> Iterator[str]:
    """Draw the lines of values, `step` apart, of which one is `up` high."""
    value = 0.0
    while value <= top:
        y = floor - value * up
        yield (
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
        value = round(value + step, 9)


def tick(most: float) -> float:
    """A step of which two to five make the axis."""
    power = 1.0
    while power * 10 <= most / 2:
        power *= 10
    while power > most / 2 and power > 1e-6:  # noqa: PLR2004  nothing is shorter
        power /= 10
    return next(each * power for each in TICKS if each * power >= most / 5)


def escape(text: str) -> str:
    """The text as XML, with escapes for what cannot be seen or turns text round."""
    seen = [
        each
        if each.isprintable() or each == NO_BREAK_SPACE
        else each.encode("unicode_escape").decode()
        for each in text
    ]
    return html.escape("".join(seen))
