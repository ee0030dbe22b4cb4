"""Listens for connections that are bounded by `Places`, in plain text or over TLS.

1. A connection without a whole request head is closed, whether nothing or too little came.
   `places` says when, how many connections there may be, and which is closed for another.
2. A connection whose client takes nothing of what is written for it ends after `LOOKS` times
   `LOOK_S`: a watch would keep its memory for as long as it lasts, another answer for ever.
3. Each handshake takes the certificate of the moment.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.app.places import Place, Places
from apfproxy.base.faults import Part
from apfproxy.base.sockets import Acceptor, is_unix, port_of
from apfproxy.base.tasks import Recurring, spawn

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterable, Sequence

BACKLOG = 1024
"""Connections that the kernel holds for us; a client beyond tries again after a second."""
SWEEP_S = 1.0
"""Between two looks for connections whose time is over."""
LOOK_S = 20.0
"""Between two looks at what clients have taken."""
LOOKS = 3
"""In a row at which nothing was taken; fewer could be a coincidence of sizes."""
HANDSHAKE_S = 10.0

log = logging.getLogger(__name__)


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
    """Connections that come to some listening sockets.

    Args:
        make: Makes the protocol of each.
        places: Bound them.
        context: Gives that of TLS for a new one; None for plain text, as over a Unix socket.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        places: Places,
        context: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        self.places = places
        self._make = make
        self._context = context
        self._loop = loop = asyncio.get_running_loop()
        # One at once: whoever makes way has to be gone, or there are no descriptors for clients.
        self._acceptor = Acceptor(loop, self._take, lambda: round(loop.time() * 1e9), at_once=1)
        self._clients = StalledClients()
        self._duties = (
            Recurring(Part.ADMIN, loop, LOOK_S, math.inf, self._look),
            Recurring(Part.ADMIN, loop, SWEEP_S, math.inf, places.sweep),
        )

    @property
    def sockets(self) -> list[socket.socket]:
        """Those that are listened on."""
        return self._acceptor.sockets

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return port_of(self.sockets)

    async def start(self, listeners: Sequence[socket.socket], *, backlog: int = BACKLOG) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(backlog)
        self._acceptor.listen(listeners)
        for duty in self._duties:
            duty.start()

    def _take(self, client: socket.socket) -> None:
        """Begin with a connection that was accepted."""
        place = Place(self.places, self._make())
        task = spawn(self._begin(client, place), name="beginning a connection")
        try:
            peer = client.getpeername()
        except OSError:
            peer = None  # it is gone, as the loop will see
        place.await_handshake(str(peer[0]) if isinstance(peer, tuple) else "", task.cancel)
        task.add_done_callback(partial(self._on_begun, client, place))

    async def _begin(self, client: socket.socket, place: Place) -> None:
        context = None if is_unix(client) else self._context()
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

    def _on_begun(self, client: socket.socket, place: Place, _task: asyncio.Task[None]) -> None:
        if place.transport is None:
            self.places.end_handshake(place)
            client.close()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        for listener in self._acceptor.stop():
            listener.close()

    def close(self) -> None:
        """Cut all connections."""
        self.stop_accepting()
        for duty in self._duties:
            duty.stop()
        for place in list(self.places):
            place.abort()

    def _look(self) -> None:
        self._clients.look(each.transport for each in self.places if each.transport is not None)
