"""What is wrong with the fleet that shares the seats, in words; see `verdict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.admin.amounts import counted, duration_text, name_text, number_text
from apfproxy.admin.findings import ERROR, NOTE, WARNING, cut, listed
from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from apfproxy.admin.findings import Finding

    Json = Mapping[str, Any]

RECENT_S = 300
"""For so long it is told that a member was lost."""


def seats_here(state: Json) -> int:
    """Seats that the requests of this proxy may have in all."""
    fleet = state.get("fleet")
    return int(fleet["inForce"] if fleet else state["serverConcurrencyLimit"])


def claims_above_limit(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The members may use more than there is.

    It is so while a limit is lowered, or after the store lost what was written last.
    """
    fleet = state.get("fleet")
    if fleet and fleet["claims"] > fleet["limit"]:
        have = f"the {members_of(fleet)} may use {counted(fleet['claims'], 'seat')}"
        yield ERROR, f"{have}, more than the limit of {number_text(fleet['limit'])}"


def record_away(state: Json, _unix_s: float) -> Iterator[Finding]:
    """This member cannot write to the record."""
    fleet = state.get("fleet")
    if not fleet or (fleet["state"] == LeaseState.HELD and not fleet["problem"]):
        return
    of = "the workers' record" if fleet["isOfWorkers"] else "the fleet's record"
    lasting = "" if fleet["age"] is None else f" for {duration_text(fleet['age'])}"
    seats = f"{number_text(fleet['inForce'])} of {counted(fleet['limit'], 'seat')}"
    why = cut(fleet["problem"]) or f"the proxy uses {seats}"
    yield WARNING, f"{of} has not been written{lasting}: {why}"


def members_silent(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Members of which nothing is heard, though the record can be read; or that were given up."""
    fleet = state.get("fleet")
    if not fleet or fleet["state"] != LeaseState.HELD or fleet["problem"]:
        return  # nothing is heard of anybody
    silent = [each for each in fleet["members"] if each["isSilent"]]
    if silent:
        names = [f"{name_text(each['name'])} for {duration_text(each['age'])}" for each in silent]
        seats = counted(sum(each["claim"] for each in silent), "seat")
        end = "its lease ends" if len(silent) == 1 else "their leases end"
        yield WARNING, f"nothing is heard of {listed(names)}: {seats} may be idle until {end}"
    if fleet["lostAge"] is not None and fleet["lostAge"] <= RECENT_S:
        ago = f"{duration_text(fleet['lostAge'])} ago"
        one = "worker" if fleet["isOfWorkers"] else "member of the fleet"
        why = "it was killed, hangs or lost the store"
        yield NOTE, f"the lease of a {one} ended {ago}: {why}; the others share its seats"


def members_unlike(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Members whose limit or levels are others: their seats are divided by different rules."""
    fleet = state.get("fleet")
    if not fleet:
        return
    unlike = [each for each in fleet["members"] if not each["isAlike"]]
    if unlike:
        own = fleet["limit"]
        names = [
            name_text(each["name"])
            + (f" (limit {number_text(each['limit'])})" if each["limit"] != own else "")
            for each in unlike
        ]
        have = "has" if len(unlike) == 1 else "have"
        what = "another limit or other priority levels than this proxy"
        least = "; the least limit counts" if any(each["limit"] != own for each in unlike) else ""
        yield WARNING, f"{listed(names)} {have} {what}{least}"


RULES = (claims_above_limit, record_away, members_silent, members_unlike)


def fleet_findings(fleet: Json) -> list[Finding]:
    """All that is wrong with a fleet, as `fleet_state` has it."""
    return [finding for rule in RULES for finding in rule({"fleet": fleet}, 0.0)]


def members_of(fleet: Json) -> str:
    """What shares the seats, and how many."""
    noun = "worker" if fleet["isOfWorkers"] else "member"
    text = counted(fleet["memberCount"], noun)
    return text if fleet["isOfWorkers"] else f"{text} of the fleet"
