"""The live state as `apfproxy top` shows it: lines and tables that fit a terminal.

All that comes from the proxy is put in as text, with control characters escaped; no markup in it
is interpreted.
"""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from apfproxy.admin.amounts import counted, duration_text
from apfproxy.cli.terminal_text import shown
from apfproxy.cli.top_state import ClustersState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from apfproxy.cli.top_state import (
        ClusterLine,
        Endpoint,
        Fleet,
        Level,
        LiveState,
        TopFlow,
        Upstream,
    )

ENOUGH_FOR_ALL = 56
"""Columns below which what can be done without is left out."""
ENOUGH_FOR_SHARES = 72
ENOUGH_FOR_BOUNDS = 76
"""Columns below which the bounds of a limit, or problems of clusters, are left out."""
ENOUGH_FOR_REASONS = 110

LONGEST = 400
"""Characters of a name or a sentence, which may have thousands."""
MOST_SENTENCES = 4
ENOUGH_FOR_ALL_SENTENCES = 30
"""Lines of a terminal that are enough for more than the first two sentences."""
FULLEST_LEVELS = 5
FULLEST_QUEUES = 6

LARGEST_PLAIN = 99_999
LEAST_WHOLE = 9.95
"""Rates from here on are shown without a fraction."""
UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))

GOOD, BAD, WORSE = "green", "bold yellow", "bold red"
SEVERITIES = {"error": WORSE, "warning": BAD, "ok": "bold green"}
STATES = {
    "up": GOOD,
    "failing": WORSE,
    "ejected": WORSE,
    "held": GOOD,
    "expired": BAD,
    "partitioned": BAD,
}
OUT = ("ejected", "failing")
"""States of a server that gets no requests, unless all are like that."""

HELP = """\
KEYS
  q  Ctrl-C     end
  h  ?          this help, or back
  p             levels with problems first, flows by seats (at the start)
  s  w  r  n    levels and flows by seats, waits, rejections or name
  e             the servers behind in place of queues and flows, or back
  /             only what has a part of a name; Enter keeps it, Esc clears it

LEVELS
  SEATS         solid: in use, shaded: free, dotted: lent to other levels,
                a stroke: the nominal limit of a level that borrows;
                yellow: all in use, red: requests wait
  USE CUR NOM   seats in use, the limit now, and the limit that the shares buy
  MIN MAX LOAN  its bounds; seats borrowed (+) or lent (-)
  EXEC  WAIT    requests that execute and that wait
  SERV/S        requests a second, in the last 5 s, that had seats and did not fail
  FAIL/S REJ/S  that a server behind failed (no answer, or a 5xx); that got no seats

SERVERS BEHIND  SHARE: the part of all requests that one should have;
                FLIGHT: what is under way there

TOP FLOWS       who used most lately; numbers halve every five minutes
  SEAT-S        seats times the seconds that they were held
  WAIT-S  REJ   seconds that requests waited; rejected requests
"""


SEATS = "seat_seconds"


class Sort(NamedTuple):
    """An order: its name, what flows are sorted by, and the fields of both, the largest first."""

    label: str
    flows: str
    level: tuple[str, ...]
    flow: tuple[str, ...]


