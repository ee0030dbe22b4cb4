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


def limits_route(controller: Controller) -> web.RouteDef:
    """The page with its path."""

    async def limits(request: web.Request) -> web.Response:
        body = msgspec.json.encode(summarize_levels(controller))
        return await page_response(request, body, "application/json; charset=utf-8")

    return web.get(PATH, limits)
