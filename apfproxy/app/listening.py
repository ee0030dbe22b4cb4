"""Listens for connections that are bounded by `Places`.

1. A connection without a whole request head is closed, whether nothing or too little came.
   `places` says when, how many connections there may be, and which is closed for another.
2. A connection whose client takes nothing of what is written for it ends after `LOOKS` times
   `LOOK_S`: a watch would keep its memory for as long as it lasts, another answer for ever.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

from apfproxy.app.places import Place, Places
from apfproxy.duties import Recurring
from apfproxy.faults import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from apfproxy.settings import Address

BACKLOG = 1024
"""Connections that the kernel holds for us; a client beyond tries again after a second."""
SWEEP_S = 1.0
"""Between two looks for connections whose time is over."""
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
        """Compare all connections, each with its transport, with the looks before."""
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
    """Connections at one address."""

    def __init__(self, make: Callable[[], asyncio.Protocol], places: Places) -> None:
        self.places = places
        self._make = make
        loop = asyncio.get_running_loop()
        self._clients = StalledClients()
        self._duties = (
            Recurring(Part.ADMIN, loop, LOOK_S, math.inf, self._look),
            Recurring(Part.ADMIN, loop, SWEEP_S, math.inf, places.sweep),
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

        Raises:
            OSError: It cannot be listened on.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Place(self.places, self._make()), address.host, address.port, backlog=backlog
        )
        for duty in self._duties:
            duty.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Cut all connections."""
        self.stop_accepting()
        for duty in self._duties:
            duty.stop()
        for place in list(self.places):
            place.transport.abort()

    def _look(self) -> None:
        self._clients.look((each, each.transport) for each in self.places)
