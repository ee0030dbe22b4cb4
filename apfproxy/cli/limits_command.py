"""`apfproxy limits`: how the server's seats are divided among the priority levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from apfproxy.cli.admin_client import fetch_as
from apfproxy.cli.errors import EXIT_CODES, OK
from apfproxy.cli.offline import objects_options, offline_controller, refuse_with_admin
from apfproxy.cli.parameters import admin_option, output_option
from apfproxy.cli.terminal_text import aligned, shown
from apfproxy.flowcontrol.level_summary import LevelsSummary, shortfalls, summarize_levels
from apfproxy.observe.limits_page import PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.flowcontrol.level_summary import LevelSummary
    from apfproxy.settings import Address

COLUMNS = (
    "LEVEL",
    "SHARES",
    "LEND %",
    "BORROW %",
    "NOMINAL",
    "LENDABLE",
    "BORROWING",
    "MIN",
    "MAX",
    "CURRENT",
    "IN USE",
)
NO_LIMIT = "any"

EPILOG = f"""\b
Examples:
  apfproxy limits --server-concurrency-limit 300
  apfproxy limits --objects objects/ -o json
  apfproxy limits --admin http://127.0.0.1:8081

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@objects_options
@admin_option
@output_option
def limits(admin: Address | None, output: str, **objects: Any) -> int:  # noqa: ANN401 - as click gives them
    """Show how the seats are divided among the priority levels.

    For each level: its shares, what it may lend and borrow in percent, the nominal limit that its
    shares buy, how many seats it can lend and borrow, the least and the most that its limit can be,
    its current limit, and its seats in use.  Without --admin the current limits are those of an
    idle proxy.  The lines below the table name levels for which the server has too few seats, and
    how many are enough.
    """
    if admin is None:
        summary = summarize_levels(offline_controller(objects.pop("objects"), **objects))
    else:
        refuse_with_admin(objects)
        summary = fetch_as(admin, PATH, LevelsSummary)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2))
    else:
        for line in table(summary):
            click.echo(line)
    return OK


def table(summary: LevelsSummary) -> Iterator[str]:
    """The lines of the table: the levels, their sums, and what the server has."""
    sums = summary.sums
    rows = [_row(level) for level in summary.levels]
    rows.append(
        [
            f"sum of {len(summary.levels)}",
            str(sums.shares),
            "",
            "",
            str(sums.nominal),
            str(sums.lendable),
            "",
            str(sums.minimum),
            "",
            str(sums.current),
            str(sums.seats_in_use),
        ]
    )
    header, *lines, last = aligned(COLUMNS, rows, frozenset(range(1, len(COLUMNS))))
    yield f"{summary.server_concurrency_limit} seats of the server"
    yield ""
    yield click.style(header, bold=True)
    yield from lines
    yield click.style(last, bold=True)
    notes = shortfalls(summary)
    if notes:
        yield ""
        yield from map(shown, notes)


def _row(level: LevelSummary) -> list[str]:
    is_exempt = level.type == "Exempt"
    if level.borrowing_limit_percent is None:
        borrowing_percent = "-" if is_exempt else NO_LIMIT
    else:
        borrowing_percent = str(level.borrowing_limit_percent)
    return [
        shown(level.name) + (" (draining)" if level.is_quiescing else ""),
        str(level.shares),
        str(level.lendable_percent),
        borrowing_percent,
        str(level.nominal),
        str(level.lendable),
        NO_LIMIT if level.borrowing is None else str(level.borrowing),
        str(level.minimum),
        NO_LIMIT if level.maximum is None else str(level.maximum),
        str(level.current),
        str(level.seats_in_use),
    ]
