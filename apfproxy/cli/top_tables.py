"""The state of `/debug/live` as `apfproxy top` shows it: lines and tables that fit a terminal.

All that comes from the proxy is put in as text, with control characters escaped; no markup in it
is interpreted.
"""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from rich.console import Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from apfproxy.admin.amounts import counted, duration_text
from apfproxy.admin.verdict import limit_text
from apfproxy.cli.errors import CommandError
from apfproxy.flowcontrol.limit_view import LimitView
from apfproxy.objects.field_errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

Json = dict[str, Any]

ENOUGH_FOR_ALL, ENOUGH_FOR_SHARES, ENOUGH_FOR_BOUNDS, ENOUGH_FOR_REASONS = (56, 72, 76, 110)
"""Columns below which what can be done without is left out."""
LONGEST = 400
"""Characters of a name or a sentence, which may have thousands."""
MOST_SENTENCES, ENOUGH_FOR_ALL_SENTENCES = (4, 30)
"""Sentences at most; lines of a terminal for more than the first two."""
FULLEST_LEVELS, FULLEST_QUEUES = (5, 6)
LARGEST_PLAIN, LEAST_WHOLE = (99_999, 9.95)
"""Numbers up to the first have no letter of a unit, rates from the second on no fraction."""
LARGEST = 1e20
"""The largest number that a proxy sends."""
UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
PATH = "/debug/live"

GOOD, BAD, WORSE = "green", "bold yellow", "bold red"
SEVERITIES = {"error": WORSE, "warning": BAD, "ok": "bold green"}
OUT = ("ejected", "failing")
"""States of a server that gets no requests, unless all are like that."""
STATES = {
    **dict.fromkeys(("up", "held"), GOOD),
    **dict.fromkeys(("expired", "partitioned"), BAD),
    **dict.fromkeys(OUT, WORSE),
}

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
  EXEC  WAIT    requests that execute and that wait ("left": gave up waiting)
  SERV/S        requests a second, of the last 5 s: with seats, and not failed
  FAIL/S REJ/S  that failed behind (no answer, or a 5xx); that got 429 or 403

SERVERS BEHIND  SHARE: the part of all requests that one should have;
                FLIGHT: what is under way there

TOP FLOWS       who used most lately; numbers halve every five minutes
  SEAT-S        seats times the seconds that they were held
  WAIT-S  REJ   seconds that requests waited; rejected requests
"""
TOKENS_HELP = """\
TOKENS          of completions, a second, and STREAMS under way; t sorts by them
  FIRST  SEATED time to the first token, from the arrival and from the seat;
                BETWEEN: from one to the next; all of the last minute
