"""Clients that leave while nothing is read of them.

A transport whose reading is paused tells nothing of its peer: one that is gone would keep its place
in a queue, its seats and what it has sent.  The system knows: an epoll instance of the proxy's own
has the paused connections' sockets and asks for the end of their streams only (EPOLLRDHUP), so that
it never wakes up for data.  The loop watches that instance as it watches a socket.

Where there is no epoll, such clients are found out when they are read again, or by a deadline.
"""

from __future__ import annotations

import contextlib
import select
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

HAS_EPOLL = hasattr(select, "epoll")


class Client(Protocol):
    """A connection of which nothing is read for now."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def on_disconnect(self) -> None:
        """The client has ended or broken its connection."""


class Disconnects:
    """Waits for paused clients to leave."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._clients: dict[int, Client] = {}  # by their descriptors
        self._descriptors: dict[Client, int] = {}
        """The same the other way: a client that is gone has no descriptor to ask for."""

    def watch(self, client: Client) -> None:
        """Tell the client's connection when it leaves; nothing of it is read from now on."""
        plain = client.transport.get_extra_info("socket")
        descriptor = -1 if plain is None else plain.fileno()
        if descriptor < 0 or not HAS_EPOLL:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._on_events)
        self._epoll.register(descriptor, select.EPOLLRDHUP)
        self._clients[descriptor] = client
        self._descriptors[client] = descriptor

    def forget(self, client: Client) -> None:
        """Watch the client no more: it is read again, or gone."""
        descriptor = self._descriptors.pop(client, -1)
        if self._clients.get(descriptor) is not client:
            return  # or another has the descriptor by now
        del self._clients[descriptor]
        assert self._epoll is not None
        with contextlib.suppress(OSError):  # one that is closed is not registered any more
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        self._clients.clear()
        self._descriptors.clear()
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _on_events(self) -> None:
        assert self._epoll is not None
        for descriptor, _ in self._epoll.poll(0):
            client = self._clients.get(descriptor)
            if client is not None:
                self.forget(client)
                client.on_disconnect()

    def __repr__(self) -> str:
        return f"<Disconnects: {len(self._clients)} clients watched>"
