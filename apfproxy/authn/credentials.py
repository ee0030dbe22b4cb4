"""Credentials of a request and of a connection; no repr shows a token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.request.user import User

BEARER_CHALLENGE = b'WWW-Authenticate: Bearer realm="apfproxy"\r\n'
"""The header line of an answer 401 where no other scheme is known."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the header fields of a request, none of which is verified yet.

    Attributes:
        token: The bearer token of Authorization or of the WebSocket subprotocol; "" if none.
        claimed: The user that the fields of a front proxy name.
        impersonated: The user that Impersonate-* fields name, with only the groups they name.
        key: The API key in its own field; "" if none.
        basic: User name and password of Basic, still in Base64; "" if none.
        alias: The user that an anonymous client counts as in flow control, and nowhere else.
        source: The same by the address that a proxy names which is believed; None if none does.
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
    """What is known of the other end of a client's connection.

    Attributes:
        user: The user of a certificate that a client CA signed; without virtual groups.
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
TRUSTED_PEER = Peer(is_front_proxy=True)
"""One at an address from which identity fields are trusted."""