"""
"""Stands in the help in place of its blank lines, where a level counts tokens."""


UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, OSError),
    *(RecursionError, TypeError, ValueError, msgspec.MsgspecError),
)
"""Errors of a state with other fields, or with numbers that no proxy has."""


class Sort(NamedTuple):
    """An order: its name, that of flows, and the fields of both, the largest first."""

    label: str
    flows: str
    level: tuple[str, ...]
    flow: tuple[str, ...]


SORTS = {
    "p": Sort("problems", "seats", ("problems", "waiting", "seatsInUse"), ("seatSeconds",)),
    "s": Sort("seats", "seats", ("seatsInUse",), ("seatSeconds",)),
    "w": Sort("waits", "waits", ("waiting",), ("waitSeconds",)),
    "r": Sort("rejections", "rejections", ("rejected", "waiting"), ("rejected",)),
    "t": Sort("tokens", "tokens", ("tokensPerSecond",), ("tokens",)),
    "n": Sort("name", "name", (), ()),
}
"""By their keys; what is alike is in the order of names."""


@dataclass(slots=True)
class View:
    """The state, and what keys chose of it.

    Attributes:
        seen_s: When the state was new, by the monotonic clock.
        problem: Why there is no newer one.
        part: Only what has this part of a name is shown.
        screen: `help` or `servers`, or "" for levels, queues and flows.
    """

    url: str
    state: Json
    sort: str = "p"
    seen_s: float = field(default_factory=time.monotonic)
    problem: str | None = None
    part: str = ""
    is_typing: bool = False
    screen: str = ""

    @property
    def has_tokens(self) -> bool:
        return any(level["tokens"] for level in self.state.get("levels", ()))

    @property
    def is_of_clusters(self) -> bool:
        return "clusters" in self.state

    def rows(self, found: Sequence[Json], *names: str, by: Sequence[str] = ()) -> list[Json]:
        """Rows with the part in one of these fields; the largest `by` first, else by name."""
        part = self.part.lower()
        kept = [row for row in found if any(part in row[name].lower() for name in names)]
        kept.sort(key=lambda row: row[names[0]])
        return sorted(kept, key=lambda row: [row[each] for each in by], reverse=True)


def _check_numbers(found: object) -> None:
    if isinstance(found, int | float) and not abs(found) <= LARGEST:
        raise ValueError("there is a number that no proxy has")
    if isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            _check_numbers(each)


def readable(url: str, found: Any) -> Json:  # noqa: ANN401 - any JSON
    """The state with the fields of tables; CommandError if it is something else."""
    try:
        _check_numbers(found)
        state: Json = {"verdict": [], "upstream": None, "fleet": None, **found}
        fleet = state["fleet"]
        state["seats"] = fleet["inForce"] if fleet else state.get("serverConcurrencyLimit")
        for each in state.get("levels", ()):
            each["rejected"] = sum(each["rejectedPerSecond"].values())
            each.setdefault("leftPerSecond", 0.0)
            tokens = each.setdefault("tokens", None)
            each["tokensPerSecond"] = tokens["tokensPerSecond"] if tokens else 0.0
            each["problems"] = each["rejected"] + each["failedPerSecond"]
            each["isExempt"] = each["type"] == "Exempt"
            each["limit"] = None if each["isExempt"] else each["current"]
            each["loan"] = (not each["isExempt"] and each["borrowed"]) - each["lent"]
            each["longest"] = max(each["queues"], default=0)
            each["queuesInUse"] = f"{sum(map(bool, each['queues']))} of {each['queueCount']}"
            each["bar"] = SeatBar(each, state["seats"])
        for each in state.get("topFlows", ()):
            each.setdefault("tokens", 0.0)
        for each in state.get("clusters", ()):
            each["rejected"] = each["rejectedPerSecond"]
            each["servers"] = f"{each['healthyCount']}/{each['endpointCount']}"
            limit = number(each["serverConcurrencyLimit"])
            each["seats"] = f"{number(each['seatsInUse'])}/{limit}"
        for each in (state["upstream"] or {}).get("endpoints", ()):
            each["answers"] = sum(each["answersPerSecond"].values())
            each["errors"] = each["answersPerSecond"].get("5xx", 0.0) + each["failuresPerSecond"]
            each["isOut"], each["problem"] = each["state"] in OUT, each["problem"] or ""
            each["ago"] = state["time"] - (each["since"] or state["time"])
        render(View(url, state), None)
    except UNREADABLE as error:
        raise CommandError(
            f"{url} answers {PATH} in another way than this version; is that the admin listener of"
            " a proxy, and not its --listen?"
        ) from error
    return state


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        cell: The field of the row that is shown, "" for the row itself.
        ratio: Its part of the width that numbers and names leave; 0: as wide as its cells.
        needs: Columns of a terminal below which it is left out.
    """

    name: str
    cell: str
    how: Callable[[Any], RenderableType] | None = None
    ratio: int = 0
    is_number: bool = True
    needs: int = 0

    def of(self, row: Json) -> RenderableType:
        value: Any = row[self.cell] if self.cell else row
        if value is None:
            return "-"
        if self.how is not None:
            return self.how(value)
        if isinstance(value, str):
            return name_text(value)
        return number(value) if isinstance(value, int) else rate(value)


