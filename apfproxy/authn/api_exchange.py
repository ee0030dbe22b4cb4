"""What clients of Kubernetes APIs have in common: their session, and what went wrong with it.

Answers are not trusted: a small one is not to become a large one by decompression, redirects are
not followed and cookies not kept.  Errors of the client library may hold the head of the request,
and so a token; they go no further, neither as text nor as cause.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import aiohttp

from apfproxy import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

EXCHANGE_ERRORS = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""What an exchange may raise."""


def new_session() -> aiohttp.ClientSession:
    """A session with nothing of the environment or of earlier answers in it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def json_head(token: Callable[[], bytes | None]) -> dict[str, str]:
    """The head of a request for JSON, as nobody or by a bearer token.

    Raises:
        OSError: The token cannot be read.
        ValueError: There is none where one should be.
    """
    head = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"apfproxy/{__version__}",
    }
    if (own := token()) is not None:
        head["Authorization"] = f"Bearer {own.decode('latin-1')}"
    return head


def connect_failure(error: aiohttp.ClientConnectorError) -> str:
    """Why no connection came about, in a few words."""
    number = error.errno or 0
    # The text that asyncio gives a number of the system has the address in it; but those of name
    # resolution, below zero, and those of OpenSSL are no such numbers, and have texts of use.
    if number > 0 and not isinstance(error, aiohttp.ClientSSLError):
        return os.strerror(number)
    # An end within the handshake has neither number nor text.
    return error.strerror or str(error.os_error) or "the other side closed the connection"


def explained(error: Exception, server: str) -> tuple[str, bool]:
    """Why an exchange failed, one of `EXCHANGE_ERRORS`, and whether it may help to try again.

    Args:
        error: What was raised.
        server: What to call the other side, such as `the upstream`.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{server}'s certificate is no good: {error.certificate_error}", False
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {connect_failure(error)}", True
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        return "the connection broke", True
    return f"the exchange went wrong: {type(error).__name__}", False
