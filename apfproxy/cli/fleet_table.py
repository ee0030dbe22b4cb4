"""The members of a fleet as `apfproxy limits --fleet` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from apfproxy.cli.admin_client import fetch_json, of_cluster, read_as
from apfproxy.cli.errors import CommandError
from apfproxy.cli.terminal_text import aligned, shown
from apfproxy.fleet.standing import Standing
from apfproxy.fleet.view import FleetView
from apfproxy.observe.amounts import counted, duration_text, number_text
from apfproxy.observe.fleet_findings import fleet_findings
from apfproxy.observe.fleet_page import PATH, share_text
from apfproxy.observe.fleet_state import OF_WORKERS, fleet_state, is_silent, total_demand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.fleet.view import MemberView
    from apfproxy.settings import Address

COLUMNS = ("MEMBER", "CLAIM", "SHARE %", "USED", "DEMAND", "LIMIT", "SEEN")
LONGEST_NAME = 60


def fetch_fleet(admin: Address, cluster: str | None) -> FleetView:
    """The fleet of a running proxy; CommandError if there is no proxy, or it has no fleet."""
    answer = fetch_json(admin, of_cluster(cluster, PATH), "give its own --admin address")
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
    fleet = "" if is_of_workers else f" of the fleet {shown(view.name)}, {shown(view.store)}"
    yield f"{counted(view.limit, 'seat')} for {counted(len(view.members), noun)}{fleet} ({where})"
    yield ""
    rows = [_row(member, view.limit, is_of_workers) for member in view.members]
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
    for _, text in fleet_findings(fleet_state(view)):
        yield shown(text)


def own_line(view: FleetView) -> str:
    """How the member that is asked stands."""
    seats = f"uses at most {counted(view.in_force, 'seat')}"
    if view.state == Standing.HOLDING:
        written = "" if view.age_s is None else f", written {duration_text(view.age_s)} ago"
        return f"this one holds {number_text(view.claim)} and {seats}{written}"
    return f"this one is {shown(view.state)} and {seats}"


def _row(member: MemberView, limit: int, is_of_workers: bool) -> list[str]:
    is_own = member.is_self and not is_of_workers
    name = shown(member.name[:LONGEST_NAME])
    seen = f"{duration_text(member.age_s)} ago" + (", silent" if is_silent(member) else "")
    return [
        name + (" (this one)" if is_own else ""),
        str(member.claim),
        share_text(member.claim, limit),
        str(member.used),
        str(total_demand(member)),
        str(member.limit) + ("" if member.is_alike else " (unlike)"),
        "" if is_own else seen,
    ]
