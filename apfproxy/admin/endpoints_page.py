"""The admin page `/debug/endpoints`: each of the servers behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.endpoint_state import endpoint_states
from apfproxy.admin.go_format import ZERO_TIME, time_text
from apfproxy.admin.responses import header, page_response, wants_json
from apfproxy.admin.table import table_json, table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apfproxy.admin.dumps import Row
    from apfproxy.admin.endpoint_state import EndpointView

PATH = "/debug/endpoints"
ENDPOINTS_INDEX = {PATH: "every server behind, its state and its load"}
COLUMNS = (
    "Endpoint",
    "State",
    "Since",
    "Weight",
    "SharePercent",
    "Seats",
    "RequestsInFlight",
    "IdleConnections",
    "Answers",
    "Failures",
    "Ejections",
    "Problem",
)
NS_PER_S = 1_000_000_000


def endpoint_rows(views: Sequence[EndpointView]) -> Iterator[Row]:
    """A row for each, in the order in which they are named; those that are drained come last.

    The answers and failures are those since the start; without a known begin of its state the time
    is Go's zero.
    """
    for view, state in zip(views, endpoint_states(views, most=len(views)), strict=True):
        since, counters = state["since"], view.endpoint.counters
        yield (
            state["url"],
            state["state"],
            ZERO_TIME if since is None else time_text(round(since) * NS_PER_S),
            state["weight"],
            f"{100 * state['share']:.1f}",
            state["seats"],
            state["inFlight"],
            state["connections"]["idle"],
            sum(counters.answers.values()),
            sum(counters.failures.values()),
            state["ejections"],
            state["problem"] or "",
        )


def endpoints_route(views: Callable[[], Sequence[EndpointView]]) -> web.RouteDef:
    """The page with its path."""

    async def show(request: web.Request) -> web.Response:
        rows = list(endpoint_rows(views()))
        if wants_json(header(request, "Accept")):
            text = table_json(COLUMNS, rows)
            return await page_response(request, text.encode(), "application/json; charset=utf-8")
        body = table_text(COLUMNS, rows).encode(errors="backslashreplace")
        return await page_response(request, body, "text/plain; charset=utf-8")

    return web.get(PATH, show)
