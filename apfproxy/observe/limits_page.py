"""`/debug/limits`: the seats of all priority levels, as JSON for `apfproxy limits --admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from apfproxy.flowcontrol.level_summary import summarize_levels
from apfproxy.observe.responses import page_response

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller

PATH = "/debug/limits"
LIMITS_INDEX = {PATH: "the seats of every priority level, as JSON"}


class LimitsPage:
    """The handler of `/debug/limits`.

    Args:
        controller: Whose levels are shown.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def routes(self) -> list[web.RouteDef]:
        """The page with its path."""
        return [web.get(PATH, self.limits)]

    async def limits(self, request: web.Request) -> web.Response:
        """Show the levels."""
        body = msgspec.json.encode(summarize_levels(self._controller))
        return await page_response(request, body, "application/json; charset=utf-8")
