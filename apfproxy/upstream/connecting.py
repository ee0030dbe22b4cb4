"""Connections to a server behind, until they can carry requests."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, cast

from apfproxy.base.sockets import set_tcp_options
from apfproxy.upstream.connect_failure import CONNECTION, TLS_HANDSHAKE, ConnectTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import Address
    from apfproxy.upstream.connection import UpstreamConnection
    from apfproxy.upstream.tls import ClientTls, SessionContext

KEEP_ALIVE = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 15_000,
}
"""Seconds without a word before the first probe (as of Go's), between probes, probes without an
answer; and milliseconds for which what was sent may stay unacknowledged."""


async def connected(
    address: Address,
    timeout_s: float,
    tls: ClientTls | None,
    sessions: SessionContext | None,
    server_name: str,
    new_connection: Callable[[], UpstreamConnection],
) -> UpstreamConnection:
    """Connect; with TLS in two steps, because each has a limit of its own.

    Args:
        address: Of the server.
        timeout_s: For the connection.
        tls: How to speak TLS with it; None if it speaks plain HTTP.
        sessions: The server's own; None without TLS.
        server_name: That its certificate must have.
        new_connection: Makes the protocol.

    Raises:
        ConnectTimeoutError: A step takes too long.
        OSError, ValueError: As of `CONNECT_ERRORS`.
    """
    limit_s, step = timeout_s, CONNECTION
    loop = asyncio.get_running_loop()
    make = cast("Callable[[], asyncio.BufferedProtocol]", new_connection)
    try:
        async with asyncio.timeout(limit_s):
            if address.path:
                _, local = await loop.create_unix_connection(make, address.path)
                return cast("UpstreamConnection", local)
            if tls is None or sessions is None:
                _, plain = await loop.create_connection(make, address.host, address.port)
                return cast("UpstreamConnection", plain)
            sock = await connected_socket(address.host, address.port)
        limit_s, step = tls.settings.handshake_timeout_s, TLS_HANDSHAKE
        async with asyncio.timeout(limit_s):
            return await shake_hands(sock, sessions, server_name, make, limit_s)
    except TimeoutError as error:
        raise ConnectTimeoutError(step, limit_s) from error


async def shake_hands(
    sock: socket.socket,
    sessions: SessionContext,
    server_name: str,
    make: Callable[[], asyncio.BufferedProtocol],
    limit_s: float,
) -> UpstreamConnection:
    """Begin TLS, with a session from before if there is one."""
    sessions.expire(time.time())
    try:
        _, connection = await asyncio.get_running_loop().create_connection(
            make,
            sock=sock,
            ssl=sessions,
            server_hostname=server_name,
            # Of the loop itself, should it still be at it after this task gave up.
            ssl_handshake_timeout=limit_s + 1.0,
            ssl_shutdown_timeout=1.0,
        )
    except BaseException:
        sessions.forget(time.time())
        raise
    return cast("UpstreamConnection", connection)


async def connected_socket(host: str, port: int) -> socket.socket:
    """Connect by TCP to the first address of a host that answers.

    Raises:
        OSError: None does; of several addresses the last one's error.
    """
    loop = asyncio.get_running_loop()
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


def watch_over(transport: asyncio.Transport) -> None:
    """Have the kernel find out when the machine at the other end has gone without a word."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    set_tcp_options(connection, KEEP_ALIVE)
