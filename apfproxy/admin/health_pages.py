"""The pages of every operators' listener: health and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.responses import sliced_response
from apfproxy.base.health_checks import PAGES

if TYPE_CHECKING:
    from apfproxy.admin.metrics import ScrapedPage
    from apfproxy.base.health_checks import HealthRegistry


def health_routes(health: HealthRegistry, metrics: ScrapedPage) -> list[web.RouteDef]:
    """The health pages and `/metrics`."""

    async def show_metrics(request: web.Request) -> web.StreamResponse:
        return await sliced_response(request, metrics.slices(), metrics.content_type)

    async def show_page(request: web.Request) -> web.Response:
        report = health.page(
            request.path.removeprefix("/"),
            verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", []),
        )
        status = 200 if report.is_healthy else 500
        return web.Response(
            text=report.text, status=status, headers={"X-Content-Type-Options": "nosniff"}
        )

    async def show_check(request: web.Request) -> web.Response:
        page = request.path.split("/")[1]
        report = health.check_page(page, request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        return web.Response(text=report.text, status=200 if report.is_healthy else 500)

    routes = [web.get("/metrics", show_metrics)]
    for page in PAGES:
        routes.append(web.route("*", f"/{page}", show_page))
        routes.append(web.route("*", f"/{page}/{{check}}", show_check))
    return routes
