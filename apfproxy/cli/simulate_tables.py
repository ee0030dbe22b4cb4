"""The report of `apfproxy simulate` as text: a line for each configuration, then tables.

Of two configurations a cell says `A → B`, or one value where both have the same.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from apfproxy.objects.field_errors import counted, one_line
from apfproxy.simulation.report import BOTH, MOVED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    Row = dict[str, Any]

PLAIN_WIDTH = 180
"""Columns of output that is not a terminal: wide enough that no row is broken."""

COUNTS = ("executed", "queued", "rejected")
COLUMNS = (*COUNTS, "waitMean", "waitP50", "waitP90", "waitP99", "seatSeconds")
LEVEL_COLUMNS = ("nominalLimit", *COLUMNS, "seats", "borrowed")
CHANGES = (*COUNTS, "waitP50", "waitP99", "seatSeconds")
LEVEL_CHANGES = ("nominalLimit", *CHANGES)

HEADINGS = {
    "nominalLimit": "nominal",
    "waitMean": "wait\nmean",
    "waitP50": "wait\np50",
    "waitP90": "wait\np90",
    "waitP99": "wait\np99",
    "seatSeconds": "seat-s",
    "seats": "seats\nmean/max",
    "borrowed": "borrowed\nmean/max",
}
LEAVE_OUT = (
    *("waitP50", "seats", "waitP90", "queued", "nominalLimit", "seatSeconds"),
    *("borrowed", "waitMean", "executed", "rejected"),
)
"""Columns that a narrow terminal lacks, the first of these first."""

IS_MORE_BETTER = {"executed": True, "rejected": False, "waitP50": False, "waitP99": False}
"""Other fields are neither better nor worse."""
LEAST_WAIT_S = 0.01
LEAST_PART_OF_WAIT = 0.1
LEAST_PART = 0.01
"""Smaller differences have no colour: they would not be noticed."""


class ReportTable(NamedTuple):
    """A table whose rows have a name and a report, or `before` and `after`; `rest` are unlisted.

    Its columns of waits are latencies, with execution, if `times` says so.
    """

    noun: str
    columns: tuple[str, ...]
    rows: list[tuple[str, Row]]
    rest: int
    times: str


def print_report(report: Row, file: TextIO) -> None:
    console = Console(file=file, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    with console.capture() as capture:
        _print_on(console, report)
    # Each table begins and ends with a blank line.
    lines = [line.rstrip() for line in capture.get().rstrip().split("\n")]
    pairs = itertools.pairwise(["first", *lines])
    file.write("".join(f"{line}\n" for before, line in pairs if before or line))


def _print_on(console: Console, report: Row) -> None:
    for warning in report["warnings"]:
        console.print(Text(f"Note: {warning}\n"), soft_wrap=not console.is_terminal)
    for line in summaries(report["configurations"]):
        console.print(Text(one_line(line), style="bold"), soft_wrap=not console.is_terminal)
    for line in server_lines(report["configurations"]):
        console.print(Text(line), soft_wrap=not console.is_terminal)
    for table in tables(report):
        _print_table(console, table)


def summaries(configurations: list[Row]) -> list[str]:
    found = []
    for index, each in enumerate(configurations):
        letter = f"{'AB'[index]}: " if len(configurations) > 1 else ""
        total, warm_up_s = each["total"], each["warmUpSeconds"]
        parts = [
            f"{letter}{each['name']}: {total['requests']:,}"
            f" request{'' if total['requests'] == 1 else 's'} in {each['seconds']:.1f} s"
            + (f" after a warm-up of {warm_up_s:g} s" if warm_up_s else ""),
            f"{total['executed']:,} executed",
            f"{total['queued']:,} of them queued",
            f"{total['rejectedTotal']:,} rejected",
        ]
        if cut_off := total["cutOff"]:
            parts.append(f"{cut_off:,} cut off when their time was over")
        if without_seats := total["withoutSeats"]:
            parts.append(f"{without_seats:,} long-running ones without seats")
        found.append(", ".join(parts))
    return found


def server_lines(configurations: list[Row]) -> Iterator[str]:
    """The server's goodput, and its limit if that was to be found, where a report has them."""
    for index, each in enumerate(configurations):
        if (server := each.get("server")) is None:
            continue
        letter = f"{'AB'[index]}: " if len(configurations) > 1 else ""
        work = ""
        if "model" in server:
            at_once = counted(server["modelKnee"], "request")
            work = (
                f", {server['workMean']:.1f} s of service a second; at the end the server can do"
                f" {server['modelMostWork']:g}, with {at_once} at once"
            )
        yield f"{letter}goodput {server['goodput']:,.1f} responses a second{work}"
        if (found := server.get("foundLimit")) is not None:
            yield f"{letter}limit {found['limit']} at the end; the last decisions:"
            for made in found["decisions"]:
                yield f"{made['time']:8.1f} s  {made['limit']:5}  {made['reason']}"


