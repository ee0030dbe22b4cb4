"""How the listeners are served that the proxy itself is not: with bounds on what clients may do.

1. A connection without a whole request head ends after `IDLE_S`, whether nothing or too little
   came.
2. One whose client takes nothing of what is written for it ends after `LOOKS` times `LOOK_S`: a
   watch would keep its memory for as long as it lasts, another answer for good.
3. Bodies stay as they are encoded: Kubernetes decodes none, and a small one may unfold to any size.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterable

IDLE_S = 90.0
"""Between requests, and for the head of one: Kubernetes' time for idle connections."""
LINE_BYTES = 64 * 1024
"""Of a target or a header field, which hold long selectors: as much as the proxy lets through."""
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


def runner_of(app: web.Application, *, shutdown_s: float) -> web.AppRunner:
    """What serves an application.

    Args:
        app: Answers requests.
        shutdown_s: For answers that are under way at its end; then connections are cut.
    """
    # A runner logs each request by default, and takes signals that are the command's.  Watches
    # must notice that their clients are gone, which aiohttp tells only by cancelling.
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=shutdown_s,
        keepalive_timeout=IDLE_S,
        auto_decompress=False,
        max_line_size=LINE_BYTES,
        max_field_size=LINE_BYTES,
    )

    async def look() -> None:
        clients = StalledClients()
        while True:
            await asyncio.sleep(LOOK_S)
            found = runner.server.connections if runner.server is not None else ()
            clients.look((each, each.transport) for each in found if each.transport is not None)

    async def looking(_app: web.Application) -> AsyncIterator[None]:
        task = spawn(look(), name="looking for stalled clients")
        yield
        task.cancel()

    app.cleanup_ctx.append(looking)
    return runner
