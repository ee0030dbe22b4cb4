"""The members of a fleet as `apfproxy limits --fleet` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from apfproxy.admin.amounts import counted, duration_text, number_text
from apfproxy.admin.live_state import OF_WORKERS, fleet_json
from apfproxy.admin.state import total_demand
from apfproxy.admin.tables import how_seen, share_text
from apfproxy.admin.verdict import fleet_findings
from apfproxy.cli.admin_client import fetch_json, of_cluster, read_as
from apfproxy.cli.errors import CommandError
from apfproxy.cli.terminal_text import aligned, shown
from apfproxy.fleet.ledger import LeaseState
from apfproxy.fleet.view import FleetView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.fleet.view import MemberView
    from apfproxy.settings import Address

COLUMNS = ("MEMBER", "CLAIM", "SHARE %", "USED", "DEMAND", "LIMIT", "SEEN")
LONGEST_NAME = 60
STANDS: dict[str, str] = {
    LeaseState.JOINING: "this one has not joined yet, and",
    LeaseState.EXPIRED: "the lease of this one is over; without the record it",
    LeaseState.PARTITIONED: "this one is without the record, and",
}
"""How a member stands that holds nothing."""


def fetch_fleet(admin: Address, cluster: str | None) -> FleetView:
    """The fleet of a running proxy; CommandError if there is no proxy, or it has no fleet."""
    answer = fetch_json(admin, of_cluster(cluster, "/debug/fleet"), "give its own --admin address")
    if answer is None:
        raise CommandError(
            f"the proxy at {admin.url} shares its seats with no other; serve --workers or --fleet"
            " makes it one of several"
        )
    return read_as(admin, answer, FleetView)


def fleet_table(view: FleetView, where: str) -> Iterator[str]:
    """The lines: what is shared, the members, their sums, and what is wrong.

    `where` says which member is asked.
    """
    is_of_workers = view.store == OF_WORKERS  # whose parent is asked, which is none of them
    noun = "worker" if is_of_workers else "member"
    of = "" if is_of_workers else f" of the fleet {shown(view.name)}"
    yield f"{counted(view.limit, 'seat')} for {counted(len(view.members), noun)}{of} ({where})"
    if not is_of_workers:
        yield f"record in {shown(view.store)}"
    yield ""
    rows = [_row(view, member, is_of_workers) for member in view.members]
    used = sum(member.used for member in view.members)
    demand = sum(total_demand(member) for member in view.members)
    shares = share_text(view.claims, view.limit)
    rows.append(["sum of all", str(view.claims), shares, str(used), str(demand), "", ""])
    header, *lines, last = aligned(COLUMNS, rows, frozenset(range(1, len(COLUMNS) - 1)))
    yield click.style(header, bold=True)
    yield from lines
    yield click.style(last, bold=True)
    yield ""
    if not is_of_workers:
        yield own_line(view)
    for _, text in fleet_findings(fleet_json(view)):
        yield shown(text)


def own_line(view: FleetView) -> str:
    """How the member that is asked stands."""
    seats = f"uses at most {counted(view.in_force, 'seat')}"
    if view.state == LeaseState.HELD:
        written = "" if view.age_s is None else f", written {duration_text(view.age_s)} ago"
        return f"this one holds {number_text(view.claim)} and {seats}{written}"
    return f"{STANDS.get(view.state, 'this one')} {seats}"


def _row(view: FleetView, member: MemberView, is_of_workers: bool) -> list[str]:
    is_own = member.is_self and not is_of_workers
    silent = ", silent" if how_seen(view, member) == "silent" else ""
    return [
        shown(member.name[:LONGEST_NAME]),
        str(member.claim),
        share_text(member.claim, view.limit),
        str(member.used),
        str(total_demand(member)),
        str(member.limit) + ("" if member.is_alike else " (unlike)"),
        "this one" if is_own else f"{duration_text(member.age_s)} ago{silent}",
    ]
