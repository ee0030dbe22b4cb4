"""How the listeners are served that the proxy itself is not: with bounds on what clients may do.

1. A connection without a whole request head ends after `IDLE_S`, whether nothing or too little
   came; `places` says how many connections there may be, and who has to make way.
2. One whose client takes nothing of what is written for it ends after `LOOKS` times `LOOK_S`: a
   watch would keep its memory for as long as it lasts, another answer for good.
3. Bodies stay as they are encoded: Kubernetes decodes none, and a small one may unfold to any size.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from apfproxy.app.places import Place, Places
from apfproxy.duties import Recurring
from apfproxy.faults import Part

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterable

    from apfproxy.settings import Address

IDLE_S = 90.0
"""Between requests, and for the head of one: Kubernetes' time for idle connections."""
LINE_BYTES = 64 * 1024
"""Of a target, which holds long selectors: as much as the proxy lets through."""
FIELD_BYTES = 16 * 1024
MAX_FIELDS = 64
"""Of header fields, so that a head has 1 MiB at most: clients send a dozen, the longest a token."""
BACKLOG = 1024
"""Connections that the kernel holds for us; a client beyond tries again after a second."""
SWEEP_S = 1.0
"""Between two looks at whose time is over."""
LOOK_S = 20.0
"""Between two looks at what clients have taken."""
LOOKS = 3
"""In a row at which nothing was taken; fewer could be a coincidence of sizes."""


class Writing(Protocol):
    """What is needed of a transport."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the client is yet to take."""

    def abort(self) -> None:
        """Cut the connection at once."""


class StalledClients:
    """Cuts connections of clients that take nothing."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, int]] = {}  # bytes to be taken, looks they are so

    def __repr__(self) -> str:
        return f"<StalledClients: {len(self._seen)} are to take something>"

    def look(self, connections: Iterable[tuple[Hashable, Writing]]) -> None:
        """Compare with the looks before.

        Args:
            connections: All of them, each with its transport.
        """
        seen: dict[Hashable, tuple[int, int]] = {}
        for connection, transport in connections:
            size = transport.get_write_buffer_size()
            if size == 0:
                continue
            before, looks = self._seen.get(connection, (0, 0))
            looks = looks + 1 if size == before else 0
            if looks == LOOKS:
                transport.abort()
            else:
                seen[connection] = size, looks
        self._seen = seen


class Listener:
    """An application of aiohttp at one address.

    Args:
        app: Answers requests; nothing may be added to it any more.
        places: For its connections.
        shutdown_s: For answers that are under way at its end; then connections are cut.
    """

    def __init__(self, app: web.Application, places: Places, *, shutdown_s: float) -> None:
        self.places = places
        app.middlewares.insert(0, places.handle)
        app.cleanup_ctx.append(self._looking)
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
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Listener at {self.addresses}, {self.places!r}>"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Those that are listened on, host and port."""
        sockets = () if self._server is None else self._server.sockets
        return [each.getsockname()[:2] for each in sockets]

    async def start(self, address: Address, *, backlog: int = BACKLOG) -> None:
        """Listen.

        Args:
            address: Where.
            backlog: Connections that the kernel holds for us.

        Raises:
            OSError: It cannot be listened on.
        """
        await self._runner.setup()
        inner = self._runner.server
        assert inner is not None, "it is set up"
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Place(self.places, inner()), address.host, address.port, backlog=backlog
        )

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Let answers that are under way have their time, then cut all connections."""
        self.stop_accepting()
        await self._runner.cleanup()

    async def _looking(self, _app: web.Application) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        clients = StalledClients()

        def look() -> None:
            clients.look((each, each.transport) for each in self.places)

        duties = [
            Recurring(Part.ADMIN, loop, LOOK_S, math.inf, look),
            Recurring(Part.ADMIN, loop, SWEEP_S, math.inf, self.places.sweep),
        ]
        for duty in duties:
            duty.start()
        yield
        for duty in duties:
            duty.stop()
