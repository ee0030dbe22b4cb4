"""What the proxy's own HTTP clients share: sessions, heads, bounded bodies and errors.

Answers are not trusted: they are not decompressed, which could make a small one large, redirects
are not followed and cookies not kept.  Errors of the client library may hold the head of the
request, and so a token; they are neither shown nor chained.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import aiohttp

from apfproxy import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

EXCHANGE_ERRORS = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""What an exchange may raise."""


JSON_HEAD = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"apfproxy/{__version__}",
}


def new_session(
    *,
    ssl: SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
    socket_path: str = "",
) -> aiohttp.ClientSession:
    """A session that uses nothing of the environment or of earlier answers.

    With a path it connects to that Unix socket, whatever the URLs say.
    """
    connector: aiohttp.BaseConnector
    if socket_path:
        connector = aiohttp.UnixConnector(socket_path, limit=0)
    else:
        connector = aiohttp.TCPConnector(limit=0, ssl=ssl)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


async def bounded_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """The body of an answer; None if it is longer than that."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > max_bytes:
            return None
    return bytes(data)


def connect_failure(error: aiohttp.ClientConnectorError) -> str:
    """Why no connection came about, in a few words."""
    number = error.errno or 0
    # asyncio's text for an errno of the system has the address in it.  Numbers of name resolution,
    # below zero, and of OpenSSL are none of the system, and have useful texts.
    if number > 0 and not isinstance(error, aiohttp.ClientSSLError):
        return os.strerror(number)
    # An end during the handshake has neither number nor text.
    return error.strerror or str(error.os_error) or "the other side closed the connection"


def explained(error: Exception, server: str) -> tuple[str, bool]:
    """Why an exchange with `server` failed, and whether it may help to try again."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{server}'s certificate is no good: {error.certificate_error}", False
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {connect_failure(error)}", True
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        return "the connection broke", True
    return f"the exchange went wrong: {type(error).__name__}", False
