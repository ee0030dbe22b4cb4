"""The report as tables, which the text and the page draw alike.

Of two configurations a cell says `A → B`, or one value where both have the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.simulation.amounts import duration_text
from apfproxy.simulation.report import BOTH, changed_name
from apfproxy.simulation.winners import LEAST_PART_OF_WAIT, LEAST_SERVED, LEAST_WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = dict[str, Any]
    Column = tuple[str, Callable[[Row], "Cell"]]
    """A heading, and the cell of a row."""

BETTER, WORSE = "better", "worse"


class Cell(NamedTuple):
    """What stands in a cell; `tone` is `BETTER`, `WORSE` or nothing."""

    text: str
    tone: str = ""


class TableRow(NamedTuple):
    """A name, and the cells after it."""

    name: str
    cells: tuple[Cell, ...]


class ReportTable(NamedTuple):
    """A table.

    Attributes:
        title: In the plural.
        noun: What a row is.
        headings: Of the cells; a line break may stand in them.
        rest: How many rows are not listed.
    """

    title: str
    noun: str
    headings: tuple[str, ...]
    rows: tuple[TableRow, ...]
    rest: int


def tables(report: Row) -> list[ReportTable]:
    """The tables of a report, without those that have no rows, or say what another says."""
    configurations = report["configurations"]
    groups = [("Priority levels", "priority level", "levels", level_name)]
    groups.append(("Flows", "flow", "flows", flow_name))
    if not all(map(are_flows_clients, configurations)):
        groups.append(("Clients", "client", "clients", client_name))
    found = []
    for title, noun, group, name in groups:
        if "difference" in report:
            rows = [row for row in report["difference"][group] if says_something(row)]
            columns = LEVEL_CHANGES if group == "levels" else CHANGES
        else:
            rows = [row for row in configurations[0][group] if row["requests"]]
            columns = LEVEL_COLUMNS if group == "levels" else COLUMNS
        listed = max(len(each[group]) for each in configurations)
        in_all = max(each.get(f"{group}InAll", listed) for each in configurations)
        if rows:
            made = tuple(
                TableRow(marked(name, row), tuple(cell(row) for _, cell in columns)) for row in rows
            )
            headings = tuple(heading for heading, _ in columns)
            found.append(ReportTable(title, noun, headings, made, in_all - listed))
    return found


def summaries(report: Row) -> list[str]:
    """A line about each configuration."""
    return [
        f"{letter}{each['name']}: {requests(each['total']['requests'])} in {span(each)},"
        f" {each['total']['executed']:,} executed, {each['total']['queued']:,} of them queued,"
        f" {each['total']['rejectedTotal']:,} rejected{exceptions(each['total'])}"
        for letter, each in lettered(report["configurations"])
    ]


def lettered(configurations: list[Row]) -> list[tuple[str, Row]]:
    """Each configuration with what its lines begin with."""
    letters = ("A: ", "B: ") if len(configurations) > 1 else ("",)
    return list(zip(letters, configurations, strict=True))


def requests(number: int) -> str:
    """So many requests."""
    return f"{number:,} request{'' if number == 1 else 's'}"


def span(configuration: Row) -> str:
    """How long a configuration was looked at, in words."""
    warm_up_s = configuration["warmUpSeconds"]
    after = f" after a warm-up of {warm_up_s:g} s" if warm_up_s else ""
    return f"{configuration['seconds']:.1f} s{after}"


def exceptions(total: Row) -> str:
    """Of all requests, those whose time ended first, and those that take no seats, if any."""
    cut_off, without_seats = total["cutOff"], total["withoutSeats"]
    return (f", {cut_off:,} cut off when their time was over" if cut_off else "") + (
        f", {without_seats:,} long-running ones without seats" if without_seats else ""
    )


def are_flows_clients(configuration: Row) -> bool:
    """Whether a table of clients would say the same as that of flows."""
    flows = [row["flow"] for row in configuration["flows"]]
    return flows == [row["client"] for row in configuration["clients"]]


def says_something(row: Row) -> bool:
    """Whether there were requests in a configuration, or only one of them has it."""
    sides = (row["before"], row["after"])
    return row["presence"] != BOTH or any(side and side["requests"] for side in sides)


def marked(name: Callable[[Row], str], row: Row) -> str:
    """The name, with a mark on what is not in both configurations."""
    return changed_name(name(row), row) if "presence" in row else name(row)


def level_name(row: Row) -> str:
    """The name of a level."""
    return str(row["priorityLevel"])


def flow_name(row: Row) -> str:
    """The name of a flow, with its FlowSchema."""
    return f"{row['flowSchema']}/{row['flow']}" if row["flow"] else str(row["flowSchema"])


def client_name(row: Row) -> str:
    """The name of a client."""
    return str(row["client"])


def rejections(row: Mapping[str, Any]) -> str:
    """Rejections by reason."""
    found = [f"{count:,} {why}" for why, count in row["rejected"].items()]
    return ", ".join(found) or "0"


def figure(name: str, row: Mapping[str, Any]) -> str:
    """A time, seat-seconds, or a number of requests or seats."""
    if name == "rejected":
        return rejections(row)
    if name.startswith("wait"):
        return duration_text(row[name])
    return f"{row[name]:,.1f}" if name == "seatSeconds" else f"{row[name]:,}"


def plain(name: str, row: Row) -> Cell:
    """The figure of one configuration."""
    return Cell(figure(name, row))


def pair(name: str, row: Row) -> Cell:
    """The figures of both configurations; nothing stands for what one does not have."""
    before, after = row["before"], row["after"]
    texts = ["-" if side is None else figure(name, side) for side in (before, after)]
    text = texts[0] if texts[0] == texts[1] else " → ".join(texts)
    return Cell(text, tone(name, before, after) if before and after else "")


def tone(name: str, before: Row, after: Row) -> str:
    """Whether a difference is one that somebody would notice, and a good one."""
    field = "rejectedTotal" if name == "rejected" else name
    if field not in GOOD:
        return ""
    more = after[field] - before[field]
    larger = max(after[field], before[field])
    is_wait = field.startswith("wait")
    least = max(LEAST_WAIT_S, LEAST_PART_OF_WAIT * larger) if is_wait else LEAST_SERVED * larger
    if not more or abs(more) < least:
        return ""
    return BETTER if (more > 0) is GOOD[field] else WORSE


GOOD = {
    "executed": True,
    "rejectedTotal": False,
    "waitP50": False,
    "waitP99": False,
}
"""Whether more of it is better; of other fields neither is."""

WAITS = {f"wait{part}": f"wait\n{part.lower()}" for part in ("Mean", "P50", "P90", "P99")}
"""Fields of waits, with their headings."""
COUNTS = {"executed": "executed", "queued": "queued", "rejected": "rejected"}
SEATS = {"seatSeconds": "seat-s"}


COLUMNS: tuple[Column, ...] = tuple(
    (heading, partial(plain, name)) for name, heading in {**COUNTS, **WAITS, **SEATS}.items()
)
LEVEL_COLUMNS: tuple[Column, ...] = (
    ("nominal", partial(plain, "nominalLimit")),
    *COLUMNS,
    ("seats\nmean/max", lambda row: Cell(f"{row['seatsMean']:.1f}/{row['seatsMax']}")),
    ("borrowed\nmean/max", lambda row: Cell(f"{row['borrowedMean']:.1f}/{row['borrowedMax']}")),
)
CHANGES: tuple[Column, ...] = tuple(
    (heading, partial(pair, name))
    for name, heading in {
        **COUNTS,
        "waitP50": WAITS["waitP50"],
        "waitP99": WAITS["waitP99"],
        **SEATS,
    }.items()
)
LEVEL_CHANGES: tuple[Column, ...] = (
    ("nominal", partial(pair, "nominalLimit")),
    # Requests that go to another level make neither level better or worse.
    *((heading, lambda row, cell=cell: Cell(cell(row).text)) for heading, cell in CHANGES),
)
