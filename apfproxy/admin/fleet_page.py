"""The admin page `/debug/fleet`: who shares the server's seats, and what each may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from apfproxy.admin.fleet_state import is_current, is_silent, total_demand
from apfproxy.admin.responses import header, page_response, wants_json
from apfproxy.admin.table import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.admin.dumps import Row
    from apfproxy.fleet.view import FleetView, MemberView

PATH = "/debug/fleet"
FLEET_INDEX = {PATH: "the members of the fleet that shares the seats, as text or JSON"}
COLUMNS = (
    "Member",
    "IsSelf",
    "State",
    "Claim",
    "SharePercent",
    "Used",
    "Demand",
    "Limit",
    "IsAlike",
    "SeenSecondsAgo",
)
NO_FLEET = "this proxy shares its seats with no other; see fleet.store in its settings\n"


def member_rows(view: FleetView) -> Iterator[Row]:
    """A row for each member, in the order of the record."""
    for member in view.members:
        yield (
            member.name,
            member.is_self,
            view.state if member.is_self else how_seen(view, member),
            member.claim,
            share_text(member.claim, view.limit),
            member.used,
            total_demand(member),
            member.limit,
            member.is_alike,
            f"{member.age_s:.1f}",
        )


def how_seen(view: FleetView, member: MemberView) -> str:
    """How another member is: `seen`, `silent`, or `unknown` where nothing is heard of anybody."""
    if not is_current(view):
        return "unknown"
    return "silent" if is_silent(member) else "seen"


def share_text(claim: int, limit: int) -> str:
    """A claim in percent of the limit; empty where there is none."""
    return f"{100 * claim / limit:.1f}" if limit else ""


def fleet_route(look: Callable[[], FleetView | None]) -> web.RouteDef:
    """The page with its path; in JSON it is a `FleetView`, or null where there is no fleet."""

    async def show(request: web.Request) -> web.Response:
        view = look()
        if wants_json(header(request, "Accept")):
            body = msgspec.json.encode(view)
            return await page_response(request, body, "application/json; charset=utf-8")
        text = NO_FLEET if view is None else table_text(COLUMNS, member_rows(view))
        body = text.encode(errors="backslashreplace")
        return await page_response(request, body, "text/plain; charset=utf-8")

    return web.get(PATH, show)
