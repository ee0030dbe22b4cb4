"""Impersonation: who may be whom.

As in kube-apiserver, a user who impersonates needs permission for each thing that they take on: the
user or service account, each group, each value of each extra key, the uid.  Permissions are asked
for in kube-apiserver's order until one is denied.  Users on the settings' list need none.  Members
of `system:masters` are not special here: kube-apiserver's authorizer permits them anything, another
upstream may not.

If the upstream does not respond, the real user is classified; or the request is refused for now
where the proxy's own rights would decide.  So making reviews fail gains nothing.

The finer verbs of constrained impersonation (such as `impersonate:user-info`) are not asked for:
users with only those are classified as themselves, and the upstream decides.

Source: kubernetes/apiserver, pkg/endpoints/filters/impersonation/impersonation.go, and
pkg/endpoints/handlers/responsewriters/errors.go for the words.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from apfproxy.authn.credentials import Access
from apfproxy.objects.go_text import quoted
from apfproxy.objects.names import check_dns_label, check_dns_subdomain
from apfproxy.request.attributes import UNAUTHENTICATED_GROUP, User, authenticated

if TYPE_CHECKING:
    from apfproxy.authn.reviews import AccessReviews
    from apfproxy.settings import ImpersonationSettings

ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS_GROUP = "system:serviceaccounts"
VERB = "impersonate"
AUTHENTICATION_GROUP = "authentication.k8s.io"

# Things that one request takes on; as many as there may be header fields by default.
MAX_THINGS = 256

# As kube-apiserver's errors, which never look like HTML.
HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Impersonations:
    """Decides who may impersonate whom; without `reviews` the settings alone decide."""

    def __init__(self, settings: ImpersonationSettings, reviews: AccessReviews | None) -> None:
        self._users = frozenset(settings.users)
        self._groups = frozenset(settings.groups)
        self._reviews = reviews

    def check(self, user: User, wanted: User) -> bool | None:
        """Whether the user may be the wanted one; None if the upstream has to be asked: `review`.

        The user has all groups that count, the wanted one what the fields name.
        """
        if self._is_listed(user):
            return True
        if self._reviews is None or len(things := accesses(wanted)) > MAX_THINGS:
            return False
        for access in things:
            is_allowed = self._reviews.check(user, access)
            if not is_allowed:
                return is_allowed
        return True

    def lifetime_s(self, user: User, wanted: User) -> float:
        """How long that holds: for ever by the settings alone, 0 without a response."""
        if self._reviews is None or self._is_listed(user):
            return math.inf
        lifetime_s = math.inf
        things = accesses(wanted)
        for access in things if len(things) <= MAX_THINGS else ():
            lifetime_s = min(lifetime_s, self._reviews.lifetime_s(user, access))
            if not self._reviews.check(user, access):
                break
        return lifetime_s

    async def review(self, user: User, wanted: User, address: str) -> bool | None:
        """Check, and ask the upstream if need be; None if it does not respond."""
        known = self.check(user, wanted)
        if known is not None or self._reviews is None:
            return bool(known)
        try:
            async with asyncio.timeout(self._reviews.timeout_s):
                for access in accesses(wanted):
                    is_allowed = await self._reviews.review(user, access, address)
                    if not is_allowed:
                        return is_allowed
        except TimeoutError:
            return None
        return True

    def forbidden_message(self, user: User, wanted: User) -> str:
        """kube-apiserver's words for the first thing that is not known to be allowed."""
        things = accesses(wanted)
        if self._reviews is not None:
            for access in things[:MAX_THINGS]:
                if not self._reviews.check(user, access):
                    return forbidden_message(user, access)
        return forbidden_message(user, things[0])

    def _is_listed(self, user: User) -> bool:
        return user.name in self._users or not self._groups.isdisjoint(user.groups)


def accesses(wanted: User) -> tuple[Access, ...]:
    """The permissions that it takes to be the wanted user, in kube-apiserver's order."""
    if (account := service_account(wanted.name)) is None:
        things = [Access(VERB, "users", wanted.name)]
    else:
        things = [Access(VERB, "serviceaccounts", account[1], namespace=account[0])]
    things += [Access(VERB, "groups", group) for group in wanted.groups]
    things += [
        Access(VERB, "userextras", value, AUTHENTICATION_GROUP, "v1", subresource=key)
        for key, values in wanted.extra
        for value in values
    ]
    if wanted.uid:
        things.append(Access(VERB, "uids", wanted.uid, AUTHENTICATION_GROUP, "v1"))
    return tuple(things)


def effective(wanted: User) -> User:
    """The user that kube-apiserver makes of the fields that name one.

    A service account without groups gets those of all service accounts and of its namespace.  A
    user who is not anonymous is authenticated, unless the groups say otherwise.  Extra keys are
    decoded already; one that comes twice has the values of both.
    """
    groups = wanted.groups
    if not groups and (account := service_account(wanted.name)) is not None:
        groups = (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{account[0]}")
    extra: dict[str, tuple[str, ...]] = {}
    for key, values in wanted.extra:
        extra[key] = extra.get(key, ()) + values
    user = User(wanted.name, groups, wanted.uid, tuple(extra.items()))
    if user.is_anonymous and UNAUTHENTICATED_GROUP not in groups:
        return User(user.name, (*groups, UNAUTHENTICATED_GROUP), user.uid, user.extra)
    return authenticated(user)


def service_account(username: str) -> tuple[str, str] | None:
    """The namespace and name of the service account with this user name, if it is one's."""
    if not username.startswith(ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username[len(ACCOUNT_PREFIX) :].partition(":")
    if not colon or check_dns_label(namespace) or check_dns_subdomain(name):
        return None
    return namespace, name


def forbidden_message(user: User, access: Access) -> str:
    kind = f"{access.resource}.{access.group}" if access.group else access.resource
    resource = access.resource + (f"/{access.subresource}" if access.subresource else "")
    where = f"in the namespace {quoted(access.namespace)}" if access.namespace else ""
    denied = (
        f"User {quoted(user.name)} cannot {access.verb} resource {quoted(resource)}"
        f" in API group {quoted(access.group)} {where or 'at the cluster scope'}"
    ).translate(HTML_ESCAPES)
    name = f" {quoted(access.name)}" if access.name else ""
    return f"{kind}{name} is forbidden: {denied}"
