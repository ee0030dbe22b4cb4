"""Header fields with credentials, read as kube-apiserver reads them.

There are four kinds: Authorization; the fields of a front proxy, whose names can be set; those of
impersonation; and those that tell clients apart, API keys among them.  Where kube-apiserver takes
the first of several values, and another server may take the last, several are refused.

Source: kubernetes/apiserver, `authentication/request/headerrequest` and
`endpoints/filters/impersonation.go`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.authn.credentials import NO_CREDENTIALS, Credentials
from apfproxy.authn.unverified_names import UnverifiedError, UnverifiedRules, alias_of_address
from apfproxy.request.attributes import User, unescaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.settings import AuthenticationSettings

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
    """Which header fields name the user; all names are in lower case.

    Attributes:
        usernames, uids, groups: Of a front proxy's fields; of a kind the first present one counts.
        extra_prefixes: Of names that end with a key.
        names, prefixes: Those above and Kubernetes' own, which only front proxies may use.
        key_name: Of the field with an API key; b"" for none.
        naming: That, and those that tell anonymous clients apart; they go on, and every client may
            use them.
        secret_names: Of the fields that have a secret: an API key, verified or not.
        reads_basic: Whether Basic names the user, verified or not.
    """

    usernames: tuple[bytes, ...]
    uids: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    extra_prefixes: tuple[bytes, ...]
    names: frozenset[bytes]
    prefixes: tuple[bytes, ...]
    key_name: bytes
    naming: frozenset[bytes]
    secret_names: frozenset[str]
    reads_basic: bool
    unverified: UnverifiedRules

    @classmethod
    def of(cls, settings: AuthenticationSettings) -> CredentialRules:

        def lower(names: tuple[str, ...]) -> tuple[bytes, ...]:
            return tuple(name.lower().encode() for name in names)

        front_proxy, keys = settings.front_proxy, settings.api_keys
        usernames, uids = lower(front_proxy.username_headers), lower(front_proxy.uid_headers)
        groups = lower(front_proxy.group_headers)
        prefixes = lower(front_proxy.extra_header_prefixes)
        key_name = b"" if keys.file is None else (keys.header or "").lower().encode()
        unverified = UnverifiedRules.of(settings.unverified)
        return cls(
            usernames,
            uids,
            groups,
            prefixes,
            _STANDARD_NAMES.union(usernames, uids, groups),
            tuple({_STANDARD_EXTRA_PREFIX, *prefixes}),
            key_name,
            unverified.names.union((key_name,) if key_name else ()),
            frozenset(name.decode() for name in (key_name, *unverified.secret_headers) if name),
            (keys.file is not None and keys.is_basic) or unverified.is_by_basic,
            unverified,
        )

    def is_claim(self, name: bytes) -> bool:
        """Whether a field is for front proxies only."""
        return name in self.names or name.startswith(self.prefixes)

    def names_user(self, name: bytes) -> bool:
        return name in self.naming or self.is_claim(name)


def is_impersonation(name: bytes) -> bool:
    """Whether a field, by its name in lower case, is one of impersonation."""
    return name.startswith(_IMPERSONATE)


def read_credentials(
    rules: CredentialRules,
    claims: Lines,
    authorizations: list[bytes],
    impersonations: Lines,
    namings: Sequence[tuple[bytes, bytes]] = (),
    *,
    websocket_token: bytes = b"",
    address: str = "",
) -> Credentials:
    """The credentials in the fields of a request.

    Claims are of a front proxy, as `rules.is_claim` says, and namings are of `rules.naming`; the
    address is the client's, if proxies name it that are believed.  CredentialsError if they are
    ambiguous, too long for a name, or not UTF-8.
    """
    if len(authorizations) > 1:
        raise CredentialsError("Authorization is there more than once")
    authorization = authorizations[0] if authorizations else b""
    token = (_bearer_token(authorization) if authorization else "") or _text(websocket_token)
    basic = _basic(authorization) if rules.reads_basic else ""
    claimed = _claimed(rules, claims) if claims else None
    impersonated = _impersonated(impersonations) if impersonations else None
    named = _by_name(namings) if namings else {}
    key = _first(named, (rules.key_name,)) if named else ""
    unverified = rules.unverified
    alias = None
    if basic or named or (authorization and unverified.is_by_authorization):
        secrets = unverified.secret_headers
        values = {
            name: _secret(given) if name in secrets else _first(named, (name,))
            for name, given in named.items()
        }
        try:
            alias = unverified.alias(basic, authorization, values)
        except UnverifiedError as error:
            raise CredentialsError(str(error)) from error
    source = alias_of_address(address) if address and unverified.is_by_address else None
    if not (token or key or basic) and claimed is impersonated is alias is source is None:
        return NO_CREDENTIALS
    return Credentials(token, claimed, impersonated, key, basic, alias, source)


def _bearer_token(value: bytes) -> str:
    """The token of an Authorization field, or "": the second of words that one space separates."""
    words = value.strip(b" \t").split(b" ", 2)
    return _text(words[1]) if len(words) > 1 and words[0].lower() == b"bearer" else ""


def _basic(value: bytes) -> str:
    """User name and password of an Authorization field, still in Base64, or "" ."""
    scheme, _, rest = value.strip(b" \t").partition(b" ")
    return _text(rest.strip(b" ")) if scheme.lower() == b"basic" else ""


def _claimed(rules: CredentialRules, lines: Lines) -> User | None:
    named = _by_name(lines)
    name = _first(named, rules.usernames)
    if not name:
        return None
    # Most have nothing but a name and groups, and of thousands of users few have come before.
    return User(
        name,
        tuple(map(_text, filter(None, (v for g in rules.groups for v in named.get(g, ()))))),
        _first(named, rules.uids),
        () if named.keys() <= rules.names else _extra(lines, rules.extra_prefixes),
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


def _by_name(lines: Sequence[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    named: dict[bytes, list[bytes]] = {}
    for field, value in lines:
        named.setdefault(field, []).append(value)
    return named


def _first(named: dict[bytes, list[bytes]], names: tuple[bytes, ...]) -> str:
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


def _secret(values: list[bytes]) -> str:
    """The values of a secret that nobody verifies, as one: no request is refused for it."""
    return b", ".join(dict.fromkeys(filter(None, values))).decode(errors="surrogateescape")


def _extra(lines: Lines, prefixes: tuple[bytes, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    values: dict[str, list[str]] = {}
    for field, value in lines:
        for prefix in prefixes:
            if field.startswith(prefix) and field != prefix:
                escaped = field[len(prefix) :]
                # As in Go, where one escape is none the others are not either.
                key = _text(unescaped(escaped) if _ESCAPED.fullmatch(escaped) else escaped)
                values.setdefault(key, []).append(_text(value))
                break
    return tuple((key, tuple(values[key])) for key in sorted(values))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CredentialsError("a field that names the user is not UTF-8") from error
