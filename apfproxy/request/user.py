"""The user that a request is made by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANONYMOUS_NAME: Final = "system:anonymous"
AUTHENTICATED_GROUP: Final = "system:authenticated"
UNAUTHENTICATED_GROUP: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user by name, with all the groups that count, virtual ones included.

    Attributes:
        groups: In the order in which the authenticator named them.
        uid: Tells users of one name apart over time; "" if it is not known.
    """

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_anonymous(self) -> bool:
        return self.name == ANONYMOUS_NAME


ANONYMOUS: Final = User(ANONYMOUS_NAME, (UNAUTHENTICATED_GROUP,))

UNVERIFIED_PREFIXES = ("basic:", "key:", "header:", "address:")
"""Of names that tell anonymous clients apart: by what each is known, in the order of precedence."""
BY_BASIC, BY_KEY, BY_HEADER, BY_ADDRESS = UNVERIFIED_PREFIXES


def unverified(prefix: str, name: str) -> User:
    """The user that an anonymous client counts as by a name that nobody has verified."""
    return User(prefix + name, (UNAUTHENTICATED_GROUP,))


def supposed_groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of a user of whom somebody tells the name, and perhaps groups."""
    if not groups and name.startswith(UNVERIFIED_PREFIXES):
        return (UNAUTHENTICATED_GROUP,)
    return groups


def authenticated(user: User) -> User:
    """The user as a member of `system:authenticated`, unless anonymous or in either group already.

    Source: kubernetes/apiserver, authentication/group/authenticated_group_adder.go.
    """
    groups = user.groups
    if AUTHENTICATED_GROUP in groups or UNAUTHENTICATED_GROUP in groups or user.is_anonymous:
        return user
    return User(user.name, (*groups, AUTHENTICATED_GROUP), user.uid, user.extra)
