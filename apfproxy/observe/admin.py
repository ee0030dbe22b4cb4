"""The admin listener's pages: metrics, health, and the debug dumps.

Everything shown is read when it is asked for.  The pages name users and paths; the listener is
meant for the operator's network alone.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.observe.dumps import (
    PRIORITY_LEVEL_COLUMNS,
    QUEUE_COLUMNS,
    priority_level_rows,
    queue_rows,
    request_columns,
    request_rows,
    request_views,
)
from apfproxy.observe.health import PAGES
from apfproxy.observe.negotiation import accepts_gzip, wants_json
from apfproxy.observe.table import table_json, table_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.observe.dumps import Row
    from apfproxy.observe.health import HealthRegistry
    from apfproxy.observe.metrics import MetricsPage

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DUMPS = "/debug/api_priority_and_fairness"

INDEX = {
    "/metrics": "metrics for Prometheus, as text or OpenMetrics",
    "/livez": "whether the process works",
    "/readyz": "whether it should get traffic; ?verbose lists the checks",
    "/healthz": "all that is not about shutting down",
    f"{DUMPS}/dump_priority_levels": "every priority level and what it did",
    f"{DUMPS}/dump_queues": "every queue and what waits in it",
    f"{DUMPS}/dump_requests": "every waiting or executing request; ?includeRequestDetails=1",
}

MIN_COMPRESSED_BYTES = 1024
"""Below about one packet compressing saves no time."""

GZIP_LEVEL = 1
"""Metrics shrink to a tenth even at the fastest level; the best one takes four times as long."""


class AdminPages:
    """Handlers of the admin listener; see `build_admin_app`."""

    def __init__(
        self,
        controller: Controller,
        metrics: MetricsPage,
        health: HealthRegistry,
        wall_offset_ns: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._metrics = metrics
        self._health = health
        self._wall_offset_ns = wall_offset_ns

    def routes(self) -> list[web.RouteDef]:
        """Every page with its path."""
        routes = [
            web.get("/", self.index),
            web.get("/metrics", self.metrics),
            web.get(f"{DUMPS}/dump_priority_levels", self.dump_priority_levels),
            web.get(f"{DUMPS}/dump_queues", self.dump_queues),
            web.get(f"{DUMPS}/dump_requests", self.dump_requests),
        ]
        for page in PAGES:
            routes.append(web.get(f"/{page}", self.health))
            routes.append(web.get(f"/{page}/{{check}}", self.health_check))
        return routes

    async def index(self, request: web.Request) -> web.Response:
        """Say what is there."""
        if wants_json(header(request, "Accept")):
            return web.json_response({"paths": list(INDEX)})
        width = max(map(len, INDEX))
        lines = [f"{path:<{width}}  {what}\n" for path, what in INDEX.items()]
        return web.Response(text="".join(lines))

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape."""
        body, content_type = await self._metrics.render(header(request, "Accept"))
        return await _response(request, body, content_type)

    async def health(self, request: web.Request) -> web.Response:
        """Answer for `/livez`, `/readyz` or `/healthz`."""
        report = self._health.page(
            request.path.removeprefix("/"),
            verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", []),
        )
        return web.Response(text=report.text, status=200 if report.is_healthy else 500)

    async def health_check(self, request: web.Request) -> web.Response:
        """Answer for one check of a health page."""
        page = request.path.split("/")[1]
        report = self._health.check_page(page, request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        return web.Response(text=report.text, status=200 if report.is_healthy else 500)

    async def dump_priority_levels(self, request: web.Request) -> web.Response:
        """List the priority levels."""
        rows = priority_level_rows(self._controller)
        return await _table(request, PRIORITY_LEVEL_COLUMNS, lambda: rows)

    async def dump_queues(self, request: web.Request) -> web.Response:
        """List the queues."""
        rows = queue_rows(self._controller)
        return await _table(request, QUEUE_COLUMNS, lambda: rows)

    async def dump_requests(self, request: web.Request) -> web.Response:
        """List the requests."""
        with_details = bool(request.query.get("includeRequestDetails"))
        views, offset_ns = request_views(self._controller), self._wall_offset_ns()
        return await _table(
            request,
            request_columns(with_details=with_details),
            lambda: request_rows(views, offset_ns, with_details=with_details),
        )


def build_admin_app(
    controller: Controller,
    metrics: MetricsPage,
    health: HealthRegistry,
    wall_offset_ns: Callable[[], int],
) -> web.Application:
    """The application that the admin listener serves.

    Args:
        controller: Whose levels, queues and requests the dumps show.
        metrics: Renders `/metrics`.
        health: Checks of the health pages.
        wall_offset_ns: Nanoseconds since 1970 less the controller's clock, now.
    """
    app = web.Application(middlewares=[plain_errors])
    app.add_routes(AdminPages(controller, metrics, health, wall_offset_ns).routes())
    return app


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Point from an unknown path to the index, and keep pages out of caches and sniffers."""
    try:
        response = await handler(request)
    except web.HTTPNotFound:
        response = web.Response(text="404 page not found; / lists what there is\n", status=404)
    response.headers.setdefault("Cache-Control", "no-cache, private")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    return response


def header(request: web.Request, name: str) -> str:
    """All values of a header as one list; empty without any."""
    return ",".join(request.headers.getall(name, []))


async def _table(
    request: web.Request, columns: Sequence[str], rows: Callable[[], Sequence[Row]]
) -> web.Response:
    """A dump, made in a thread: there may be many thousands of requests.

    Args:
        request: Says how the dump is wanted.
        columns: The names of the columns.
        rows: Makes the rows from what was read of the controller before.
    """
    if wants_json(header(request, "Accept")):
        text = await asyncio.to_thread(lambda: table_json(columns, rows()))
        return await _response(request, text.encode(), "application/json; charset=utf-8")
    text = await asyncio.to_thread(lambda: table_text(columns, rows()))
    # A user's name may hold bytes that are no UTF-8, which Python keeps as lone surrogates.
    body = text.encode(errors="backslashreplace")
    return await _response(request, body, "text/plain; charset=utf-8")


async def _response(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """An answer, compressed in a thread if it is long and the client takes it so."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if len(body) >= MIN_COMPRESSED_BYTES and accepts_gzip(header(request, "Accept-Encoding")):
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)
