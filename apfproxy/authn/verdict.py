"""What an authenticator finds out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from apfproxy.request.user import User


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whose a token is.

    Attributes:
        user: Whose; None if it is nobody's as far as this authenticator knows.  Without virtual
            groups, but for those that the token's issuer or reviewer names.
        lifetime_s: How long this holds, in seconds from now.
        problem: Why it is nobody's, for the log: never with the token, nor any part of it; one of
            few texts, as the log has a line of each.
        is_open: Whether that could not be found out, so that the token may well be somebody's.
    """

    user: User | None
    lifetime_s: float
    problem: str = ""
    is_open: bool = False


class TokenAuthenticator(Protocol):
    """Knows some bearer tokens."""

    def check(self, token: str) -> Verdict | None:
        """The verdict if it needs nobody else to be asked, at once; None: `await review`."""

    async def review(self, token: str, address: str) -> Verdict:
        """The verdict, whatever it takes; open if it cannot be had.

        Args:
            token: It.
            address: Of the client, among which whoever is asked is shared fairly.
        """
