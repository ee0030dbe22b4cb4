"""The tables of `apfproxy simulate`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from apfproxy.api.field_errors import counted
from apfproxy.cli.terminal_text import shown as one_line
from apfproxy.simulation.html_report import exceptions, span
from apfproxy.simulation.report import BOTH, COMPARED, changed_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Row = dict[str, Any]
    Column = tuple[str, Callable[[Row], str]]
    """A heading, and what stands in the cell of a row."""

PLAIN_WIDTH = 180
"""Columns of output that is not a terminal: wide enough that no row is broken."""

LEAVE_OUT = (
    "wait\np50",
    "seats\nmean/max",
    "wait\np90",
    "queued",
    "nominal",
    "seat-s",
    "borrowed\nmean/max",
    "wait\nmean",
    "timed\nout",
)
"""Headings of what a narrow terminal lacks, the first of these first."""

MILLISECOND, SECOND = 1e-3, 1.0


def print_report(report: dict[str, Any], file: TextIO) -> None:
    """Print what was found in each configuration, and the difference between two.

    Only on a terminal, where cells may have colours, lines end with blanks.
    """
    console = Console(file=file, highlight=False, soft_wrap=False)
    if console.is_terminal:
        print_on(console, report)
        return
    console.width = PLAIN_WIDTH
    with console.capture() as capture:
        print_on(console, report)
    file.write("\n".join(line.rstrip() for line in capture.get().split("\n")))


def print_on(console: Console, report: dict[str, Any]) -> None:
    """Print a report on a console as wide as there is room."""
    for warning in report["warnings"]:
        console.print(Text(f"Note: {warning}\n"), soft_wrap=not console.is_terminal)
    for number, each in enumerate(report["configurations"]):
        title = f"{'AB'[number]}: " if "difference" in report else ""
        total = each["total"]
        console.print(
            Text(
                f"{title}{one_line(each['name'])}: {counted(total['requests'], 'request')} in"
                f" {span(each)}, {total['executed']} executed,"
                f" {total['rejectedTotal']} rejected{exceptions(total)}",
                style="bold",
            )
        )
        print_table(console, "priority level", each["levels"], level_name, LEVEL_COLUMNS)
        print_table(console, "flow", each["flows"], flow_name, TALLY_COLUMNS)
        rest(console, each["flowsInAll"] - len(each["flows"]), "flows")
        if not are_flows_clients(each):
            print_table(console, "client", each["clients"], client_name, TALLY_COLUMNS)
            rest(console, each["clientsInAll"] - len(each["clients"]), "clients")
    if "difference" in report:
        groups = [report["difference"][group] for group in ("levels", "flows", "clients")]
        is_same = not any(says_something(row) for rows in groups for row in rows)
        console.print(Text(f"B less A{': no difference' if is_same else ''}", style="bold"))
        for title, group, name in (
            ("priority level", "levels", level_name),
            ("flow", "flows", flow_name),
            ("client", "clients", client_name),
        ):
            if group != "clients" or not all(map(are_flows_clients, report["configurations"])):
                rows = report["difference"][group]
                print_table(console, title, rows, marked(name), CHANGE_COLUMNS)


def marked(name: Callable[[Row], str]) -> Callable[[Row], str]:
    """Names with a mark on what only one configuration has."""
    return lambda row: changed_name(name(row), row)


def are_flows_clients(configuration: dict[str, Any]) -> bool:
    """Whether a table of clients would say the same as that of flows."""
    flows = [row["flow"] for row in configuration["flows"]]
    return flows == [row["client"] for row in configuration["clients"]]


def print_table(
    console: Console,
    title: str,
    rows: Iterable[Row],
    name: Callable[[Row], str],
    columns: tuple[Column, ...],
) -> None:
    """Print a table of rows that say something; nothing if there are none.

    On a narrow terminal columns are left out, not cut: half a number is a wrong one.
    """
    shown = [row for row in rows if says_something(row)]
    if not shown:
        return
    left_out: list[str] = []
    while True:
        kept = tuple(column for column in columns if column[0] not in left_out)
        numbers = table_of("", shown, lambda _: "", kept)
        # Not the minimum, for which rich would break "1.5 s" in two.
        width = Measurement.get(console, console.options.update(max_width=1000), numbers).maximum
        if width <= console.width or len(left_out) == len(LEAVE_OUT):
            break
        left_out.append(LEAVE_OUT[len(left_out)])
    console.print(table_of(title, shown, name, kept))
    gone = [column[0].replace("\n", " ") for column in columns if column[0] in left_out]
    if gone:
        console.print(f"too narrow for: {', '.join(gone)}")


def says_something(row: Row) -> bool:
    """Whether there were requests, or a difference; a new level without requests is one."""
    if "requests" in row:
        return bool(row["requests"])
    return row["presence"] != BOTH or any(row[field] for field in COMPARED)


def table_of(
    title: str, rows: Iterable[Row], name: Callable[[Row], str], columns: tuple[Column, ...]
) -> Table:
    """A table with a column for names and others for numbers, which keep their width."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column(title, overflow="fold", min_width=18)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(one_line(name(row))), *(cell(row) for _, cell in columns))
    return table


