"""Header fields with credentials, read as kube-apiserver reads them; nothing is verified here.

Where kube-apiserver takes the first of several values, and another server may take the last,
several are refused.

Names that tell anonymous clients apart are for flow control and the log alone: their user is in
`system:unauthenticated` only, may not impersonate, and stays `system:anonymous` for the upstream.
A prefix says where the name is from, so that no client can take a name of another kind.

Source: kubernetes/apiserver, `authentication/request/headerrequest` and
`endpoints/filters/impersonation.go`.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import hashlib
import re
from typing import TYPE_CHECKING

from apfproxy.base.address import V6_NETWORK_BITS, address_from, share_of
from apfproxy.base.records import Record
from apfproxy.request.attributes import (
    BY_ADDRESS,
    BY_BASIC,
    BY_COOKIE,
    BY_HEADER,
    BY_KEY,
    User,
    unescaped,
    unverified,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Lines = list[tuple[bytes, bytes]]
"""Names, in lower case, and values of header fields."""

BEARER_CHALLENGE = b'WWW-Authenticate: Bearer realm="apfproxy"\r\n'
"""The header line of a 401 response where no other scheme is known."""
MAX_NAME_BYTES = 256
"""Kubernetes' names have 253 at most.  A longer one is refused: two cut ones may be the same."""
HASH_DIGITS = 16
"""Digits of a secret's SHA-256 that name it: 64 bits tell all secrets apart."""
AUTHORIZATION = b"authorization"
COOKIE = b"cookie"

_STANDARD_NAMES = frozenset((b"x-remote-user", b"x-remote-group", b"x-remote-uid"))
_STANDARD_EXTRA_PREFIX = b"x-remote-extra-"
_IMPERSONATE = b"impersonate-"
_IMPERSONATE_USER = (b"impersonate-user",)
_IMPERSONATE_UID = (b"impersonate-uid",)
_IMPERSONATE_EXTRA = (b"impersonate-extra-",)
_ESCAPED = re.compile(rb"[^%]*+(?:%[0-9a-f]{2}[^%]*+)*+")
_CREDENTIAL = re.compile(rb"(?!basic )[a-z]+ +([^ ,]+)", re.IGNORECASE)


class CredentialsError(ValueError):
    """Credentials that are ambiguous, no text or no name; the client's fault.  Has no value."""


class Credentials(Record, frozen=True):
    """The credentials in the header fields of a request, none of which is verified yet.

    Attributes:
        claimed: The user that the fields of a front proxy name.
        impersonated: The user that Impersonate-* fields name, with only the groups they name.
        basic: User name and password, still in Base64.
        alias: The user that an anonymous client counts as in flow control, and nowhere else.
        source: The same by the address that a proxy names which is believed.
    """

    token: str = ""
    claimed: User | None = None
    impersonated: User | None = None
    key: str = ""
    basic: str = ""
    alias: User | None = None
    source: User | None = None

    def __repr__(self) -> str:
        users = self.claimed, self.impersonated, self.alias, self.source
        return f"<Credentials with users {users}>"  # none of the secrets


NO_CREDENTIALS = Credentials()


class UnverifiedRules:
    """The header fields that tell anonymous clients apart, by their names in lower case."""

    def __init__(
        self,
        secret_headers: Sequence[str] = (),
        headers: Sequence[str] = (),
        cookies: Sequence[str] = (),
        *,
        is_by_basic: bool = False,
        is_by_address: bool = False,
    ) -> None:
        self.secret_headers = _lower(secret_headers)
        self.headers = _lower(headers)
        self.cookies = tuple(b";%b=" % name.encode() for name in cookies)  # their case counts
        self.is_by_basic = is_by_basic
        self.is_by_address = is_by_address
        self.is_by_authorization = AUTHORIZATION in self.secret_headers

    def alias(
        self, basic: str, authorization: bytes, values: Mapping[bytes, str], cookies: bytes = b""
    ) -> User | None:
        """The user that a request of an anonymous client names, if any.

        Of secrets, what is no UTF-8 is escaped.  CredentialsError: too long, or cannot be printed.
        """
        if self.is_by_basic and basic:
            with contextlib.suppress(BasicError):  # which the server will have to refuse
                if name := user_and_password(basic)[0]:
                    return unverified(BY_BASIC, _checked(name, "the user name of Basic"))
        for header in self.secret_headers:
            secret = values.get(header, "").encode(errors="surrogateescape")
            if header == AUTHORIZATION and (found := _CREDENTIAL.fullmatch(authorization)):
                secret = found[1]
            if secret:
                return unverified(BY_KEY, name_of_secret(secret))
        if cookies and (session := self._session(cookies)):
            return unverified(BY_COOKIE, name_of_secret(session))
        for header in self.headers:
            if value := values.get(header):
                return unverified(BY_HEADER, _checked(value, header.decode()))
        return None

    def _session(self, fields: bytes) -> bytes:
        """The value of the first of the cookies that is there, without blanks; b"" for none."""
        text = b";%b;" % fields.translate(None, b" \t")
        for cookie in self.cookies:
            start = text.find(cookie) + len(cookie)
            if start >= len(cookie) and (value := text[start : text.index(b";", start)]):
                return value
        return b""


