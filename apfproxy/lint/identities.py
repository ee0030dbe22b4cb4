"""Sets of users: those of a subject, whether one contains another, and whether two intersect.

What is known of every user, by the way in which requests are authenticated:

1. Whoever is not anonymous is in `system:authenticated`, unless already in
   `system:unauthenticated`.  So every user but one is in one of the two.
2. Service accounts are in `system:serviceaccounts` and in the group of their namespace, who is in
   any group but `system:unauthenticated` is in `system:authenticated`, and the anonymous user is in
   `system:unauthenticated`: mostly.  Who impersonates a user, or vouches for one as a front proxy,
   can name groups, and then the user has only these.

Source: kubernetes/apiserver pkg/authentication/group/authenticated_group_adder.go and
pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import SERVICE_ACCOUNT_PREFIX, Subjects
from apfproxy.request.attributes import (
    ANONYMOUS_NAME,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    UNVERIFIED_PREFIXES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCOUNTS_GROUP = "system:serviceaccounts"


class Who(enum.Enum):
    """What a set of users is told by."""

    ALL = "all"
    USER = "user"
    GROUP = "group"
    USER_PREFIX = "user prefix"


@dataclass(frozen=True, slots=True)
class Identity:
    """A set of users: all, one by name, the members of a group, or a namespace's accounts."""

    who: Who
    name: str = ""


EVERYBODY = Identity(Who.ALL)
ANONYMOUS = Identity(Who.USER, ANONYMOUS_NAME)
AUTHENTICATED = Identity(Who.GROUP, AUTHENTICATED_GROUP)
UNAUTHENTICATED = Identity(Who.GROUP, UNAUTHENTICATED_GROUP)


def identities(subjects: Subjects) -> list[Identity]:
    """The sets of users that the subjects of a rule match, in a fixed order."""
    if subjects.is_all:
        return [EVERYBODY]
    return [
        *(Identity(Who.USER, name) for name in sorted(subjects.users)),
        *(Identity(Who.GROUP, name) for name in sorted(subjects.groups)),
        *(Identity(Who.USER_PREFIX, prefix) for prefix in sorted(set(subjects.user_prefixes))),
    ]


def holders(identity: Identity, *, with_groups: bool) -> Iterable[Identity]:
    """The sets that hold this one as a whole, itself among them.

    With groups, everybody is in those that authentication gives (rule 2).
    """
    found = {identity: None, EVERYBODY: None}
    namespace = account_namespace(identity)
    if namespace and identity.who is Who.USER:
        found[Identity(Who.USER_PREFIX, f"{SERVICE_ACCOUNT_PREFIX}{namespace}:")] = None
    if with_groups:
        group = identity.name if identity.who is Who.GROUP else ""
        if namespace:
            found[Identity(Who.GROUP, f"{ACCOUNTS_GROUP}:{namespace}")] = None
        if namespace or group.startswith(f"{ACCOUNTS_GROUP}:"):
            found[Identity(Who.GROUP, ACCOUNTS_GROUP)] = None
        is_user = identity.who is Who.USER
        if identity == ANONYMOUS or (is_user and identity.name.startswith(UNVERIFIED_PREFIXES)):
            found[UNAUTHENTICATED] = None
        elif identity not in {EVERYBODY, UNAUTHENTICATED}:
            found[AUTHENTICATED] = None
    return found


def everybody_in(identity: Identity, *, with_groups: bool) -> tuple[Identity, ...]:
    """Sets that have all users of this one among them, for whom it can be judged in parts."""
    is_known = identity.who in {Who.USER, Who.USER_PREFIX} and identity != ANONYMOUS
    if with_groups or is_known:
        return AUTHENTICATED, UNAUTHENTICATED
    return AUTHENTICATED, UNAUTHENTICATED, ANONYMOUS


def account_namespace(identity: Identity) -> str:
    """The namespace of the service accounts that a set consists of; "" for another set."""
    if identity.who not in {Who.USER, Who.USER_PREFIX}:
        return ""
    if not identity.name.startswith(SERVICE_ACCOUNT_PREFIX):
        return ""
    namespace, colon, _ = identity.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return namespace if colon else ""


def can_meet(one: Identity, other: Identity) -> bool:
    """Whether a user can be in both sets: everybody has one name, and any groups."""
    if one.who is other.who and one.who in {Who.USER, Who.USER_PREFIX}:
        return one.name == other.name
    for user, prefix in ((one, other), (other, one)):
        if (user.who, prefix.who) == (Who.USER, Who.USER_PREFIX):
            return user.name.startswith(prefix.name)
    return {one, other} != {AUTHENTICATED, UNAUTHENTICATED}
