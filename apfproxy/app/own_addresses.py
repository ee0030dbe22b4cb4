"""The addresses that a proxy listens at: opened or given, handed to a successor, given up.

The file of a Unix socket is removed by the process that serves on it last.  One that was given its
socket, but cannot start, leaves the file to the process before it; systemd and the parent of
workers have files of their own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from apfproxy.app.given_sockets import GivenSockets, Heritage
from apfproxy.base.errors import ListenError, OperatorError
from apfproxy.base.sockets import SocketFiles, described, listening_sockets, port_of

if TYPE_CHECKING:
    import socket

    from apfproxy.settings import Address


class OwnAddresses:
    """Those of one process, by the flag that names each; `given` is what others have opened."""

    def __init__(self, given: GivenSockets) -> None:
        self._given = given
        self._sockets: dict[str, list[socket.socket]] = {}
        self._addresses: dict[str, Address] = {}
        self._taken: list[socket.socket] = []
        self._files: list[SocketFiles] = []

    def __repr__(self) -> str:
        return f"<OwnAddresses: {', '.join(map(self.written, self._sockets)) or 'none'}>"

    async def open(
        self, flag: str, address: Address, backlog: int, mode: int
    ) -> list[socket.socket]:
        """Listen at an address, unless somebody does; OperatorError if that cannot be."""
        listeners = self._given.take(flag, address)
        if listeners:
            self._taken += listeners
        else:
            try:
                listeners = await listening_sockets(address, backlog, mode=mode)
            except OSError as error:
                raise ListenError(address, flag, error) from error
            self._files.append(SocketFiles(listeners))
        self._sockets[flag] = listeners
        self._addresses[flag] = address
        return listeners

    def serve(self) -> None:
        """All are open, and accepted from."""
        if not self._given.are_kept:
            self._files.append(SocketFiles(self._taken))
        self._given.serve()

    def written(self, flag: str) -> str:
        """One as the settings name it, with its port, or as it is where systemd decides."""
        listeners = self._sockets[flag]
        if self._given.are_kept:
            return ", ".join(map(described, listeners))
        return str(dataclasses.replace(self._addresses[flag], port=port_of(listeners) or 0))

    def heritage(self) -> Heritage:
        """What a successor gets; OperatorError if the parent starts successors."""
        if self._given.is_of_parent:
            raise OperatorError("this is a worker; its parent takes SIGUSR2, for all of them")
        return Heritage.of(self._sockets, self._addresses, is_of_systemd=self._given.is_of_systemd)

    def leave(self) -> None:
        """Leave the files of Unix sockets to a successor."""
        for files in self._files:
            files.leave()

    def give_up(self) -> None:
        """Remove the files of Unix sockets; harmless once done."""
        for files in self._files:
            files.remove()
