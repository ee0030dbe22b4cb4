"""Tests of users."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import ANONYMOUS, User, authenticated, supposed_groups, unverified


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


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        pytest.param("alice", (), (), id="user"),
        pytest.param("header:alice", (), ("system:unauthenticated",), id="unverified"),
        pytest.param("address:::1/64", (), ("system:unauthenticated",), id="address"),
        pytest.param("header:alice", ("dev",), ("dev",), id="groups-that-are-said"),
    ],
)
def test_supposed_groups(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """A name that nobody has verified is told by its prefix."""
    assert expected == supposed_groups(name, groups)


def test_unverified() -> None:
    """Such a user is not authenticated, but is not the anonymous one either."""
    user = unverified("header:", "alice")

    assert User("header:alice", ("system:unauthenticated",)) == user
    assert authenticated(user) is user
    assert not user.is_anonymous
