"""TokenReviews and SubjectAccessReviews: what is asked, what counts, and for how long."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from msgspec import structs

from apfproxy.authn.credentials import Access, Verdict
from apfproxy.authn.reviews import (
    ACCESS_REVIEW,
    MAX_TOKEN_BYTES,
    MAX_USER_CHARACTERS,
    TOKEN_REVIEW,
    AccessReviews,
    ReviewError,
    TokenReviews,
    is_allowed,
    question,
    verdict_of,
)
from apfproxy.request.attributes import User
from apfproxy.settings import ReviewSettings
from tests.authn.scripted_api import ADDRESS, OWN_TOKEN, TOKEN, Answer, scripted
from tests.support.clocks import Clock

SETTINGS = ReviewSettings(is_enabled=True, cache_s=10.0, timeout_s=30.0)
ALICE = User("alice", ("dev", "ops"), "42", (("scopes", ("view", "edit")),))
INFO = {
    "username": "alice",
    "uid": "42",
    "groups": ["dev", "ops"],
    "extra": {"scopes": ["view", "edit"]},
}
NOBODY = "the upstream says that the token has no user"
BOB, CAROL = Access("impersonate", "users", "bob"), Access("impersonate", "users", "carol")


def of_token(**status: object) -> dict[str, Any]:
    return {**TOKEN_REVIEW.of({"token": TOKEN}), "metadata": {}, "status": status}


def of_access(**status: object) -> dict[str, Any]:
    return {**ACCESS_REVIEW.of({}), "status": status}


def user_with(**info: object) -> dict[str, Any]:
    return of_token(authenticated=True, user={"username": "alice", **info})


KNOWN = user_with(**INFO)
YES, NO = of_access(allowed=True), of_access(allowed=False, reason="RBAC")


async def test_token_review() -> None:
    """The upstream's verdict counts for ten seconds, or until what it said is forgotten."""
    clock = Clock()
    async with scripted(lambda _: KNOWN) as (script, api):
        reviews = TokenReviews(api, SETTINGS, clock)
        assert reviews.check(TOKEN) is None
        assert Verdict(ALICE, 10.0) == await reviews.review(TOKEN, ADDRESS)
        clock.now_s += 9.0
        assert Verdict(ALICE, 1.0) == reviews.check(TOKEN) == await reviews.review(TOKEN, ADDRESS)
        reviews.clear()
        assert reviews.check(TOKEN) is None

    assert ["/apis/authentication.k8s.io/v1/tokenreviews"] == script.paths
    assert script.asked == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": TOKEN},
        }
    ]


async def test_access_review() -> None:
    clock = Clock()

    def answer(asked: dict[str, Any]) -> Answer:
        return YES if asked["spec"]["resourceAttributes"]["name"] == "bob" else NO

    async with scripted(answer) as (script, api):
        reviews = AccessReviews(api, SETTINGS, clock)
        assert (None, 0.0) == (reviews.check(ALICE, BOB), reviews.lifetime_s(ALICE, BOB))
        for access in (BOB, CAROL, BOB, CAROL):
            assert (access is BOB) is await reviews.review(ALICE, access, ADDRESS)
        clock.now_s += 9.0
        assert [True, False] == [reviews.check(ALICE, each) for each in (BOB, CAROL)]
        assert 1.0 == reviews.lifetime_s(ALICE, BOB)
        clock.now_s += 1.0
        assert reviews.check(ALICE, BOB) is None

    assert ["/apis/authorization.k8s.io/v1/subjectaccessreviews"] * 2 == script.paths
    assert [question(ALICE, BOB), question(ALICE, CAROL)] == script.asked


EXTRA = Access("impersonate", "userextras", "view", "authentication.k8s.io", "v1", "scopes")
BOT = Access("impersonate", "serviceaccounts", "bot", namespace="ci")


@pytest.mark.parametrize(
    ("user", "access", "of_user", "resource"),
    [
        (
            ALICE,
            EXTRA,
            {"user": "alice", **{key: INFO[key] for key in ("groups", "uid", "extra")}},
            {key: value for key, value in EXTRA._asdict().items() if key != "namespace"},
        ),
        (
            User("carol", ()),
            BOT,
            {"user": "carol", "groups": []},
            {
                "verb": "impersonate",
                "resource": "serviceaccounts",
                "namespace": "ci",
                "name": "bot",
            },
        ),
    ],
)
def test_question(
    user: User, access: Access, of_user: dict[str, Any], resource: dict[str, Any]
) -> None:
    """Everything is said that there is, and nothing else."""
    assert question(user, access) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**of_user, "resourceAttributes": resource},
    }


