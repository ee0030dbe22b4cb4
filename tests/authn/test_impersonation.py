"""Who may be somebody else, who that is then, and in which words it is denied."""

from __future__ import annotations

import math
from typing import Any

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
from tests.authn.scripted_api import ADDRESS, Answer, Clock, scripted

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS, BOT = "system:anonymous", "system:serviceaccount:ci:bot"
ALICE = User("alice", ("dev", AUTHENTICATED))
BOB = User("bob", ())
BOB_AND_ALL = User("bob", ("g1", "g2"), "42", (("scopes", ("view", "edit")), ("a/b", ("c",))))
NOBODY = ImpersonationSettings()
REVIEWS = ReviewSettings(is_enabled=True, cache_s=10.0, timeout_s=30.0)


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
    """Without reviews only the list counts, and the answer is known at once."""
    impersonations = Impersonations(settings, None)

    assert expected is impersonations.check(user, BOB_AND_ALL)
    assert expected is await impersonations.review(user, BOB_AND_ALL, ADDRESS)
    assert math.inf == impersonations.lifetime_s(user, BOB_AND_ALL)


async def test_listed_users_are_not_asked_about() -> None:
    """The list comes before the upstream."""
    async with scripted(allowing()) as (script, api):
        reviews = AccessReviews(api, REVIEWS, Clock())
        impersonations = Impersonations(ImpersonationSettings(users=("alice",)), reviews)

        assert impersonations.check(ALICE, BOB) is True
        assert await impersonations.review(ALICE, BOB, ADDRESS) is True
    assert script.asked == []


async def test_reviews() -> None:
    """Others are asked about, thing by thing in kube-apiserver's order, and answers are kept."""
    clock = Clock()
    async with scripted(allowing("bob", "g1", "g2", "42", "view", "edit", "c")) as (script, api):
        impersonations = Impersonations(NOBODY, AccessReviews(api, REVIEWS, clock))
        before = impersonations.check(ALICE, BOB_AND_ALL)
        answer = await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS)
        clock.now_s += 4.0
        after = impersonations.check(ALICE, BOB_AND_ALL)
        left_s = impersonations.lifetime_s(ALICE, BOB_AND_ALL)
        again = await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS)
        part = impersonations.check(ALICE, BOB)
        more = impersonations.check(ALICE, User("bob", ("g3",)))
        clock.now_s += 6.0
        too_late = impersonations.check(ALICE, BOB_AND_ALL)

    assert (None, True, True, True) == (before, answer, after, again)
    assert left_s == 6.0
    assert (True, None, None) == (part, more, too_late)
    attributes = [asked["spec"]["resourceAttributes"] for asked in script.asked]
    assert [
        ("users", "bob"),
        ("groups", "g1"),
        ("groups", "g2"),
        ("userextras", "view"),
        ("userextras", "edit"),
        ("userextras", "c"),
        ("uids", "42"),
    ] == [(each["resource"], each["name"]) for each in attributes]


async def test_first_denied_thing() -> None:
    """Nothing is asked after it; the denial is known at once then, and says which."""
    async with scripted(allowing("bob", "g2", "42")) as (script, api):
        impersonations = Impersonations(NOBODY, AccessReviews(api, REVIEWS, Clock()))
        answer = await impersonations.review(ALICE, BOB_AND_ALL, ADDRESS)
        known = impersonations.check(ALICE, BOB_AND_ALL)
        message = impersonations.forbidden_message(ALICE, BOB_AND_ALL)

        assert impersonations.lifetime_s(ALICE, BOB_AND_ALL) == 10.0
    assert (False, False) == (answer, known)
    assert len(script.asked) == 2
    assert message == (
        'groups "g1" is forbidden: User "alice" cannot impersonate resource "groups" in API group'
        ' "" at the cluster scope'
    )


async def test_failures_are_open() -> None:
    """Without an answer it is neither yes nor no, and the next request asks again."""
    async with scripted(lambda _: 404) as (_, api):
        impersonations = Impersonations(NOBODY, AccessReviews(api, REVIEWS, Clock()))

        assert await impersonations.review(ALICE, BOB, ADDRESS) is None
        assert impersonations.check(ALICE, BOB) is None
        assert impersonations.lifetime_s(ALICE, BOB) == 0.0


async def test_slow_answers_are_open() -> None:
    """All the questions of one request have the time of one."""
    settings = ReviewSettings(timeout_s=0.05)
    async with scripted(allowing("bob")) as (script, api):
        script.may_answer.clear()
        impersonations = Impersonations(NOBODY, AccessReviews(api, settings, Clock()))

        assert await impersonations.review(ALICE, BOB, ADDRESS) is None


