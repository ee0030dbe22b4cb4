"""The report of `apfproxy simulate` as text: who gains and who loses, then the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from apfproxy.cli.terminal_text import shown as one_line
from apfproxy.objects.field_errors import counted
from apfproxy.simulation.report_tables import (
    BETTER,
    WORSE,
    ReportTable,
    summaries,
    tables,
)

if TYPE_CHECKING:
    from collections.abc import Collection

PLAIN_WIDTH = 180
"""Columns of output that is not a terminal: wide enough that no row is broken."""

LEAVE_OUT = (
    "conflicts",
    "failures",
    "wait\np50",
    "seats\nmean/max",
    "wait\np90",
    "queued",
    "nominal",
    "seat-s",
    "borrowed\nmean/max",
    "wait\nmean",
    "executed",
    "rejected",
)
"""Headings of what a narrow terminal lacks, the first of these first."""

STYLES = {BETTER: "green", WORSE: "red"}
SIDES = {"loses": "red", "trades": "yellow", "wins": "green", "waits": "yellow"}


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
    for sentence in report["verdict"]:
        side = sentence["side"]
        label = Text(f"{side:<8}", SIDES.get(side, "dim"))
        console.print(label + Text(one_line(sentence["text"])), soft_wrap=not console.is_terminal)
    console.print()
    for warning in report["warnings"]:
        console.print(Text(f"Note: {warning}\n"), soft_wrap=not console.is_terminal)
    for line in summaries(report):
        console.print(Text(one_line(line), style="bold"), soft_wrap=not console.is_terminal)
    for table in tables(report):
        print_table(console, table)


def print_table(console: Console, table: ReportTable) -> None:
    """Print a table; on a narrow terminal columns are left out, not cut: half a number is wrong."""
    left_out: list[str] = []
    while True:
        numbers = drawn(table, left_out, has_names=False)
        # Not the minimum, for which rich would break "1.5 s" in two.
        width = Measurement.get(console, console.options.update(max_width=1000), numbers).maximum
        if width <= console.width or len(left_out) == len(LEAVE_OUT):
            break
        left_out.append(LEAVE_OUT[len(left_out)])
    console.print(drawn(table, left_out))
    gone = [each.replace("\n", " ") for each in table.headings if each in left_out]
    if gone:
        console.print(f"too narrow for: {', '.join(gone)}")
    if table.rest > 0:
        console.print(f"and {counted(table.rest, f'more {table.noun}')} (--top)")


def drawn(table: ReportTable, left_out: Collection[str], *, has_names: bool = True) -> Table:
    """A table with a column for names and others for numbers, which keep their width."""
    made = Table(box=box.SIMPLE, pad_edge=False)
    longest = max(len(table.noun), *(len(name) for name, _ in table.rows))
    made.add_column(table.noun, overflow="fold", min_width=min(18, longest))
    kept = [place for place, heading in enumerate(table.headings) if heading not in left_out]
    for place in kept:
        made.add_column(table.headings[place], justify="right", no_wrap=True)
    for name, cells in table.rows:
        made.add_row(
            Text(one_line(name) if has_names else ""),
            *(Text(cells[place].text, STYLES.get(cells[place].tone, "")) for place in kept),
        )
    return made
