"""The head of a request of HTTP/2, written as HTTP/1.1 writes it.

So one reader judges both: what holds of identities, of hosts and of fields that servers could take
for others holds whatever a client speaks, and the head is ready to be forwarded.  The library has
checked what RFC 9113, section 8.2, says of fields: lower-case names, none of a connection's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.head_error import HeadError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNFIT: Final = bytes((*range(0x21), 0x7F))
"""What would end a part of the request line, or all of it."""
_HOST: Final = re.compile(rb"(?:\A|(?<=\r\n))host: ([^\r\n]*)\r\n")
_COOKIE: Final = re.compile(rb"(?:\A|(?<=\r\n))cookie: ([^\r\n]*)\r\n")

RequestFields = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""Method, scheme, authority, path, protocol, and the other fields as lines; b"" for what is not
there."""


def head_of(request: RequestFields, *, is_whole: bool) -> bytes:
    """The head, up to and including the empty line.

    Args:
        request: As the library gives it; CONNECT as `extended_connect` has it.
        is_whole: Whether no body follows.

    Raises:
        HeadError: It cannot be written.
    """
    method, _, authority, path, _, fields = request
    parts = b"".join((method, authority, path))
    # A regular expression takes five times as long.
    if len(parts.translate(None, _UNFIT)) != len(parts):
        raise HeadError(400, "malformed request: a character in :method, :authority or :path")
    if fields.startswith(b"host: ") or b"\r\nhost: " in fields:
        authority, fields = _one_host(authority, fields)
    if b"cookie: " in fields and len(_COOKIE.findall(fields)) > 1:
        fields = _with_one_cookie(fields)
    host = b"".join((b"Host: ", authority, b"\r\n")) if authority else b""
    framing = b""
    if not is_whole and not (
        fields.startswith(b"content-length: ") or b"\r\ncontent-length: " in fields
    ):
        framing = b"transfer-encoding: chunked\r\n"
    return b"".join((method, b" ", path, b" HTTP/1.1\r\n", host, fields, framing, b"\r\n"))


def _one_host(authority: bytes, fields: bytes) -> tuple[bytes, bytes]:
    """The host, and the fields without it; RFC 9113, section 8.3.1."""
    hosts: Sequence[bytes] = _HOST.findall(fields)
    if len(hosts) > 1 or (authority and authority.lower() != hosts[0].strip(b" \t").lower()):
        raise HeadError(400, "malformed request: :authority and host differ")
    return authority or hosts[0], _HOST.sub(b"", fields)


def _with_one_cookie(fields: bytes) -> bytes:
    """The fields with one Cookie in place of several; RFC 9113, section 8.2.3."""
    crumbs = _COOKIE.findall(fields)
    return b"%bcookie: %b\r\n" % (_COOKIE.sub(b"", fields), b"; ".join(crumbs))
