"""The fleet that shares the server's seats, as the live page's JSON has it.

Ages are whole seconds, so that the state of a fleet in which nothing happens does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.admin.live_recent import displayable
from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.fleet.view import FleetView, MemberView

MAX_MEMBERS = 64
"""With a line of their own on the page; those that are well are left out first."""

SILENT_PART = 0.7
"""Of its lease, after which a member is silent.  It writes at least three times in that time, and
looking as seldom may miss one of them."""
SILENT_S = 4.0
"""Without a beat, where the lease is not known."""

OF_WORKERS = "the parent process"
"""The store of the workers of one machine, in words."""


def fleet_state(view: FleetView) -> dict[str, Any]:
    """The state now; seats, and seconds.

    `used` and `demand` are sums over the members, as they last said.
    """
    members = view.members
    return {
        "store": displayable(view.store),
        "name": displayable(view.name),
        "isOfWorkers": view.store == OF_WORKERS,
        "state": view.state,
        "problem": displayable(view.problem),
        "age": None if view.age_s is None else int(view.age_s),
        "limit": view.limit,
        "claims": view.claims,
        "claim": view.claim,
        "inForce": view.in_force,
        "safeShare": view.safe_share,
        "used": sum(member.used for member in members),
        "demand": sum(total_demand(member) for member in members),
        "failures": view.failures,
        "lost": view.lost,
        "lostAge": None if view.lost_age_s is None else int(view.lost_age_s),
        "memberCount": len(members),
        "silentCount": sum(map(is_silent, members)),
        "unlikeCount": sum(not member.is_alike for member in members),
        "members": [member_state(member) for member in shown(members)],
    }


def member_state(member: MemberView) -> dict[str, Any]:
    """The state of one."""
    return {
        "name": displayable(member.name),
        "isSelf": member.is_self,
        "isSilent": is_silent(member),
        "isAlike": member.is_alike,
        "limit": member.limit,
        "claim": member.claim,
        "used": member.used,
        "demand": total_demand(member),
        "age": int(member.age_s),
        "lease": member.lease_s,
    }


def is_current(view: FleetView) -> bool:
    """Whether what is known of the others is of now: the record can be read and written."""
    return view.state == LeaseState.HELD and not view.problem


def is_silent(member: MemberView) -> bool:
    """Whether nothing was heard of it for so long that it may be gone; of another member."""
    return not member.is_self and member.age_s > (SILENT_PART * member.lease_s or SILENT_S)


def total_demand(member: MemberView) -> int:
    """Seats that its requests hold and wait for."""
    return sum(member.demand.values())


def shown(members: Sequence[MemberView], most: int = MAX_MEMBERS) -> Sequence[MemberView]:
    """The one that looks, those that are not well, and the others by name; so many at most."""

    def rank(member: MemberView) -> tuple[bool, bool, str]:
        is_well = member.is_alike and not is_silent(member)
        return not member.is_self, is_well, member.key

    return sorted(members, key=rank)[:most]
