"""What authenticators of bearer tokens answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from apfproxy.request.user import User


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user of a token.

    Attributes:
        user: None if this authenticator does not know the token.  Virtual groups are only those
            that the token's issuer or reviewer names.
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


class UpstreamApiError(Exception):
    """The upstream's API gave no usable answer; if that `may_pass`, it may help to ask again."""

    def __init__(self, what: str, *, may_pass: bool = False) -> None:
        super().__init__(what)
        self.may_pass = may_pass
