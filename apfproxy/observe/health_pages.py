"""The pages of every operators' listener: health and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.observe.health import PAGES
from apfproxy.observe.responses import header, sliced_response

if TYPE_CHECKING:
    from apfproxy.observe.health import HealthRegistry
    from apfproxy.observe.metrics import ScrapedPage


class HealthPages:
    """Handlers of the health pages and of `/metrics`."""

    def __init__(self, health: HealthRegistry, metrics: ScrapedPage) -> None:
        self._health = health
        self._metrics = metrics

    def routes(self) -> list[web.RouteDef]:
        """Every page with its path."""
        routes = [web.get("/metrics", self.metrics)]
        for page in PAGES:
            routes.append(web.route("*", f"/{page}", self.health))
            routes.append(web.route("*", f"/{page}/{{check}}", self.health_check))
        return routes

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answer a scrape."""
        content_type, slices = self._metrics.slices(header(request, "Accept"))
        return await sliced_response(request, slices, content_type)

    async def health(self, request: web.Request) -> web.Response:
        """Answer for `/livez`, `/readyz` or `/healthz`."""
        report = self._health.page(
            request.path.removeprefix("/"),
            verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", []),
        )
        status = 200 if report.is_healthy else 500
        return web.Response(
            text=report.text, status=status, headers={"X-Content-Type-Options": "nosniff"}
        )

    async def health_check(self, request: web.Request) -> web.Response:
        """Answer for one check of a health page."""
        page = request.path.split("/")[1]
        report = self._health.check_page(page, request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        return web.Response(text=report.text, status=200 if report.is_healthy else 500)
