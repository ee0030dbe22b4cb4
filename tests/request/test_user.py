"""Tests of users."""

from __future__ import annotations

import pytest

from apfproxy.request.user import ANONYMOUS, User, authenticated


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), ("system:authenticated",)),
        (("dev",), ("dev", "system:authenticated")),
        (("system:authenticated", "dev"), ("system:authenticated", "dev")),
        (("system:unauthenticated",), ("system:unauthenticated",)),
    ],
)
def test_authenticated(groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Who is known is in the group of all such, once, and keeps all else."""
    user = User("alice", groups, "1", (("scopes", ("a",)),))

    assert User("alice", expected, "1", (("scopes", ("a",)),)) == authenticated(user)


def test_anonymous() -> None:
    """Nobody is not authenticated, whatever groups are claimed."""
    assert ANONYMOUS is authenticated(ANONYMOUS)
    assert not authenticated(User("alice", ())).is_anonymous
