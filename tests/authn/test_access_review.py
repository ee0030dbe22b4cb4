"""SubjectAccessReviews: what is asked, what counts as an answer, and for how long."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec import structs

from apfproxy.authn.credentials import Access
from apfproxy.authn.reviews import (
    AccessReviews,
    ReviewError,
    is_allowed,
    question,
)
from apfproxy.request.attributes import User
from apfproxy.settings import ReviewSettings
from tests.authn.scripted_api import ADDRESS, OWN_TOKEN, Answer, Clock, scripted

SETTINGS = ReviewSettings(is_enabled=True, cache_s=10.0, timeout_s=30.0)
ALICE = User("alice", ("dev", "system:authenticated"), "42", (("scopes", ("view", "edit")),))
BOB = Access("impersonate", "users", "bob")


def answered(**status: object) -> dict[str, Any]:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {},
        "status": status,
    }


YES, NO = answered(allowed=True), answered(allowed=False, reason="RBAC: nobody said so")


async def test_review() -> None:
    """Yes and no are asked for once in ten seconds."""
    clock = Clock()
    carol = Access("impersonate", "users", "carol")

    def answer(asked: dict[str, Any]) -> Answer:
        return YES if asked["spec"]["resourceAttributes"]["name"] == "bob" else NO

    async with scripted(answer) as (script, api):
        reviews = AccessReviews(api, SETTINGS, clock)
        unknown = reviews.check(ALICE, BOB), reviews.lifetime_s(ALICE, BOB)
        answers = [await reviews.review(ALICE, each, ADDRESS) for each in (BOB, carol, BOB, carol)]
        clock.now_s += 9.0
        kept = [reviews.check(ALICE, each) for each in (BOB, carol)]
        left_s = reviews.lifetime_s(ALICE, BOB)
        clock.now_s += 1.0
        too_late = [reviews.check(ALICE, each) for each in (BOB, carol)]

    assert (None, 0.0) == unknown
    assert [True, False, True, False] == answers
    assert [True, False] == kept
    assert left_s == 1.0
    assert [None, None] == too_late
    assert ["/apis/authorization.k8s.io/v1/subjectaccessreviews"] * 2 == script.paths
    assert [question(ALICE, BOB), question(ALICE, carol)] == script.asked


@pytest.mark.parametrize(
    ("user", "access", "spec"),
    [
        pytest.param(
            ALICE,
            BOB,
            {
                "user": "alice",
                "groups": ["dev", "system:authenticated"],
                "uid": "42",
                "extra": {"scopes": ["view", "edit"]},
                "resourceAttributes": {"verb": "impersonate", "resource": "users", "name": "bob"},
            },
            id="all-of-a-user",
        ),
        pytest.param(
            User("carol", ()),
            Access("impersonate", "userextras", "view", "authentication.k8s.io", "v1", "scopes"),
            {
                "user": "carol",
                "groups": [],
                "resourceAttributes": {
                    "verb": "impersonate",
                    "group": "authentication.k8s.io",
                    "version": "v1",
                    "resource": "userextras",
                    "subresource": "scopes",
                    "name": "view",
                },
            },
            id="all-of-a-resource",
        ),
        pytest.param(
            User("carol", ("g",)),
            Access("impersonate", "serviceaccounts", "bot", namespace="ci"),
            {
                "user": "carol",
                "groups": ["g"],
                "resourceAttributes": {
                    "verb": "impersonate",
                    "resource": "serviceaccounts",
                    "namespace": "ci",
                    "name": "bot",
                },
            },
            id="in-a-namespace",
        ),
    ],
)
def test_question(user: User, access: Access, spec: dict[str, Any]) -> None:
    """What is empty is left out, as Go does, but for the groups."""
    assert question(user, access) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    }


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(User("alic", ALICE.groups, ALICE.uid, ALICE.extra), id="name"),
        pytest.param(User("alice", ("dev",), ALICE.uid, ALICE.extra), id="groups"),
        pytest.param(
            User("alice", ("dev,system:authenticated",), ALICE.uid, ALICE.extra), id="joined"
        ),
        pytest.param(User("alice", ALICE.groups, "4", ALICE.extra), id="uid"),
        pytest.param(User("alice", ALICE.groups, "42"), id="extra"),
    ],
)
async def test_users_are_told_apart(user: User) -> None:
    """What one user may says nothing of another, however alike."""
    async with scripted(lambda _: YES) as (_, api):
        reviews = AccessReviews(api, SETTINGS, Clock())
        await reviews.review(ALICE, BOB, ADDRESS)

        assert reviews.check(ALICE, BOB) is True
        assert reviews.check(user, BOB) is None
        assert reviews.check(structs.replace(ALICE), BOB) is True


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(500, id="server-error"),
        pytest.param(403, id="forbidden"),
        pytest.param(b"true", id="no-object"),
        pytest.param({**YES, "kind": "TokenReview"}, id="another-kind"),
        pytest.param(answered(), id="echo"),
        pytest.param(answered(allowed="true"), id="text"),
    ],
)
async def test_failures_are_not_kept(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """No answer is neither yes nor no, and the next request asks again."""
    caplog.set_level(logging.DEBUG)
    answers = [answer]
    async with scripted(lambda _: answers[0]) as (_, api):
        reviews = AccessReviews(api, SETTINGS, Clock())
        during = await reviews.review(ALICE, BOB, ADDRESS)
        kept = reviews.check(ALICE, BOB)
        answers[0] = YES
        after = await reviews.review(ALICE, BOB, ADDRESS)

    assert (None, None, True) == (during, kept, after)
    assert OWN_TOKEN.decode() not in caplog.text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"allowed": True}, True, id="yes"),
        pytest.param({"allowed": True, "denied": False}, True, id="yes-not-denied"),
        pytest.param({"allowed": False}, False, id="no"),
        pytest.param({"allowed": False, "denied": True}, False, id="denied"),
        pytest.param({"allowed": True, "denied": True}, False, id="both"),
        pytest.param({"allowed": True, "evaluationError": "x"}, True, id="yes-with-an-error"),
        pytest.param({"allowed": None}, False, id="null"),
    ],
)
def test_answers(status: dict[str, Any], expected: bool) -> None:
    """Only a clear yes is one."""
    assert expected is is_allowed(answered(**status))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"allowed": 1}, id="number"),
        pytest.param({"allowed": [True]}, id="list"),
        pytest.param({"allowed": True, "denied": "no"}, id="denied-is-text"),
        pytest.param({}, id="nothing"),
    ],
)
def test_hostile_answers(status: dict[str, Any]) -> None:
    """What is no review in every part is none."""
    with pytest.raises(ReviewError):
        is_allowed(answered(**status))


async def test_last_yes() -> None:
    """It counts while the upstream does not answer; a no, which no more, does not."""
    clock = Clock()
    carol = Access("impersonate", "users", "carol")
    answers: dict[str, Answer] = {"bob": YES, "carol": NO}
    async with scripted(lambda asked: answers[asked["spec"]["resourceAttributes"]["name"]]) as (
        _,
        api,
    ):
        reviews = AccessReviews(api, SETTINGS, clock)
        for access in (BOB, carol):
            await reviews.review(ALICE, access, ADDRESS)
        answers.update(bob=500, carol=500)
        clock.now_s += 10.0

        assert await reviews.review(ALICE, BOB, ADDRESS) is True
        assert (True, 2.0) == (reviews.check(ALICE, BOB), reviews.lifetime_s(ALICE, BOB))
        assert await reviews.review(ALICE, carol, ADDRESS) is None
        assert api.stand_ins_total == 1
