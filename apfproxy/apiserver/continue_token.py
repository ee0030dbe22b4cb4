"""Where a list goes on: the tokens that a client gets with one part of a list for the next.

They have Kubernetes' form: JSON with the resource version of the first part and the key after the
last object, `namespace/name` or `name` with a NUL, in base64 for URLs without padding.

Source: apiserver's `pkg/storage/continue.go`.
"""

from __future__ import annotations

import base64
import binascii
import json
import posixpath

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request

VERSION = "meta.k8s.io/v1"
AFTER = "\0"
"""What follows a key in the key that comes next."""
LONGEST = 4096
"""Characters of a token; namespace and name have 316 at most."""


class Token(msgspec.Struct):
    """What a token says."""

    v: str = ""
    rv: int = 0
    start: str = ""


def encode(resource_version: int, last: tuple[str, str]) -> str:
    """Make a token.

    Args:
        resource_version: Of the list; negative for the newest one.
        last: Namespace, or "", and name of the last object that is given.
    """
    key = "/".join(part for part in last if part)
    data = msgspec.json.encode(Token(VERSION, resource_version, key + AFTER))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(token: str) -> tuple[int, tuple[str, str]]:
    """Read a token.

    Returns:
        The resource version, negative for the newest one, and the namespace and name after which
        the list goes on.

    Raises:
        StatusError: 400, the token is none of ours.
    """
    try:
        data = base64.b64decode(
            token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
    except (binascii.Error, ValueError) as error:
        raise _refused(f"continue key is not valid: illegal base64 data: {error}") from error
    if len(token) > LONGEST:
        raise _refused(f"continue key is not valid: it has more than {LONGEST} characters")
    try:
        decoded = msgspec.json.decode(data, type=Token)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(f"continue key is not valid: {_syntax_error(data, error)}") from error
    if decoded.v != VERSION:
        shown = json.dumps(decoded.v)
        raise _refused(
            f"continue key is not valid: server does not recognize this encoded version {shown}"
        )
    if decoded.rv == 0:
        raise _refused(
            "continue key is not valid: incorrect encoded start resourceVersion"
            f" (version {VERSION})"
        )
    if not decoded.start:
        raise _refused(f"continue key is not valid: encoded start key empty (version {VERSION})")
    key = "/" + decoded.start.removeprefix("/")
    if posixpath.normpath(key) != key:
        raise _refused(f"continue key is not valid: {json.dumps(decoded.start)}")
    namespace, _, name = decoded.start.removesuffix(AFTER).removeprefix("/").rpartition("/")
    return decoded.rv, (namespace, name)


def _syntax_error(data: bytes, error: Exception) -> str:
    """What is wrong with data that are no token, for most of them as Go says it."""
    if not data:
        return "unexpected end of JSON input"
    if data[:1] not in b'{["tfn-0123456789 \t\r\n':
        character = json.dumps(chr(data[0]))[1:-1]
        return f"invalid character '{character}' looking for beginning of value"
    return str(error)


def _refused(message: str) -> StatusError:
    """400: the token is none of ours."""
    return bad_request(f"invalid continue token: {message}")
