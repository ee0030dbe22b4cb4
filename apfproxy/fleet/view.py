"""A fleet as one member sees it, for pages, metrics and the command line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from apfproxy.fleet.record import member_name

if TYPE_CHECKING:
    from apfproxy.fleet.ledger import Ledger, Report


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One member, in seats, by its name without epoch, or its key where names are the same.

    `age_s` are seconds since its last beat was seen here, `lease_s` 0 if unknown.  It `is_alike` if
    it has the same limit and levels as this one.  `state` is of a worker on the pages of all.
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
    """The fleet, as the member with this `state` sees it; limits are seats.

    `problem` says why the record is not up to date.  The member wrote `age_s` ago; the last of the
    `lost` members ended `lost_age_s` ago, without leaving.
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
            is_alike=(each.entry.limit, each.entry.configuration) == (own.limit, own.configuration),
            lease_s=each.lease_s,
        )
        for key, each in ledger.others.items()
    )
    names = Counter(each.name for each in members)
    return tuple(
        each if names[each.name] == 1 else msgspec.structs.replace(each, name=each.key)
        for each in sorted(members, key=lambda each: each.key)
    )
