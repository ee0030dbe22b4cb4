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
        problem: Why it is nobody's, for the log of a debugging operator: never with the token, nor
            any part of it.
    """

    user: User | None
    lifetime_s: float
    problem: str = ""


class TokenAuthenticator(Protocol):
    """Knows some bearer tokens."""

    def check(self, token: str) -> Verdict | None:
        """The verdict if it needs nobody else to be asked, at once; None: `await review`."""

    async def review(self, token: str) -> Verdict:
        """The verdict, whatever it takes; failures to ask are verdicts of nobody, not kept."""
