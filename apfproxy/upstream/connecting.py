"""Makes connections to a server behind, and says why one cannot be made."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from apfproxy.base.sockets import set_tcp_options
from apfproxy.upstream.counters import UpstreamFailure

if TYPE_CHECKING:
    from apfproxy.settings import Address
    from apfproxy.upstream.tls import ClientTls, SessionContext

KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}
"""Seconds without a word before the first probe (as in Go), between probes, probes without a
response; and milliseconds for which what was sent may stay unacknowledged."""
# Errors that are the upstream's; the second is that of a host that cannot be a name.
CONNECT_ERRORS = (OSError, ValueError)

CONNECTION, TLS_HANDSHAKE = "connection", "TLS handshake"  # the steps of connecting

WRONG_SETTINGS = {
    **dict.fromkeys((2, 18, 19, 20, 21), "; upstream.tls.caFile"),  # no known CA has signed it
    **dict.fromkeys((62, 64), "; upstream.tls.serverName"),  # another host's, or address's
}
"""The setting that is likely wrong, by OpenSSL's X509_V_ERR_* of a refused certificate."""
NO_TLS_SPOKEN = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
"""OpenSSL's words for bytes that are no TLS, such as a response of plain HTTP."""


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """A connection that did not come about: `code` and `reason` are for the client.

    `problem` is what an operator has to know, and the setting that may be wrong.
    """

    reason: str
    problem: str
    code: int = 502
    kind: UpstreamFailure = UpstreamFailure.CONNECT


class ConnectTimeoutError(TimeoutError):
    """A step of connecting took too long: the `connection` itself, or the `TLS handshake`."""

    def __init__(self, step: str, limit_s: float) -> None:
        if step == CONNECTION:
            preposition, setting = "to", "upstream.connectTimeout"
        else:
            preposition, setting = "with", "upstream.tls.handshakeTimeout"
        super().__init__(f"no {step} {preposition} the upstream within {limit_s:g} s ({setting})")
        self.step = step
        self.limit_s = limit_s


OWN_FAILURE = ConnectFailure(
    "the proxy failed to connect to the upstream; its log says more",
    "an error of the proxy itself; the log says more",
)
CLOSED_AT_ONCE = ConnectFailure(
    "the upstream closed the connection at once", "connections are closed at once"
)
NO_ENDPOINT = ConnectFailure(
    "no address of the upstream is known yet", "no address of a server is known", 503
)


async def connected(
    connection: object,
    address: Address,
    timeout_s: float,
    tls: ClientTls | None,
    sessions: SessionContext | None,
    server_name: str,
) -> None:
    """Connect; with TLS in two steps, because each has a limit of its own.

    `connection` is the protocol; without TLS the server's own `sessions` are None.  Raises one of
    `CONNECT_ERRORS`: ConnectTimeoutError if a step takes too long.
    """
    limit_s, step = timeout_s, CONNECTION
    loop = asyncio.get_running_loop()
    protocol = cast("asyncio.BufferedProtocol", connection)
    try:
        async with asyncio.timeout(limit_s):
            if address.path:
                await loop.create_unix_connection(lambda: protocol, address.path)
                return
            if tls is None or sessions is None:
                await loop.create_connection(lambda: protocol, address.host, address.port)
                return
            sock = await connected_socket(address.host, address.port)
        limit_s, step = tls.settings.handshake_timeout_s, TLS_HANDSHAKE
        async with asyncio.timeout(limit_s):
            sessions.expire(time.time())
            try:
                await loop.create_connection(
                    lambda: protocol,
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
    except TimeoutError as error:
        raise ConnectTimeoutError(step, limit_s) from error


async def connected_socket(host: str, port: int) -> socket.socket:
    """Connect by TCP to the first address of a host that answers; raises the last one's OSError."""
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
    try:
        raise problem
    finally:
        del problem  # it has this frame


def watch_over(transport: asyncio.Transport) -> None:
    """Have the kernel find out when the machine at the other end has gone without a word."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    set_tcp_options(connection, KEEP_ALIVE)


def connect_failure(error: Exception) -> ConnectFailure:
    # OpenSSL's own errors have more to them than those that Python raises in its name.
    if isinstance(error, ssl.SSLCertVerificationError):
        why = str(getattr(error, "verify_message", "") or error).removesuffix(".")
        code = getattr(error, "verify_code", 0)
        return ConnectFailure(
            f"the upstream's certificate is not valid: {why}",
            f"certificate verify failed: {why}{WRONG_SETTINGS.get(code, '')}",
            kind=UpstreamFailure.TLS,
        )
    if isinstance(error, ssl.SSLError):
        why, hint = getattr(error, "reason", "") or str(error), ""
        if why in NO_TLS_SPOKEN:
            why, hint = "the server does not speak it", "; upstream.url"
        reason = f"no TLS with the upstream: {why}"
        return ConnectFailure(reason, f"no TLS: {why}{hint}", kind=UpstreamFailure.TLS)
    if isinstance(error, ConnectTimeoutError):
        problem = f"no {error.step} within {error.limit_s:g} s"
        return ConnectFailure(str(error), problem, 504, UpstreamFailure.CONNECT_TIMEOUT)
    why = str(getattr(error, "strerror", "") or error)
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code in errno.errorcode and not isinstance(error, socket.gaierror):
        why = os.strerror(code)  # loops have words of their own, such as "Connect call failed"
    problem = why[:1].lower() + why[1:] if why[1:2].islower() else why
    return ConnectFailure(f"no connection to the upstream: {why}", problem)
