"""A fleet as one member sees it, for pages, metrics and the command line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from apfproxy.fleet.record import member_name

if TYPE_CHECKING:
    from apfproxy.fleet.ledger import Ledger, Report


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One member; seats, but where something else is said.

    Attributes:
        name: Without its epoch; its key where another one has the same name.
        is_self: Whether it is the one that says this.
        limit: Of the server, as its settings have it.
        claim: What it may use.
        used: What its requests hold.
        demand: What they hold and wait for, by the name of the level.
        age_s: Seconds since its last beat was seen here.
        is_alike: Whether it has the same limit, unless that is found, and the same priority levels
            as this one.
        lease_s: Seconds without a beat after which the others take back its claim; 0 if unknown.
        state: That of its lease, of a worker on the pages of all; else "".
    """

    key: str
    name: str
    is_self: bool
    limit: int
    claim: int
    used: int
    demand: dict[str, int]
    age_s: float
    is_alike: bool
    lease_s: float = 0.0
    state: str = ""


class FleetView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fleet.

    Attributes:
        store: Where the record lives, without secrets.
        name: Of the fleet.
        state: That of the member, see `ledger.LeaseState`.
        problem: Why the record is not up to date; "" if it is.
        age_s: Seconds since this member last wrote; None before it did.
        limit: Seats of the server, shared by all.
        claims: Their sum, as last seen.
        claim: Of this member.
        in_force: Seats that it uses at most now: its claim, or less.
        safe_share: Seats that it falls back to while the store is away.
        refreshes, conflicts, failures: How often it wrote, lost a swap to another member, and
            failed to reach the store or to use what it had.
        lost: How many members have ended without leaving, as seen here.
        lost_age_s: Seconds since the last of them was given up; None if there was none.
    """

    store: str
    name: str
    state: str
    problem: str
    age_s: float | None
    limit: int
    claims: int
    claim: int
    in_force: int
    safe_share: int
    refreshes: int
    conflicts: int
    failures: int
    lost: int
    members: tuple[MemberView, ...]
    lost_age_s: float | None = None


def member_views(ledger: Ledger, own: Report, now_s: float, age_s: float) -> tuple[MemberView, ...]:
    """The members as a ledger knows them, by key; the own one wrote `age_s` ago."""
    finds_limit = ledger.assumed is not None  # only the leader names it, the others their bounds
    members = [
        MemberView(
            key=ledger.key,
            name=member_name(ledger.key),
            is_self=True,
            limit=own.limit,
            claim=ledger.claim,
            used=own.used,
            demand={level: seats for level, seats in own.demand.items() if seats},
            age_s=age_s,
            is_alike=True,
            lease_s=ledger.lease_s,
        )
    ]
    members += (
        MemberView(
            key=key,
            name=member_name(key),
            is_self=False,
            limit=each.entry.limit,
            claim=each.entry.claim,
            used=each.entry.used,
            demand=dict(each.entry.demand),
            age_s=now_s - each.since_s,
            is_alike=each.entry.configuration == own.configuration
            and (finds_limit or each.entry.limit == own.limit),
            lease_s=each.lease_s,
        )
        for key, each in ledger.others.items()
    )
    names = Counter(each.name for each in members)
    return tuple(
        each if names[each.name] == 1 else msgspec.structs.replace(each, name=each.key)
        for each in sorted(members, key=lambda each: each.key)
    )
