"""Serves an application of aiohttp on listening sockets, with bounds on what clients may do.

Each handshake takes the certificate of the moment.  Bodies stay as they are encoded: Kubernetes
decodes none, and a small one may unfold to any size.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from aiohttp import ClientConnectionResetError, web, web_response

from apfproxy.admin.places import BACKLOG, IDLE_S, Ending, Place, Places
from apfproxy.admin.responses import SAFETY
from apfproxy.base.faults import Part
from apfproxy.base.health_checks import PAGES
from apfproxy.base.sockets import Acceptor, is_unix, port_of
from apfproxy.base.tasks import Recurring, spawn
from apfproxy.request.attributes import AttributesError, parse_attributes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from aiohttp.typedefs import Handler

    from apfproxy.admin.access import AdminAccess
    from apfproxy.base.health_checks import HealthRegistry

    Checks = Callable[[web.Request, str, str], HealthRegistry]
    """The checks of a health page by its name, or with another name of the page of one check."""

EVENTS_PATH = "/events"
SWEEP_S = 1.0
"""Between two looks for connections whose time is over."""
HANDSHAKE_S = 10.0

LINE_BYTES = 64 * 1024
"""Bounds a target, which holds long selectors: as much as the proxy lets through."""
FIELD_BYTES = 16 * 1024
MAX_FIELDS = 64
"""Bounds fields, so that a head has 1 MiB at most: clients send a dozen, the longest a token."""

MAX_SLASHES = 64
"""In a path: aiohttp looks for the page of a path with each of its beginnings, before anything else
asks who may read it, so that a second of processor time would pass over 64 KiB of slashes."""

# Else it has the versions of Python and aiohttp.  A signal of the application would not do:
# responses to what is no request pass by it.
web_response.SERVER_SOFTWARE = "apfproxy"  # type: ignore[attr-defined]  # it is not listed

TOO_MANY = "as many watches and event streams are open as may be; close one, or try again\n"

log = logging.getLogger(__name__)


class WebListener:
    """An application on connections of listening sockets; without `access` all may read."""

    def __init__(
        self,
        app: web.Application,
        places: Places,
        access: AdminAccess | None = None,
        *,
        shutdown_s: float,
        max_fields: int = MAX_FIELDS,
    ) -> None:
        self.places = places
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
            max_headers=max_fields,
        )
        self._loop = loop = asyncio.get_running_loop()
        # One at once: what makes way has to be gone, or there are no descriptors for clients.
        self._acceptor = Acceptor(loop, self._take, lambda: round(loop.time() * 1e9), at_once=1)
        self._sweeping = Recurring(Part.ADMIN, loop, SWEEP_S, math.inf, places.sweep)

    def __repr__(self) -> str:
        return f"<WebListener: {self.places}>"

    @property
    def sockets(self) -> list[socket.socket]:
        return self._acceptor.sockets

    @property
    def port(self) -> int | None:
        return port_of(self.sockets)

    async def start(self, listeners: Sequence[socket.socket], *, backlog: int = BACKLOG) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "it was set up"
        find_page = server.request_handler

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            if request.raw_path.partition("?")[0].count("/") > MAX_SLASHES:
                return web.Response(text="404 page not found\n", status=404, headers=SAFETY)
            try:
                return await find_page(request)
            except ClientConnectionResetError:
                return web.Response()  # which its client, that is gone, does not get

        server.request_handler = respond
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(backlog)
        self._acceptor.listen(listeners)
        self._sweeping.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        for listener in self._acceptor.stop():
            listener.close()

    async def close(self) -> None:
        """Let responses that are under way have their time, then cut all connections."""
        self.stop_accepting()
        await self._runner.cleanup()
        self._sweeping.stop()
        for place in self.places:
            place.abort()

    def _take(self, client: socket.socket) -> None:
        server = self._runner.server
        assert server is not None, "it was started"
        try:
            peer = client.getpeername()
        except OSError:
            peer = None  # it is gone, as the loop will see
        place = Place(self.places, server(), str(peer[0]) if isinstance(peer, tuple) else "")
        place.handshake = spawn(self._begin(client, place), name="beginning a connection")
        place.handshake.add_done_callback(lambda _: self._on_begun(client, place))

    async def _begin(self, client: socket.socket, place: Place) -> None:
        context = None if self._access is None or is_unix(client) else self._access.context
        client.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: place,
                client,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_S,
            )
        except OSError as error:
            log.debug("no connection with %s: %s", place.address, error)

    def _on_begun(self, client: socket.socket, place: Place) -> None:
        if place.transport is None:
            if self.places.give_back(place):
                self.places.count(Ending.HANDSHAKE)
            client.close()

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep account of a request; the outermost middleware of the application."""
        place = self.places.of(request.protocol)
        access = self._access
        if access is not None and (refusal := access.refusal(request)) is not None:
            access.record(refusal, "" if place is None else place.address)
            return unauthorized(asks_for_tokens=access.asks_for_tokens)
        if place is None:
            return await handler(request)  # its client is gone
        is_lasting = lasts(request)
        if is_lasting and not self.places.has_room_for_lasting:
            self.places.count(Ending.LONG_LIVED)
            return web.Response(text=TOO_MANY, status=503, headers={"Retry-After": "1"})
        with self.places.handling(place, is_lasting=is_lasting):
            return await handler(request)


def unauthorized(*, asks_for_tokens: bool) -> web.Response:
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
    """Whether a response lasts for as long as its client wants: a watch, or events of a page."""
    path = request.path
    if path == EVENTS_PATH or (path.startswith("/clusters/") and path.endswith(EVENTS_PATH)):
        return True
    try:
        attributes = parse_attributes(request.method, request.rel_url.raw_path_qs.encode())
    except AttributesError:
        return False
    return attributes.verb == "watch"


def health_routes(checks: Checks) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.Response:
        _, page, *rest = request.path.split("/", 2)
        check = "".join(rest)
        found = checks(request, page, check)
        report = (
            found.check_page(page, check)
            if check
            else found.page(
                page,
                verbose="verbose" in request.query,
                excluded=request.query.getall("exclude", []),
            )
        )
        if report is None:
            raise web.HTTPNotFound
        return web.Response(
            text=report.text,
            status=200 if report.is_healthy else 500,
            headers={"X-Content-Type-Options": "nosniff"},
        )

    paths = [f"/{page}{rest}" for page in PAGES for rest in ("", "/{check:.+}")]
    return [web.route("*", path, show) for path in paths]
