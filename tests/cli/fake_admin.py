"""An admin listener that gives one response to everything."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.cli.parameters import AdminAddress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def listening(status: int, body: bytes, target: str) -> AsyncIterator[AdminAddress]:
    async def handle(request: web.Request) -> web.Response:
        assert (request.path_qs, request.headers["Accept"]) == (target, "application/json")
        return web.Response(status=status, body=body)

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    async with TestServer(application) as server:
        yield AdminAddress(host="127.0.0.1", port=server.port or 0)
