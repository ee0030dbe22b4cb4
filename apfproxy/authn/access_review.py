"""Whether a user may do something, as the upstream says: SubjectAccessReviews.

Their answers count for some seconds, yes or no, as those of Kubernetes' own authorization webhook
do.  An upstream that does not answer is not remembered; the last yes counts for a while longer
(`cache`).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.authn.cache import AnswerCache, AskFailedError
from apfproxy.authn.token_review import ReviewError, flag, status_of
from apfproxy.authn.verdict import UpstreamApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.upstream_api import UpstreamApi
    from apfproxy.request.user import User
    from apfproxy.settings import ReviewSettings

API_VERSION = "authorization.k8s.io/v1"
KIND = "SubjectAccessReview"
PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Access(NamedTuple):
    """Something that a user may or may not do to a resource; "" is any, or none."""

    verb: str
    resource: str
    name: str
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""


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
        """What the upstream said a short time ago; None if it has to be asked."""
        kept = self._answers.get(self._key(user, access))
        return None if kept is None else kept.value

    def lifetime_s(self, user: User, access: Access) -> float:
        """For how long what `check` says still counts; 0 if it says nothing."""
        kept = self._answers.get(self._key(user, access))
        return 0.0 if kept is None else kept.until_s - self._now_s()

    async def review(self, user: User, access: Access, address: str) -> bool | None:
        """What the upstream says; None if it does not answer, of which its API warns.

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
        """Forget what the upstream said."""
        self._answers.clear()

    def _key(self, user: User, access: Access) -> bytes:
        """What the answer depends on, unambiguous for any names, in half the time of JSON."""
        if user is not self._user:
            whole = repr((user.name, user.groups, user.uid, user.extra))
            self._user, self._digest = user, hashlib.sha256(whole.encode()).digest()
        return self._digest + repr(tuple(access)).encode()

    async def _ask(
        self, user: User, access: Access, address: str, *, comes_first: bool
    ) -> tuple[bool, float]:
        asked = question(user, access)
        answer = await self._api.post(PATH, asked, address, comes_first=comes_first)
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
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}


def is_allowed(answer: dict[str, Any]) -> bool:
    """What a SubjectAccessReview says, no if both; raises ReviewError without an answer."""
    status = status_of(answer, API_VERSION, KIND)
    if "allowed" not in status:
        raise ReviewError("status.allowed is missing")
    is_denied = flag(status.get("denied"), "status.denied")
    return flag(status["allowed"], "status.allowed") and not is_denied
