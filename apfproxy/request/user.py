"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS_NAME = "system:anonymous"
AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user by name, with all the groups that count, virtual ones included."""

    name: str
    groups: tuple[str, ...]


ANONYMOUS = User(ANONYMOUS_NAME, (UNAUTHENTICATED_GROUP,))
