"""Runs an application of aiohttp on connections that have places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web, web_response

from apfproxy.admin.live_page import EVENTS_PATH
from apfproxy.admin.slices import SAFETY
from apfproxy.app.places import IDLE_S, LASTING_TEXT, RETRY_S
from apfproxy.request.attributes import AttributesError, parse_attributes

if TYPE_CHECKING:
    import asyncio

    from aiohttp.typedefs import Handler

    from apfproxy.app.admin_access import AdminAccess
    from apfproxy.app.places import Places


LINE_BYTES = 64 * 1024
"""Of a target, which holds long selectors: as much as the proxy lets through."""
FIELD_BYTES = 16 * 1024
MAX_FIELDS = 64
"""Of header fields, so that a head has 1 MiB at most: clients send a dozen, the longest a token."""

MAX_SLASHES = 64
"""In a path: aiohttp looks for the page of a path with each of its beginnings, before anything else
asks who may read it, so that a second of processor time would pass over 64 KiB of slashes."""

# Else it has the versions of Python and aiohttp.  A signal of the application would not do: answers
# to what is no request pass by it.
web_response.SERVER_SOFTWARE = "apfproxy"  # type: ignore[attr-defined]  # it is not listed


class WebRunner:
    """An application, on connections that somebody else accepts.

    Bodies stay as they are encoded: Kubernetes decodes none, and a small one may unfold to any
    size.  Answers that are under way at its end have `shutdown_s`; then connections are cut.
    `access` says who may read; None for everybody.
    """

    def __init__(
        self,
        app: web.Application,
        places: Places,
        access: AdminAccess | None = None,
        *,
        shutdown_s: float,
    ) -> None:
        self._places = places
        self._access = access
        app.middlewares.insert(0, self.handle)
        # A runner logs each request by default, and takes signals that are the command's.  Watches
        # must notice that their clients are gone, which aiohttp tells only by cancelling.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=shutdown_s,
            keepalive_timeout=IDLE_S,
            auto_decompress=False,
            max_line_size=LINE_BYTES,
            max_field_size=FIELD_BYTES,
            max_headers=MAX_FIELDS,
        )

    async def start(self) -> None:
        """Begin what the application does beside requests."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "it was set up"
        find_page = server.request_handler

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            if request.raw_path.partition("?")[0].count("/") > MAX_SLASHES:
                return web.Response(text="404 page not found\n", status=404, headers=SAFETY)
            return await find_page(request)

        server.request_handler = answer

    def protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        server = self._runner.server
        assert server is not None, "it was started"
        return server()

    async def close(self) -> None:
        """Let answers that are under way have their time, then cut their connections."""
        await self._runner.cleanup()

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep account of a request; the outermost middleware of the application."""
        place = self._places.of(request.transport)
        if self._access is not None:
            shown = request.headers.getall("Authorization", [])
            if not self._access.may_read(request.path, shown, request.transport):
                has_credentials = bool(shown) or self._access.has_certificate(request.transport)
                address = "" if place is None else place.address
                self._access.refuse(address, has_credentials=has_credentials)
                return unauthorized(asks_for_tokens=self._access.asks_for_tokens)
        if place is None:
            return await handler(request)  # its client is gone
        is_lasting = lasts(request)
        if is_lasting and not self._places.has_room_for_lasting:
            self._places.refuse_lasting()
            return web.Response(text=LASTING_TEXT, status=503, headers={"Retry-After": RETRY_S})
        with self._places.handling(place, is_lasting=is_lasting):
            return await handler(request)


def unauthorized(*, asks_for_tokens: bool) -> web.Response:
    """401, with which a browser asks for a password where there are tokens."""
    wanted = "a token of adminReadTokenFile, as bearer token or as password" * asks_for_tokens
    response = web.Response(
        text=f"401: {wanted or 'a client certificate'} is needed to read this listener\n",
        status=401,
        headers=SAFETY,
    )
    response.headers.add("WWW-Authenticate", 'Bearer realm="apfproxy"')
    if asks_for_tokens:
        response.headers.add("WWW-Authenticate", 'Basic realm="apfproxy", charset="UTF-8"')
    return response


def lasts(request: web.Request) -> bool:
    """Whether an answer lasts for as long as its client wants: a watch, or the live page's events.

    This takes time linear in the target, as reading it does.
    """
    path = request.path
    if path == EVENTS_PATH or (path.startswith("/clusters/") and path.endswith(EVENTS_PATH)):
        return True
    try:
        attributes = parse_attributes(request.method, request.rel_url.raw_path_qs.encode())
    except AttributesError:
        return False
    return attributes.verb == "watch"
