"""CONNECT with `:protocol`, by which a stream of HTTP/2 becomes a WebSocket: RFC 8441.

It is written as the upgrade that a client of HTTP/1.1 asks for, so that one reader judges both, and
the server gets it so.  The client sends no Sec-WebSocket-Key: the proxy makes one.
"""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from apfproxy.http.head_error import HeadError
from apfproxy.http.upgrade import WEBSOCKET
from apfproxy.proxy.http2.request_head import HAS_LENGTH

if TYPE_CHECKING:
    from apfproxy.proxy.http2.request_head import RequestFields

_KEY_BYTES: Final = 16


def new_key() -> bytes:
    """A Sec-WebSocket-Key."""
    return b64encode(os.urandom(_KEY_BYTES))


def as_upgrade(request: RequestFields, key: bytes) -> RequestFields:
    """The request of HTTP/1.1 that asks for the same.

    Args:
        request: With the method CONNECT, as the library gives it.
        key: A new one.

    Raises:
        HeadError: No such tunnel is served.
    """
    _, scheme, authority, path, protocol, fields, marks = request
    if not protocol:
        raise HeadError(405, "CONNECT is not served")
    if protocol.lower() != WEBSOCKET:
        raise HeadError(501, "the only :protocol of CONNECT that is served is websocket")
    if marks & HAS_LENGTH:  # though it be 0: no byte could go through the tunnel then
        raise HeadError(400, "CONNECT must not have a Content-Length")
    lines = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: %b\r\n%b"
    return b"GET", scheme, authority, path, b"", lines % (key, fields), marks
