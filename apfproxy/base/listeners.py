"""The sockets that a process listens on: given by systemd or the parent of workers, or opened.

systemd listens itself, and hands the sockets over by sd_listen_fds(3): `LISTEN_FDS` descriptors
from 3 on, of which `LISTEN_FDNAMES` names those of the admin listener `admin`.

Who gives sockets decides on addresses, and keeps the files of Unix sockets; the files of others are
removed at the end.
"""

from __future__ import annotations

import dataclasses
import os
import socket
from itertools import zip_longest
from typing import TYPE_CHECKING

from apfproxy.base.errors import ListenError, OperatorError
from apfproxy.base.sockets import (
    SocketFiles,
    described,
    listening_sockets,
    port_of,
    prepare,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping, Sequence

    from apfproxy.base.address import Address

LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
FIRST_DESCRIPTOR = 3
LISTEN, ADMIN = "listen", "admin"


class Listeners:
    """Listeners of one process, by flag; `given` were opened by others, None if none were."""

    def __init__(self, given: dict[str, list[socket.socket]] | None = None) -> None:
        self._are_given = given is not None
        self._given = given or {}
        self._sockets: dict[str, list[socket.socket]] = {}
        self._addresses: dict[str, Address] = {}
        self._files: list[SocketFiles] = []

    async def open(
        self, flag: str, address: Address, backlog: int, mode: int, *, is_group: bool = False
    ) -> list[socket.socket]:
        """Listen at an address, unless its socket was given; OperatorError if that cannot be."""
        listeners = self._given.pop(flag, [])
        for each in listeners:
            each.listen(backlog)
        if not listeners:
            try:
                listeners = await listening_sockets(address, backlog, mode=mode, is_group=is_group)
            except OSError as error:
                raise ListenError(address, flag, error) from error
            self._files.append(SocketFiles(listeners))
        self._sockets[flag] = listeners
        self._addresses[flag] = address
        return listeners

    def serve(self) -> None:
        """Close given sockets that no flag has taken."""
        for listeners in self._given.values():
            close(listeners)
        self._given.clear()

    def was_given(self, flag: str) -> bool:
        """Whether others have opened it, and `open` has not taken it yet."""
        return flag in self._given

    def written(self, flag: str) -> str:
        """An address as the settings name it, with its port; of given sockets, their own."""
        listeners = self._sockets[flag]
        if self._are_given:
            return ", ".join(map(described, listeners))
        return str(dataclasses.replace(self._addresses[flag], port=port_of(listeners) or 0))

    def give_up(self) -> None:
        for files in self._files:
            files.remove()


def close(listeners: Iterable[socket.socket]) -> None:
    for listener in listeners:
        listener.close()


def of_systemd(environment: MutableMapping[str, str]) -> Listeners:
    """Take sockets, and their names out of the environment; OperatorError."""
    pid = environment.pop(LISTEN_PID, None)
    count, names = environment.pop(LISTEN_FDS, "0"), environment.pop(LISTEN_FDNAMES, "")
    if pid != str(os.getpid()) or not count.isdecimal():
        return Listeners()
    sockets: dict[str, list[socket.socket]] = {}
    for index, name in zip_longest(range(int(count)), names.split(":")[: int(count)]):
        descriptor = FIRST_DESCRIPTOR + index
        listener = inherited(descriptor)
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.close()
            raise OperatorError(
                f"descriptor {descriptor} was given to listen, and does not; the .socket unit needs"
                " ListenStream= and Accept=no"
            )
        sockets.setdefault(ADMIN if name == ADMIN else LISTEN, []).append(listener)
    return Listeners(sockets)


def of_parent(descriptors: Sequence[int]) -> Listeners:
    """Take a worker's sockets, which its parent keeps; OperatorError if they are none."""
    return Listeners({LISTEN: list(map(inherited, descriptors))})


def inherited(descriptor: int) -> socket.socket:
    try:
        listener = socket.socket(fileno=descriptor)
        os.set_inheritable(descriptor, False)
    except OSError as error:
        raise OperatorError(f"descriptor {descriptor} was given to listen: {error}") from error
    prepare(listener)
    return listener
