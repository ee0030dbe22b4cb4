"""The admin listener's pages: the live page, metrics, health, and the debug dumps.

Everything is read at the request.  The pages name users and paths; the listener is meant for the
operator's network only.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from apfproxy.admin.dumps import (
    PRIORITY_LEVEL_COLUMNS,
    QUEUE_COLUMNS,
    priority_level_rows,
    queue_rows,
    request_columns,
    request_rows,
    request_views,
)
from apfproxy.admin.endpoints_page import ENDPOINTS_INDEX, endpoints_route
from apfproxy.admin.explain_page import EXPLAIN_INDEX
from apfproxy.admin.fleet_page import FLEET_INDEX, fleet_route
from apfproxy.admin.limits_page import LIMITS_INDEX, limits_route
from apfproxy.admin.live_history import SAMPLE_S
from apfproxy.admin.live_page import LIVE_INDEX, LivePage
from apfproxy.admin.live_state import LiveInputs
from apfproxy.admin.objects_page import OBJECTS_INDEX, objects_route
from apfproxy.admin.responses import (
    header,
    own_names_only,
    page_response,
    plain_errors,
    wants_json,
    wants_page,
)
from apfproxy.admin.several_clusters import CLUSTERS_INDEX
from apfproxy.admin.table import table_json, table_text
from apfproxy.admin.top_flows_page import TOP_FLOWS_INDEX, top_flows_route
from apfproxy.admin.web import health_routes
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring
from apfproxy.flowcontrol.level_summary import summarize_levels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from apfproxy.admin.dumps import Row
    from apfproxy.admin.endpoint_state import EndpointView
    from apfproxy.admin.several_clusters import SeveralClusters
    from apfproxy.admin.top_flows import TopFlows
    from apfproxy.admin.web import Metrics
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.level_summary import LevelsSummary

DUMPS = "/debug/api_priority_and_fairness"

INDEX = {
    "/metrics": "metrics for Prometheus, as text",
    "/livez": "whether the process works",
    "/readyz": "whether it should get traffic; ?verbose lists the checks",
    "/healthz": "whether the process works, also while it shuts down",
}
DUMPS_INDEX = {
    f"{DUMPS}/dump_priority_levels": "every priority level and what it did",
    f"{DUMPS}/dump_queues": "every queue and what waits in it",
    f"{DUMPS}/dump_requests": "every waiting or executing request; ?includeRequestDetails=1",
}

ITEMS_AT_ONCE = 500
"""Items of a dump that are read at once, which takes 1 ms."""

Item = TypeVar("Item")

BY_ACCEPT = {"Vary": "Accept"}

API_INDEX = {
    "/apis": "the objects, for kubectl --server",
    "/openapi/v2": "what they look like",
    "/openapi/v3": "the same by group",
    "/version": "the version of Kubernetes that this behaves as",
}


def build_admin_app(  # noqa: PLR0913, PLR0917  what each page shows
    controller: Controller,
    metrics: Metrics,
    health: HealthRegistry,
    wall_offset_ns: Callable[[], int],
    api_routes: Sequence[web.RouteDef] = (),
    live_inputs: LiveInputs | None = None,
    top_flows: Callable[[], TopFlows | None] | None = None,
    explain_page: web.RouteDef | None = None,
    summarize: Callable[[], LevelsSummary] | None = None,
    endpoints: Callable[[], Sequence[EndpointView]] | None = None,
    fleet: Callable[[], FleetView | None] | None = None,
) -> web.Application:
    """The application that the admin listener serves; what is None or empty has no page.

    `wall_offset_ns` gives nanoseconds since 1970 less the controller's clock, now.  `summarize`
    says how the seats are divided; by default nothing is known of the settings.
    """
    live = LivePage(controller, live_inputs or LiveInputs())
    index, routes = cluster_routes(
        controller, wall_offset_ns, top_flows, explain_page, summarize, endpoints, fleet
    )
    index = {**INDEX, **index, **(API_INDEX if api_routes else {})}
    app = web.Application(middlewares=[plain_errors, own_names_only])
    app.add_routes([index_route(index, live.page), *health_routes(health, metrics), *routes])
    live.add_to(app)
    app.add_routes(api_routes)
    return app


def cluster_routes(
    controller: Controller,
    wall_offset_ns: Callable[[], int],
    top_flows: Callable[[], TopFlows | None] | None,
    explain_page: web.RouteDef | None,
    summarize: Callable[[], LevelsSummary] | None,
    endpoints: Callable[[], Sequence[EndpointView]] | None,
    fleet: Callable[[], FleetView | None] | None = None,
) -> tuple[dict[str, str], list[web.RouteDef]]:
    """The pages of a cluster, but those of its live page, and their part of the index."""
    index = {**DUMPS_INDEX, **LIVE_INDEX, **LIMITS_INDEX, **OBJECTS_INDEX}
    routes = dump_routes(controller, wall_offset_ns)
    routes.append(limits_route(summarize or partial(summarize_levels, controller)))
    routes.append(objects_route(controller))
    if explain_page is not None:
        index.update(EXPLAIN_INDEX)
        routes.append(explain_page)
    if top_flows is not None:
        index.update(TOP_FLOWS_INDEX)
        routes.append(top_flows_route(top_flows))
    if endpoints is not None:
        index.update(ENDPOINTS_INDEX)
        routes.append(endpoints_route(endpoints))
    if fleet is not None:
        index.update(FLEET_INDEX)
        routes.append(fleet_route(fleet))
    return index, routes


def build_clusters_app(
    clusters: SeveralClusters, metrics: Metrics, health: HealthRegistry
) -> web.Application:
    """The application of the admin listener where there are several clusters."""
    app = web.Application(middlewares=[plain_errors, own_names_only])
    index = {**INDEX, **CLUSTERS_INDEX}
    app.add_routes(
        [
            index_route(index, clusters.page),
            web.get("/page/{path:.+}", clusters.file),
            *health_routes(health, metrics),
            *clusters.routes(),
        ]
    )

    async def sampling(_app: web.Application) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        every = Recurring(Part.LIVE_PAGE, loop, SAMPLE_S, math.inf, clusters.sample)
        every.start()
        yield
        every.stop()

    async def close(_app: web.Application) -> None:
        clusters.close()

    app.cleanup_ctx.append(sampling)
    app.on_shutdown.append(close)
    return app


def index_route(
    index: Mapping[str, str], page: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.RouteDef:
    """The list of the pages; a browser gets a page."""

    async def show(request: web.Request) -> web.StreamResponse:
        if "cluster" in request.query or wants_page(header(request, "Accept")):
            return await page(request)
        if wants_json(header(request, "Accept")):
            return web.json_response({"paths": list(index)}, headers=BY_ACCEPT)
        width = max(map(len, index))
        lines = [f"{path:<{width}}  {what}\n" for path, what in index.items()]
        return web.Response(text="".join(lines), headers=BY_ACCEPT)

    return web.get("/", show)


def dump_routes(controller: Controller, wall_offset_ns: Callable[[], int]) -> list[web.RouteDef]:
    """The dumps of priority levels, queues and requests."""

    async def dump_priority_levels(request: web.Request) -> web.Response:
        rows = await gathered(priority_level_rows(controller))
        return await _table(request, PRIORITY_LEVEL_COLUMNS, lambda: rows)

    async def dump_queues(request: web.Request) -> web.Response:
        rows = await gathered(queue_rows(controller))
        return await _table(request, QUEUE_COLUMNS, lambda: rows)

    async def dump_requests(request: web.Request) -> web.Response:
        with_details = bool(request.query.get("includeRequestDetails"))
        views = await gathered(request_views(controller))
        offset_ns = wall_offset_ns()
        return await _table(
            request,
            request_columns(with_details=with_details),
            lambda: request_rows(views, offset_ns, with_details=with_details),
        )

    handlers = (dump_priority_levels, dump_queues, dump_requests)
    return [web.get(f"{DUMPS}/{handler.__name__}", handler) for handler in handlers]


async def gathered(items: Iterator[Item]) -> list[Item]:
    """All items, read in steps between which other tasks run."""
    found: list[Item] = []
    while some := list(islice(items, ITEMS_AT_ONCE)):
        found += some
        await asyncio.sleep(0)
    return found


async def _table(
    request: web.Request, columns: Sequence[str], rows: Callable[[], Sequence[Row]]
) -> web.Response:
    """A dump, made in a thread: there may be many thousands of requests."""
    if wants_json(header(request, "Accept")):
        text = await asyncio.to_thread(lambda: table_json(columns, rows()))
        return await page_response(request, text.encode(), "application/json; charset=utf-8")
    text = await asyncio.to_thread(lambda: table_text(columns, rows()))
    # A user's name may have bytes that are no UTF-8, which Python keeps as lone surrogates.
    body = text.encode(errors="backslashreplace")
    return await page_response(request, body, "text/plain; charset=utf-8")
