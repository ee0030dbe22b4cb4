"""Reviews, by which the upstream says whose a token is, and whether a user may do something.

TokenReviews and SubjectAccessReviews are asked.  A response counts for some seconds, yes or no.  If
the upstream does not respond, the last yes counts for a while longer (`cache`); without one the
verdict on a token is open.  Kubernetes caches its own webhooks' responses, too
(kubernetes/apiserver, pkg/authentication/token/cache).  Stricter than Kubernetes: every part of an
answer has to be well-formed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

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

MAX_TOKEN_BYTES = 1 << 15
"""Tokens of service accounts have 1 KiB; as many as a JSON Web Token may have."""
MAX_USER_CHARACTERS = 65536
"""Bounds a user's names, groups and extra values together, as thousands of users may be cached."""

TOO_LONG = Verdict(None, 0.0, f"the token is longer than {MAX_TOKEN_BYTES} bytes")


class ReviewError(Exception):
    """The answer is no review.  Quotes nothing of it."""


class UnfitUserError(ReviewError):
    """The answer names a user for whom no request can be forwarded."""


NO_ANSWER = (UpstreamApiError, ReviewError, AskFailedError)


class Reviews(Generic[V]):
    """Asks the upstream for reviews of a kind, and caches the answers; `now_s` is monotonic."""

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
        """The answer to a review, which is made only if asked; raises one of `NO_ANSWER`."""

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
    """Asks the upstream who may do what."""

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
        """The upstream's word; None if it does not answer, of which its API warns.

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
    return ACCESS_REVIEW.of(spec)


def is_allowed(answer: dict[str, Any]) -> bool:
    """The answer of a SubjectAccessReview, no if it says both, or ReviewError."""
    status = _status_of(answer, ACCESS_REVIEW)
    if "allowed" not in status:
        raise ReviewError("status.allowed is missing")
    is_denied = _flag(status.get("denied"), "status.denied")
    return _flag(status["allowed"], "status.allowed") and not is_denied


def verdict_of(answer: dict[str, Any], lifetime_s: float) -> Verdict:
    """The verdict of a TokenReview; `status.error` is not quoted, as it might quote the token."""
    status = _status_of(answer, TOKEN_REVIEW)
    _texts(status.get("audiences"), "status.audiences")
    if not _flag(status.get("authenticated"), "status.authenticated"):
        return Verdict(None, lifetime_s, "the upstream says that the token has no user")
    return Verdict(_user_of(status.get("user")), lifetime_s)


def _status_of(answer: dict[str, Any], kind: ReviewKind) -> dict[str, Any]:
    if answer.get("apiVersion") != kind.api_version or answer.get("kind") != kind.kind:
        raise ReviewError(f"the answer is no {kind.kind} of {kind.api_version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ReviewError("status is missing or no object")
    return status


def _user_of(info: object) -> User:
    if not isinstance(info, dict):
        raise ReviewError("status.user is missing or no object")
    name = _text(info.get("username"), "status.user.username")
    if not name:
        raise UnfitUserError("status.user.username is empty")
    uid = _text(info.get("uid"), "status.user.uid")
    groups = _texts(info.get("groups"), "status.user.groups")
    extra = info.get("extra")
    if not isinstance(extra, dict | None):
        raise ReviewError("status.user.extra is no object")
    by_key = {
        _text(key, "a key of status.user.extra"): _texts(values, "a value of status.user.extra")
        for key, values in (extra or {}).items()
    }
    of_extra = sum(len(key) + sum(map(len, values)) for key, values in by_key.items())
    if len(name) + len(uid) + sum(map(len, groups)) + of_extra > MAX_USER_CHARACTERS:
        raise UnfitUserError(f"status.user has more than {MAX_USER_CHARACTERS} characters")
    return User(name, groups, uid, tuple(by_key.items()))


def _flag(value: object, where: str) -> bool:
    """A boolean, or ReviewError; false if it is left out, as in Go."""
    if not isinstance(value, bool | None):
        raise ReviewError(f"{where} is no boolean")
    return bool(value)


def _text(value: object, where: str) -> str:
    """A text, or ReviewError; "" if it is left out.  UnfitUserError if no header can carry it."""
    if not isinstance(value, str | None):
        raise ReviewError(f"{where} is no text")
    if value and UNFIT.search(value):
        raise UnfitUserError(f"{where} has control characters")
    return value or ""


def _texts(value: object, where: str) -> tuple[str, ...]:
    """A list of texts, or ReviewError; empty if it is left out."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ReviewError(f"{where} is no list of texts")
    return tuple(_text(each, where) for each in value)
