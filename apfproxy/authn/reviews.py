"""Reviews, by which the upstream says whose a token is, and whether a user may do something.

TokenReviews and SubjectAccessReviews are asked.  An answer counts for some seconds, yes or no.  If
the upstream does not answer, the last yes counts for a while longer (`cache`); without one the
verdict on a token is open.  Kubernetes caches its own webhooks' answers likewise
(kubernetes/apiserver, pkg/authentication/token/cache).  Stricter than Kubernetes: every part of an
answer has to be well-formed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.authn.cache import AnswerCache, AskFailedError
from apfproxy.authn.credentials import UNFIT, Verdict
from apfproxy.authn.upstream_api import UpstreamApiError
from apfproxy.request.user import User

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.credentials import Access
    from apfproxy.authn.upstream_api import UpstreamApi
    from apfproxy.settings import ReviewSettings


class ReviewKind(NamedTuple):
    """A kind of reviews, and the path at which they are created."""

    api_version: str
    kind: str
    path: str


TOKEN_REVIEW = ReviewKind(
    "authentication.k8s.io/v1", "TokenReview", "/apis/authentication.k8s.io/v1/tokenreviews"
)
ACCESS_REVIEW = ReviewKind(
    "authorization.k8s.io/v1",
    "SubjectAccessReview",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
)

MAX_TOKEN_BYTES = 1 << 15
"""Tokens of service accounts have 1 KiB; as many as a JSON Web Token may have."""
MAX_USER_CHARACTERS = 65536
"""Of a user's names, groups and extra values together, as thousands of users may be cached."""

TOO_LONG = Verdict(None, 0.0, f"the token is longer than {MAX_TOKEN_BYTES} bytes")


class ReviewError(Exception):
    """The answer is no review.  Quotes nothing of it."""


class UnfitUserError(ReviewError):
    """The answer names a user for whom no request can be forwarded."""


class TokenReviews:
    """Asks the upstream for the users of tokens, which have to be for the upstream itself."""

    def __init__(
        self, api: UpstreamApi, settings: ReviewSettings, now_s: Callable[[], float]
    ) -> None:
        self._api = api
        self._settings = settings
        self._now_s = now_s
        self._answers: AnswerCache[Verdict] = AnswerCache(
            now_s, settings.max_cached, lambda verdict: verdict.user is not None, settings.grace_s
        )

    def check(self, token: str) -> Verdict | None:
        """The cached verdict; None if the upstream has to be asked."""
        secret = token.encode("utf-8", "surrogatepass")
        if len(secret) > MAX_TOKEN_BYTES:
            return TOO_LONG
        kept = self._answers.get(secret)
        return None if kept is None else self._aged(kept.value, kept.until_s)

    async def review(self, token: str, address: str) -> Verdict:
        """The upstream's verdict; open if it gives none."""
        secret = token.encode("utf-8", "surrogatepass")
        if len(secret) > MAX_TOKEN_BYTES:
            return TOO_LONG
        try:
            kept = await self._answers.get_or_ask(
                secret, lambda has_last: self._ask(token, address, comes_first=has_last)
            )
        except (UpstreamApiError, ReviewError, AskFailedError) as error:
            return Verdict(None, 0.0, f"no answer to a TokenReview: {error}", is_open=True)
        if kept.stands_in:
            self._api.stand_ins_total += 1
        return self._aged(kept.value, kept.until_s)

    def clear(self) -> None:
        self._answers.clear()

    def _aged(self, verdict: Verdict, until_s: float) -> Verdict:
        return Verdict(verdict.user, max(0.0, until_s - self._now_s()), verdict.problem)

    async def _ask(self, token: str, address: str, *, comes_first: bool) -> tuple[Verdict, float]:
        asked = review_of(TOKEN_REVIEW, {"token": token})
        answer = await self._api.post(TOKEN_REVIEW.path, asked, address, comes_first=comes_first)
        lifetime_s = self._settings.cache_s
        try:
            verdict = verdict_of(answer, lifetime_s)
        except UnfitUserError as error:
            verdict = Verdict(None, lifetime_s, f"a TokenReview of a user who is no good: {error}")
        return verdict, lifetime_s


