"""An API server on the loopback interface that answers reviews as a test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from apfproxy.authn.upstream_api import UpstreamApi
from apfproxy.settings import Address, EndpointAddress
from tests.support.http_server import serving

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

TOKEN = "eyJhbGciOiJub25lIn0.c2VjcmV0.c2lnbmF0dXJl"  # noqa: S105 - of no one
OWN_TOKEN = b"own-token-of-the-proxy"
ADDRESS = "192.0.2.1"

Answer = Any
"""An object for JSON, bytes, a number for a status, or a response."""


class ScriptedApi:
    """The server."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.connections: set[object] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_asked = asyncio.Event()
        self.waits: list[float] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        question = await request.json()
        self.asked.append(question)
        self.paths.append(request.path)
        self.heads.append(dict(request.headers))
        self.connections.add(request.transport)
        self.is_asked.set()
        await self.may_answer.wait()
        answer = self.answer(question)
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        if isinstance(answer, int):
            return web.Response(status=answer, text=f"about {question}")
        return web.json_response(answer, status=201)

    async def sleep(self, wait_s: float) -> None:
        """Wait no time between attempts, but keep how long it would have been."""
        self.waits.append(wait_s)


@asynccontextmanager
async def scripted(
    answer: Callable[[dict[str, Any]], Answer],
    *,
    server_ssl: ssl.SSLContext | None = None,
    ssl_context: Callable[[], ssl.SSLContext | None] = lambda: None,
    token: Callable[[], bytes | None] = lambda: OWN_TOKEN,
    max_concurrent: int = 4,
    timeout_s: float = 30.0,
    server_name: str | None = None,
    host: str | None = None,
) -> AsyncIterator[tuple[ScriptedApi, UpstreamApi]]:
    script = ScriptedApi(answer)
    async with serving(script.handle, server_ssl) as url:
        port, is_tls = int(url.rpartition(":")[2]), server_ssl is not None
        address = Address(host="127.0.0.1", port=port, is_tls=is_tls)
        api = UpstreamApi(
            lambda _: EndpointAddress(address=address),
            ssl_context,
            token,
            max_concurrent,
            timeout_s,
            server_name=server_name,
            host=host,
            sleep=script.sleep,
        )
        try:
            yield script, api
        finally:
            script.may_answer.set()
            await api.close()
