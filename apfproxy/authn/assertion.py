"""What the origin is told of who asks: header lines that the proxy writes, whatever came in.

A front proxy names the user in X-Remote-* fields; a proxy with rights of its own impersonates.
Values are bytes of a header field: what could end one, or would lose its ends on the way, is
refused, so that no name turns into another or into a field of its own.

Source: kubernetes/client-go, `transport/round_trippers.go`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.request.user import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP

if TYPE_CHECKING:
    from apfproxy.request.user import User

_VALUE = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
_NOT_IN_NAMES = re.compile(rb"[^!#$&'*+\-.^_`|~0-9A-Za-z]")
_VIRTUAL_GROUPS = (AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP)


class AssertionRefusedError(ValueError):
    """A user that no header field can carry as it is."""


def front_proxy_lines(user: User) -> bytes:
    """X-Remote-* lines, each with its CRLF.

    Raises:
        AssertionRefusedError: A name or value cannot be in a header field.
    """
    return _lines(b"X-Remote-", user, user.groups)


def impersonation_lines(user: User) -> bytes:
    """Impersonate-* lines, each with its CRLF.

    The groups of all authenticated and of all unauthenticated users are left out: the server adds
    the right one, and to name them would take a permission more.

    Raises:
        AssertionRefusedError: A name or value cannot be in a header field.
    """
    groups = tuple(group for group in user.groups if group not in _VIRTUAL_GROUPS)
    return _lines(b"Impersonate-", user, groups)


def _lines(prefix: bytes, user: User, groups: tuple[str, ...]) -> bytes:
    lines = [b"%bUser: %b\r\n" % (prefix, _value(user.name))]
    if user.uid:
        lines.append(b"%bUid: %b\r\n" % (prefix, _value(user.uid)))
    lines += [b"%bGroup: %b\r\n" % (prefix, _value(group)) for group in groups]
    for key, values in user.extra:
        name = prefix + b"Extra-" + _NOT_IN_NAMES.sub(_escaped, key.encode())
        lines += [b"%b: %b\r\n" % (name, _value(value) if value else b"") for value in values]
    return b"".join(lines)


def _value(text: str) -> bytes:
    if _VALUE.fullmatch(text) is None:
        raise AssertionRefusedError("a name or value of the user cannot be in a header field")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise AssertionRefusedError("a name or value of the user is not Unicode") from error


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]
