"""`/debug/limits`: the seats of all priority levels, as JSON for `apfproxy limits --admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from apfproxy.admin.responses import page_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.level_summary import LevelsSummary

PATH = "/debug/limits"
LIMITS_INDEX = {PATH: "the seats of every priority level, as JSON"}


def limits_route(summarize: Callable[[], LevelsSummary]) -> web.RouteDef:
    """The page with its path."""

    async def limits(request: web.Request) -> web.Response:
        body = msgspec.json.encode(summarize())
        return await page_response(request, body, "application/json; charset=utf-8")

    return web.get(PATH, limits)