class Block(NamedTuple):
    """A table with a blank line before it.

    Attributes:
        nothing: Stands below the heading where there is no row.
        noun: A row's, to say how many are left out; "" to say nothing.
        told: Rows that there are, if not all are here.
        least: Lines without which it is left out.
        part: It takes at most the room divided by this.
    """

    columns: Sequence[Column]
    rows: Sequence[Json]
    nothing: str
    noun: str = ""
    told: int = 0
    least: int = 0
    part: int = 1

    def lines(self, width: int | None, left: int) -> tuple[list[RenderableType], int]:
        """The part that fits into so many lines, and the lines that it takes."""
        if not self.rows:
            heading = Text(self.columns[0].name, "bold")
            return [Text(), heading, line((self.nothing, "dim"))], 3
        room = max(2, (left - 2) // self.part)
        kept = self.rows[: room - 1 if self.noun and len(self.rows) > room else room]
        hidden = max(self.told, len(self.rows)) - len(kept) if self.noun else 0
        more = [line((f"and {counted(hidden, f'more {self.noun}')}", "dim"))] * bool(hidden)
        return [Text(), self._table(width, kept), *more], 2 + len(kept) + len(more)

    def _table(self, width: int | None, rows: Sequence[Json]) -> Table:
        table = Table(
            box=None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            expand=width is not None,
            header_style="bold",
        )
        columns = [each for each in self.columns if width is None or width >= each.needs]
        for column in columns:
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
            table.add_row(*(column.of(row) for column in columns))
        return table


def render(view: View, width: int | None, height: int | None = None) -> Group:
    """Everything; without a width as wide as it takes, without a height as high, and no keys."""
    if view.screen == "help":
        return help_screen(has_tokens=view.has_tokens)
    parts: list[RenderableType] = [*sentences(view, width, height)]
    parts += _head(view, is_live=height is not None)
    foot = [*_last_event(view.state), *([] if height is None else [_keys(view)])]
    left = sys.maxsize if height is None else height - len(parts) - len(foot)
    for block in _blocks(view, is_live=height is not None):
        if left >= block.least:
            lines, used = block.lines(width, left)
            parts += lines
            left -= used
    return Group(*parts, *([Text()] if foot and height is None else []), *foot)


def number(value: float) -> str:
    """A number in five characters, if it is below 10^12."""
    for unit, letter in UNITS:
        if value > LARGEST_PLAIN and value >= unit:
            return f"{value / unit:.4g}"[:4].rstrip(".") + letter
    return str(round(value))


def rate(value: float) -> str:
    return f"{value:.1f}" if 0 < value < LEAST_WHOLE else number(value)


def line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def name_text(name: str, style: str = "") -> Text:
    return line((one_line(name[:LONGEST]), style))


def alarm(value: float) -> Text:
    return Text(rate(value), WORSE if value else "")


# The lines above the tables.


def sentences(view: View, width: int | None, height: int | None) -> list[Text]:
    """The verdict, worst first; in a terminal the first has two lines, and any other one."""
    found = [(each["severity"], each["text"]) for each in view.state["verdict"]]
    if view.problem is not None:
        age_s = time.monotonic() - view.seen_s
        found.insert(0, ("error", f"Nothing new for {age_s:.0f} s, still trying: {view.problem}"))
    is_high = height is None or height >= ENOUGH_FOR_ALL_SENTENCES
    lines = []
    for place, (severity, text) in enumerate(found[: MOST_SENTENCES if is_high else 2]):
        wrapped = [one_line(text[:LONGEST])]
        if width is not None:
            most = None if height is None else 1 if place else 2
            wrapped = textwrap.wrap(wrapped[0], max(width, 10), max_lines=most, placeholder=" …")
        lines += [line((each, SEVERITIES.get(severity, ""))) for each in wrapped]
    return lines


def _head(view: View, *, is_live: bool) -> list[Text]:
    state = view.state
    now = _clock(state["time"])
    title = line(("apfproxy ", "bold"), f"{view.url}  ")
    if view.is_of_clusters:
        return [title.append(f"{now}  apfproxy top --cluster NAME shows one")]
    title.append(f"generation {state['configuration']['generation']}  {now}")
    lines = [title, _sums(state)]
    if upstream := state["upstream"]:
        lines.append(_server_line(upstream, state["time"]))
        if upstream["endpointCount"] > 1 and is_live:
            lines[-1].append("  e shows each", "dim")
    if state.get("foundLimit"):
        found = limit_text(msgspec.convert(state["foundLimit"], LimitView), state["time"])
        if not any(found in each["text"] for each in state["verdict"]):
            lines.append(line(one_line(found[:LONGEST])))
    return [*lines, _fleet_line(state["fleet"])] if state["fleet"] else lines


def _clock(unix_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def _sums(state: Json) -> Text:
    def total(name: str) -> float:
        return float(sum(level[name] for level in state["levels"]))

    is_observing = state["enforcement"] == "observe"
    failed, rejected, left = map(total, ("failedPerSecond", "rejected", "leftPerSecond"))
    worse = "" if is_observing else WORSE
    return line(
        (f"{total('seatsInUse'):.0f} of {counted(state['seats'], 'seat')} in use", "bold"),
        f"  {number(total('waiting'))} waiting  {rate(total('servedPerSecond'))}/s served",
        (f"  {rate(failed)}/s failed" * bool(failed), worse),
        (f"  {rate(rejected)}/s {'would be ' * is_observing}rejected", worse * bool(rejected)),
        f"  {rate(left)}/s left" * bool(left),
        f"  {number(total('executing'))} executing",
    )


def _server_line(upstream: Json, unix_s: float) -> Text:
    count, healthy = upstream["endpointCount"], upstream["healthyCount"]
    state, answers = upstream["state"], upstream["answersPerSecond"]
    text = line("servers behind " if count > 1 else "server behind ")
    if count > 1 and healthy:
        text.append(f"{healthy} of {count} up", GOOD if healthy == count else BAD)
    else:
        text.append(one_line(state), STATES.get(state, ""))
    if state == "failing":
        if upstream["since"] is not None:
            text.append(f" for {duration_text(max(0.0, unix_s - upstream['since']))}", WORSE)
        if upstream["problem"]:
            text.append(f": {one_line(upstream['problem'])}", WORSE)
    if total := sum(answers.values()):
        text.append(f"  {rate(total)} answers/s")
    if answers.get("5xx"):
        text.append(f"  {rate(answers['5xx'])}/s are 5xx", WORSE)
    if upstream["failuresPerSecond"]:
        text.append(f"  {rate(upstream['failuresPerSecond'])}/s without answer", WORSE)
    for name in ("p50", "p99"):
        if upstream[name] is not None:
            text.append(f"  {name} {duration_text(upstream[name])}")
    return text if count > 1 else text.append(f"  {one_line(upstream['address'])}")


def _fleet_line(fleet: Json) -> Text:
    count, silent = fleet["memberCount"], fleet["silentCount"]
    state, limit, claims = fleet["state"], fleet["limit"], fleet["claims"]
    problem = f"  {number(fleet['unlikeCount'])} unlike" * bool(fleet["unlikeCount"])
    if fleet["problem"]:
        lasting = "" if fleet["age"] is None else f" for {duration_text(fleet['age'])}"
        problem = f"  not written{lasting}: {one_line(fleet['problem'])}"
    seen = f"{number(count - silent)}{f' of {number(count)}' * bool(silent)} seen"
    used = f"  {number(fleet['used'])} in use, {number(claims)} claimed of {number(limit)}"
    return line(
        "workers " if fleet["isOfWorkers"] else "fleet ",
        (seen, BAD if silent else GOOD if state == "held" else ""),
        (used, WORSE * (claims > limit)),
        f"  here {number(fleet['inForce'])} ",
        (one_line(state), STATES.get(state, "")),
        (problem, BAD),
    )


# The tables.


class SeatBar:
    """Seats in use against a level's limits, in as many columns as there are.

    It is as long as the largest of nominal limit, current limit and seats in use; that of an exempt
    level, which has no limit, as all the seats of the server.  In use is solid, what is free up to
    the current limit is shaded, and what is lent is dotted; a stroke marks the nominal limit of a
    level that borrows.
    """

    def __init__(self, level: Json, seats: int) -> None:
        self._is_exempt, self._is_waiting = level["isExempt"], level["waiting"] > 0
        self._used, self._current = int(level["seatsInUse"]), int(level["current"])
        self._nominal, self._borrows = int(level["nominal"]), level["loan"] > 0
        self._full = max(self._nominal, self._current, self._used, seats * self._is_exempt)

    def __rich_measure__(self, _console: Console, _options: ConsoleOptions) -> Measurement:
        return Measurement(6, 30)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text(options.max_width, is_plain=options.ascii_only)

    def text(self, width: int, *, is_plain: bool) -> Text:
        solid, shaded, dotted, mark = "#=.|" if is_plain else "█░·│"
        full = self._full
        if full == 0:
            return Text(dotted * width, "dim")

        def columns(seats: int) -> int:
            return width if seats >= full else round(seats * width / full)

        used = max(columns(self._used), min(1, self._used))
        limit = used if self._is_exempt else max(used, columns(self._current))
        is_full = not self._is_exempt and self._used >= self._current
        color = "red" if is_full and self._is_waiting else "yellow" if is_full else "green"
        text = Text(solid * used, color)
        text.append(shaded * (limit - used), "none")
        text.append(dotted * (width - limit), "dim")
        if self._borrows:
            at = min(columns(self._nominal), width - 1)
            style = f"bold white on {color}" if at < used else "bold"
            text = text[:at] + Text(mark, style) + text[at + 1 :]
        text.no_wrap, text.overflow = True, "crop"
        return text


def _level_name(level: Json) -> Text:
    return name_text(level["name"], "dim" if level["isQuiescing"] else "")


def _loan(seats: int) -> str:
    return f"{'-' if seats < 0 else '+'}{number(abs(seats))}" if seats else ""


WAITING = Column("WAIT", "waiting", lambda count: Text(number(count), "yellow" if count else ""))
SERVED = Column("SERV/S", "servedPerSecond", needs=ENOUGH_FOR_ALL)
FAILED = Column("FAIL/S", "failedPerSecond", alarm)
REJECTED = Column("REJ/S", "rejected", alarm)
LEVELS = (
    Column("LEVEL", "", _level_name, is_number=False),
    Column("SEATS", "bar", lambda bar: bar, ratio=1),
    Column("USE", "seatsInUse"),
    Column("CUR", "limit"),
    Column("NOM", "nominal", needs=ENOUGH_FOR_ALL),
    Column("MIN", "min", needs=ENOUGH_FOR_BOUNDS),
    Column("MAX", "max", needs=ENOUGH_FOR_BOUNDS),
    Column("LOAN", "loan", _loan, needs=ENOUGH_FOR_BOUNDS),
    Column("EXEC", "executing", needs=ENOUGH_FOR_ALL),
    WAITING,
    SERVED,
    FAILED,
    REJECTED,
)


def _endpoint_state(endpoint: Json) -> Text:
    state, ramp, ago = endpoint["state"], endpoint["ramp"], endpoint["ago"]
    if state == "up" and ramp < 1:
        return line((f"starting {ramp:.0%}", GOOD))
    lasting = f" {duration_text(ago)}" if ago > 0 and state != "up" else ""
    return line((one_line(state), STATES.get(state, "")), lasting)


ENDPOINTS = (
    Column("SERVERS BEHIND", "url", ratio=1),
    Column("STATE", "", _endpoint_state, is_number=False),
    Column("SHARE", "share", "{:.0%}".format, needs=ENOUGH_FOR_SHARES),
    Column("SEATS", "seats"),
    Column("FLIGHT", "inFlight"),
    Column("ANS/S", "answers", rate),
    Column("FAIL/S", "errors", alarm),
    Column("P99", "p99", duration_text, needs=ENOUGH_FOR_SHARES),
    Column("WHY", "problem", ratio=1, needs=ENOUGH_FOR_REASONS),
)


def _fullest(queues: Sequence[int]) -> Text:
    order = sorted(range(len(queues)), key=lambda queue: -queues[queue])
    texts = [f"{queue}:{queues[queue]}" for queue in order if queues[queue]]
    more = ["..."] * (len(texts) > FULLEST_QUEUES)
    return line("  ".join(texts[:FULLEST_QUEUES] + more))


QUEUES = (
    Column("FULLEST QUEUES", "name", is_number=False),
    Column("IN USE", "queuesInUse"),
    Column("QUEUE:WAITING", "queues", _fullest, ratio=1),
)
FLOWS = (
    Column("", "flow", lambda flow: name_text(flow) if flow else Text("(all)", "dim"), ratio=3),
    Column("FLOW SCHEMA", "flowSchema", ratio=2, needs=ENOUGH_FOR_ALL),
    Column("LEVEL", "priorityLevel", ratio=2, needs=ENOUGH_FOR_ALL),
    Column("SEAT-S", "seatSeconds"),
    Column("WAIT-S", "waitSeconds"),
    Column("REJ", "rejected", alarm),
)
FLOW_TOKENS = Column("TOKENS", "tokens")
TOKENS = (
    Column("TOKENS", "name", ratio=1),
    Column("STREAMS", "openStreams"),
    Column("TOK/S", "tokensPerSecond"),
    Column("PROMPT/S", "promptTokensPerSecond", needs=ENOUGH_FOR_SHARES),
    Column("FIRST", "firstTokenP50", duration_text),
    Column("P99", "firstTokenP99", duration_text, needs=ENOUGH_FOR_ALL),
    Column("SEATED", "firstTokenExecutingP50", duration_text),
    Column("BETWEEN", "betweenTokensP50", duration_text),
    Column("P99", "betweenTokensP99", duration_text, needs=ENOUGH_FOR_ALL),
)
NO_FLOW = "None yet: a flow counts once a request of it ends; see topFlows.enabled."


def _cluster_state(cluster: Json) -> Text:
    return name_text(cluster["state"], SEVERITIES.get(cluster["severity"], ""))


CLUSTERS = (
    Column("CLUSTER", "name", is_number=False),
    Column("STATE", "", _cluster_state, is_number=False),
    Column("SERVERS", "servers"),
    Column("SEATS", "seats"),
    WAITING,
    SERVED._replace(needs=0),
    FAILED,
    REJECTED,
    Column("P99", "p99", duration_text),
    Column("PROBLEM", "problem", ratio=1, needs=ENOUGH_FOR_BOUNDS),
)


def _blocks(view: View, *, is_live: bool) -> list[Block]:
    state, none = view.state, "None has such a name." if view.part else ""
    if view.is_of_clusters:
        rows = [each for each in state["clusters"] if view.part.lower() in each["name"].lower()]
        return [Block(CLUSTERS, rows, none or "There is none.", "cluster")]
    sort, is_servers = SORTS[view.sort], view.screen == "servers"
    levels = view.rows(state["levels"], "name", by=sort.level)
    has_failures = any(each["failedPerSecond"] for each in state["levels"])
    columns = LEVELS if has_failures else [each for each in LEVELS if each is not FAILED]
    blocks = [Block(columns, levels, none, "level", part=1 + is_servers)]
    upstream = state["upstream"] or {"endpointCount": 0, "endpoints": ()}
    if is_servers or (not is_live and upstream["endpointCount"] > 1):
        found = view.rows(upstream["endpoints"], "url", by=["isOut"])
        count = 0 if view.part else upstream["endpointCount"]
        blocks.append(Block(ENDPOINTS, found, none or "There is but one.", "server", count))
    if is_servers and is_live:
        return blocks
    fullest = view.rows([each for each in levels if each["longest"]], "name", by=["longest"])[
        :FULLEST_LEVELS
    ]
    counted = [{**each["tokens"], "name": each["name"]} for each in levels if each["tokens"]]
    if counted:
        blocks.append(Block(TOKENS, counted, "", "level", least=3))
    flows = view.rows(state["topFlows"], "flow", "flowSchema", "priorityLevel", by=sort.flow)
    heading = FLOWS[0]._replace(name=f"TOP FLOWS by {sort.flows}")
    return [
        *blocks,
        Block(QUEUES, fullest, "Nothing waits.", least=max(1, len(fullest)) + 2),
        Block(
            [heading, *FLOWS[1:], *[FLOW_TOKENS] * view.has_tokens], flows, none or NO_FLOW, least=3
        ),
    ]


# The lines below them, and the help.


def _last_event(state: Json) -> list[Text]:
    events = state["configuration"]["events"] if "configuration" in state else ()
    return [
        name_text(f"{_clock(last['time'])} {last['message']}", WORSE if last["isError"] else "dim")
        for last in events[-1:]
    ]


def _keys(view: View) -> Text:
    if view.is_typing:
        text = line(("only names with: ", "bold"), f"{one_line(view.part)}_")
        return text.append("   Enter keeps it, Esc clears it", "dim")
    text = line(("q quit  h help  / find", "dim"))
    if view.part:
        text.append(f"  only {one_line(view.part)}", BAD)
    if not view.is_of_clusters:
        text.append("  sort:", "dim")
        for key, sort in SORTS.items():
            if key == "t" and not view.has_tokens:
                continue
            text.append(f" {key} {sort.label}", "bold" if key == view.sort else "dim")
    return text


def help_screen(*, has_tokens: bool) -> Group:
    lines = []
    texts = HELP.splitlines()
    if has_tokens:
        texts = [*filter(None, texts), *TOKENS_HELP.splitlines()]
    for each in texts:
        text = line(each)
        if each[:1].isupper():
            text.stylize("bold", 0, end if (end := each.find("  ")) > 0 else len(each))
        lines.append(text)
    return Group(*lines)
