"""The admin page `/debug/top_flows`: the flows that use most seats, wait and are rejected most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from apfproxy.admin.responses import header, page_response, wants_json
from apfproxy.admin.table import table_text
from apfproxy.admin.top_flows import HALF_LIFE_S, MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apfproxy.admin.top_flows import TopFlows

PATH = "/debug/top_flows"
TOP_FLOWS_INDEX = {
    PATH: "flows that took or waited most lately; ?by=seatSeconds|waitSeconds|rejected, ?limit=20"
}
DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
REJECTED = "rejected"
COLUMNS = ("FlowSchemaName", "PriorityLevelName", "Flow", "SeatSeconds", "WaitSeconds", "Rejected")


def top_flows_route(current: Callable[[], TopFlows | None]) -> web.RouteDef:
    """The page with its path; 404 while nobody gathers them."""

    async def show(request: web.Request) -> web.Response:
        top_flows = current()
        if top_flows is None:
            return web.Response(text="top flows are off (topFlows.enabled)\n", status=404)
        by = request.query.get("by")
        limit = request.query.get("limit", str(DEFAULT_LIMIT))
        if by not in (None, *MEASURES):
            return web.Response(text=f"by must be one of {', '.join(MEASURES)}\n", status=400)
        if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MAX_LIMIT):
            text = f"limit must be a number from 1 to {MAX_LIMIT}\n"
            return web.Response(text=text, status=400)
        flows = top_flows.top(int(limit), MEASURES if by is None else (by,))
        if wants_json(header(request, "Accept")):
            shown = json.dumps(_as_json(top_flows, flows)).encode()
            return await page_response(request, shown, "application/json; charset=utf-8")
        rows = list(map(flow_cells, flows))
        body = table_text(COLUMNS, rows).encode()
        return await page_response(request, body, "text/plain; charset=utf-8")

    return web.get(PATH, show)


def _as_json(top_flows: TopFlows, flows: Sequence[Mapping[str, str | float]]) -> dict[str, Any]:
    return {
        "halfLifeSeconds": HALF_LIFE_S,
        "capacity": top_flows.capacity,
        "measures": top_flows.measures(),
        "flows": flows,
    }


def flow_cells(flow: Mapping[str, str | float]) -> tuple[str, ...]:
    """The row of a flow."""
    return tuple(_cell(name, value) for name, value in flow.items())


def _cell(name: str, value: str | float) -> str:
    if isinstance(value, str):
        # A user's name may have bytes that are no UTF-8, which Python keeps as lone surrogates.
        return value.encode(errors="backslashreplace").decode()
    return f"{value:.0f}" if name == REJECTED else f"{value:.3f}"
