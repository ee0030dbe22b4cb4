"""`apfproxy limits`: how the server's seats are divided among priority levels, or a fleet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from apfproxy.admin.amounts import duration_text, number_text
from apfproxy.admin.live_state import OF_WORKERS, fleet_json
from apfproxy.admin.state import total_demand
from apfproxy.admin.tables import how_seen, share_text
from apfproxy.admin.verdict import fleet_findings, limit_text
from apfproxy.cli.admin_client import fetch, of_cluster
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.offline import controller_of_flags, is_offline, objects_options
from apfproxy.cli.parameters import admin_options, aligned, fitted, output_option
from apfproxy.fleet.ledger import LeaseState
from apfproxy.fleet.view import FleetView
from apfproxy.flowcontrol.level_summary import (
    LevelsSummary,
    kept_for_nobody,
    shortfalls,
    summarize_levels,
)
from apfproxy.objects.field_errors import counted, one_line, suggestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from apfproxy.cli.parameters import AdminAddress
    from apfproxy.fleet.view import MemberView
    from apfproxy.flowcontrol.level_summary import LevelSummary

LONGEST_NAME = 60

COLUMNS = {
    "LEVEL": "name",
    "PRIORITY": "priority",
    "SHARES": "shares",
    "LEND %": "lendable_percent",
    "BORROW %": "borrowing_limit_percent",
    "NOMINAL": "nominal",
    "LENDABLE": "lendable",
    "BORROWING": "borrowing",
    "MIN": "minimum",
    "MAX": "maximum",
    "CURRENT": "current",
    "IN USE": "seats_in_use",
}
"""The field of a level, of which the sums of all levels may have one, too."""
MEMBER_COLUMNS = ("MEMBER", "CLAIM", "SHARE %", "USED", "DEMAND", "LIMIT", "SEEN")
STANDS: dict[str, str] = {
    LeaseState.JOINING: "this one has not joined yet, and",
    LeaseState.EXPIRED: "the lease of this one is over; without the record it",
    LeaseState.PARTITIONED: "this one is without the record, and",
}
"""How a member stands that holds nothing."""

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
@admin_options
@output_option
def limits(
    *,
    levels: tuple[str, ...],
    admin: AdminAddress,
    cluster: str | None,
    output: str,
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
    how many are enough.  A member of a fleet shows its own part of the seats.  Where the server
    limit is found (--server-concurrency-limit auto) a line says since when it is so, and why; with
    -o json there are the last ten decisions and the goodput by concurrency, too.

    With --fleet: each member's claim, which is the most that it may use, its part of the server's
    limit, the seats that its requests hold, those that they hold and wait for, and when its last
    word was seen.  Any member tells of all.
    """
    is_idle = is_offline(*objects)
    where = admin.url if cluster is None else f"{admin.url}, cluster {cluster}"
    found: FleetView | LevelsSummary
    if fleet:
        if levels or is_idle:
            raise click.UsageError(
                "--fleet shows the members of a running proxy's fleet: leave out LEVEL, --offline,"
                " and flags that say what the proxy has, such as --objects"
            )
        found = fetch_fleet(admin, cluster)
        lines = fleet_table(found, where)
    else:
        if is_idle:
            whole: LevelsSummary = summarize_levels(controller_of_flags(**objects))
            where = "an idle proxy"
        else:
            whole = fetch(admin, of_cluster(cluster, "/debug/limits"), LevelsSummary)
        found = with_levels(whole, levels)
        lines = table(found, where)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        click.echo("\n".join(lines))
    return OK


def with_levels(summary: LevelsSummary, names: Collection[str]) -> LevelsSummary:
    """The summary of the named levels, or all; CommandError with a line for each unknown name."""
    known = [level.name for level in summary.levels]
    problems = [
        one_line(f'there is no priority level "{name}"; {suggestion(name, known)}')
        for name in names
        if name not in known
    ]
    if problems:
        raise CommandError(*problems)
    kept = tuple(level for level in summary.levels if not names or level.name in names)
    return msgspec.structs.replace(summary, levels=kept)


