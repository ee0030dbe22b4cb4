"""Sockets that listen at an address: one for each address that its host stands for.

No host, as in `:8080`, stands for every address of the machine, of IPv4 and of IPv6.  Each of the
two has a socket of its own, so that clients of IPv4 have addresses of IPv4.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.settings import Address

EVERYWHERE = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104 - asked for
WITHOUT_IPV6 = frozenset((errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL))
"""What a machine without IPv6 says."""
PORT_TRIES = 32
"""Where the system chooses the port, the one of the first address may be taken at another."""


async def listening_sockets(address: Address, backlog: int) -> list[socket.socket]:
    """Listen at an address; port 0 becomes the same port at all of them.

    Raises:
        OSError: It cannot be listened on.
    """
    places: tuple[tuple[int, str], ...] = EVERYWHERE
    if address.host:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        places = tuple(dict.fromkeys((family, str(where[0])) for family, *_, where in found))
    for attempt in range(1, PORT_TRIES + 1):
        try:
            return _opened(places, address.port, backlog, is_anywhere=not address.host)
        except OSError as error:
            is_chance = not address.port and error.errno == errno.EADDRINUSE
            if not is_chance or attempt == PORT_TRIES:
                raise
    raise AssertionError("the last attempt returns or raises")


def _opened(
    places: tuple[tuple[int, str], ...], port: int, backlog: int, *, is_anywhere: bool
) -> list[socket.socket]:
    """All of them or none."""
    sockets: list[socket.socket] = []
    try:
        for family, host in places:
            try:
                opened = socket.create_server((host, port), family=family, backlog=backlog)
            except OSError as error:
                if is_anywhere and sockets and error.errno in WITHOUT_IPV6:
                    continue
                code = error.errno or 0
                raise OSError(code, os.strerror(code).lower()) from error
            opened.setblocking(False)
            sockets.append(opened)
            port = port or int(opened.getsockname()[1])
    except BaseException:
        for opened in sockets:
            opened.close()
        raise
    return sockets
