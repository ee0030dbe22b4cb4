"""The head of a request of HTTP/2, written as HTTP/1.1 writes it, so that one reader judges both.

The library has checked what RFC 9113, section 8.2, says of fields.  CONNECT with `:protocol`, by
which a stream becomes a WebSocket (RFC 8441), is written as the upgrade that a client of HTTP/1.1
asks for, with a Sec-WebSocket-Key that the proxy makes.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from apfproxy.http.grammar import HeadError
from apfproxy.http.upgrade import WEBSOCKET

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY_BYTES: Final = 16
_UNFIT: Final = bytes((*range(0x21), 0x7F))
_HOST: Final = re.compile(rb"(?:\A|(?<=\r\n))host: ([^\r\n]*)\r\n")
_COOKIE: Final = re.compile(rb"(?:\A|(?<=\r\n))cookie: ([^\r\n]*)\r\n")

# Which fields are among the others, as `nghttp2` says it; so they are not searched for.
HAS_LENGTH: Final = 1
HAS_HOST: Final = 2
HAS_COOKIES: Final = 4

RequestFields = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int]
"""Method, scheme, authority, path, protocol, and the other fields as lines; b"" for what is not
there; and which fields are among those lines."""


def head_of(request: RequestFields, *, is_whole: bool) -> bytes:
    """The head with its empty line; no body follows if it `is_whole`.  Raises HeadError."""
    method, _, authority, path, _, fields, marks = request
    parts = b"".join((method, authority, path))
    # A regular expression takes five times as long.
    if len(parts.translate(None, _UNFIT)) != len(parts):
        raise HeadError(400, "malformed request: a character in :method, :authority or :path")
    if marks & HAS_HOST:
        authority, fields = _one_host(authority, fields)
    if marks & HAS_COOKIES:  # one in place of several; RFC 9113, section 8.2.3
        crumbs = b"; ".join(_COOKIE.findall(fields))
        fields = b"%bcookie: %b\r\n" % (_COOKIE.sub(b"", fields), crumbs)
    before_host = b" HTTP/1.1\r\nHost: " if authority else b" HTTP/1.1"
    end = b"\r\n" if is_whole or marks & HAS_LENGTH else b"transfer-encoding: chunked\r\n\r\n"
    return b"".join((method, b" ", path, before_host, authority, b"\r\n", fields, end))


def _one_host(authority: bytes, fields: bytes) -> tuple[bytes, bytes]:
    hosts: Sequence[bytes] = _HOST.findall(fields)
    if len(hosts) > 1 or (authority and authority.lower() != hosts[0].strip(b" \t").lower()):
        raise HeadError(400, "malformed request: :authority and host differ")
    return authority or hosts[0], _HOST.sub(b"", fields)


def new_key() -> bytes:
    return b64encode(os.urandom(_KEY_BYTES))


def as_upgrade(request: RequestFields, key: bytes) -> RequestFields:
    """The upgrade that asks for the same as this CONNECT; HeadError if none is served."""
    _, scheme, authority, path, protocol, fields, marks = request
    if not protocol:
        raise HeadError(405, "CONNECT is not served")
    if protocol.lower() != WEBSOCKET:
        raise HeadError(501, "the only :protocol of CONNECT that is served is websocket")
    if marks & HAS_LENGTH:  # though it be 0: no byte could go through the tunnel then
        raise HeadError(400, "CONNECT must not have a Content-Length")
    lines = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: %b\r\n%b"
    return b"GET", scheme, authority, path, b"", lines % (key, fields), marks
