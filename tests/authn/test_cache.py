"""Answers that are kept, and asked for once."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.authn.cache import AnswerCache, AskFailedError
from tests.authn.scripted_api import Clock

SECRET = b"a-very-secret-token"


class Question:
    """Something to ask for, whose answer comes when the test says."""

    def __init__(self, *, lifetime_s: float = 10.0, error: Exception | None = None) -> None:
        self.lifetime_s = lifetime_s
        self.error = error
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> tuple[str, float]:
        """Wait and answer."""
        self.asked += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return f"answer {self.asked}", self.lifetime_s


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> AnswerCache[str]:
    """One for three answers."""
    return AnswerCache(clock, 3)


async def test_stampede(cache: AnswerCache[str]) -> None:
    """A thousand who want the same answer at once make one question of it."""
    question = Question()
    waiters = [asyncio.create_task(cache.get_or_ask(SECRET, question)) for _ in range(1000)]
    await asyncio.sleep(0)
    question.may_answer.set()
    answers = await asyncio.gather(*waiters)

    assert question.asked == 1
    assert {answer.value for answer in answers} == {"answer 1"}
    assert repr(cache) == "<AnswerCache: 1 kept, 0 in flight>"


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

    async def cancelled() -> tuple[str, float]:
        raise asyncio.CancelledError

    with pytest.raises(AskFailedError, match="given up"):
        await cache.get_or_ask(SECRET, cancelled)


async def test_secrets_are_not_kept(cache: AnswerCache[str]) -> None:
    """Neither a secret nor a plain hash of it is in memory; two caches have other keys."""
    question = Question()
    question.may_answer.set()
    other: AnswerCache[str] = AnswerCache(Clock(), 3)
    await cache.get_or_ask(SECRET, question)
    await other.get_or_ask(SECRET, question)

    assert SECRET.decode() not in f"{cache!r}{vars(cache)!r}"
    assert [32, 32] == [len(key) for each in (cache, other) for key in each._kept]  # noqa: SLF001
    assert set(cache._kept).isdisjoint(other._kept)  # noqa: SLF001
