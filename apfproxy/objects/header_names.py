"""Names of header fields that annotations may name."""

from __future__ import annotations

import enum
import re

LONGEST_HEADER_NAME = 64
SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "proxy-authorization", "sec-websocket-protocol", "x-api-key"}
)
"""Objects, metrics, dumps and logs show what annotations and flows are named by."""
_CONNECTION_HEADERS = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_IDENTITY_HEADER = re.compile(r"x-remote-(?:user|uid|group|extra-.*)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


class HeaderUse(enum.Enum):
    """Whether requests can be told apart by a header, or why not."""

    FIT = "fit"
    MALFORMED = "no name of letters, digits and hyphens"
    SECRET = "a secret"  # noqa: S105  no password
    CONNECTION = "about a connection"
    IDENTITY = "about the user"
    """As those about a connection, it is not forwarded: all requests would be without it."""


def use_of(name: str) -> HeaderUse:
    """What a header, by its name in lower case, can be used for."""
    if len(name) > LONGEST_HEADER_NAME or not _HEADER_NAME.fullmatch(name):
        return HeaderUse.MALFORMED
    if name in SECRET_HEADERS:
        return HeaderUse.SECRET
    if name in _CONNECTION_HEADERS:
        return HeaderUse.CONNECTION
    if _IDENTITY_HEADER.fullmatch(name):
        return HeaderUse.IDENTITY
    return HeaderUse.FIT