class AccessReviews:
    """Asks the upstream who may do what, and caches its answers; `now_s` is monotonic."""

    def __init__(
        self, api: UpstreamApi, settings: ReviewSettings, now_s: Callable[[], float]
    ) -> None:
        self._api = api
        self._settings = settings
        self._now_s = now_s
        self._answers: AnswerCache[bool] = AnswerCache(
            now_s, settings.max_cached, bool, settings.grace_s
        )
        # The last user and a digest of theirs: users can have thousands of groups, and are asked
        # about once for each thing that they want.
        self._user: User | None = None
        self._digest = b""

    @property
    def timeout_s(self) -> float:
        """How long the questions for one request may take."""
        return self._settings.timeout_s

    def check(self, user: User, access: Access) -> bool | None:
        kept = self._answers.get(self._key(user, access))
        return None if kept is None else kept.value

    def lifetime_s(self, user: User, access: Access) -> float:
        """For how long what `check` says still counts; 0 if it says nothing."""
        kept = self._answers.get(self._key(user, access))
        return 0.0 if kept is None else kept.until_s - self._now_s()

    async def review(self, user: User, access: Access, address: str) -> bool | None:
        """The upstream's word; None if it does not answer, of which its API warns.

        The user has all groups that count, virtual ones included.
        """
        try:
            kept = await self._answers.get_or_ask(
                self._key(user, access),
                lambda has_last: self._ask(user, access, address, comes_first=has_last),
            )
        except (UpstreamApiError, ReviewError, AskFailedError):
            return None
        if kept.stands_in:
            self._api.stand_ins_total += 1
        return kept.value

    def clear(self) -> None:
        self._answers.clear()

    def _key(self, user: User, access: Access) -> bytes:
        """The cache's key, unambiguous for any names, in half the time of JSON."""
        if user is not self._user:
            whole = repr((user.name, user.groups, user.uid, user.extra))
            self._user, self._digest = user, hashlib.sha256(whole.encode()).digest()
        return self._digest + repr(tuple(access)).encode()

    async def _ask(
        self, user: User, access: Access, address: str, *, comes_first: bool
    ) -> tuple[bool, float]:
        asked = question(user, access)
        answer = await self._api.post(ACCESS_REVIEW.path, asked, address, comes_first=comes_first)
        return is_allowed(answer), self._settings.cache_s


def question(user: User, access: Access) -> dict[str, Any]:
    """The SubjectAccessReview that asks."""
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "resourceAttributes": {key: value for key, value in access._asdict().items() if value},
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return review_of(ACCESS_REVIEW, spec)


def is_allowed(answer: dict[str, Any]) -> bool:
    """The answer of a SubjectAccessReview, no if it says both, or ReviewError."""
    status = status_of(answer, ACCESS_REVIEW)
    if "allowed" not in status:
        raise ReviewError("status.allowed is missing")
    is_denied = flag(status.get("denied"), "status.denied")
    return flag(status["allowed"], "status.allowed") and not is_denied


def verdict_of(answer: dict[str, Any], lifetime_s: float) -> Verdict:
    """The verdict of a TokenReview; `status.error` is not quoted, as it might quote the token."""
    status = status_of(answer, TOKEN_REVIEW)
    texts(status.get("audiences"), "status.audiences")
    if not flag(status.get("authenticated"), "status.authenticated"):
        return Verdict(None, lifetime_s, "the upstream says that the token is nobody's")
    return Verdict(user_of(status.get("user")), lifetime_s)


def review_of(kind: ReviewKind, spec: dict[str, Any]) -> dict[str, Any]:
    """The review that asks."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}


def status_of(answer: dict[str, Any], kind: ReviewKind) -> dict[str, Any]:
    """The status of a review.  Raises ReviewError without one."""
    if answer.get("apiVersion") != kind.api_version or answer.get("kind") != kind.kind:
        raise ReviewError(f"the answer is no {kind.kind} of {kind.api_version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ReviewError("status is missing or no object")
    return status


def user_of(info: object) -> User:
    """The user that a review names."""
    if not isinstance(info, dict):
        raise ReviewError("status.user is missing or no object")
    name = text(info.get("username"), "status.user.username")
    if not name:
        raise UnfitUserError("status.user.username is empty")
    uid = text(info.get("uid"), "status.user.uid")
    groups = texts(info.get("groups"), "status.user.groups")
    extra = info.get("extra")
    if extra is None:
        extra = {}
    if not isinstance(extra, dict):
        raise ReviewError("status.user.extra is no object")
    by_key = {
        text(key, "a key of status.user.extra"): texts(values, "a value of status.user.extra")
        for key, values in extra.items()
    }
    if (
        len(name)
        + len(uid)
        + sum(map(len, groups))
        + sum(len(key) + sum(map(len, values)) for key, values in by_key.items())
        > MAX_USER_CHARACTERS
    ):
        raise UnfitUserError(f"status.user has more than {MAX_USER_CHARACTERS} characters")
    return User(name, groups, uid, tuple(by_key.items()))


def flag(value: object, where: str) -> bool:
    """A boolean, or ReviewError; false if it is left out, as in Go."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ReviewError(f"{where} is no boolean")
    return value


def text(value: object, where: str) -> str:
    """A text, or ReviewError; "" if it is left out.  UnfitUserError if no header can carry it."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReviewError(f"{where} is no text")
    if UNFIT.search(value):
        raise UnfitUserError(f"{where} has control characters")
    return value


def texts(value: object, where: str) -> tuple[str, ...]:
    """A list of texts, or ReviewError; empty if it is left out."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ReviewError(f"{where} is no list of texts")
    return tuple(text(each, where) for each in value)
