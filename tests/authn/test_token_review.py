"""TokenReviews: what is asked, what counts as an answer, and for how long."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from apfproxy.authn.credentials import Verdict
from apfproxy.authn.reviews import (
    MAX_TOKEN_BYTES,
    MAX_USER_CHARACTERS,
    TOKEN_REVIEW,
    ReviewError,
    TokenReviews,
    verdict_of,
)
from apfproxy.request.attributes import User
from apfproxy.settings import ReviewSettings
from tests.authn.scripted_api import ADDRESS, OWN_TOKEN, TOKEN, Answer, Clock, scripted

SETTINGS = ReviewSettings(is_enabled=True, cache_s=10.0, timeout_s=30.0)
ALICE = User("alice", ("dev", "ops"), "42", (("scopes", ("view", "edit")),))
ALICE_INFO = {
    "username": "alice",
    "uid": "42",
    "groups": ["dev", "ops"],
    "extra": {"scopes": ["view", "edit"]},
}
NOBODY = "the upstream says that the token is nobody's"


def answered(**status: object) -> dict[str, Any]:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": {"token": TOKEN},
        "status": status,
    }


YES = answered(authenticated=True, user=ALICE_INFO)
NO = answered(error=f"invalid bearer token {TOKEN}")


def user_with(**info: object) -> dict[str, Any]:
    return answered(authenticated=True, user={"username": "alice", **info})


async def test_review() -> None:
    """The upstream is asked as Kubernetes asks, and its answer is told at once for ten seconds."""
    clock = Clock()
    async with scripted(lambda _: YES) as (script, api):
        reviews = TokenReviews(api, SETTINGS, clock)
        unknown = reviews.check(TOKEN)
        verdict = await reviews.review(TOKEN, ADDRESS)
        clock.now_s += 9.0
        later = reviews.check(TOKEN)
        again = await reviews.review(TOKEN, ADDRESS)
        clock.now_s += 1.0
        too_late = reviews.check(TOKEN)

    assert unknown is None
    assert Verdict(ALICE, 10.0) == verdict
    assert Verdict(ALICE, 1.0) == later == again
    assert too_late is None
    assert ["/apis/authentication.k8s.io/v1/tokenreviews"] == script.paths
    assert script.asked == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": TOKEN},
        }
    ]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(500, id="server-error"),
        pytest.param(403, id="forbidden"),
        pytest.param(b"{", id="no-json"),
        pytest.param({"kind": "Status"}, id="another-kind"),
        pytest.param({**YES, "apiVersion": "authentication.k8s.io/v1beta1"}, id="other-version"),
        pytest.param({**YES, "status": None}, id="no-status"),
    ],
)
async def test_failures_are_not_kept(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """Meanwhile a token is nobody's; the next request asks again; and nothing shows the token."""
    caplog.set_level(logging.DEBUG)
    answers = [answer]
    async with scripted(lambda _: answers[0]) as (_, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        verdict = await reviews.review(TOKEN, ADDRESS)
        kept = reviews.check(TOKEN)
        answers[0] = YES
        after = await reviews.review(TOKEN, ADDRESS)

        shown = f"{verdict}{reviews!r}{api!r}{vars(reviews)!r}{caplog.text}"
    assert (None, 0.0, True) == (verdict.user, verdict.lifetime_s, verdict.is_open)
    assert verdict.problem.startswith("no answer to a TokenReview: ")
    assert kept is None
    assert Verdict(ALICE, 10.0) == after
    assert TOKEN not in shown
    assert OWN_TOKEN.decode() not in shown


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("x" * (MAX_TOKEN_BYTES + 1), id="ascii"),
        pytest.param("\u00e9" * (MAX_TOKEN_BYTES // 2 + 1), id="utf-8"),
    ],
)
async def test_long_tokens(token: str) -> None:
    """They are nobody's, and never sent."""
    async with scripted(lambda _: YES) as (script, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        verdicts = [reviews.check(token), await reviews.review(token, ADDRESS)]

    assert [Verdict(None, 0.0, "the token is longer than 32768 bytes")] * 2 == verdicts
    assert script.asked == []


async def test_odd_tokens() -> None:
    """Any text of some length is sent as what it is, even one that UTF-8 does not have."""
    async with scripted(lambda _: NO) as (script, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        odd = ['"}', "\udc80", "\x00", "x" * MAX_TOKEN_BYTES]
        for token in odd:
            assert Verdict(None, 10.0, NOBODY) == await reviews.review(token, ADDRESS)
            assert Verdict(None, 10.0, NOBODY) == reviews.check(token)

    assert odd == [asked["spec"]["token"] for asked in script.asked]


@pytest.mark.parametrize("status", [{}, {"audiences": ["x"]}])
def test_audiences_of_answers(status: dict[str, Any]) -> None:
    """A token is the upstream's to judge, whatever audiences it names."""
    assert ALICE == verdict_of(answered(**YES["status"], **status), 10.0).user


@pytest.mark.parametrize(
    ("answer", "user"),
    [
        pytest.param(user_with(), User("alice", ()), id="name-alone"),
        pytest.param(
            user_with(uid=None, groups=None, extra=None), User("alice", ()), id="nothing-else"
        ),
        pytest.param(
            user_with(extra={"k": None}), User("alice", (), "", (("k", ()),)), id="no-values"
        ),
        pytest.param(user_with(groups=["system:masters"]), User("alice", ("system:masters",)),
                     id="any-group"),
        pytest.param(answered(), None, id="empty-status"),
        pytest.param(answered(authenticated=False, user=ALICE_INFO), None, id="no-with-a-user"),
        pytest.param(answered(authenticated=None), None, id="null"),
    ],
)  # fmt: skip
def test_answers(answer: dict[str, Any], user: User | None) -> None:
    """What Go leaves out is empty or false."""
    assert user == verdict_of(answer, 10.0).user


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(answered(authenticated="true"), "status.authenticated is no", id="text"),
        pytest.param(answered(authenticated=1), "status.authenticated is no", id="number"),
        pytest.param(answered(authenticated=True), "status.user is missing", id="no-user"),
        pytest.param(answered(authenticated=True, user="alice"), "no object", id="user-is-text"),
        pytest.param(user_with(username=""), "username is empty", id="no-name"),
        pytest.param(user_with(username=None), "username is empty", id="null-name"),
        pytest.param(user_with(username=["alice"]), "username is no text", id="name-is-list"),
        pytest.param(user_with(username="a\r\nb"), "control characters", id="line-end"),
        pytest.param(user_with(username="\ud800"), "control characters", id="half-character"),
        pytest.param(user_with(uid=42), "uid is no text", id="uid-is-number"),
        pytest.param(user_with(groups="dev"), "groups is no list", id="groups-are-text"),
        pytest.param(user_with(groups=["dev", None]), "groups is no list", id="group-is-null"),
        pytest.param(user_with(groups=["a\x00"]), "control characters", id="group-with-nul"),
        pytest.param(user_with(extra=[]), "extra is no object", id="extra-is-list"),
        pytest.param(user_with(extra={"k": "v"}), "extra is no list", id="values-are-text"),
        pytest.param(user_with(extra={"k": [1]}), "extra is no list", id="value-is-number"),
        pytest.param(user_with(extra={"k\n": []}), "control characters", id="key-with-line-end"),
        pytest.param(answered(audiences="a"), "audiences is no list", id="audiences-are-text"),
        pytest.param(
            user_with(groups=["g" * 1000] * (MAX_USER_CHARACTERS // 1000 + 1)),
            "more than 65536 characters",
            id="giant-user",
        ),
    ],
)
def test_hostile_answers(answer: dict[str, Any], says: str) -> None:
    """What is no review in every part is none, neither yes nor no."""
    with pytest.raises(ReviewError, match=says):
        verdict_of(answer, 10.0)


async def test_clear() -> None:
    """What was said can be forgotten."""
    async with scripted(lambda _: YES) as (_, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        await reviews.review(TOKEN, ADDRESS)
        reviews.clear()

        assert reviews.check(TOKEN) is None


async def test_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose a token is stays open if its review is cancelled, as at the end of the process."""
    async with scripted(lambda _: YES) as (_, api):

        async def post(*_: object, comes_first: bool) -> dict[str, Any]:  # noqa: ARG001
            raise asyncio.CancelledError

        monkeypatch.setattr(api, "post", post)
        verdict = await TokenReviews(api, SETTINGS, Clock()).review(TOKEN, ADDRESS)

    problem = "no answer to a TokenReview: the question was given up"
    assert Verdict(None, 0.0, problem, is_open=True) == verdict


@pytest.mark.parametrize(
    "failure", [pytest.param(503, id="server-error"), pytest.param(b"{", id="no-json")]
)
async def test_last_good_answer(failure: Answer) -> None:
    """It counts while no new one can be had, for its grace, in short steps."""
    clock = Clock()
    answers: list[Answer] = [YES]
    async with scripted(lambda _: answers[0]) as (_, api):
        reviews = TokenReviews(api, SETTINGS, clock)
        await reviews.review(TOKEN, ADDRESS)
        answers[0] = failure
        clock.now_s += 10.0
        verdicts = [await reviews.review(TOKEN, ADDRESS), reviews.check(TOKEN)]
        clock.now_s += SETTINGS.grace_s - 1.0
        nearly_over = await reviews.review(TOKEN, ADDRESS)
        clock.now_s += 1.0
        over = await reviews.review(TOKEN, ADDRESS)

    assert [Verdict(ALICE, 2.0)] * 2 == verdicts
    assert Verdict(ALICE, 1.0) == nearly_over
    assert (None, True) == (over.user, over.is_open)
    assert api.stand_ins_total == 2


async def test_token_that_was_revoked() -> None:
    """Once the upstream has said so, no answer of before counts, whatever happens to the next."""
    clock = Clock()
    answers: list[Answer] = [YES]
    async with scripted(lambda _: answers[0]) as (_, api):
        reviews = TokenReviews(api, SETTINGS, clock)
        await reviews.review(TOKEN, ADDRESS)
        verdicts = []
        for answer in (503, NO, 503):
            answers[0] = answer
            clock.now_s += 10.0
            first = await reviews.review(TOKEN, ADDRESS)
            while reviews._answers._in_flight:  # noqa: ASYNC110, SLF001 - it has no event
                await asyncio.sleep(0)
            verdicts.append((first.user, (await reviews.review(TOKEN, ADDRESS)).user))

    # While the upstream does not answer, a new answer is asked for, but not waited for each time.
    assert [(ALICE, ALICE), (ALICE, None), (None, None)] == verdicts


async def test_full_queue() -> None:
    """It says nothing of tokens; one that was good before is good, and comes first in its line."""
    clock = Clock()
    async with scripted(lambda _: YES, max_concurrent=1) as (script, api):
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
    problem = (
        f"no answer to a TokenReview: {TOKEN_REVIEW.path}: too many questions are waiting already"
    )
    # One is under way and 32 wait, of which one has to give way to the known one.
    assert [Verdict(None, 0.0, problem, is_open=True)] * 8 == [
        each for each in verdicts if each.user is None
    ]
    assert ["token-0", TOKEN] == [asked["spec"]["token"] for asked in script.asked[1:3]]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(user_with(groups=["a\nb"]), "status.user.groups has", id="line-end"),
        pytest.param(user_with(username=""), "status.user.username is empty", id="no-name"),
    ],
)
async def test_user_who_cannot_be_taken(answer: Answer, problem: str) -> None:
    """Such a token is nobody's, which is an answer as any other."""
    async with scripted(lambda _: answer) as (script, api):
        reviews = TokenReviews(api, SETTINGS, Clock())
        verdict = await reviews.review(TOKEN, ADDRESS)
        kept = reviews.check(TOKEN)

    assert (None, False) == (verdict.user, verdict.is_open)
    assert problem in verdict.problem
    assert verdict == kept
    assert 1 == len(script.asked)
