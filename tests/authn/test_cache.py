"""Answers that are kept, and asked for once."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.authn.cache import AnswerCache, AskFailedError, CachedAnswer
from tests.authn.scripted_api import Clock

SECRET = b"a-very-secret-token"


GRACE_S = 100.0


def is_good(answer: str) -> bool:
    return answer.startswith("good")


class Question:
    """Something to ask for, whose answer comes when the test says."""

    def __init__(self, *, lifetime_s: float = 10.0, error: Exception | None = None) -> None:
        self.lifetime_s = lifetime_s
        self.error = error
        self.asked = 0
        self.had_last: list[bool] = []
        self.may_answer = asyncio.Event()

    async def __call__(self, has_last: bool) -> tuple[str, float]:
        self.asked += 1
        self.had_last.append(has_last)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return f"answer {self.asked}", self.lifetime_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> AnswerCache[str]:
    return AnswerCache(clock, 3, is_good, GRACE_S)


async def test_stampede(cache: AnswerCache[str]) -> None:
    """A thousand who want the same answer at once make one question of it."""
    question = Question()
    waiters = [asyncio.create_task(cache.get_or_ask(SECRET, question)) for _ in range(1000)]
    await asyncio.sleep(0)
    question.may_answer.set()
    answers = await asyncio.gather(*waiters)

    assert question.asked == 1
    assert {answer.value for answer in answers} == {"answer 1"}
    assert 1 == len(cache)


async def test_expiry(cache: AnswerCache[str], clock: Clock) -> None:
    """An answer counts until its time is over, to the moment."""
    question = Question(lifetime_s=10.0)
    question.may_answer.set()
    await cache.get_or_ask(SECRET, question)
    clock.now_s += 9.999
    before = cache.get(SECRET)
    clock.now_s = 1010.0
    after = cache.get(SECRET)
    again = await cache.get_or_ask(SECRET, question)

    assert before is not None
    assert ("answer 1", 1010.0) == (before.value, before.until_s)
    assert after is None
    assert ("answer 2", 1020.0) == (again.value, again.until_s)


async def test_answers_for_now_alone(cache: AnswerCache[str]) -> None:
    """An answer with no time reaches who waits and is not kept."""
    question = Question(lifetime_s=0.0)
    question.may_answer.set()

    assert (await cache.get_or_ask(SECRET, question)).value == "answer 1"
    assert cache.get(SECRET) is None


async def test_bound(cache: AnswerCache[str]) -> None:
    """The answer that was kept first gives way."""
    question = Question()
    question.may_answer.set()
    for name in (b"a", b"b", b"c", b"d"):
        await cache.get_or_ask(name, question)

    assert len(cache) == 3
    assert [False, True, True, True] == [
        cache.get(name) is not None for name in (b"a", b"b", b"c", b"d")
    ]


async def test_cancelled_waiters(cache: AnswerCache[str]) -> None:
    """Whoever goes away, first or last, takes the answer from nobody, and it is kept."""
    question = Question()
    waiters = [asyncio.create_task(cache.get_or_ask(SECRET, question)) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    waiters[2].cancel()
    await asyncio.wait([waiters[0], waiters[2]])
    question.may_answer.set()

    assert (await waiters[1]).value == "answer 1"
    assert [True, False, True] == [waiter.cancelled() for waiter in waiters]
    assert cache.get(SECRET) is not None


async def test_all_waiters_cancelled(
    cache: AnswerCache[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A failure that nobody waits for any more disturbs nobody."""
    question = Question(error=ValueError("no"))
    waiter = asyncio.create_task(cache.get_or_ask(SECRET, question))
    await asyncio.sleep(0)
    futures = list(cache._in_flight.values())  # noqa: SLF001 - nobody else waits for them
    waiter.cancel()
    await asyncio.wait([waiter])
    question.may_answer.set()
    await asyncio.wait(futures)

    assert caplog.records == []


async def test_failures_are_not_kept(cache: AnswerCache[str]) -> None:
    """All who wait learn of a failure, and the next one asks again."""
    question = Question(error=ValueError("no"))
    question.may_answer.set()
    failures = await asyncio.gather(
        *(cache.get_or_ask(SECRET, question) for _ in range(3)), return_exceptions=True
    )
    question.error = None
    answer = await cache.get_or_ask(SECRET, question)

    assert ["no", "no", "no"] == [str(failure) for failure in failures]
    assert answer.value == "answer 2"


