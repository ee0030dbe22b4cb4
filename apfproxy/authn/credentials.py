"""Credentials of a connection, and what authenticators say of those of a request."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from apfproxy.base.records import Record
from apfproxy.request.attributes import User  # noqa: TC001  compiled, records have it at run time

# Control characters, and surrogates, which JSON can have but UTF-8 cannot.
UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Peer(Record, frozen=True):
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
    """An access to a resource that is allowed or denied; "" is any, or none."""

    verb: str
    resource: str
    name: str
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""


class Verdict(Record, frozen=True):
    """The user of a token; None if this authenticator does not know it.

    Virtual groups are only those that the token's issuer or reviewer names.

    Attributes:
        lifetime_s: How long this holds, in seconds from now.
        problem: Why there is no user, for the log: one of few texts, without any part of the token.
        is_open: Whether another server did not respond, so that the token may be good.
    """

    user: User | None
    lifetime_s: float
    problem: str = ""
    is_open: bool = False


class TokenAuthenticator(Protocol):
    def check(self, token: str) -> Verdict | None:
        """The verdict; None if another server has to be asked: `await review`."""

    async def review(self, token: str, address: str) -> Verdict:
        """The verdict; other servers are shared fairly among the clients' addresses."""