def tables(report: Row) -> list[ReportTable]:
    """The tables of a report, without those that have no rows, or say what another says."""
    configurations = report["configurations"]
    groups = {"levels": "priority level", "flows": "flow"}
    if any(
        [row["flow"] for row in each["flows"]] != [row["client"] for row in each["clients"]]
        for each in configurations
    ):
        groups["clients"] = "client"
    has_latencies = any("latencyMean" in each["total"] for each in configurations)
    found = []
    for group, noun in groups.items():
        columns: tuple[str, ...]
        if "difference" in report:
            columns = LEVEL_CHANGES if group == "levels" else CHANGES
            rows = [row for row in report["difference"][group] if _says_something(row)]
        else:
            columns = LEVEL_COLUMNS if group == "levels" else COLUMNS
            rows = [row for row in configurations[0][group] if row["requests"]]
        listed = max(len(each[group]) for each in configurations)
        in_all = max(each.get(f"{group}InAll", listed) for each in configurations)
        if rows:
            named = [(_name(group, row), _with_latencies(row)) for row in rows]
            times = "latency" if has_latencies else "wait"
            found.append(ReportTable(noun, columns, named, in_all - listed, times))
    return found


def _with_latencies(row: Row) -> Row:
    """The row with its latencies, if it has some, in place of its waits."""
    found = {name.replace("latency", "wait"): value for name, value in row.items()}
    sides = {side: _with_latencies(row[side]) for side in ("before", "after") if row.get(side)}
    return found | sides


def _says_something(row: Row) -> bool:
    """Whether there were requests in a configuration, or only one of them has it."""
    sides = (row["before"], row["after"])
    return row["presence"] != BOTH or any(side and side["requests"] for side in sides)


def _name(group: str, row: Row) -> str:
    if group == "flows":
        name = f"{row['flowSchema']}/{row['flow']}" if row["flow"] else row["flowSchema"]
    else:
        name = row["priorityLevel"] if group == "levels" else row["client"]
    presence = row.get("presence", BOTH)
    if presence == MOVED:
        return f"{name} (was {row['movedFrom']['flowSchema']})"
    return str(name) if presence == BOTH else f"{name} ({presence})"


def cell(field: str, row: Row) -> Text:
    if "before" not in row:
        return Text(figure(field, row))
    before, after = row["before"], row["after"]
    texts = ["-" if side is None else figure(field, side) for side in (before, after)]
    text = texts[0] if texts[0] == texts[1] else " → ".join(texts)
    # Requests that go to another level make neither level better or worse.
    is_flow = "nominalLimit" not in (after or before)
    return Text(text, colour(field, before, after) if before and after and is_flow else "")


def figure(field: str, row: Row) -> str:
    if field == "rejected":
        return ", ".join(f"{count:,} {why}" for why, count in row["rejected"].items()) or "0"
    if field in {"seats", "borrowed"}:
        return f"{row[f'{field}Mean']:.1f}/{row[f'{field}Max']}"
    if field.startswith("wait"):
        return duration_text(row[field])
    return f"{row[field]:,.1f}" if field == "seatSeconds" else f"{row[field]:,}"


def duration_text(seconds: float) -> str:
    for least, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= least:
            number = seconds / least
            is_whole = number >= 100 or unit == "µs"  # noqa: PLR2004
            return f"{number:,.0f} {unit}" if is_whole else f"{number:.3g} {unit}"
    return "0"


def colour(field: str, before: Row, after: Row) -> str:
    """Green or red for a difference that would be noticed, and that is good or bad."""
    name = "rejectedTotal" if field == "rejected" else field
    if field not in IS_MORE_BETTER:
        return ""
    more = after[name] - before[name]
    larger = max(after[name], before[name])
    least = LEAST_PART * larger
    if field.startswith("wait"):
        least = max(LEAST_WAIT_S, LEAST_PART_OF_WAIT * larger)
    if not more or abs(more) < least:
        return ""
    return "green" if (more > 0) is IS_MORE_BETTER[field] else "red"


def _print_table(console: Console, table: ReportTable) -> None:
    """Print a table; on a narrow terminal columns are left out, not cut: half a number is wrong."""
    left_out: list[str] = []
    while True:
        numbers = _drawn(table, left_out, has_names=False)
        # Not the minimum, for which rich would break "1.5 s" in two.
        width = Measurement.get(console, console.options.update(max_width=1000), numbers).maximum
        if width <= console.width or len(left_out) == len(LEAVE_OUT):
            break
        left_out.append(LEAVE_OUT[len(left_out)])
    console.print(_drawn(table, left_out))
    gone = [
        _heading(each, table.times).replace("\n", " ") for each in table.columns if each in left_out
    ]
    if gone:
        console.print(f"too narrow for: {', '.join(gone)}")
    if table.rest > 0:
        console.print(f"and {counted(table.rest, f'more {table.noun}')} (--top)")


def _heading(field: str, times: str) -> str:
    return HEADINGS.get(field, field).replace("wait", times)


def _drawn(table: ReportTable, left_out: Collection[str], *, has_names: bool = True) -> Table:
    made = Table(box=box.SIMPLE, pad_edge=False)
    longest = max(len(table.noun), *(len(name) for name, _ in table.rows))
    made.add_column(table.noun, overflow="fold", min_width=min(18, longest))
    kept = [field for field in table.columns if field not in left_out]
    for field in kept:
        made.add_column(_heading(field, table.times), justify="right", no_wrap=True)
    for name, row in table.rows:
        text = Text(one_line(name) if has_names else "")
        made.add_row(text, *(cell(field, row) for field in kept))
    return made
