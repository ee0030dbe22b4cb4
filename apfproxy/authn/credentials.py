"""What a request says about who asks; nothing of it is believed yet.

Nothing here shows a token in its repr, so no log and no traceback can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.request.user import User


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the header fields of a request.

    Attributes:
        token: The bearer token of Authorization or of the WebSocket subprotocol; "" if none.
        claimed: Whom the identity fields name, as they name them; None if they name nobody.
        impersonated: Whom the Impersonate-* fields name, likewise; its groups and so on are
            only those that were given.
    """

    token: str = field(default="", repr=False)
    claimed: User | None = None
    impersonated: User | None = None


NO_CREDENTIALS = Credentials()


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of the other end of a client's connection.

    Attributes:
        user: Of its certificate, if a client CA signed that; with no virtual groups.
        is_front_proxy: Whether its identity fields are believed.
        has_certificate: Whether it showed one.
        problem: Why its certificate is no good; "" if it has none, or one that is good.
        valid_until_s: Unix time until which all this holds: certificates expire.
    """

    user: User | None = None
    is_front_proxy: bool = False
    has_certificate: bool = False
    problem: str = ""
    valid_until_s: float = float("inf")


UNKNOWN_PEER = Peer()
TRUSTED_PEER = Peer(is_front_proxy=True)
"""One at an address from which identity fields are believed."""
