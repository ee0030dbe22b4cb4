"""Impersonation: who may do it, the user that it makes, and the words of a denial."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.authn.credentials import Access
from apfproxy.authn.impersonation import (
    MAX_THINGS,
    Impersonations,
    accesses,
    effective,
    forbidden_message,
    service_account,
)
from apfproxy.authn.reviews import AccessReviews
from apfproxy.request.attributes import User
from apfproxy.settings import ImpersonationSettings, ReviewSettings
from tests.authn.scripted_api import ADDRESS, Answer, ScriptedApi, scripted
from tests.support.clocks import Clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS, BOT = "system:anonymous", "system:serviceaccount:ci:bot"
ALICE = User("alice", ("dev", AUTHENTICATED))
BOB = User("bob", ())
BOB_AND_ALL = User("bob", ("g1", "g2"), "42", (("scopes", ("view", "edit")), ("a/b", ("c",))))
NOBODY = ImpersonationSettings()


def allowing(*names: str) -> Any:  # noqa: ANN401 - what a script answers

    def answer(asked: dict[str, Any]) -> Answer:
        name = asked["spec"]["resourceAttributes"].get("name", "")
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "status": {"allowed": name in names},
        }

    return answer


@pytest.mark.parametrize(
    ("settings", "user", "expected"),
    [
        pytest.param(NOBODY, ALICE, False, id="no-list"),
        pytest.param(ImpersonationSettings(users=("alice",)), ALICE, True, id="user"),
        pytest.param(ImpersonationSettings(users=("alic", "Alice")), ALICE, False, id="alike"),
        pytest.param(ImpersonationSettings(users=("dev",)), ALICE, False, id="group-as-user"),
        pytest.param(ImpersonationSettings(groups=("ops", "dev")), ALICE, True, id="group"),
        pytest.param(ImpersonationSettings(groups=("alice",)), ALICE, False, id="user-as-group"),
        pytest.param(ImpersonationSettings(groups=(AUTHENTICATED,)), ALICE, True, id="virtual"),
        pytest.param(NOBODY, User("root", ("system:masters",)), False, id="masters"),
    ],
)
async def test_lists(settings: ImpersonationSettings, user: User, expected: bool) -> None:
    impersonations = Impersonations(settings, None)

    assert expected is impersonations.check(user, BOB_AND_ALL)
    assert expected is await impersonations.review(user, BOB_AND_ALL, ADDRESS)
    assert math.inf == impersonations.lifetime_s(user, BOB_AND_ALL)


@asynccontextmanager
async def reviewed(
    answer: Any,  # noqa: ANN401 - what a script answers
    settings: ImpersonationSettings = NOBODY,
    clock: Clock | None = None,
    **reviews: Any,  # noqa: ANN401 - settings of all types
) -> AsyncIterator[tuple[ScriptedApi, Impersonations]]:
    settings_of_reviews = ReviewSettings(
        **{"is_enabled": True, "cache_s": 10.0, "timeout_s": 30.0, **reviews}
    )
    async with scripted(answer) as (script, api):
        reviewer = AccessReviews(api, settings_of_reviews, clock or Clock())
        yield script, Impersonations(settings, reviewer)


async def test_listed_users_are_not_asked_about() -> None:
    settings = ImpersonationSettings(users=("alice",))
    async with reviewed(allowing(), settings) as (script, impersonations):
        assert impersonations.check(ALICE, BOB) is True
        assert await impersonations.review(ALICE, BOB, ADDRESS) is True
    assert script.asked == []


async def test_reviews() -> None:
    """Others are asked about, thing by thing in kube-apiserver's order, and that is cached."""
    clock = Clock()
    everything = allowing("bob", "g1", "g2", "42", "view", "edit", "c")
    async with reviewed(everything, clock=clock) as (script, impersonations):
        assert impersonations.check(ALICE, BOB_AND_ALL) is None
        assert await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS) is True
        clock.now_s += 4.0
        assert impersonations.check(ALICE, BOB_AND_ALL) is True
        assert 6.0 == impersonations.lifetime_s(ALICE, BOB_AND_ALL)
        assert await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS) is True
        assert impersonations.check(ALICE, BOB) is True
        assert impersonations.check(ALICE, User("bob", ("g3",))) is None
        clock.now_s += 6.0
        assert impersonations.check(ALICE, BOB_AND_ALL) is None

    attributes = [asked["spec"]["resourceAttributes"] for asked in script.asked]
    assert ["bob", "g1", "g2", "view", "edit", "c", "42"] == [each["name"] for each in attributes]


async def test_first_denied_thing() -> None:
    """Nothing is asked after it; the denial is known at once then, and says which."""
    async with reviewed(allowing("bob", "g2", "42")) as (script, impersonations):
        assert await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS) is False
        assert impersonations.check(ALICE, BOB_AND_ALL) is False
        message = impersonations.forbidden_message(ALICE, BOB_AND_ALL)
        assert 10.0 == impersonations.lifetime_s(ALICE, BOB_AND_ALL)

    assert 2 == len(script.asked)
    assert message.startswith('groups "g1" is forbidden: User "alice" cannot impersonate')


async def test_failures_are_open() -> None:
    """Without a response it is neither yes nor no, and the next request asks again."""
    async with reviewed(lambda _: 404) as (_, impersonations):
        assert await impersonations.review(ALICE, BOB, ADDRESS) is None
        assert impersonations.check(ALICE, BOB) is None
        assert 0.0 == impersonations.lifetime_s(ALICE, BOB)
    # All the questions of one request have the time of one.
    async with reviewed(allowing("bob"), timeout_s=0.05) as (script, impersonations):
        script.may_answer.clear()
        assert await impersonations.review(ALICE, BOB, ADDRESS) is None