async def test_clear(cache: AnswerCache[str]) -> None:
    """What was asked before a clearing reaches who waits, but nobody after it."""
    question, later = Question(), Question()
    later.may_answer.set()
    waiter = asyncio.create_task(cache.get_or_ask(SECRET, question))
    await asyncio.sleep(0)
    cache.clear()
    new = await cache.get_or_ask(SECRET, later)
    question.may_answer.set()
    old = await waiter

    assert ("answer 1", "answer 1") == (old.value, new.value)
    assert (1, 1) == (question.asked, later.asked)
    assert new is cache.get(SECRET)
    cache.clear()
    assert cache.get(SECRET) is None


async def test_given_up(cache: AnswerCache[str]) -> None:
    """If the question itself is cancelled, those who wait learn that, and are not cancelled."""

    async def cancelled(_has_last: bool) -> tuple[str, float]:
        raise asyncio.CancelledError

    with pytest.raises(AskFailedError, match="given up"):
        await cache.get_or_ask(SECRET, cancelled)


async def test_secrets_are_not_kept(cache: AnswerCache[str]) -> None:
    """Neither a secret nor a plain hash of it is in memory; two caches have other keys."""
    question = Question()
    question.may_answer.set()
    other: AnswerCache[str] = AnswerCache(Clock(), 3, is_good, GRACE_S)
    await cache.get_or_ask(SECRET, question)
    await other.get_or_ask(SECRET, question)

    assert SECRET.decode() not in f"{cache!r}{vars(cache)!r}"
    assert [32, 32] == [len(key) for each in (cache, other) for key in each._others]  # noqa: SLF001
    assert set(cache._others).isdisjoint(other._others)  # noqa: SLF001


async def kept_one(cache: AnswerCache[str], clock: Clock) -> None:

    async def good(_has_last: bool) -> tuple[str, float]:
        return "good", 10.0

    await cache.get_or_ask(SECRET, good)
    clock.now_s += 10.0
    assert cache.get(SECRET) is None


async def test_last_good_answer(cache: AnswerCache[str], clock: Clock) -> None:
    """It stands in for one that fails, for a moment at a time, until its grace is over."""
    await kept_one(cache, clock)
    question = Question(error=ValueError("no"))
    question.may_answer.set()
    found = await cache.get_or_ask(SECRET, question)
    assert CachedAnswer("good", clock.now_s + 2.0, 1010.0 + GRACE_S, stands_in=True) == found
    assert found is cache.get(SECRET)
    clock.now_s += 2.0
    assert cache.get(SECRET) is None
    clock.now_s = 1010.0 + GRACE_S - 0.5
    assert 1010.0 + GRACE_S == (await cache.get_or_ask(SECRET, question)).until_s
    clock.now_s += 0.5
    with pytest.raises(ValueError, match="no"):
        await cache.get_or_ask(SECRET, question)
    assert [True, True] == question.had_last
    assert 0 == len(cache)


async def test_slow_answer(
    cache: AnswerCache[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good answer stands in for one that is late, which counts once it is there."""
    monkeypatch.setattr("apfproxy.authn.cache.STAND_IN_AFTER_S", 0.01)
    await kept_one(cache, clock)
    question = Question()
    found = [(await cache.get_or_ask(SECRET, question)).value]
    clock.now_s += 2.0
    # From now on nobody waits for it.
    found.append((await cache.get_or_ask(SECRET, question)).value)
    question.may_answer.set()
    under_way = asyncio.gather(*cache._in_flight.values())  # noqa: SLF001 - nobody else waits
    await under_way
    new = cache.get(SECRET)

    assert ["good", "good"] == found
    assert new is not None
    assert "answer 1" == new.value
    assert 1 == question.asked


async def test_answer_that_is_not_good_any_more(cache: AnswerCache[str], clock: Clock) -> None:
    """It ends what was good, even one that is not kept itself, and nothing stands in after it."""
    await kept_one(cache, clock)
    question = Question(lifetime_s=0.0)
    question.may_answer.set()
    assert "answer 1" == (await cache.get_or_ask(SECRET, question)).value
    question.error = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        await cache.get_or_ask(SECRET, question)


async def test_clear_ends_what_was_good(cache: AnswerCache[str], clock: Clock) -> None:
    """After a clearing nothing stands in, not even for one who was waiting."""
    await kept_one(cache, clock)
    question = Question(error=ValueError("no"))
    waiter = asyncio.create_task(cache.get_or_ask(SECRET, question))
    await asyncio.sleep(0)
    cache.clear()
    question.may_answer.set()

    with pytest.raises(ValueError, match="no"):
        await waiter


async def test_good_answers_have_their_own_places(cache: AnswerCache[str], clock: Clock) -> None:
    """Others drive them out in no number."""
    await kept_one(cache, clock)
    question = Question()
    question.may_answer.set()
    for number in range(5):
        await cache.get_or_ask(b"%d" % number, question)

    assert 4 == len(cache)
    question.error = ValueError("no")
    assert "good" == (await cache.get_or_ask(SECRET, question)).value