SORTS = {
    "p": Sort("problems", "seats", ("problems_per_second", "waiting", "seats_in_use"), (SEATS,)),
    "s": Sort("seats", "seats", ("seats_in_use",), (SEATS,)),
    "w": Sort("waits", "waits", ("waiting",), ("wait_seconds",)),
    "r": Sort("rejections", "rejections", ("rejected_per_second", "waiting"), ("rejected",)),
    "n": Sort("name", "name", (), ()),
}
"""By their keys; what is alike is in the order of names."""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        cell: The name of an attribute of the row's record, or a function of it.
        ratio: Its part of the width that numbers and names leave; 0: as wide as its cells.
        is_number: Set right.
        needs: Columns of a terminal below which it is left out.
    """

    name: str
    cell: str | Callable[[Any], RenderableType]
    ratio: int = 0
    is_number: bool = True
    needs: int = 0


@dataclass(slots=True)
class View:
    """The state, and what keys chose of it.

    Attributes:
        seen_s: When the state was new, by the monotonic clock.
        problem: Why there is no newer one; None if there is no problem.
        part: Only what has this part of a name is shown.
        screen: The help, or the servers behind, shown in place of something else.
    """

    url: str
    state: LiveState | ClustersState
    sort: str = "p"
    seen_s: float = field(default_factory=time.monotonic)
    problem: str | None = None
    part: str = ""
    is_typing: bool = False
    screen: str = ""

    def has(self, *names: str) -> bool:
        """Whether one of the names has the part."""
        return any(self.part.lower() in name.lower() for name in names)


def render(view: View, width: int | None, height: int | None = None) -> Group:
    """Everything, from the first line to the last.

    Without a width all is as wide as it takes, without a height as high; then there are no keys.
    """
    state = view.state
    if view.screen == "help":
        return help_screen()
    if isinstance(state, ClustersState):
        return _clusters(view, state, width, height)
    top = head(view, state, width, height)
    foot = _last_event(state)
    if height is not None:
        foot.append(_keys(view))
    found = sorted_levels(view, state)
    # Each table has a blank line before it and one with its heading.
    left = None if height is None else height - len(top) - len(foot) - 2
    most = left if left is None or view.screen != "servers" else left // 2
    levels = found if most is None or len(found) <= most else found[: max(1, most - 1)]
    parts: list[RenderableType] = [*top, Text()]
    parts.append(_level_table(levels, state, width) if levels else _none("No level"))
    if hidden := len(found) - len(levels):
        parts.append(line(f"and {counted(hidden, 'more level')}", "dim"))
    if left is not None:
        left -= len(levels) + bool(hidden)
    upstream = state.upstream
    if view.screen == "servers" or (height is None and upstream and upstream.endpoint_count > 1):
        parts += [Text(), _endpoint_table(view, state, width, left)]
        left = None if height is None else 0
    waiting = sorted(
        (level for level in found if any(level.queues)),
        key=lambda level: (-max(level.queues), level.name),
    )[:FULLEST_LEVELS]
    if levels and (left is None or left >= len(waiting) + 2):
        parts += [Text(), *_fullest_queues(waiting, width)]
        if left is not None:
            left -= max(1, len(waiting)) + 2
    if left is None or left >= 3:  # noqa: PLR2004 - a blank line, the heading and one flow
        parts += [Text(), *_flow_table(view, state, width, None if left is None else left - 2)]
    return Group(*parts, *([Text()] if foot and height is None else []), *foot)


def sorted_levels(view: View, state: LiveState) -> list[Level]:
    """The levels that are shown, in their order."""
    found = sorted((each for each in state.levels if view.has(each.name)), key=lambda e: e.name)
    return sorted(found, key=_values(SORTS[view.sort].level), reverse=True)


def sorted_flows(view: View, state: LiveState) -> list[TopFlow]:
    """The flows that are shown, in their order; their FlowSchemas and levels count as names."""
    found = (e for e in state.top_flows if view.has(e.flow, e.flow_schema, e.priority_level))
    by_name = sorted(found, key=lambda each: each.flow)
    return sorted(by_name, key=_values(SORTS[view.sort].flow), reverse=True)


def _values(fields: tuple[str, ...]) -> Callable[[object], tuple[float, ...]]:
    return lambda record: tuple(getattr(record, field) for field in fields)


def number(value: float) -> str:
    """A number in at most five characters, as far as it goes."""
    for unit, letter in UNITS:
        if value > LARGEST_PLAIN and value >= unit:
            return f"{value / unit:.4g}"[:4].rstrip(".") + letter
    return str(round(value))


def rate(value: float) -> str:
    """A number per second; small ones are not shown as 0."""
    return f"{value:.1f}" if 0 < value < LEAST_WHOLE else number(value)


def line(text: str = "", style: str = "") -> Text:
    """Text that is never wrapped."""
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def name_text(name: str, style: str = "") -> Text:
    """A name from anywhere."""
    return line(shown(name[:LONGEST]), style)


def alarm(value: float) -> Text:
    """A rate that had better be 0."""
    return Text(rate(value), WORSE if value else "")


def _none(what: str) -> Text:
    return line(f"{what} has such a name.", "dim")


def _fits(width: int | None, needed: int) -> bool:
    return width is None or width >= needed


def _table(width: int | None, columns: Iterable[Column], rows: Iterable[object]) -> Table:
    """A table without lines around its cells, as wide as the terminal."""
    table = Table(
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        expand=width is not None,
        header_style="bold",
    )
    kept = [column for column in columns if _fits(width, column.needs)]
    for column in kept:
        is_name = not column.ratio and not column.is_number
        table.add_column(
            column.name,
            ratio=column.ratio or None,
            justify="right" if column.is_number and not column.ratio else "left",
            min_width=6 if column.ratio else None,
            max_width=max(12, width // 4) if is_name and width is not None else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(_cell(column.cell, row) for column in kept))
    return table


def _cell(cell: str | Callable[[Any], RenderableType], row: object) -> RenderableType:
    if not isinstance(cell, str):
        return cell(row)
    value = getattr(row, cell)
    if isinstance(value, int):
        return number(value)
    return rate(value) if isinstance(value, float) else name_text(value or "")


def sentences(view: View, width: int | None, height: int | None) -> list[Text]:
    """The verdict, worst first; that the proxy is away before all else.

    In a terminal the first has two lines, and any other one.
    """
    found = [(each.severity, each.text) for each in view.state.verdict]
    if view.problem is not None:
        text = (
            f"Nothing new for {time.monotonic() - view.seen_s:.0f} s, still trying: {view.problem}"
        )
        found.insert(0, ("error", text))
    is_high = height is None or height >= ENOUGH_FOR_ALL_SENTENCES
    lines = []
    for place, (severity, text) in enumerate(found[: MOST_SENTENCES if is_high else 2]):
        wrapped = [shown(text[:LONGEST])]
        if width is not None:
            most = None if height is None else 1 if place else 2
            wrapped = textwrap.wrap(wrapped[0], max(width, 10), max_lines=most, placeholder=" …")
        lines += [line(each, SEVERITIES.get(severity, "")) for each in wrapped]
    return lines


def _title(view: View, text: str) -> Text:
    return _assembled(("apfproxy ", "bold"), f"{view.url}  {text}")


def _assembled(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _clock(unix_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def head(view: View, state: LiveState, width: int | None, height: int | None) -> list[Text]:
    """All lines above the first table."""
    generation = f"generation {state.configuration.generation}  {_clock(state.time)}"
    lines = [*sentences(view, width, height), _title(view, generation), _sums(state)]
    if state.upstream is not None:
        servers = _server_line(state.upstream, state.time)
        if state.upstream.endpoint_count > 1 and height is not None:
            servers.append("  e shows each", "dim")
        lines.append(servers)
    if state.fleet is not None:
        lines.append(_fleet_line(state.fleet))
    return lines


def _sums(state: LiveState) -> Text:
    """Seats and requests now, and requests a second, of all levels."""

    def total(field: str) -> float:
        return sum(float(getattr(level, field)) for level in state.levels)

    is_observing = state.enforcement == "observe"
    failed, rejected = total("failed_per_second"), total("rejected_per_second")
    worse = "" if is_observing else WORSE
    return _assembled(
        (f"{total('seats_in_use'):.0f} of {counted(state.seats, 'seat')} in use", "bold"),
        f"  {number(total('waiting'))} waiting  {rate(total('served_per_second'))}/s served",
        (f"  {rate(failed)}/s failed" * bool(failed), worse),
        (
            f"  {rate(rejected)}/s {'would be ' * is_observing}rejected",
            worse * bool(rejected),
        ),
        f"  {number(total('executing'))} executing",
    )


def _server_line(upstream: Upstream, unix_s: float) -> Text:
    """How the servers behind are."""
    count, healthy = upstream.endpoint_count, upstream.healthy_count
    parts: list[str | tuple[str, str]] = ["servers behind " if count > 1 else "server behind "]
    if count > 1 and healthy:
        parts.append((f"{healthy} of {count} up", GOOD if healthy == count else BAD))
    else:
        parts.append((upstream.state, STATES.get(upstream.state, "")))
    if upstream.state == "failing":
        if upstream.since is not None:
            parts.append((f" for {duration_text(max(0.0, unix_s - upstream.since))}", WORSE))
        if upstream.problem:
            parts.append((f": {shown(upstream.problem)}", WORSE))
    if total := sum(upstream.answers_per_second.values()):
        parts.append(f"  {rate(total)} answers/s")
    for value, what in (
        (upstream.answers_per_second.get("5xx", 0.0), "are 5xx"),
        (upstream.failures_per_second, "without answer"),
    ):
        if value:
            parts.append((f"  {rate(value)}/s {what}", WORSE))
    parts += [
        f"  {name} {duration_text(value)}"
        for name, value in (("p50", upstream.p50), ("p99", upstream.p99))
        if value is not None
    ]
    if count <= 1:
        parts.append(f"  {shown(upstream.address)}")
    return _assembled(*parts)


def _fleet_line(fleet: Fleet) -> Text:
    """How many members there are, what they use of what they claim, and how this one stands."""
    well = number(fleet.member_count - fleet.silent_count)
    if fleet.silent_count:
        seen = (f"{well} of {number(fleet.member_count)} seen", BAD)
    else:
        seen = (f"{well} seen", GOOD if fleet.state == "held" else "")
    claims = f"{number(fleet.claims)} claimed of {number(fleet.limit)}"
    problem = ""
    if fleet.problem:
        lasting = "" if fleet.age is None else f" for {duration_text(fleet.age)}"
        problem = f"  not written{lasting}: {shown(fleet.problem)}"
    elif fleet.unlike_count:
        problem = f"  {number(fleet.unlike_count)} unlike"
    return _assembled(
        "workers " if fleet.is_of_workers else "fleet ",
        seen,
        (f"  {number(fleet.used)} in use, {claims}", WORSE * (fleet.claims > fleet.limit)),
        f"  here {number(fleet.in_force)} ",
        (shown(fleet.state), STATES.get(fleet.state, "")),
        (problem, BAD),
    )


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

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console, options
        return Measurement(6, 30)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield self.text(options.max_width, is_plain=options.ascii_only)

    def text(self, width: int, *, is_plain: bool) -> Text:
        level = self._level
        solid, shaded, dotted, mark = "#=.|" if is_plain else "█░·│"
        full = max(level.nominal, level.current, level.seats_in_use)
        if level.is_exempt:
            full = max(full, self._server_limit)
        if full == 0:
            return Text(dotted * width, "dim")

        def columns(seats: int) -> int:
            return width if seats >= full else round(seats * width / full)

        used = max(columns(level.seats_in_use), min(1, level.seats_in_use))
        limit = used if level.is_exempt else max(used, columns(level.current))
        is_full = not level.is_exempt and level.seats_in_use >= level.current
        color = "red" if is_full and level.waiting else "yellow" if is_full else "green"
        text = Text(solid * used, color)
        text.append(shaded * (limit - used), "none")
        text.append(dotted * (width - limit), "dim")
        if level.borrowed and not level.is_exempt:
            at = min(columns(level.nominal), width - 1)
            style = f"bold white on {color}" if at < used else "bold"
            text = text[:at] + Text(mark, style) + text[at + 1 :]
        text.no_wrap, text.overflow = True, "crop"
        return text


def _level_table(levels: Sequence[Level], state: LiveState, width: int | None) -> Table:
    columns = [
        Column(
            "LEVEL",
            lambda each: name_text(each.name, "dim" if each.is_quiescing else ""),
            is_number=False,
        ),
        Column("SEATS", lambda each: SeatBar(each, state.seats), ratio=1),
        Column("USE", "seats_in_use"),
        Column("CUR", lambda each: "-" if each.is_exempt else number(each.current)),
        Column("NOM", "nominal", needs=ENOUGH_FOR_ALL),
        Column("MIN", "minimum", needs=ENOUGH_FOR_BOUNDS),
        Column(
            "MAX",
            lambda each: "-" if each.maximum is None else number(each.maximum),
            needs=ENOUGH_FOR_BOUNDS,
        ),
        Column("LOAN", _loan, needs=ENOUGH_FOR_BOUNDS),
        Column("EXEC", "executing", needs=ENOUGH_FOR_ALL),
        Column("WAIT", _waiting),
        Column("SERV/S", "served_per_second", needs=ENOUGH_FOR_ALL),
        Column("FAIL/S", lambda each: alarm(each.failed_per_second)),
        Column("REJ/S", lambda each: alarm(each.rejected_per_second)),
    ]
    if not any(level.failed_per_second for level in state.levels):
        columns = [column for column in columns if column.name != "FAIL/S"]
    return _table(width, columns, levels)


def _loan(level: Level) -> str:
    if level.lent:
        return f"-{number(level.lent)}"
    return f"+{number(level.borrowed)}" if level.borrowed and not level.is_exempt else ""


def _waiting(each: Level | ClusterLine) -> Text:
    return Text(number(each.waiting), "yellow" if each.waiting else "")


def _endpoint_table(
    view: View, state: LiveState, width: int | None, left: int | None
) -> RenderableType:
    """A line for each server behind, those that get no requests first."""
    upstream = state.upstream
    found = [] if upstream is None else [each for each in upstream.endpoints if view.has(each.url)]
    if upstream is None or not found:
        text = _none("None") if view.part else line("There is but one.", "dim")
        return Group(Text("SERVERS BEHIND", "bold"), text)
    found.sort(key=lambda each: each.state not in OUT)
    # A blank line and the heading; one more says what is left out.
    kept = found if left is None or len(found) <= left - 2 else found[: max(1, left - 3)]
    columns = [
        Column("SERVERS BEHIND", "url", ratio=1),
        Column("STATE", lambda each: _endpoint_state(each, state.time), is_number=False),
        Column("SHARE", lambda each: f"{each.share:.0%}", needs=ENOUGH_FOR_SHARES),
        Column("SEATS", "seats"),
        Column("FLIGHT", "in_flight"),
        Column("ANS/S", lambda each: rate(sum(each.answers_per_second.values()))),
        Column("FAIL/S", lambda each: alarm(each.errors_per_second)),
        Column("P99", _p99, needs=ENOUGH_FOR_SHARES),
        Column("WHY", "problem", ratio=1, needs=ENOUGH_FOR_REASONS),
    ]
    table = _table(width, columns, kept)
    hidden = max(upstream.endpoint_count, len(found)) - len(kept)
    return Group(table, line(f"and {hidden} more", "dim")) if hidden > 0 else table


def _p99(each: Endpoint | ClusterLine) -> str:
    return "-" if each.p99 is None else duration_text(each.p99)


def _endpoint_state(endpoint: Endpoint, unix_s: float) -> Text:
    """Its state, how long it has lasted if it is a bad one, and how far it has started."""
    if endpoint.state == "up" and endpoint.ramp < 1:
        return line(f"starting {endpoint.ramp:.0%}", GOOD)
    text = line(shown(endpoint.state), STATES.get(endpoint.state, ""))
    if endpoint.state != "up" and endpoint.since is not None:
        text.append(f" {duration_text(max(0.0, unix_s - endpoint.since))}")
    return text


def _fullest_queues(levels: Sequence[Level], width: int | None) -> list[RenderableType]:
    """A line for each level with something in its queues, those with the longest queues first."""
    if not levels:
        return [Text("FULLEST QUEUES", "bold"), Text("Nothing waits.", "dim")]
    columns = [
        Column("FULLEST QUEUES", "name", is_number=False),
        Column(
            "IN USE",
            lambda level: (
                f"{sum(map(bool, level.queues))} of {level.queue_count or len(level.queues)}"
            ),
        ),
        Column("QUEUE:WAITING", _fullest, ratio=1),
    ]
    return [_table(width, columns, levels)]


def _fullest(level: Level) -> Text:
    order = sorted(range(len(level.queues)), key=lambda queue: -level.queues[queue])
    texts = [f"{queue}:{level.queues[queue]}" for queue in order if level.queues[queue]]
    more = ["..."] * (len(texts) > FULLEST_QUEUES)
    return line("  ".join(texts[:FULLEST_QUEUES] + more))


def _flow_table(
    view: View, state: LiveState, width: int | None, most: int | None
) -> list[RenderableType]:
    flows = sorted_flows(view, state)[:most]
    if not flows:
        text = "None yet: a flow counts once a request of it ends; see topFlows.enabled."
        return [
            Text("TOP FLOWS", "bold"),
            _none("None") if state.top_flows else line(text, "dim"),
        ]
    columns = [
        Column(
            f"TOP FLOWS by {SORTS[view.sort].flows}",
            lambda each: name_text(each.flow) if each.flow else Text("(all)", "dim"),
            ratio=3,
        ),
        Column("FLOW SCHEMA", "flow_schema", ratio=2, needs=ENOUGH_FOR_ALL),
        Column("LEVEL", "priority_level", ratio=2, needs=ENOUGH_FOR_ALL),
        Column("SEAT-S", "seat_seconds"),
        Column("WAIT-S", "wait_seconds"),
        Column("REJ", lambda each: alarm(each.rejected)),
    ]
    return [_table(width, columns, flows)]


def _clusters(view: View, state: ClustersState, width: int | None, height: int | None) -> Group:
    """A line for each cluster, those with problems first."""
    hint = f"{_clock(state.time)}  apfproxy top --cluster NAME shows one"
    top = [*sentences(view, width, height), _title(view, hint)]
    foot = [] if height is None else [_keys(view)]
    found = [each for each in state.clusters if view.has(each.name)]
    # A blank line and the heading; one more says what is left out.
    left = None if height is None else height - len(top) - len(foot) - 2
    kept = found if left is None or len(found) <= left else found[: max(1, left - 1)]
    columns = [
        Column("CLUSTER", "name", is_number=False),
        Column(
            "STATE",
            lambda each: line(shown(each.state), SEVERITIES.get(each.severity, "")),
            is_number=False,
        ),
        Column("SERVERS", lambda each: f"{each.healthy_count}/{each.endpoint_count}"),
        Column(
            "SEATS",
            lambda each: f"{number(each.seats_in_use)}/{number(each.server_concurrency_limit)}",
        ),
        Column("WAIT", _waiting),
        Column("SERV/S", "served_per_second"),
        Column("FAIL/S", lambda each: alarm(each.failed_per_second)),
        Column("REJ/S", lambda each: alarm(each.rejected_per_second)),
        Column("P99", _p99),
        Column("PROBLEM", "problem", ratio=1, needs=ENOUGH_FOR_BOUNDS),
    ]
    table = _table(width, columns, kept)
    parts: list[RenderableType] = [*top, Text(), table if kept else _none("No cluster")]
    if len(found) > len(kept):
        parts.append(line(f"and {len(found) - len(kept)} more", "dim"))
    return Group(*parts, *foot)


def _last_event(state: LiveState) -> list[Text]:
    """The last event of the configuration, which may be an error that is still there."""
    return [
        line(
            f"{_clock(last.time)} {shown(last.message[:LONGEST])}",
            WORSE if last.is_error else "dim",
        )
        for last in state.configuration.events[-1:]
    ]


def _keys(view: View) -> Text:
    """The last line: the keys, or the part of a name that is being typed."""
    if view.is_typing:
        text = line("only names with: ", "bold")
        text.append(f"{shown(view.part)}_", "none")
        text.append("   Enter keeps it, Esc clears it", "dim")
        return text
    text = line("q quit  h help  / find", "dim")
    if view.part:
        text.append(f"  only {shown(view.part)}", BAD)
    if not isinstance(view.state, ClustersState):
        text.append("  sort:", "dim")
        for key, sort in SORTS.items():
            text.append(f" {key} {sort.label}", "bold" if key == view.sort else "dim")
    return text


def help_screen() -> Group:
    """The help, with its headings in bold."""
    lines = []
    for each in HELP.splitlines():
        text = line(each)
        if each[:1].isupper():
            text.stylize("bold", 0, end if (end := each.find("  ")) > 0 else len(each))
        lines.append(text)
    return Group(*lines)
