"""Listens for connections that are bounded by `Places`.

1. A connection without a whole request head is closed, whether nothing or too little came.
   `places` says when, how many connections there may be, and which is closed for another.
2. A connection whose client takes nothing of what is written for it ends after `LOOKS` times
   `LOOK_S`: a watch would keep its memory for as long as it lasts, another answer for ever.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from apfproxy.app.places import Place, Places
from apfproxy.duties import Recurring
from apfproxy.faults import Part
from apfproxy.listen_sockets import port_of, serve_on

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

BACKLOG = 1024
"""Connections that the kernel holds for us; a client beyond tries again after a second."""
SWEEP_S = 1.0
"""Between two looks for connections whose time is over."""
LOOK_S = 20.0
"""Between two looks at what clients have taken."""
LOOKS = 3
"""In a row at which nothing was taken; fewer could be a coincidence of sizes."""


class StalledClients:
    """Cuts connections of clients that take nothing."""

    def __init__(self) -> None:
        self._seen: dict[asyncio.Transport, tuple[int, int]] = {}  # bytes to be taken, looks so far

    def look(self, transports: Iterable[asyncio.Transport]) -> None:
        """Compare all connections with the looks before."""
        seen: dict[asyncio.Transport, tuple[int, int]] = {}
        for transport in transports:
            size = transport.get_write_buffer_size()
            if size == 0:
                continue
            before, looks = self._seen.get(transport, (0, 0))
            looks = looks + 1 if size == before else 0
            if looks == LOOKS:
                transport.abort()
            else:
                seen[transport] = size, looks
        self._seen = seen


class Listener:
    """Connections that come to some listening sockets."""

    def __init__(self, make: Callable[[], asyncio.Protocol], places: Places) -> None:
        self.places = places
        self._make = make
        loop = asyncio.get_running_loop()
        self._clients = StalledClients()
        self._duties = (
            Recurring(Part.ADMIN, loop, LOOK_S, math.inf, self._look),
            Recurring(Part.ADMIN, loop, SWEEP_S, math.inf, places.sweep),
        )
        self._servers: list[asyncio.Server] = []

    @property
    def sockets(self) -> list[socket.socket]:
        """Those that are listened on."""
        return [listener for server in self._servers for listener in server.sockets]

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return port_of(self.sockets)

    async def start(self, listeners: Sequence[socket.socket], *, backlog: int = BACKLOG) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        self._servers = await serve_on(
            listeners, lambda: Place(self.places, self._make()), backlog=backlog
        )
        for duty in self._duties:
            duty.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def close(self) -> None:
        """Cut all connections."""
        self.stop_accepting()
        for duty in self._duties:
            duty.stop()
        for place in list(self.places):
            place.transport.abort()

    def _look(self) -> None:
        self._clients.look(each.transport for each in self.places)