async def test_too_many_things() -> None:
    """Who wants to be in more groups than a head has room for is not asked about."""
    groups = tuple(f"g{number}" for number in range(MAX_THINGS))
    async with scripted(allowing("bob", *groups)) as (script, api):
        impersonations = Impersonations(NOBODY, AccessReviews(api, REVIEWS, Clock()))
        wanted = User("bob", groups)

        assert impersonations.check(ALICE, wanted) is False
        assert await impersonations.review(ALICE, wanted, ADDRESS) is False
        assert impersonations.lifetime_s(ALICE, wanted) == math.inf
        assert impersonations.check(ALICE, User("bob", groups[1:])) is None
    assert script.asked == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(BOB, (Access("impersonate", "users", "bob"),), id="user"),
        pytest.param(
            User("system:serviceaccount:ci:bot", ("g",)),
            (
                Access("impersonate", "serviceaccounts", "bot", namespace="ci"),
                Access("impersonate", "groups", "g"),
            ),
            id="service-account",
        ),
        pytest.param(
            User("system:serviceaccount:CI:bot", ()),
            (Access("impersonate", "users", "system:serviceaccount:CI:bot"),),
            id="no-service-account",
        ),
        pytest.param(
            User("bob", (), "42", (("k", ("v",)),)),
            (
                Access("impersonate", "users", "bob"),
                Access("impersonate", "userextras", "v", "authentication.k8s.io", "v1", "k"),
                Access("impersonate", "uids", "42", "authentication.k8s.io", "v1"),
            ),
            id="extra-and-uid",
        ),
    ],
)
def test_accesses(wanted: User, expected: tuple[Access, ...]) -> None:
    """Each thing that somebody takes on is asked about by itself."""
    assert expected == accesses(wanted)


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        pytest.param("system:serviceaccount:ci:bot", ("ci", "bot"), id="one"),
        pytest.param("system:serviceaccount:ci:a.b-c", ("ci", "a.b-c"), id="with-dots"),
        pytest.param("system:serviceaccount:c.i:bot", None, id="namespace-with-dot"),
        pytest.param("system:serviceaccount:ci:bot:x", None, id="three-parts"),
        pytest.param("system:serviceaccount:ci", None, id="no-name"),
        pytest.param("system:serviceaccount::bot", None, id="empty-namespace"),
        pytest.param("system:serviceaccount:ci:", None, id="empty-name"),
        pytest.param(f"system:serviceaccount:{'n' * 64}:bot", None, id="long-namespace"),
        pytest.param(f"system:serviceaccount:ci:{'n' * 254}", None, id="long-name"),
        pytest.param("System:serviceaccount:ci:bot", None, id="case"),
        pytest.param("bob", None, id="user"),
    ],
)
def test_service_account(username: str, expected: tuple[str, str] | None) -> None:
    """Only names that a service account can have are one's."""
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
    """Virtual groups are added as kube-apiserver adds them."""
    assert User(name, expected) == effective(User(name, groups))


def test_effective_rest() -> None:
    """The uid stays, values of one key come together, and nothing is decoded twice."""
    wanted = User("bob", (), "42", (("a", ("1",)), ("b%2f", ("2",)), ("a", ("3",))))

    assert User("bob", (AUTHENTICATED,), "42", (("a", ("1", "3")), ("b%2f", ("2",)))) == effective(
        wanted
    )


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(
            Access("impersonate", "users", "bob"),
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API'
            ' group "" at the cluster scope',
            id="user",
        ),
        pytest.param(
            Access("impersonate", "serviceaccounts", "bot", namespace="ci"),
            'serviceaccounts "bot" is forbidden: User "alice" cannot impersonate resource'
            ' "serviceaccounts" in API group "" in the namespace "ci"',
            id="service-account",
        ),
        pytest.param(
            Access("impersonate", "userextras", "view", "authentication.k8s.io", "v1", "scopes"),
            'userextras.authentication.k8s.io "view" is forbidden: User "alice" cannot impersonate'
            ' resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster'
            " scope",
            id="extra",
        ),
        pytest.param(
            Access("impersonate", "groups", ""),
            'groups is forbidden: User "alice" cannot impersonate resource "groups" in API'
            ' group "" at the cluster scope',
            id="no-name",
        ),
        pytest.param(
            Access("impersonate", "users", '<b>"\r\n'),
            'users "<b>\\"\\r\\n" is forbidden: User "alice" cannot impersonate resource "users"'
            ' in API group "" at the cluster scope',
            id="hostile-name",
        ),
    ],
)
def test_forbidden_message(access: Access, expected: str) -> None:
    """The words are kube-apiserver's."""
    assert expected == forbidden_message(ALICE, access)


def test_forbidden_message_is_no_html() -> None:
    """What follows the name is escaped, as kube-apiserver does it."""
    message = Impersonations(NOBODY, None).forbidden_message(User("<i>&", ()), BOB)

    assert 'User "&lt;i&gt;&amp;" cannot' in message