def rest(console: Console, count: int, noun: str) -> None:
    """Say how many more there are."""
    if count > 0:
        console.print(f"and {count} more {noun if count > 1 else noun[:-1]} (--top)")


def level_name(row: Row) -> str:
    """The name of a level."""
    return str(row["priorityLevel"])


def flow_name(row: Row) -> str:
    """The name of a flow, with its FlowSchema."""
    return f"{row['flowSchema']}/{row['flow']}" if row["flow"] else str(row["flowSchema"])


def client_name(row: Row) -> str:
    """The name of a client."""
    return str(row["client"])


def duration_text(seconds: float) -> str:
    """A duration, with three digits at most."""
    if abs(seconds) < MILLISECOND / 1000:
        return "0"
    if abs(seconds) < MILLISECOND:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < SECOND:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"


def rejections(row: Row) -> str:
    """Rejections by reason, time-outs excluded."""
    found = [f"{n} {why}" for why, n in row["rejected"].items() if why != "time-out"]
    return ", ".join(found) or "0"


def figure(field: str, row: Row) -> str:
    """A time, seat-seconds, or a number of requests."""
    if field.startswith("wait"):
        return duration_text(row[field])
    return f"{row[field]:.1f}" if field == "seatSeconds" else str(row[field])


def change(field: str, row: Row) -> str:
    """A difference with its sign."""
    return f"{'+' if row[field] > 0 else ''}{figure(field, row)}"


WAITS = {f"wait{part}": f"wait\n{part.lower()}" for part in ("Mean", "P50", "P90", "P99")}
"""Fields of waits, with their headings."""


TALLY_COLUMNS: tuple[Column, ...] = (
    ("executed", partial(figure, "executed")),
    ("queued", partial(figure, "queued")),
    ("rejected", rejections),
    ("timed\nout", lambda row: str(row["rejected"].get("time-out", 0))),
    *((heading, partial(figure, field)) for field, heading in WAITS.items()),
    ("seat-s", partial(figure, "seatSeconds")),
)
LEVEL_COLUMNS: tuple[Column, ...] = (
    ("nominal", lambda row: str(row["nominalLimit"])),
    *TALLY_COLUMNS,
    ("seats\nmean/max", lambda row: f"{row['seatsMean']:.1f}/{row['seatsMax']}"),
    ("borrowed\nmean/max", lambda row: f"{row['borrowedMean']:.1f}/{row['borrowedMax']}"),
)
CHANGED = {"executed": "executed", "queued": "queued", "rejectedTotal": "rejected"}
CHANGE_COLUMNS: tuple[Column, ...] = tuple(
    (heading, partial(change, field))
    for field, heading in {**CHANGED, **WAITS, "seatSeconds": "seat-s"}.items()
)
