"""`apfproxy limits`: how the server's seats are divided among the priority levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from apfproxy.cli.admin_client import fetch_as, of_cluster
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.fleet_table import fetch_fleet, fleet_table
from apfproxy.cli.offline import is_offline, objects_options, offline_controller
from apfproxy.cli.parameters import admin_option, cluster_option, output_option
from apfproxy.cli.terminal_text import aligned, shown
from apfproxy.flowcontrol.level_summary import (
    LevelsSummary,
    kept_for_nobody,
    shortfalls,
    summarize_levels,
)
from apfproxy.objects.field_errors import counted, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from apfproxy.flowcontrol.level_summary import LevelSummary
    from apfproxy.settings import Address

NO_LIMIT = "any"


def or_any(value: int | None) -> str:
    """A number of seats or percent, of which None is no limit."""
    return NO_LIMIT if value is None else str(value)


COLUMNS: dict[str, tuple[Callable[[LevelSummary], str], str]] = {
    "LEVEL": (lambda each: shown(each.name) + " (draining)" * each.is_quiescing, ""),
    "PRIORITY": (lambda each: str(each.priority or "-"), ""),
    "SHARES": (lambda each: str(each.shares), "shares"),
    "LEND %": (lambda each: str(each.lendable_percent), ""),
    "BORROW %": (
        lambda each: "-" if each.type == "Exempt" else or_any(each.borrowing_limit_percent),
        "",
    ),
    "NOMINAL": (lambda each: str(each.nominal), "nominal"),
    "LENDABLE": (lambda each: str(each.lendable), "lendable"),
    "BORROWING": (lambda each: or_any(each.borrowing), ""),
    "MIN": (lambda each: str(each.minimum), "minimum"),
    "MAX": (lambda each: or_any(each.maximum), ""),
    "CURRENT": (lambda each: str(each.current), "current"),
    "IN USE": (lambda each: str(each.seats_in_use), "seats_in_use"),
}
"""The cell of a level, and the field of the sums of all levels."""

EPILOG = f"""\b
Examples:
  apfproxy limits
  apfproxy limits --admin 10.0.0.7:8081 workload-low catch-all
  apfproxy limits --cluster shop
  apfproxy limits --fleet
  apfproxy limits --offline
  apfproxy limits --objects objects/ --server-concurrency-limit 300 -o json

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.argument("levels", nargs=-1, metavar="[LEVEL]...")
@click.option(
    "--fleet",
    is_flag=True,
    help="Show how the seats are divided among the replicas or workers that share them.",
)
@objects_options
@admin_option
@cluster_option
@output_option
def limits(
    *,
    levels: tuple[str, ...],
    admin: Address,
    cluster: str | None,
    output: str,
    offline: bool,
    fleet: bool,
    **objects: Any,  # noqa: ANN401 - as click gives them
) -> int:
    """Show how the seats are divided among the priority levels.

    A running proxy is asked for its levels.  With --offline, --objects or another flag about the
    configuration no proxy is asked: these are then the limits of an idle one.

    For each level: its priority, if levels have one, its shares, what it may lend and borrow in
    percent, the nominal limit that its shares buy, how many seats it can lend and borrow, the least
    and the most that its limit can be, its current limit, and its seats in use.  The lines below
    the table name levels for which the server has too few seats, or too few to tell them apart, and
    how many are enough.  A member of a fleet shows its own part of the seats.

    With --fleet: each member's claim, which is the most that it may use, its part of the server's
    limit, the seats that its requests hold, those that they hold and wait for, and when its last
    word was seen.  Any member tells of all.
    """
    del offline  # `is_offline` sees it
    is_idle = is_offline(*objects)
    if fleet:
        if levels or is_idle:
            raise click.UsageError(
                "--fleet shows the members of a running proxy's fleet: leave out LEVEL, --offline,"
                " and flags that say what the proxy has, such as --objects"
            )
        view = fetch_fleet(admin, cluster)
        show(view, fleet_table(view, place_of(admin, cluster)), output)
        return OK
    if is_idle:
        summary = summarize_levels(offline_controller(objects.pop("objects"), **objects))
        where = "an idle proxy"
    else:
        summary = fetch_as(admin, of_cluster(cluster, "/debug/limits"), LevelsSummary)
        where = place_of(admin, cluster)
    summary = with_levels(summary, levels)
    show(summary, table(summary, where), output)
    return OK


def show(found: object, lines: Iterator[str], output: str) -> None:
    """Print a record as JSON, or its lines."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    for line in lines:
        click.echo(line)


def place_of(admin: Address, cluster: str | None) -> str:
    """Which proxy is asked, and of which cluster."""
    return admin.url if cluster is None else f"{admin.url}, cluster {cluster}"


def with_levels(summary: LevelsSummary, names: Collection[str]) -> LevelsSummary:
    """The summary with the named levels only, or with all if none is named.

    CommandError for each name that no level has.
    """
    known = [level.name for level in summary.levels]
    problems = [
        shown(f'there is no priority level "{name}"; {suggestion(name, known)}')
        for name in names
        if name not in known
    ]
    if problems:
        raise CommandError(*problems)
    kept = tuple(level for level in summary.levels if not names or level.name in names)
    return msgspec.structs.replace(summary, levels=kept)


def table(summary: LevelsSummary, where: str) -> Iterator[str]:
    """The lines of the table: the levels, the sums of all, and what the server has.

    `where` says whose seats they are: a proxy's, or those of an answer without a proxy.
    """
    columns = dict(COLUMNS)
    if all(level.priority is None for level in summary.levels):
        del columns["PRIORITY"]
    rows = [[cell(level) for cell, _ in columns.values()] for level in summary.levels]
    sums = [str(getattr(summary.sums, field)) if field else "" for _, field in columns.values()]
    rows.append(["sum of all", *sums[1:]])
    header, *lines, last = aligned(tuple(columns), rows, frozenset(range(1, len(columns))))
    shared = summary.shared_limit
    whole = "in all"
    if shared is not None:
        members = "several" if summary.members is None else summary.members
        whole = f"now, of {shared} that {members} members share"
    yield f"{counted(summary.server_concurrency_limit, 'seat')} {whole} ({where})"
    yield ""
    yield click.style(header, bold=True)
    yield from lines
    yield click.style(last, bold=True)
    if shared is None:
        notes = shortfalls(summary)
        if (kept := kept_for_nobody(summary)) is not None:
            notes.append(kept)
    else:  # it may be small for a moment, so its levels say little of the server's
        notes = [
            "All seats here are those of this proxy, and follow what is wanted.  See all members",
            "with --fleet, and the levels of the whole, as they are while idle, with",
            f"--server-concurrency-limit {shared}.",
        ]
    if notes:
        yield ""
        yield from map(shown, notes)