async def test_too_many_things() -> None:
    groups = tuple(f"g{number}" for number in range(MAX_THINGS))
    wanted = User("bob", groups)
    async with reviewed(allowing("bob", *groups)) as (script, impersonations):
        assert impersonations.check(ALICE, wanted) is False
        assert await impersonations.review(ALICE, wanted, ADDRESS) is False
        assert math.inf == impersonations.lifetime_s(ALICE, wanted)
        assert impersonations.check(ALICE, User("bob", groups[1:])) is None
    assert script.asked == []


def test_accesses() -> None:
    of_extra = Access("impersonate", "userextras", "v", "authentication.k8s.io", "v1", "k")
    expected = (
        Access("impersonate", "serviceaccounts", "bot", namespace="ci"),
        Access("impersonate", "groups", "g"),
        of_extra,
        of_extra._replace(name="w"),
        Access("impersonate", "uids", "42", "authentication.k8s.io", "v1"),
    )

    assert expected == accesses(User(BOT, ("g",), "42", (("k", ("v", "w")),)))
    assert (Access("impersonate", "users", "bob"),) == accesses(BOB)


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        pytest.param("system:serviceaccount:ci:a.b-c", ("ci", "a.b-c"), id="with-dots"),
        pytest.param("system:serviceaccount:c.i:bot", None, id="namespace-with-dot"),
        pytest.param("system:serviceaccount:CI:bot", None, id="namespace-in-capitals"),
        pytest.param("system:serviceaccount:ci:bot:x", None, id="three-parts"),
        pytest.param("system:serviceaccount:ci", None, id="no-name"),
        pytest.param("system:serviceaccount::bot", None, id="empty-namespace"),
        pytest.param("system:serviceaccount:ci:", None, id="empty-name"),
        pytest.param("System:serviceaccount:ci:bot", None, id="case"),
    ],
)
def test_service_account(username: str, expected: tuple[str, str] | None) -> None:
    assert expected == service_account(username)


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        pytest.param("bob", (), (AUTHENTICATED,), id="user"),
        pytest.param("bob", ("g",), ("g", AUTHENTICATED), id="groups"),
        pytest.param("bob", (AUTHENTICATED, "g"), (AUTHENTICATED, "g"), id="has-it"),
        pytest.param("bob", (UNAUTHENTICATED,), (UNAUTHENTICATED,), id="denied-it"),
        pytest.param(ANONYMOUS, (), (UNAUTHENTICATED,), id="anonymous"),
        pytest.param(ANONYMOUS, ("g",), ("g", UNAUTHENTICATED), id="anonymous-with-groups"),
        pytest.param(
            ANONYMOUS, (AUTHENTICATED,), (AUTHENTICATED, UNAUTHENTICATED), id="anonymous-with-both"
        ),
        pytest.param(
            ANONYMOUS, (UNAUTHENTICATED, "g"), (UNAUTHENTICATED, "g"), id="anonymous-who-has-it"
        ),
        pytest.param(
            BOT,
            (),
            ("system:serviceaccounts", "system:serviceaccounts:ci", AUTHENTICATED),
            id="service-account",
        ),
        pytest.param(BOT, ("g",), ("g", AUTHENTICATED), id="service-account-with-groups"),
        pytest.param(f"{BOT}:x", (), (AUTHENTICATED,), id="no-service-account"),
    ],
)
def test_effective_groups(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert User(name, expected) == effective(User(name, groups))


def test_effective_rest() -> None:
    """The uid stays, values of one key come together, and nothing is decoded twice."""
    wanted = User("bob", (), "42", (("a", ("1",)), ("b%2f", ("2",)), ("a", ("3",))))

    assert User("bob", (AUTHENTICATED,), "42", (("a", ("1", "3")), ("b%2f", ("2",)))) == effective(
        wanted
    )


CANNOT = 'is forbidden: User "alice" cannot impersonate resource'


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(
            Access("impersonate", "serviceaccounts", "bot", namespace="ci"),
            f'serviceaccounts "bot" {CANNOT} "serviceaccounts" in API group "" in the namespace'
            ' "ci"',
            id="service-account",
        ),
        pytest.param(
            Access("impersonate", "userextras", "view", "authentication.k8s.io", "v1", "scopes"),
            f'userextras.authentication.k8s.io "view" {CANNOT} "userextras/scopes" in API group'
            ' "authentication.k8s.io" at the cluster scope',
            id="extra",
        ),
        pytest.param(
            Access("impersonate", "groups", ""),
            f'groups {CANNOT} "groups" in API group "" at the cluster scope',
            id="no-name",
        ),
        pytest.param(
            Access("impersonate", "users", '<b>"\r\n'),
            f'users "<b>\\"\\r\\n" {CANNOT} "users" in API group "" at the cluster scope',
            id="hostile-name",
        ),
    ],
)
def test_forbidden_message(access: Access, expected: str) -> None:
    assert expected == forbidden_message(ALICE, access)


def test_forbidden_message_is_no_html() -> None:
    message = Impersonations(NOBODY, None).forbidden_message(User("<i>&", ()), BOB)

    assert 'User "&lt;i&gt;&amp;" cannot' in message
