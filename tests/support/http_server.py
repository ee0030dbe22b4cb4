"""A server of HTTP on the loopback interface."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Have a handler respond to every request; the server's URL, without a slash at its end."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app, scheme="http" if context is None else "https")
    await server.start_server(ssl=context)
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()
