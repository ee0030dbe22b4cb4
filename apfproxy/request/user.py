"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS_NAME = "system:anonymous"
AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user by name, with all the groups that count, virtual ones included.

    Attributes:
        name: The user name.
        groups: In the order in which they were told.
        uid: What tells users of one name apart over time; "" if nobody said.
        extra: Keys and values of whatever else is known.
    """

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody knows who that is."""
        return self.name == ANONYMOUS_NAME


ANONYMOUS = User(ANONYMOUS_NAME, (UNAUTHENTICATED_GROUP,))


def authenticated(user: User) -> User:
    """The user in the group of all whose identity is known, as Kubernetes puts them there.

    The anonymous user is not, nor who is in that group, or in that of the unauthenticated, already.

    Source: kubernetes/apiserver, authentication/group/authenticated_group_adder.go.
    """
    groups = user.groups
    if AUTHENTICATED_GROUP in groups or UNAUTHENTICATED_GROUP in groups or user.is_anonymous:
        return user
    return User(user.name, (*groups, AUTHENTICATED_GROUP), user.uid, user.extra)