def cell(level: LevelSummary, field: str) -> str:
    value = getattr(level, field)
    if field == "name":
        return one_line(value) + " (draining)" * level.is_quiescing
    is_exempt = level.type == "Exempt" and field == "borrowing_limit_percent"
    if is_exempt or (field == "priority" and not value):
        return "-"
    return "any" if value is None else str(value)


def table(summary: LevelsSummary, where: str) -> Iterator[str]:
    """The lines: the levels, the sums of all, and what the server has too few seats for."""
    columns = dict(COLUMNS)
    if all(level.priority is None for level in summary.levels):
        del columns["PRIORITY"]
    rows = [[cell(level, field) for field in columns.values()] for level in summary.levels]
    sums = [str(getattr(summary.sums, field, "")) for field in columns.values()]
    shared = summary.shared_limit
    whole = "in all"
    if shared is not None:
        members = "several members share"
        if summary.members is not None:
            members = f"{counted(summary.members, 'member')} share{'s' * (summary.members == 1)}"
        whole = f"now, of {shared} that {members}"
    yield f"{counted(summary.server_concurrency_limit, 'seat')} {whole} ({where})"
    if summary.found_limit is not None:
        yield fitted(limit_text(summary.found_limit, time.time()))
    yield ""
    yield from with_sums(tuple(columns), rows, sums[1:])
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
        yield from (fitted(one_line(each)) for each in notes)


def with_sums(columns: Sequence[str], rows: list[list[str]], sums: Sequence[str]) -> Iterator[str]:
    rows = [*rows, ["sum of all", *sums]]
    header, *lines, last = aligned(columns, rows, frozenset(range(1, len(columns))))
    yield click.style(header, bold=True)
    yield from lines
    yield click.style(last, bold=True)


def fetch_fleet(admin: AdminAddress, cluster: str | None) -> FleetView:
    target = of_cluster(cluster, "/debug/fleet")
    found: FleetView | None = fetch(admin, target, FleetView | None, "give its own --admin address")
    if found is None:
        raise CommandError(
            f"the proxy at {admin.url} shares its seats with no other; serve --workers or --fleet"
            " makes it one of several"
        )
    return found


def fleet_table(view: FleetView, where: str) -> Iterator[str]:
    """The lines: what is shared, the members, their sums, and what is wrong."""
    is_of_workers = view.store == OF_WORKERS  # whose parent is asked, which is none of them

    def row(member: MemberView) -> list[str]:
        silent = ", silent" if how_seen(view, member) == "silent" else ""
        is_own = member.is_self and not is_of_workers
        return [
            one_line(member.name[:LONGEST_NAME]),
            str(member.claim),
            share_text(member.claim, view.limit),
            str(member.used),
            str(total_demand(member)),
            str(member.limit) + ("" if member.is_alike else " (unlike)"),
            "this one" if is_own else f"{duration_text(member.age_s)} ago{silent}",
        ]

    members = counted(len(view.members), "worker" if is_of_workers else "member")
    of = "" if is_of_workers else f" of the fleet {one_line(view.name)}"
    yield f"{counted(view.limit, 'seat')} for {members}{of} ({where})"
    if not is_of_workers:
        yield f"record in {one_line(view.store)}"
    yield ""
    used = sum(member.used for member in view.members)
    demand = sum(map(total_demand, view.members))
    sums = (view.claims, share_text(view.claims, view.limit), used, demand, "", "")
    yield from with_sums(MEMBER_COLUMNS, list(map(row, view.members)), list(map(str, sums)))
    yield ""
    if not is_of_workers:
        yield own_line(view)
    for _, text in fleet_findings(fleet_json(view)):
        yield one_line(text)


def own_line(view: FleetView) -> str:
    seats = f"uses at most {counted(view.in_force, 'seat')}"
    if view.state == LeaseState.HELD:
        written = "" if view.age_s is None else f", written {duration_text(view.age_s)} ago"
        return f"this one holds {number_text(view.claim)} and {seats}{written}"
    return f"{STANDS.get(view.state, 'this one')} {seats}"
