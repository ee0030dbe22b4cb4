"""Names of anonymous clients that nobody has verified, which tell their flows apart.

Such a name is for flow control and the log alone.  Its user is in `system:unauthenticated` and in
no other group, may not impersonate, and stays `system:anonymous` for the server behind.  A prefix
says where the name is from, so that no client can take a name of another kind, nor one that begins
with `system:`.  Yet whoever knows a name can send it, and one client can send many.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.authn.basic_password import BasicError, user_and_password
from apfproxy.authn.fair_line import V6_NETWORK_BITS, share_of
from apfproxy.request.user import BY_ADDRESS, BY_BASIC, BY_HEADER, BY_KEY, unverified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.request.user import User
    from apfproxy.settings import UnverifiedSettings

MAX_NAME_BYTES = 256
"""Kubernetes' names have 253 at most.  A longer one is refused: two cut ones may be the same."""
HASH_DIGITS = 16
"""Of the SHA-256 of a secret: 64 bits tell all secrets apart."""
AUTHORIZATION = b"authorization"

_CREDENTIAL = re.compile(rb"(?!basic )[a-z]+ +([^ ,]+)", re.IGNORECASE)


class UnverifiedError(ValueError):
    """A name that cannot be one; the client's fault.  Says which field, and no value."""


@dataclass(frozen=True, slots=True)
class UnverifiedRules:
    """What tells anonymous clients apart; fields by their names in lower case.

    Attributes:
        names: Of the fields, but for Authorization.
    """

    is_by_basic: bool = False
    secret_headers: tuple[bytes, ...] = ()
    headers: tuple[bytes, ...] = ()
    is_by_address: bool = False
    is_by_authorization: bool = field(init=False)
    names: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        names = {*self.secret_headers, *self.headers}
        object.__setattr__(self, "is_by_authorization", AUTHORIZATION in names)
        object.__setattr__(self, "names", frozenset(names - {AUTHORIZATION}))

    @classmethod
    def of(cls, settings: UnverifiedSettings) -> UnverifiedRules:
        """The rules by the settings."""
        return cls(
            settings.is_by_basic,
            tuple(name.lower().encode() for name in settings.secret_headers),
            tuple(name.lower().encode() for name in settings.headers),
            settings.is_by_address is True,
        )

    def alias(
        self, basic: str, authorization: bytes, values: Mapping[bytes, str], address: str
    ) -> User | None:
        """The user that the client of a request counts as, if it is anonymous.

        Args:
            basic: User name and password of Basic in Base64; "" for none.
            authorization: The value of Authorization; b"" for none.
            values: Of the fields that have one, by their names.
            address: The client's, if a proxy names it that is believed; "" for none.

        UnverifiedError if what counts is too long, or cannot be printed.
        """
        if self.is_by_basic and (name := _name_of_basic(basic)):
            return unverified(BY_BASIC, _checked(name, "the user name of Basic"))
        for header in self.secret_headers:
            secret = values.get(header, "").encode()
            if header == AUTHORIZATION and (found := _CREDENTIAL.fullmatch(authorization)):
                secret = found[1]
            if secret:
                return unverified(BY_KEY, name_of_secret(secret))
        for header in self.headers:
            if value := values.get(header):
                return unverified(BY_HEADER, _checked(value, header.decode()))
        return alias_of_address(address) if self.is_by_address else None


def name_of_secret(secret: bytes) -> str:
    """What a secret is called wherever it can be read: the first digits of its hash."""
    return hashlib.sha256(secret).hexdigest()[:HASH_DIGITS]


@functools.lru_cache(maxsize=4096)
def alias_of_address(address: str) -> User | None:
    """The user by an address: of IPv6 its network of 64 bits; None for what is no IP address."""
    share = share_of(address.partition("%")[0])
    try:
        version = ipaddress.ip_address(share).version
    except ValueError:
        return None
    suffix = f"/{V6_NETWORK_BITS}" if version == 6 else ""  # noqa: PLR2004 - its own name
    return unverified(BY_ADDRESS, share + suffix)


def _name_of_basic(basic: str) -> str:
    """The user name; "" if there is none, or if the server will have to refuse it."""
    try:
        return user_and_password(basic)[0] if basic else ""
    except BasicError:
        return ""


def _checked(name: str, what: str) -> str:
    if len(name.encode()) > MAX_NAME_BYTES:
        raise UnverifiedError(f"{what} is longer than {MAX_NAME_BYTES} bytes")
    # Control characters, and those that change the direction or look of a text.
    if not name.isprintable():
        raise UnverifiedError(f"{what} has a character that cannot be printed")
    return name
