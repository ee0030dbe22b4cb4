"""Header lines that name the user to the upstream.

A front proxy names the user in X-Remote-* fields; a proxy with rights of its own impersonates.
Values that a header field cannot carry as they are, or would trim, are refused.  Keys of extra
values are part of a field's name, so what a name cannot carry, capital letters included, is
percent-encoded.  An empty group is a field without a value, as client-go sends it.

Source: kubernetes/client-go, `transport/round_trippers.go`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.request.user import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP

if TYPE_CHECKING:
    from apfproxy.request.user import User

_VALUE = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
_NOT_IN_NAMES = re.compile(rb"[^!#$&'*+\-.^_`|~0-9a-z]")
_ACCOUNT_PREFIX = "system:serviceaccount:"


class AssertionRefusedError(ValueError):
    """No header field can carry the user."""


def front_proxy_lines(user: User) -> bytes:
    """X-Remote-* lines, each with its CRLF, or AssertionRefusedError."""
    return _lines(b"X-Remote-", user, user.groups)


def impersonation_lines(user: User) -> bytes:
    """Impersonate-* lines, each with its CRLF, or AssertionRefusedError."""
    return _lines(b"Impersonate-", user, _named_groups(user))


def _named_groups(user: User) -> tuple[str, ...]:
    """The groups without the virtual one that the server adds: naming it takes a permission."""
    added = UNAUTHENTICATED_GROUP if user.is_anonymous else AUTHENTICATED_GROUP
    named = tuple(group for group in user.groups if group != added)
    if not user.is_anonymous and UNAUTHENTICATED_GROUP in named:
        return user.groups  # with that one it adds none
    if not named and user.name.startswith(_ACCOUNT_PREFIX):
        return user.groups  # without any it adds those of service accounts
    return named


def _lines(prefix: bytes, user: User, groups: tuple[str, ...]) -> bytes:
    lines = [b"%bUser: %b\r\n" % (prefix, _value(user.name))]
    if user.uid:
        lines.append(b"%bUid: %b\r\n" % (prefix, _value(user.uid)))
    lines += [b"%bGroup: %b\r\n" % (prefix, _value(group) if group else b"") for group in groups]
    for key, values in user.extra:
        name = b"%bExtra-%b" % (prefix, _NOT_IN_NAMES.sub(_escaped, _key(key)))
        lines += [b"%b: %b\r\n" % (name, _value(value) if value else b"") for value in values]
    return b"".join(lines)


def _value(text: str) -> bytes:
    if text.isascii() and text.isprintable() and text.strip(" ") is text and text:
        return text.encode()  # most; a third of the time
    if _VALUE.fullmatch(text) is None:
        raise AssertionRefusedError("a name or value of the user cannot be in a header field")
    return _encoded(text)


def _key(text: str) -> bytes:
    if not text:
        raise AssertionRefusedError("a key of the user's extra values is empty")
    return _encoded(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise AssertionRefusedError("a name or value of the user is not Unicode") from error


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]
