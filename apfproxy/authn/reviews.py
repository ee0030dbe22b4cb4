"""Reviews, by which the upstream says whose a token is, and whether a user may do something.

A response to a TokenReview or SubjectAccessReview counts for some seconds, yes or no.  If the
upstream does not respond, the last yes counts for a while longer (`cache`); without one the verdict
on a token is open.  Kubernetes caches its own webhooks' responses, too (kubernetes/apiserver,
pkg/authentication/token/cache).  Stricter than Kubernetes: every part of a response has to be
well-formed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from apfproxy.authn.cache import AnswerCache, AskFailedError
from apfproxy.authn.credentials import UNFIT, Verdict
from apfproxy.authn.upstream_api import UpstreamApiError
from apfproxy.request.attributes import User

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.cache import CachedAnswer
    from apfproxy.authn.credentials import Access
    from apfproxy.authn.upstream_api import UpstreamApi
    from apfproxy.settings import ReviewSettings

V = TypeVar("V")
S = TypeVar("S")


class ReviewKind(NamedTuple):
    """A kind of reviews, and the path at which they are created."""

    api_version: str
    kind: str
    path: str

    def of(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": self.kind, "spec": spec}


TOKEN_REVIEW = ReviewKind(
    "authentication.k8s.io/v1", "TokenReview", "/apis/authentication.k8s.io/v1/tokenreviews"
)
ACCESS_REVIEW = ReviewKind(
    "authorization.k8s.io/v1",
    "SubjectAccessReview",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
)

MAX_TOKEN_BYTES = 1 << 15  # as many as a JSON Web Token may have
# Names, groups and extra values of a user together: thousands of users may be cached.
MAX_USER_CHARACTERS = 65536

TOO_LONG = Verdict(None, 0.0, f"the token is longer than {MAX_TOKEN_BYTES} bytes")


class UserInfo(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str] | None] | None = None


class TokenStatus(msgspec.Struct):
    authenticated: bool | None = None
    user: UserInfo | None = None
    audiences: list[str] | None = None


class AccessStatus(msgspec.Struct):
    allowed: bool | None
    denied: bool | None = None


class ReviewError(Exception):
    """The response is no review.  Quotes nothing of it."""


class UnfitUserError(ReviewError):
    """The response names a user for whom no request can be forwarded."""


NO_ANSWER = (UpstreamApiError, ReviewError, AskFailedError)


class Reviews(Generic[V]):
    """Asks the upstream for reviews of a kind, and caches the responses; `now_s` is monotonic."""

    def __init__(
        self, api: UpstreamApi, settings: ReviewSettings, now_s: Callable[[], float]
    ) -> None:
        self._api = api
        self._settings = settings
        self._now_s = now_s
        self._answers: AnswerCache[V] = AnswerCache(
            now_s, settings.max_cached, self._is_good, settings.grace_s
        )

    def clear(self) -> None:
        self._answers.clear()

    async def _answer(
        self, secret: bytes, address: str, asked: Callable[[], dict[str, Any]], path: str
    ) -> CachedAnswer[V]:
        """The response to a review, which is made only if asked; raises one of `NO_ANSWER`."""

        async def ask(has_last: bool) -> tuple[V, float]:
            answer = await self._api.post(path, asked(), address, comes_first=has_last)
            return self._read(answer), self._settings.cache_s

        kept = await self._answers.get_or_ask(secret, ask)
        if kept.stands_in:
            self._api.stand_ins_total += 1
        return kept

    def _read(self, answer: dict[str, Any]) -> V:
        raise NotImplementedError

    def _is_good(self, value: V) -> bool:
        return bool(value)


class TokenReviews(Reviews[Verdict]):
    """Asks the upstream for the users of tokens, which have to be for the upstream itself."""

    def check(self, token: str) -> Verdict | None:
        secret = token.encode("utf-8", "surrogatepass")
        if len(secret) > MAX_TOKEN_BYTES:
            return TOO_LONG
        kept = self._answers.get(secret)
        return None if kept is None else self._aged(kept)

    async def review(self, token: str, address: str) -> Verdict:
        secret = token.encode("utf-8", "surrogatepass")
        if len(secret) > MAX_TOKEN_BYTES:
            return TOO_LONG
        try:
            kept = await self._answer(
                secret, address, lambda: TOKEN_REVIEW.of({"token": token}), TOKEN_REVIEW.path
            )
        except NO_ANSWER as error:
            return Verdict(None, 0.0, f"no answer to a TokenReview: {error}", is_open=True)
        return self._aged(kept)

    def _aged(self, kept: CachedAnswer[Verdict]) -> Verdict:
        verdict = kept.value
        return Verdict(verdict.user, max(0.0, kept.until_s - self._now_s()), verdict.problem)

    def _read(self, answer: dict[str, Any]) -> Verdict:
        lifetime_s = self._settings.cache_s
        try:
            return verdict_of(answer, lifetime_s)
        except UnfitUserError as error:
            return Verdict(None, lifetime_s, f"a TokenReview of a user who is no good: {error}")

    def _is_good(self, value: Verdict) -> bool:
        return value.user is not None


class AccessReviews(Reviews[bool]):
    # The last user and a digest of theirs: users can have thousands of groups, and are asked about
    # once for each thing that they want.
    _user: User | None = None
    _digest = b""

    @property
    def timeout_s(self) -> float:
        return self._settings.timeout_s

    def check(self, user: User, access: Access) -> bool | None:
        kept = self._answers.get(self._key(user, access))
        return None if kept is None else kept.value

    def lifetime_s(self, user: User, access: Access) -> float:
        """For how long what `check` says still counts; 0 if it says nothing."""
        kept = self._answers.get(self._key(user, access))
        return 0.0 if kept is None else kept.until_s - self._now_s()

    async def review(self, user: User, access: Access, address: str) -> bool | None:
        """Whether the upstream allows it; None if it does not respond.

        The user has all groups that count, virtual ones included.
        """
        key = self._key(user, access)
        try:
            kept = await self._answer(
                key, address, lambda: question(user, access), ACCESS_REVIEW.path
            )
        except NO_ANSWER:
            return None
        return kept.value

    def _read(self, answer: dict[str, Any]) -> bool:
        return is_allowed(answer)

    def _key(self, user: User, access: Access) -> bytes:
        """The cache's key, unambiguous for any names, in half the time of JSON."""
        if user is not self._user:
            whole = repr((user.name, user.groups, user.uid, user.extra))
            self._user, self._digest = user, hashlib.sha256(whole.encode()).digest()
        return self._digest + repr(tuple(access)).encode()