@pytest.mark.parametrize(
    "changes",
    [{"name": "alic"}, {"groups": ("dev",)}, {"groups": ("dev,ops",)}, {"uid": "4"}, {"extra": ()}],
)
async def test_users_are_told_apart(changes: dict[str, Any]) -> None:
    async with scripted(lambda _: YES) as (_, api):
        reviews = AccessReviews(api, SETTINGS, Clock())
        await reviews.review(ALICE, BOB, ADDRESS)

        assert reviews.check(ALICE, BOB) is True
        assert reviews.check(structs.replace(ALICE, **changes), BOB) is None
        assert reviews.check(structs.replace(ALICE), BOB) is True


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(403, id="forbidden"),
        pytest.param(b"true", id="no-object"),
        pytest.param({**KNOWN, "apiVersion": "v1beta1"}, id="another-version"),
        pytest.param({**KNOWN, "status": None}, id="no-status"),
        pytest.param({**YES, "kind": "Status"}, id="another-kind"),
        pytest.param({**YES, "status": {}}, id="echo"),
    ],
)
async def test_failures_are_not_kept(failure: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """They are neither yes nor no, the next request asks again, and nothing shows a token."""
    caplog.set_level(logging.DEBUG)
    answers: list[Answer] = [failure]
    async with scripted(lambda _: answers[0]) as (_, api):
        tokens, accesses = (kind(api, SETTINGS, Clock()) for kind in (TokenReviews, AccessReviews))
        assert isinstance(tokens, TokenReviews)
        assert isinstance(accesses, AccessReviews)
        verdict = await tokens.review(TOKEN, ADDRESS)
        assert await accesses.review(ALICE, BOB, ADDRESS) is None
        assert (None, None) == (tokens.check(TOKEN), accesses.check(ALICE, BOB))
        answers[0] = KNOWN
        assert Verdict(ALICE, 10.0) == await tokens.review(TOKEN, ADDRESS)
        answers[0] = YES
        assert await accesses.review(ALICE, BOB, ADDRESS) is True
        shown = f"{verdict}{tokens!r}{api!r}{vars(tokens)!r}{caplog.text}"

    assert (None, 0.0, True) == (verdict.user, verdict.lifetime_s, verdict.is_open)
    assert verdict.problem.startswith("no answer to a TokenReview: ")
    assert TOKEN not in shown
    assert OWN_TOKEN.decode() not in shown


async def test_long_and_odd_tokens() -> None:
    too_long = Verdict(None, 0.0, "the token is longer than 32768 bytes")
    odd = ['"}', "\udc80", "\x00", "x" * MAX_TOKEN_BYTES]
    async with scripted(lambda _: of_token(error=f"invalid bearer token {TOKEN}")) as (script, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        for token in ("x" * (MAX_TOKEN_BYTES + 1), "\u00e9" * (MAX_TOKEN_BYTES // 2 + 1)):
            assert too_long == reviews.check(token) == await reviews.review(token, ADDRESS)
        for token in odd:
            assert Verdict(None, 10.0, NOBODY) == await reviews.review(token, ADDRESS)
            assert Verdict(None, 10.0, NOBODY) == reviews.check(token)

    assert odd == [asked["spec"]["token"] for asked in script.asked]


@pytest.mark.parametrize(
    ("answer", "user"),
    [
        pytest.param(user_with(uid=None, groups=None, extra=None), User("alice", ()), id="name"),
        pytest.param(user_with(extra={"k": None}), User("alice", (), "", (("k", ()),)), id="extra"),
        pytest.param(
            of_token(authenticated=True, user=INFO, audiences=["x"]), ALICE, id="audience"
        ),
        pytest.param(of_token(authenticated=False, user=INFO), None, id="no-with-a-user"),
        pytest.param(of_token(authenticated=None), None, id="null"),
    ],
)
def test_verdicts(answer: dict[str, Any], user: User | None) -> None:
    assert user == verdict_of(answer, 10.0).user


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(of_token(authenticated=1), r"got `int` - at `\$.authenticated`", id="number"),
        pytest.param(of_token(authenticated=True), "status.user is missing", id="no-user"),
        pytest.param(user_with(username=None), "username is empty", id="null-name"),
        pytest.param(user_with(username=["alice"]), r"\$.user.username", id="name-is-list"),
        pytest.param(user_with(username="a\r\nb"), "control characters", id="line-end"),
        pytest.param(user_with(username="\ud800"), "control characters", id="half-character"),
        pytest.param(user_with(uid=42), r"\$.user.uid", id="uid-is-number"),
        pytest.param(user_with(groups="dev"), r"\$.user.groups", id="groups-are-text"),
        pytest.param(user_with(groups=["dev", None]), r"\$.user.groups", id="group-is-null"),
        pytest.param(user_with(groups=["a\x00"]), "control characters", id="group-with-nul"),
        pytest.param(user_with(extra=[]), r"\$.user.extra", id="extra-is-list"),
        pytest.param(user_with(extra={"k": "v"}), r"\$.user.extra", id="values-are-text"),
        pytest.param(user_with(extra={"k\n": []}), "control characters", id="key-with-line-end"),
        pytest.param(of_token(audiences="a"), r"\$.audiences", id="audiences-are-text"),
        pytest.param(
            user_with(groups=["g"] * MAX_USER_CHARACTERS), "more than 65536 characters", id="giant"
        ),
    ],
)
def test_hostile_users(answer: dict[str, Any], says: str) -> None:
    with pytest.raises(ReviewError, match=says):
        verdict_of(answer, 10.0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"allowed": True, "denied": False}, True, id="yes"),
        pytest.param({"allowed": True, "evaluationError": "x"}, True, id="yes-with-an-error"),
        pytest.param({"allowed": False}, False, id="no"),
        pytest.param({"allowed": True, "denied": True}, False, id="both"),
        pytest.param({"allowed": None}, False, id="null"),
        pytest.param({"allowed": "true"}, None, id="text"),
        pytest.param({"allowed": True, "denied": "no"}, None, id="denied-is-text"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_only_a_clear_yes_is_one(status: dict[str, Any], expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(ReviewError):
            is_allowed(of_access(**status))
    else:
        assert expected is is_allowed(of_access(**status))


async def test_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a token stays open if its review is cancelled, as at the end of the process."""
    async with scripted(lambda _: KNOWN) as (_, api):

        async def post(*_: object, comes_first: bool) -> dict[str, Any]:  # noqa: ARG001
            raise asyncio.CancelledError

        monkeypatch.setattr(api, "post", post)
        verdict = await TokenReviews(api, SETTINGS, Clock()).review(TOKEN, ADDRESS)

    problem = "no answer to a TokenReview: the question was given up"
    assert Verdict(None, 0.0, problem, is_open=True) == verdict


async def test_last_good_answers_stand_in() -> None:
    """A user and a yes count while the upstream fails, for a grace; a no does not."""
    clock = Clock()
    answers: dict[str, Answer] = {TOKEN_REVIEW.path: KNOWN, ACCESS_REVIEW.path: YES}
    async with scripted(lambda _: answers[script.paths[-1]]) as (script, api):
        tokens = TokenReviews(api, SETTINGS, clock)
        accesses = AccessReviews(api, SETTINGS, clock)
        await tokens.review(TOKEN, ADDRESS)
        await accesses.review(ALICE, BOB, ADDRESS)
        answers[ACCESS_REVIEW.path] = NO
        await accesses.review(ALICE, CAROL, ADDRESS)
        answers.update(dict.fromkeys(answers, 404))
        clock.now_s += 10.0

        assert Verdict(ALICE, 2.0) == await tokens.review(TOKEN, ADDRESS) == tokens.check(TOKEN)
        assert await accesses.review(ALICE, BOB, ADDRESS) is True
        assert 2.0 == accesses.lifetime_s(ALICE, BOB)
        assert await accesses.review(ALICE, CAROL, ADDRESS) is None
        assert 2 == api.stand_ins_total
        clock.now_s += SETTINGS.grace_s
        assert (await tokens.review(TOKEN, ADDRESS)).is_open


async def test_full_queue() -> None:
    """It says nothing of tokens; one that was good before is good, and comes first in its line."""
    clock = Clock()
    async with scripted(lambda _: KNOWN, max_concurrent=1) as (script, api):
        reviews = TokenReviews(api, SETTINGS, clock)
        await reviews.review(TOKEN, ADDRESS)
        clock.now_s += 10.0
        script.may_answer.clear()
        flood = [
            asyncio.create_task(reviews.review(f"token-{number}", ADDRESS)) for number in range(40)
        ]
        while not api.unasked_total["queue-full"]:  # noqa: ASYNC110  no event for it
            await asyncio.sleep(0)
        known = asyncio.create_task(reviews.review(TOKEN, ADDRESS))
        while api.unasked_total["queue-full"] < 8:  # noqa: ASYNC110  no event for it
            await asyncio.sleep(0)
        script.may_answer.set()
        verdicts = await asyncio.gather(*flood)

        assert ALICE == (await known).user
    refused = [each for each in verdicts if each.user is None]
    # One is under way and 32 wait, of which one has to give way to the known one.
    assert [(True, 0.0)] * 8 == [(each.is_open, each.lifetime_s) for each in refused]
    assert {"too many questions are waiting already"} == {
        each.problem.rpartition(": ")[2] for each in refused
    }
    assert ["token-0", TOKEN] == [asked["spec"]["token"] for asked in script.asked[1:3]]


async def test_user_who_cannot_be_taken() -> None:
    async with scripted(lambda _: user_with(groups=["a\nb"])) as (script, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        verdict = await reviews.review(TOKEN, ADDRESS)
        assert verdict == reviews.check(TOKEN)

    assert (None, False, 10.0) == (verdict.user, verdict.is_open, verdict.lifetime_s)
    assert "status.user has control characters" in verdict.problem
    assert 1 == len(script.asked)
