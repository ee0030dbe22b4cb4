"""Header fields with credentials, read as kube-apiserver reads them.

There are three kinds: Authorization; the fields of a front proxy, whose names can be set; and those
of impersonation.  Where kube-apiserver takes the first of several values, and another server may
take the last, several are refused.

Source: kubernetes/apiserver, `authentication/request/headerrequest` and
`endpoints/filters/impersonation.go`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.authn.credentials import NO_CREDENTIALS, Credentials
from apfproxy.request.target import unescaped
from apfproxy.request.user import User

if TYPE_CHECKING:
    from apfproxy.settings import FrontProxySettings

Lines = list[tuple[bytes, bytes]]
"""Names, in lower case, and values of header fields."""

_STANDARD_NAMES = frozenset((b"x-remote-user", b"x-remote-group", b"x-remote-uid"))
_STANDARD_EXTRA_PREFIX = b"x-remote-extra-"
_IMPERSONATE = b"impersonate-"
_IMPERSONATE_USER = (b"impersonate-user",)
_IMPERSONATE_UID = (b"impersonate-uid",)
_IMPERSONATE_EXTRA = (b"impersonate-extra-",)
_ESCAPED = re.compile(rb"[^%]*+(?:%[0-9a-f]{2}[^%]*+)*+")


class CredentialsError(ValueError):
    """Credentials that are ambiguous, or no text; the client's fault."""


@dataclass(frozen=True, slots=True)
class CredentialRules:
    """The names of a front proxy's fields, in lower case; of a kind the first present one counts.

    Attributes:
        extra_prefixes: Of names that end with a key.
        names, prefixes: Those above and Kubernetes' own, which only front proxies may use.
    """

    usernames: tuple[bytes, ...]
    uids: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    extra_prefixes: tuple[bytes, ...]
    names: frozenset[bytes]
    prefixes: tuple[bytes, ...]

    @classmethod
    def of(cls, settings: FrontProxySettings) -> CredentialRules:
        """The rules by the settings."""

        def lower(names: tuple[str, ...]) -> tuple[bytes, ...]:
            return tuple(name.lower().encode() for name in names)

        usernames, uids = lower(settings.username_headers), lower(settings.uid_headers)
        groups, prefixes = lower(settings.group_headers), lower(settings.extra_header_prefixes)
        return cls(
            usernames,
            uids,
            groups,
            prefixes,
            _STANDARD_NAMES.union(usernames, uids, groups),
            tuple({_STANDARD_EXTRA_PREFIX, *prefixes}),
        )

    def is_claim(self, name: bytes) -> bool:
        """Whether a field, by its name in lower case, is for front proxies only."""
        return name in self.names or name.startswith(self.prefixes)


def is_impersonation(name: bytes) -> bool:
    """Whether a field, by its name in lower case, is one of impersonation."""
    return name.startswith(_IMPERSONATE)


def read_credentials(
    rules: CredentialRules,
    claims: Lines,
    authorizations: list[bytes],
    impersonations: Lines,
    *,
    websocket_token: bytes = b"",
) -> Credentials:
    """The credentials in the fields of a request.

    CredentialsError if they are ambiguous, or not UTF-8.
    """
    if len(authorizations) > 1:
        raise CredentialsError("Authorization is there more than once")
    token = _bearer_token(authorizations[0]) if authorizations else ""
    token = token or _text(websocket_token)
    claimed = _claimed(rules, claims) if claims else None
    impersonated = _impersonated(impersonations) if impersonations else None
    if not token and claimed is None and impersonated is None:
        return NO_CREDENTIALS
    return Credentials(token, claimed, impersonated)


def _bearer_token(value: bytes) -> str:
    """The token of an Authorization field, or "": the second of words that one space separates."""
    words = value.strip(b" \t").split(b" ", 2)
    return _text(words[1]) if len(words) > 1 and words[0].lower() == b"bearer" else ""


def _claimed(rules: CredentialRules, lines: Lines) -> User | None:
    named = _by_name(lines)
    name = _first(named, rules.usernames)
    if not name:
        return None
    # Most have nothing but a name and groups, and of thousands of users few have come before.
    prefixes = rules.extra_prefixes
    return User(
        name,
        tuple(map(_text, filter(None, (v for g in rules.groups for v in named.get(g, ()))))),
        _first(named, rules.uids),
        () if named.keys() <= rules.names else _extra(lines, prefixes),
    )


def _impersonated(lines: Lines) -> User | None:
    named = _by_name(lines)
    if len(named.get(_IMPERSONATE_USER[0], ())) > 1:
        raise CredentialsError("Impersonate-User is there more than once")
    name = _first(named, _IMPERSONATE_USER)
    groups = tuple(map(_text, named.get(b"impersonate-group", ())))
    uid = _first(named, _IMPERSONATE_UID)
    extra = _extra(lines, _IMPERSONATE_EXTRA)
    if name:
        return User(name, groups, uid, extra)
    if groups or uid or extra:
        raise CredentialsError(
            "Impersonate-Group, Impersonate-Uid and Impersonate-Extra-* need Impersonate-User"
        )
    return None


def _by_name(lines: Lines) -> dict[bytes, list[bytes]]:
    """The values of each name, in order."""
    named: dict[bytes, list[bytes]] = {}
    for field, value in lines:
        named.setdefault(field, []).append(value)
    return named


def _first(named: dict[bytes, list[bytes]], names: tuple[bytes, ...]) -> str:
    """The one value of the first field that has any."""
    for name in names:
        found = ""
        for value in named.get(name, ()):
            text = _text(value)
            if text and found and text != found:
                raise CredentialsError(f"{name.decode()} is there more than once")
            found = text or found
        if found:
            return found
    return ""


def _extra(lines: Lines, prefixes: tuple[bytes, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Keys and values of the fields whose names have a prefix and more."""
    values: dict[str, list[str]] = {}
    for field, value in lines:
        for prefix in prefixes:
            if field.startswith(prefix) and field != prefix:
                values.setdefault(_key(field[len(prefix) :]), []).append(_text(value))
                break
    return tuple((key, tuple(values[key])) for key in sorted(values))


def _key(escaped: bytes) -> str:
    """The key that stands, percent-encoded, in the lower-case name of a field.

    As in Go, where one escape is none the others are not either.
    """
    return _text(unescaped(escaped) if _ESCAPED.fullmatch(escaped) else escaped)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CredentialsError("a field that says who asks is not UTF-8") from error