def question(user: User, access: Access) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "resourceAttributes": {key: value for key, value in access._asdict().items() if value},
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return ACCESS_REVIEW.of(spec)


def is_allowed(answer: dict[str, Any]) -> bool:
    """The verdict of a SubjectAccessReview, no if it says both, or ReviewError."""
    status = _status_of(answer, ACCESS_REVIEW, AccessStatus)
    return bool(status.allowed) and not status.denied


def verdict_of(answer: dict[str, Any], lifetime_s: float) -> Verdict:
    """The verdict of a TokenReview; `status.error` is not quoted, as it might quote the token."""
    status = _status_of(answer, TOKEN_REVIEW, TokenStatus)
    if not status.authenticated:
        return Verdict(None, lifetime_s, "the upstream says that the token has no user")
    return Verdict(_user_of(status.user), lifetime_s)


def _status_of(answer: dict[str, Any], review: ReviewKind, kind: type[S]) -> S:
    if answer.get("apiVersion") != review.api_version or answer.get("kind") != review.kind:
        raise ReviewError(f"the answer is no {review.kind} of {review.api_version}")
    try:
        return msgspec.convert(answer.get("status"), kind)
    except msgspec.ValidationError as error:
        raise ReviewError(f"status: {error}") from None


def _user_of(info: UserInfo | None) -> User:
    if info is None:
        raise ReviewError("status.user is missing")
    if not info.username:
        raise UnfitUserError("status.user.username is empty")
    extra = [(key, tuple(values or ())) for key, values in (info.extra or {}).items()]
    user = User(info.username, tuple(info.groups or ()), info.uid or "", tuple(extra))
    texts = [user.name, user.uid, *user.groups]
    texts += [text for key, values in extra for text in (key, *values)]
    if any(map(UNFIT.search, texts)):
        raise UnfitUserError("status.user has control characters")
    if sum(map(len, texts)) > MAX_USER_CHARACTERS:
        raise UnfitUserError(f"status.user has more than {MAX_USER_CHARACTERS} characters")
    return user
