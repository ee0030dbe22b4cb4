"""The live state as `apfproxy top` shows it: tables that fit a terminal.

All that comes from the proxy is put in as text, with control characters escaped; no markup in it
is interpreted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from apfproxy.cli.live_clusters import ClustersView, render_clusters
from apfproxy.cli.live_endpoints import endpoint_table
from apfproxy.cli.live_head import head
from apfproxy.cli.live_help import help_screen
from apfproxy.cli.live_text import alarm, line, name_text, new_table, number, rate
from apfproxy.cli.live_view import SORTS
from apfproxy.cli.terminal_text import shown
from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from apfproxy.cli.live_client import Level
    from apfproxy.cli.live_view import View

ENOUGH_FOR_BOUNDS = 76
"""Columns below which the bounds of the limit and what is lent are left out."""

ENOUGH_FOR_ALL = 56
"""Columns below which what else can be done without is left out."""

FULLEST_LEVELS = 5
FULLEST_QUEUES = 6
LONGEST_EVENT = 400

NO_NUMBER = "-"


def render(view: View | ClustersView, width: int) -> RenderableType:
    """Everything, from the top of the screen to its last line."""
    if isinstance(view, ClustersView):
        return render_clusters(view, width)
    if view.is_help:
        return help_screen()
    top = head(view, width)
    foot = [*_events(view)]
    if view.height is not None:
        foot.append(_keys(view))
    sorted_levels = view.levels()
    waiting = sorted(
        (level for level in sorted_levels if any(level.queues)),
        key=lambda level: (-max(level.queues), level.name),
    )
    queue_lines = min(len(waiting), FULLEST_LEVELS)
    # Each table has a blank line before it and one with its heading.
    left = None if view.height is None else view.height - len(top) - len(foot) - 2
    levels = sorted_levels
    if left is not None and len(levels) > left:
        levels = levels[: max(1, left - 1)]  # a line for the others
    parts: list[RenderableType] = [*top, Text()]
    if levels:
        parts.append(_level_table(levels, view, width))
    else:
        parts.append(line("No level has such a name.", "dim"))
    if left is not None:
        left -= len(levels)
    hidden = len(sorted_levels) - len(levels)
    if hidden:
        text = f"and {counted(hidden, 'more level')}"
        parts.append(line(text, "dim"))
    if view.is_endpoints or (view.height is None and view.has_several_servers):
        parts += [Text(), endpoint_table(view, None if left is None else left - 1, width)]
        left = None if view.height is None else 0
    if levels and (left is None or left >= queue_lines + 2):
        parts += [Text(), *_fullest_queues(waiting)]
        if left is not None:
            left -= max(1, queue_lines) + 2
    if left is None or left >= 3:  # noqa: PLR2004 - a blank line, the heading and one flow
        parts += [Text(), _flow_table(view, None if left is None else left - 2, width)]
    return Group(*parts, *([Text()] if foot and view.height is None else []), *foot)


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


def _level_table(levels: Sequence[Level], view: View, width: int) -> Table:
    with_bounds, with_all = width >= ENOUGH_FOR_BOUNDS, width >= ENOUGH_FOR_ALL
    table = new_table()
    table.add_column("LEVEL", no_wrap=True, overflow="ellipsis", max_width=max(10, width // 4))
    table.add_column("SEATS", ratio=1, no_wrap=True, min_width=6)
    names = ["USE", "CUR"]
    names += ["NOM"] if with_all else []
    names += ["MIN", "MAX", "LOAN"] if with_bounds else []
    has_failures = any(level.failed_per_second for level in view.state.levels)
    names += ["EXEC", "WAIT", "SERV/S"] if with_all else ["WAIT"]
    names += ["FAIL/S"] if has_failures else []
    for name in (*names, "REJ/S"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in levels:
        loan = f"+{number(level.borrowed)}" if level.borrowed and not level.is_exempt else ""
        bounds = [
            number(level.minimum),
            NO_NUMBER if level.maximum is None else number(level.maximum),
            f"-{number(level.lent)}" if level.lent else loan,
        ]
        table.add_row(
            name_text(level.name, "dim" if level.is_quiescing else ""),
            SeatBar(level, view.state.seats),
            number(level.seats_in_use),
            NO_NUMBER if level.is_exempt else number(level.current),
            *((number(level.nominal),) if with_all else ()),
            *(bounds if with_bounds else ()),
            *((number(level.executing),) if with_all else ()),
            Text(number(level.waiting), "yellow" if level.waiting else ""),
            *((rate(level.served_per_second),) if with_all else ()),
            *((alarm(level.failed_per_second),) if has_failures else ()),
            alarm(level.rejected_per_second),
        )
    return table


def _fullest_queues(levels: Sequence[Level]) -> list[RenderableType]:
    """A line for each level with something in its queues, those with the longest queues first."""
    if not levels:
        return [Text("FULLEST QUEUES", "bold"), Text("Nothing waits.", "dim")]
    table = new_table()
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
    flows = view.flows()[:most]
    if not flows and view.state.top_flows:
        return Group(Text("TOP FLOWS", "bold"), line("None has such a name.", "dim"))
    if not flows:
        text = "None yet: a flow counts once a request of it ends; see topFlows.enabled."
        return Group(Text("TOP FLOWS", "bold"), line(text, "dim"))
    table = new_table()
    table.add_column(
        f"TOP FLOWS by {SORTS[view.sort].flows}", ratio=3, no_wrap=True, overflow="ellipsis"
    )
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
            alarm(flow.rejected),
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


def _keys(view: View) -> Text:
    """The last line: the keys, or the part of a name that is being typed."""
    if view.is_typing:
        text = line("only names with: ", "bold")
        text.append(shown(view.part))
        text.append("_", "blink")
        text.append("   Enter keeps it, Esc clears it", "dim")
        return text
    text = line("q quit  h help  / find", "dim")
    if view.part:
        text.append(f"  only {shown(view.part)}", "bold yellow")
    text.append("  sort:", "dim")
    for key, sort in SORTS.items():
        text.append(f" {key} {sort.label}", "bold" if key == view.sort else "dim")
    return text
