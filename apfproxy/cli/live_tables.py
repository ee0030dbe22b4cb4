"""The live state as `apfproxy top` shows it: tables that fit a terminal.

All that comes from the proxy is put in as text, with control characters escaped; no markup in it
is interpreted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from apfproxy.cli.live_client import Level, LiveState, Rates, TopFlow

MAX_NAME = 120
"""Characters of a name that are ever shown; a name may have thousands."""

ENOUGH_FOR_BOUNDS = 76
"""Columns below which the bounds of the limit and what is lent are left out."""

ENOUGH_FOR_ALL = 56
"""Columns below which what else can be done without is left out."""

FULLEST_LEVELS = 5
FULLEST_QUEUES = 6
LONGEST_EVENT = 400

NO_NUMBER = "-"
LARGEST_PLAIN = 99_999
LEAST_WHOLE = 9.95
"""Rates from here on are shown without a fraction."""
UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))

SORTS = {
    "s": ("seats", lambda flow: flow.seat_seconds),
    "w": ("waits", lambda flow: flow.wait_seconds),
    "r": ("rejections", lambda flow: flow.rejected),
}
"""Key to what it sorts the flows by."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown, and how.

    Attributes:
        rates: By level; empty before the second look.
        sort: The key of `SORTS`.
        problem: Why there is no newer state than `silent_s` ago; None if there is no problem.
        height: Lines that there are; None for as many as it takes.
    """

    url: str
    state: LiveState
    rates: dict[str, Rates] = field(default_factory=dict)
    sort: str = "s"
    problem: str | None = None
    silent_s: float = 0.0
    height: int | None = None


def render(view: View, width: int) -> RenderableType:
    """Everything, from the top of the screen to its last line."""
    head = [*_head(view)]
    foot = [*_events(view)]
    if view.height is not None:
        foot.append(_keys(view.sort))
    waiting = sorted(
        (level for level in view.state.levels if any(level.queues)),
        key=lambda level: (-max(level.queues), level.name),
    )
    queue_lines = min(len(waiting), FULLEST_LEVELS)
    # Each table has a blank line before it and one with its heading.
    left = None if view.height is None else view.height - len(head) - len(foot) - 2
    levels = _most_pressed(view.state.levels, left)
    parts: list[RenderableType] = [*head, Text(), _level_table(levels, view, width)]
    if left is not None:
        left -= len(levels)
    hidden = len(view.state.levels) - len(levels)
    if hidden:
        text = f"and {hidden} more levels, with less in use or waiting"
        parts.append(line(text, "dim"))
    if left is None or left >= queue_lines + 2:
        parts += [Text(), *_fullest_queues(waiting)]
        if left is not None:
            left -= max(1, queue_lines) + 2
    if left is None or left >= 3:  # noqa: PLR2004 - a blank line, the heading and one flow
        parts += [Text(), _flow_table(view, None if left is None else left - 2, width)]
    return Group(*parts, *([Text()] if foot and view.height is None else []), *foot)


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


class SeatBar:
    """Seats in use against a level's limits, in as many columns as there are.

    It is as long as the largest of nominal limit, current limit and seats in use; that of an exempt
    level, which has no limit, as all the seats of the server.  In use is solid, what is free up to
    the current limit is shaded, and what is lent is dotted; a stroke marks the nominal limit of a
    level that borrows.
    """

    def __init__(self, level: Level, server_limit: int) -> None:
        self._level = level
        self._server_limit = server_limit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield self.text(options.max_width, is_plain=options.ascii_only)

    def text(self, width: int, *, is_plain: bool) -> Text:
        """The bar."""
        level = self._level
        solid, shaded, dotted, mark = "#=.|" if is_plain else "█░·│"
        full = max(level.nominal, level.current, level.seats_in_use)
        if level.is_exempt:
            full = max(full, self._server_limit)
        if full == 0:
            return Text(dotted * width, "dim")

        def columns(seats: int) -> int:
            return width if seats >= full else round(seats * width / full)

        used = columns(level.seats_in_use)
        if level.seats_in_use:
            used = max(used, 1)
        limit = used if level.is_exempt else max(used, columns(level.current))
        is_full = not level.is_exempt and level.seats_in_use >= level.current
        color = "red" if is_full and level.waiting else "yellow" if is_full else "green"
        text = Text(no_wrap=True, overflow="crop")
        text.append(solid * used, color)
        text.append(shaded * (limit - used))
        text.append(dotted * (width - limit), "dim")
        if level.borrowed and not level.is_exempt:
            at = min(columns(level.nominal), width - 1)
            style = f"bold white on {color}" if at < used else "bold"
            marked = Text(mark, style)
            text = text[:at] + marked + text[at + 1 :]
        text.no_wrap, text.overflow = True, "crop"
        return text


def _head(view: View) -> list[Text]:
    state = view.state
    levels = state.levels
    seats = sum(level.seats_in_use for level in levels)
    at = time.strftime("%H:%M:%S", time.localtime(state.time))
    title = line()
    title.append("apfproxy ", "bold")
    title.append(view.url)
    title.append(f"  generation {state.configuration.generation}  {at}")
    rates = view.rates.values()
    sums = line()
    sums.append(f"{seats} of {state.server_concurrency_limit} seats used", "bold")
    sums.append(f"  {number(sum(level.executing for level in levels))} executing")
    sums.append(f"  {number(sum(level.waiting for level in levels))} waiting")
    if view.rates:
        sums.append(f"  {rate(sum(each.dispatched for each in rates))}/s dispatched")
        sums.append(f"  {rate(sum(each.rejected for each in rates))}/s rejected")
    lines = [title, sums]
    if state.enforcement == "observe":
        text = "Only observed: nothing is rejected or delayed; this is what would have been."
        lines.append(line(text, "bold yellow"))
    if view.problem is not None:
        text = f"Nothing new for {view.silent_s:.0f} s, still trying: {view.problem}"
        lines.append(line(text, "bold red"))
    return lines


def _most_pressed(levels: Sequence[Level], most: int | None) -> list[Level]:
    """As many levels as there is room for, in the order that they come in."""
    if most is None or len(levels) <= most:
        return list(levels)
    most = max(1, most - 1)  # a line for the others
    pressed = sorted(levels, key=lambda level: (-level.waiting, -level.seats_in_use, level.name))
    names = {level.name for level in pressed[:most]}
    return [level for level in levels if level.name in names]


def _table() -> Table:
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True, header_style="bold")


def _level_table(levels: Sequence[Level], view: View, width: int) -> Table:
    with_bounds, with_all = width >= ENOUGH_FOR_BOUNDS, width >= ENOUGH_FOR_ALL
    table = _table()
    table.add_column("LEVEL", no_wrap=True, overflow="ellipsis", max_width=max(10, width // 4))
    table.add_column("SEATS", ratio=1, no_wrap=True, min_width=6)
    names = ["USE", "CUR"]
    names += ["NOM"] if with_all else []
    names += ["MIN", "MAX", "LOAN"] if with_bounds else []
    names += ["EXEC", "WAIT", "DISP/S"] if with_all else ["WAIT"]
    for name in (*names, "REJ/S"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in levels:
        loan = f"+{number(level.borrowed)}" if level.borrowed and not level.is_exempt else ""
        bounds = [
            number(level.minimum),
            NO_NUMBER if level.maximum is None else number(level.maximum),
            f"-{number(level.lent)}" if level.lent else loan,
        ]
        own = view.rates.get(level.name)
        table.add_row(
            name_text(level.name, "dim" if level.is_quiescing else ""),
            SeatBar(level, view.state.server_concurrency_limit),
            number(level.seats_in_use),
            NO_NUMBER if level.is_exempt else number(level.current),
            *((number(level.nominal),) if with_all else ()),
            *(bounds if with_bounds else ()),
            *((number(level.executing),) if with_all else ()),
            Text(number(level.waiting), "yellow" if level.waiting else ""),
            *((NO_NUMBER if own is None else rate(own.dispatched),) if with_all else ()),
            Text(NO_NUMBER) if own is None else Text(rate(own.rejected), _alarming(own.rejected)),
        )
    return table


def _alarming(value: float) -> str:
    return "bold red" if value else ""


def _fullest_queues(levels: Sequence[Level]) -> list[RenderableType]:
    """A line for each level with something in its queues, those with the longest queues first."""
    if not levels:
        return [Text("FULLEST QUEUES", "bold"), Text("Nothing waits.", "dim")]
    table = _table()
    table.add_column("FULLEST QUEUES", no_wrap=True, overflow="ellipsis")
    table.add_column("IN USE", justify="right", no_wrap=True)
    table.add_column("QUEUE:WAITING", ratio=1, no_wrap=True, overflow="ellipsis")
    for level in levels[:FULLEST_LEVELS]:
        order = sorted(range(len(level.queues)), key=lambda queue: -level.queues[queue])
        fullest = [queue for queue in order[:FULLEST_QUEUES] if level.queues[queue]]
        in_use = sum(map(bool, level.queues))
        text = "  ".join(f"{queue}:{level.queues[queue]}" for queue in fullest)
        count = len(level.queues) if level.queue_count is None else level.queue_count
        table.add_row(
            name_text(level.name),
            f"{in_use} of {count}",
            Text(text + ("  ..." if in_use > len(fullest) else "")),
        )
    return [table]


def _flow_table(view: View, most: int | None, width: int) -> RenderableType:
    with_all = width >= ENOUGH_FOR_ALL
    label, key = SORTS[view.sort]
    flows: list[TopFlow] = sorted(view.state.top_flows, key=key, reverse=True)[:most]
    if not flows:
        text = "No flows yet; the proxy counts them unless topFlows.enabled is false."
        return Group(Text("TOP FLOWS", "bold"), line(text, "dim"))
    table = _table()
    table.add_column(f"TOP FLOWS by {label}", ratio=3, no_wrap=True, overflow="ellipsis")
    for name in ("FLOW SCHEMA", "LEVEL") if with_all else ():
        table.add_column(name, ratio=2, no_wrap=True, overflow="ellipsis")
    for name in ("SEAT-S", "WAIT-S", "REJ"):
        table.add_column(name, justify="right", no_wrap=True)
    for flow in flows:
        table.add_row(
            name_text(flow.flow) if flow.flow else Text("(all)", "dim"),
            *map(name_text, (flow.flow_schema, flow.priority_level) if with_all else ()),
            rate(flow.seat_seconds),
            rate(flow.wait_seconds),
            Text(rate(flow.rejected), _alarming(flow.rejected)),
        )
    return table


def _events(view: View) -> list[Text]:
    """The last thing that happened to the configuration, and the error that is still there."""
    events = view.state.configuration.events
    if not events:
        return []
    last = events[-1]
    at = time.strftime("%H:%M:%S", time.localtime(last.time))
    style = "bold red" if last.is_error else "dim"
    return [line(f"{at} {shown(last.message[:LONGEST_EVENT])}", style)]


def _keys(sort: str) -> Text:
    text = line("q quit   flows by", "dim")
    for key, (label, _) in SORTS.items():
        text.append(f"   {key} {label}", "bold" if key == sort else "dim")
    return text
