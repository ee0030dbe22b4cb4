"""The listening sockets of workers, which their parent opens and keeps.

1. Of a port each worker has a socket of its own (SO_REUSEPORT): the kernel divides the connections
   among them by their addresses.  A Unix socket, and what systemd has opened, all workers share:
   who is free accepts.
2. Since the parent keeps them, a connection that waits to be accepted is not lost with a worker:
   the process that takes its place accepts it.
3. For a worker that ends again and again no one listens, until its next process does: new
   connections go to the others.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from apfproxy.base.errors import ListenError
from apfproxy.base.listeners import LISTEN, close
from apfproxy.base.sockets import described, joined, port_of

if TYPE_CHECKING:
    import socket

    from apfproxy.base.address import Address
    from apfproxy.base.listeners import Listeners

BACKLOG: Final = 4096
"""Connections that the kernel holds for each worker; as of a single process."""


class WorkerSockets:
    """The sockets of one address; `written` is where they listen, for the log."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.written = "no address"
        self._sets: list[list[socket.socket]] = []

    async def open(self, address: Address, mode: int, count: int) -> None:
        """Listen for so many workers, or OperatorError."""
        is_group = count > 1 and not address.path and not self._listeners.was_given(LISTEN)
        first = await self._listeners.open(LISTEN, address, BACKLOG, mode, is_group=is_group)
        self._sets = [first]
        self.written = ", ".join(map(described, first))
        try:
            for _ in range(count - 1 if is_group else 0):
                self._sets.append(joined(first, BACKLOG))
        except OSError as error:
            self.close()
            raise ListenError(address, LISTEN, error) from error

    @property
    def port(self) -> int | None:
        return port_of(chain.from_iterable(self._sets))

    def of(self, index: int) -> list[int]:
        """The descriptors that a worker gets; `index` is from 1 on."""
        place = (index - 1) % len(self._sets)
        if not self._sets[place]:
            others = next(filter(None, self._sets))
            self._sets[place] = joined(others)  # the process begins to listen
        return [each.fileno() for each in self._sets[place]]

    def rest(self, index: int) -> None:
        """Listen no more for a worker, if others do."""
        if sum(map(bool, self._sets)) > 1:
            close(self._sets[index - 1])
            self._sets[index - 1] = []

    def close(self) -> None:
        """Listen no more: the workers go on with theirs; harmless once done."""
        for each in self._sets:
            close(each)
        self._sets = []

    def __repr__(self) -> str:
        return f"<WorkerSockets: {len(self._sets)} sets>"
