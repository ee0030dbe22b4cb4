"""Credentials of a request and of a connection; no repr shows a token."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from apfproxy.request.attributes import User

UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and surrogates, which JSON can have but UTF-8 cannot."""

BEARER_CHALLENGE = b'WWW-Authenticate: Bearer realm="apfproxy"\r\n'
"""The header line of an answer 401 where no other scheme is known."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the header fields of a request, none of which is verified yet.

    Attributes:
        token: The bearer token of Authorization or of the WebSocket subprotocol.
        claimed: The user that the fields of a front proxy name.
        impersonated: The user that Impersonate-* fields name, with only the groups they name.
        basic: User name and password, still in Base64.
        alias: The user that an anonymous client counts as in flow control, and nowhere else.
        source: The same by the address that a proxy names which is believed.
    """

    token: str = field(default="", repr=False)
    claimed: User | None = None
    impersonated: User | None = None
    key: str = field(default="", repr=False)
    basic: str = field(default="", repr=False)
    alias: User | None = None
    source: User | None = None


NO_CREDENTIALS = Credentials()


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a client's connection.

    Attributes:
        user: Of a certificate that a client CA signed; without virtual groups.
        is_front_proxy: Whether its identity fields are trusted.
        problem: Why its certificate is not accepted; "" without one, or with a good one.
        valid_until_s: Unix time until which all this holds: certificates expire.
        alias: The user that it counts as in flow control by its address, if it is anonymous.
    """

    user: User | None = None
    is_front_proxy: bool = False
    has_certificate: bool = False
    problem: str = ""
    valid_until_s: float = float("inf")
    alias: User | None = None


UNKNOWN_PEER = Peer()


class Access(NamedTuple):
    """Something that a user may or may not do to a resource; "" is any, or none."""

    verb: str
    resource: str
    name: str
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user of a token; None if this authenticator does not know it.

    Virtual groups are only those that the token's issuer or reviewer names.

    Attributes:
        lifetime_s: How long this holds, in seconds from now.
        problem: Why there is no user, for the log, without any part of the token; one of few texts,
            as each is a line of it.
        is_open: Whether another server did not answer, so that the token may be somebody's.
    """

    user: User | None
    lifetime_s: float
    problem: str = ""
    is_open: bool = False


class TokenAuthenticator(Protocol):
    """Authenticates some bearer tokens."""

    def check(self, token: str) -> Verdict | None:
        """The verdict; None if another server has to be asked: `await review`."""

    async def review(self, token: str, address: str) -> Verdict:
        """The verdict; other servers are shared fairly among the clients' addresses."""
