"""The listening sockets of workers, which their parent opens and keeps.

1. Of a port each worker has a socket of its own (SO_REUSEPORT): the kernel divides the connections
   among them by their addresses.  A Unix socket, and what systemd has opened, all workers share:
   who is free accepts.
2. Since the parent keeps them, a connection that waits to be accepted is not lost with a worker:
   the process that takes its place accepts it.
3. While a worker has no process, new connections go to the others (`steering`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.app.given_sockets import LISTEN, GivenSockets, Heritage, close
from apfproxy.app.steering import steer
from apfproxy.base.errors import ListenError
from apfproxy.base.sockets import (
    SocketFiles,
    described,
    is_unix,
    joined,
    listening_sockets,
    port_of,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection

    from apfproxy.settings import Address


class WorkerSockets:
    """Those of one address."""

    def __init__(self) -> None:
        self._sets: list[list[socket.socket]] = []
        self._files = SocketFiles(())

    async def open(
        self, address: Address, backlog: int, mode: int, count: int, given: GivenSockets
    ) -> None:
        """Listen for so many workers; OperatorError if that cannot be."""
        listeners = given.take(LISTEN, address)
        if listeners:
            self._sets = [listeners]
            return
        try:
            first = await listening_sockets(
                address, backlog, mode=mode, is_group=not address.path and count > 1
            )
            self._sets = [first]
            self._files = SocketFiles(first)
            if not address.path:
                self._sets += [joined(first, backlog) for _ in range(count - 1)]
        except OSError as error:
            self.close()
            raise ListenError(address, LISTEN, error) from error

    @property
    def port(self) -> int | None:
        """The port; None if there is none."""
        return port_of(self._sets[0]) if self._sets else None

    @property
    def written(self) -> str:
        """Where they listen, for the log."""
        return ", ".join(map(described, self._sets[0])) if self._sets else "no address"

    def heritage(self, index: int) -> Heritage:
        """What a worker gets; `index` is from 1 on."""
        own = self._sets[(index - 1) % len(self._sets)]
        return Heritage.of({LISTEN: own}, {}, is_of_parent=True)

    def steer(self, serving: Collection[int]) -> None:
        """Have new connections go to these workers only, by their indexes; to all if there is none.

        Sockets that all share need no such thing.
        """
        for group in zip(*self._sets, strict=True):
            if len(group) > 1 and not is_unix(group[0]):
                steer(group, [index - 1 for index in sorted(serving)])

    def close(self) -> None:
        """Listen no more: the workers go on with theirs; harmless once done."""
        for each in self._sets:
            close(each)
        self._sets = []

    def remove_files(self) -> None:
        """Remove the files of Unix sockets; harmless once done."""
        self._files.remove()

    def __repr__(self) -> str:
        return f"<WorkerSockets: {self.written}>"
