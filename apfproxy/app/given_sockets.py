"""Listening sockets that a process is started with: of systemd, or of the process before it.

systemd listens itself, and hands the sockets over by sd_listen_fds(3): `LISTEN_FDS` descriptors
from 3 on, of which `LISTEN_FDNAMES` names those of the admin listener `admin`.  A process that is
to be succeeded by another one (`succession`), and the parent of workers (`parent`), name them in a
variable of their own.

What nobody has given is opened by the process itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from apfproxy.base.errors import OperatorError
from apfproxy.base.sockets import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from apfproxy.settings import Address

LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
SUCCESSION = "APFPROXY_SUCCESSION"
"""What a process tells its successor, in JSON."""
FIRST_DESCRIPTOR = 3
LISTEN, ADMIN = "listen", "admin"
"""The flags whose addresses are listened on."""


@dataclass(slots=True, kw_only=True)
class GivenSockets:
    """What was given, until it is taken.

    Attributes:
        sockets: By the flag whose address they are for.
        addresses: Those that they were opened for, as the flags have them; empty where that does
            not matter, since systemd decides.
        is_of_systemd: Whether systemd has opened them, at first or in the end: files of Unix
            sockets are its own then.
        is_of_parent: Whether the parent of this worker has opened them, and keeps them.
        ready: Descriptor to which a successor writes that it serves; -1 if nobody waits for that.
    """

    sockets: dict[str, list[socket.socket]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    is_of_systemd: bool = False
    is_of_parent: bool = False
    ready: int = -1

    @property
    def are_kept(self) -> bool:
        """Whether somebody else keeps them, who decides on addresses and files."""
        return self.is_of_systemd or self.is_of_parent

    def take(self, flag: str, address: Address) -> list[socket.socket]:
        """Those for an address; none if they are for another one, where nobody accepts then."""
        listeners = self.sockets.pop(flag, [])
        if not self.are_kept and self.addresses.get(flag) != str(address):
            close(listeners)
            return []
        return listeners

    def serve(self) -> None:
        """Tell whoever waits for it that this process serves; close what is of no use to it."""
        for listeners in self.sockets.values():
            close(listeners)
        self.sockets.clear()
        if self.ready >= 0:
            # Nobody waits any more if that process was killed: all the more is this one needed.
            with contextlib.suppress(BrokenPipeError):
                os.write(self.ready, b"1")
            os.close(self.ready)
            self.ready = -1


def close(listeners: Sequence[socket.socket]) -> None:
    """Close sockets."""
    for listener in listeners:
        listener.close()


def given_sockets(environment: MutableMapping[str, str]) -> GivenSockets:
    """Take what the environment names, so that no child of ours takes it for its own.

    OperatorError if that cannot be listened on.
    """
    succession = environment.pop(SUCCESSION, None)
    pid = environment.pop(LISTEN_PID, None)
    count, names = environment.pop(LISTEN_FDS, "0"), environment.pop(LISTEN_FDNAMES, "")
    if succession is not None:
        return _of_predecessor(succession)
    if pid != str(os.getpid()) or not count.isdecimal():
        return GivenSockets()
    sockets: dict[str, list[socket.socket]] = {}
    for index, name in zip_longest(range(int(count)), names.split(":")[: int(count)]):
        flag = ADMIN if name == ADMIN else LISTEN
        sockets.setdefault(flag, []).append(_listening(FIRST_DESCRIPTOR + index))
    return GivenSockets(sockets=sockets, is_of_systemd=True)


def _of_predecessor(text: str) -> GivenSockets:
    try:
        told: dict[str, Any] = json.loads(text)
        ready = int(told["ready"])
        if ready >= 0:
            os.set_inheritable(ready, False)
        return GivenSockets(
            sockets={
                flag: [_listening(descriptor) for descriptor in descriptors]
                for flag, descriptors in told["sockets"].items()
            },
            addresses=told["addresses"],
            is_of_systemd=told["isOfSystemd"],
            is_of_parent=told.get("isOfParent", False),  # which older versions do not say
            ready=ready,
        )
    except (LookupError, TypeError, ValueError, OSError) as error:
        raise OperatorError(
            f"{SUCCESSION}: {error}; only a process that is succeeded sets it, so unset it"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Heritage:
    """What a successor gets: descriptors of listening sockets, and as `GivenSockets`."""

    descriptors: Mapping[str, Sequence[int]]
    addresses: Mapping[str, str]
    is_of_systemd: bool
    is_of_parent: bool = False

    @classmethod
    def of(
        cls,
        sockets: Mapping[str, Sequence[socket.socket]],
        addresses: Mapping[str, Address | None],
        *,
        is_of_systemd: bool = False,
        is_of_parent: bool = False,
    ) -> Heritage:
        """Of listening sockets, and the addresses that they are for."""
        return cls(
            descriptors={flag: [each.fileno() for each in sockets[flag]] for flag in sockets},
            addresses={flag: str(address) for flag, address in addresses.items()},
            is_of_systemd=is_of_systemd,
            is_of_parent=is_of_parent,
        )

    @property
    def all_descriptors(self) -> list[int]:
        """Of all flags."""
        return [each for some in self.descriptors.values() for each in some]

    def told(self, ready: int = -1) -> dict[str, str]:
        """The variable that tells it, and the descriptor to write to when it serves."""
        told = {
            "sockets": self.descriptors,
            "addresses": self.addresses,
            "isOfSystemd": self.is_of_systemd,
            "isOfParent": self.is_of_parent,
            "ready": ready,
        }
        return {SUCCESSION: json.dumps(told)}


def _listening(descriptor: int) -> socket.socket:
    """The socket of a descriptor; OperatorError if it does not listen."""
    try:
        listener = socket.socket(fileno=descriptor)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        os.set_inheritable(descriptor, False)
    except OSError as error:
        raise OperatorError(f"descriptor {descriptor} was given to listen: {error}") from error
    if not listens:
        listener.close()
        raise OperatorError(
            f"descriptor {descriptor} was given to listen, and does not; the .socket unit needs"
            " ListenStream= and Accept=no"
        )
    prepare(listener)
    return listener
