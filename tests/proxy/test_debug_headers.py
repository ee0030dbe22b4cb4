"""Who is told what in X-Apfproxy-* fields."""

from __future__ import annotations

import pytest

from apfproxy.proxy.debug_headers import Audience
from apfproxy.request.user import ANONYMOUS, User
from apfproxy.settings import AudienceSettings

ANN = User("ann", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    ("users", "groups", "told"),
    [
        pytest.param((), (), [False, False], id="nobody"),
        pytest.param(("ann",), (), [True, False], id="user"),
        pytest.param(("bob", "dev"), (), [False, False], id="no-user"),
        pytest.param((), ("dev",), [True, False], id="group"),
        pytest.param((), ("ann", "*"), [False, False], id="no-group"),
        pytest.param((), ("system:unauthenticated",), [False, True], id="anonymous"),
        pytest.param(("*",), (), [True, True], id="everybody"),
    ],
)
def test_audience(users: tuple[str, ...], groups: tuple[str, ...], told: list[bool]) -> None:
    """Users and groups are named; `*` stands for every user."""
    audience = Audience(AudienceSettings(users=users, groups=groups))

    assert told == [audience.has(ANN), audience.has(ANONYMOUS)]
    assert (not users and not groups) == audience.is_empty