class CredentialRules:
    """Rules for the header fields that name the user; all names are in lower case.

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

    def __init__(
        self,
        username_headers: Sequence[str],
        uid_headers: Sequence[str],
        group_headers: Sequence[str],
        extra_header_prefixes: Sequence[str],
        *,
        key_header: str,
        reads_basic: bool,
        unverified: UnverifiedRules,
    ) -> None:
        self.usernames = _lower(username_headers)
        self.uids = _lower(uid_headers)
        self.groups = _lower(group_headers)
        self.extra_prefixes = _lower(extra_header_prefixes)
        self.names = _STANDARD_NAMES.union(self.usernames, self.uids, self.groups)
        self.prefixes = tuple({_STANDARD_EXTRA_PREFIX, *self.extra_prefixes})
        self.key_name = key_name = key_header.lower().encode()
        secrets = {key_name, *unverified.secret_headers} - {b""}
        cookies = {COOKIE} if unverified.cookies else set()
        self.naming = frozenset(secrets.union(unverified.headers, cookies) - {AUTHORIZATION})
        self.secret_names = frozenset(name.decode() for name in secrets)
        self.reads_basic = reads_basic or unverified.is_by_basic
        self.unverified = unverified

    def is_claim(self, name: bytes) -> bool:
        return name in self.names or name.startswith(self.prefixes)

    def names_user(self, name: bytes) -> bool:
        return name in self.naming or self.is_claim(name)


def is_impersonation(name: bytes) -> bool:
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

    CredentialsError if they are ambiguous, too long for a name, or not UTF-8.
    """
    if len(authorizations) > 1:
        raise CredentialsError("Authorization is there more than once")
    authorization = authorizations[0] if authorizations else b""
    token = (_bearer_token(authorization) if authorization else "") or _text(websocket_token)
    scheme, _, rest = authorization.strip(b" \t").partition(b" ")
    is_basic = rules.reads_basic and scheme.lower() == b"basic"
    basic = _text(rest.strip(b" ")) if is_basic else ""
    claimed = _claimed(rules, claims) if claims else None
    impersonated = _impersonated(impersonations) if impersonations else None
    named = _by_name(namings) if namings else {}
    key = _first(named, (rules.key_name,)) if named else ""
    alias = None
    if basic or named or (authorization and rules.unverified.is_by_authorization):
        cookies = b"; ".join(named.pop(COOKIE, ()))
        secrets = rules.unverified.secret_headers
        values = {
            name: _secret(given) if name in secrets else _first(named, (name,))
            for name, given in named.items()
        }
        alias = rules.unverified.alias(basic, authorization, values, cookies)
    source = alias_of_address(address) if address and rules.unverified.is_by_address else None
    if not (token or key or basic) and claimed is impersonated is alias is source is None:
        return NO_CREDENTIALS
    return Credentials(token, claimed, impersonated, key, basic, alias, source)


def _bearer_token(value: bytes) -> str:
    """The second of words that one space separates."""
    words = value.strip(b" \t").split(b" ", 2)
    return _text(words[1]) if len(words) > 1 and words[0].lower() == b"bearer" else ""


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


class BasicError(ValueError):
    """There is no user name and password; the client's fault."""


def user_and_password(encoded: str) -> tuple[str, bytes]:
    """Both of what stands behind the scheme, or BasicError; the password's bytes as they are."""
    try:
        pair = binascii.a2b_base64(encoded, strict_mode=True)
        name, colon, password = pair.partition(b":")
        user = name.decode()
    except (binascii.Error, ValueError):  # its text may have a part of it
        raise BasicError("Basic is not a user name and a password in Base64") from None
    if not colon:
        raise BasicError("Basic has no password")
    return user, password


def name_of_secret(secret: bytes) -> str:
    """The name of a secret wherever it can be read: the first digits of its hash."""
    return hashlib.sha256(secret).hexdigest()[:HASH_DIGITS]


@functools.lru_cache(maxsize=4096)
def alias_of_address(address: str) -> User | None:
    """The user by an address: of IPv6 its network of 64 bits; None for what is no IP address."""
    parsed = address_from(address)
    if parsed is None:
        return None
    suffix = f"/{V6_NETWORK_BITS}" if parsed.version == 6 else ""
    return unverified(BY_ADDRESS, share_of(address) + suffix)


def _checked(name: str, what: str) -> str:
    if len(name.encode()) > MAX_NAME_BYTES:
        raise CredentialsError(f"{what} is longer than {MAX_NAME_BYTES} bytes")
    # Control characters, and those that change the direction or look of a text.
    if not name.isprintable():
        raise CredentialsError(f"{what} has a character that cannot be printed")
    return name


def _lower(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in names)


def _by_name(lines: Sequence[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    named: dict[bytes, list[bytes]] = {}
    for name, value in lines:
        named.setdefault(name, []).append(value)
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
    """The values of an unverified secret as one: no request is refused for it."""
    return b", ".join(dict.fromkeys(filter(None, values))).decode(errors="surrogateescape")


def _extra(lines: Lines, prefixes: tuple[bytes, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    values: dict[str, list[str]] = {}
    for name, value in lines:
        for prefix in prefixes:
            if name.startswith(prefix) and name != prefix:
                escaped = name[len(prefix) :]
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
