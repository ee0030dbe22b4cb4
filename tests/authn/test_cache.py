"""Responses that are cached, and asked for once."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.authn.cache import AnswerCache, AskFailedError, CachedAnswer
from tests.support.clocks import Clock

SECRET = b"a-very-secret-token"
GRACE_S = 100.0


class Question:
    """A question whose answer comes when the test says."""

    def __init__(
        self, *, lifetime_s: float = 10.0, error: Exception | None = None, is_slow: bool = False
    ) -> None:
        self.lifetime_s = lifetime_s
        self.error = error
        self.asked = 0
        self.had_last: list[bool] = []
        self.may_answer = asyncio.Event()
        if not is_slow:
            self.may_answer.set()

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
    return AnswerCache(clock, 3, lambda answer: answer.startswith("good"), GRACE_S)


async def waiters(
    cache: AnswerCache[str], question: Question, count: int = 1
) -> list[asyncio.Task[CachedAnswer[str]]]:
    tasks = [asyncio.create_task(cache.get_or_ask(SECRET, question)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def keep_good(cache: AnswerCache[str], clock: Clock) -> None:
    """Have a good answer expire."""

    async def good(_has_last: bool) -> tuple[str, float]:
        return "good", 10.0

    await cache.get_or_ask(SECRET, good)
    clock.now_s += 10.0
    assert cache.get(SECRET) is None


async def test_stampede(cache: AnswerCache[str]) -> None:
    question = Question(is_slow=True)
    tasks = await waiters(cache, question, 1000)
    question.may_answer.set()

    assert {"answer 1"} == {answer.value for answer in await asyncio.gather(*tasks)}
    assert (1, 1) == (question.asked, len(cache))


async def test_expiry(cache: AnswerCache[str], clock: Clock) -> None:
    """An answer counts until its time is over, to the moment; one without time for now alone."""
    question = Question()
    await cache.get_or_ask(SECRET, question)
    clock.now_s += 9.999
    assert CachedAnswer("answer 1", 1010.0) == cache.get(SECRET)
    clock.now_s = 1010.0
    assert cache.get(SECRET) is None
    assert CachedAnswer("answer 2", 1020.0) == await cache.get_or_ask(SECRET, question)
    clock.now_s = 1020.0
    question.lifetime_s = 0.0
    assert "answer 3" == (await cache.get_or_ask(SECRET, question)).value
    assert cache.get(SECRET) is None


async def test_bound(cache: AnswerCache[str], clock: Clock) -> None:
    """The answer that was kept first gives way; good ones have places of their own."""
    await keep_good(cache, clock)
    question = Question()
    names = (b"a", b"b", b"c", b"d")
    for name in names:
        await cache.get_or_ask(name, question)

    assert 4 == len(cache)
    assert [False, True, True, True] == [cache.get(name) is not None for name in names]
    question.error = ValueError("no")
    assert "good" == (await cache.get_or_ask(SECRET, question)).value


async def test_cancelled_waiters(cache: AnswerCache[str]) -> None:
    """A waiter that goes away, first or last, takes the answer from no other, and it is kept."""
    question = Question(is_slow=True)
    first, second, third = await waiters(cache, question, 3)
    first.cancel()
    third.cancel()
    await asyncio.wait([first, third])
    question.may_answer.set()

    assert "answer 1" == (await second).value
    assert first.cancelled()
    assert third.cancelled()
    assert cache.get(SECRET) is not None


async def test_all_waiters_cancelled(
    cache: AnswerCache[str], caplog: pytest.LogCaptureFixture
) -> None:
    question = Question(error=ValueError("no"), is_slow=True)
    (waiter,) = await waiters(cache, question)
    futures = list(cache._in_flight.values())  # noqa: SLF001 - nothing else waits for them
    waiter.cancel()
    await asyncio.wait([waiter])
    question.may_answer.set()
    await asyncio.wait(futures)

    assert caplog.records == []


async def test_failures_are_not_kept(cache: AnswerCache[str]) -> None:
    """All who wait learn of a failure, and the next one asks again."""
    question = Question(error=ValueError("no"))
    tasks = await waiters(cache, question, 3)
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    question.error = None

    assert ["no", "no", "no"] == [str(failure) for failure in failures]
    assert "answer 2" == (await cache.get_or_ask(SECRET, question)).value


async def test_clear(cache: AnswerCache[str], clock: Clock) -> None:
    """An answer to an earlier question reaches its waiters alone, and nothing stands in."""
    await keep_good(cache, clock)
    question, failing, later = Question(is_slow=True), Question(is_slow=True), Question()
    (waiter,) = await waiters(cache, question)
    cache.clear()
    (other,) = await waiters(cache, failing)
    cache.clear()
    new = await cache.get_or_ask(SECRET, later)
    failing.error = ValueError("no")
    failing.may_answer.set()
    question.may_answer.set()

    assert ("answer 1", "answer 1") == ((await waiter).value, new.value)
    with pytest.raises(ValueError, match="no"):
        await other
    assert new is cache.get(SECRET)


async def test_given_up(cache: AnswerCache[str]) -> None:
    """If the question itself is cancelled, its waiters learn that, and are not cancelled."""

    async def cancelled(_has_last: bool) -> tuple[str, float]:
        raise asyncio.CancelledError

    with pytest.raises(AskFailedError, match="given up"):
        await cache.get_or_ask(SECRET, cancelled)


async def test_secrets_are_not_kept(cache: AnswerCache[str]) -> None:
    """Neither a secret nor a plain hash of it is in memory; two caches have other keys."""
    other: AnswerCache[str] = AnswerCache(Clock(), 3, lambda _: False, GRACE_S)
    for each in (cache, other):
        await each.get_or_ask(SECRET, Question())

    assert SECRET.decode() not in f"{cache!r}{vars(cache)!r}"
    keys = [*cache._others, *other._others]  # noqa: SLF001
    assert [32, 32] == [len(key) for key in keys]
    assert keys[0] != keys[1]


async def test_last_good_answer(cache: AnswerCache[str], clock: Clock) -> None:
    """It stands in for one that fails, for a moment at a time, until its grace is over."""
    await keep_good(cache, clock)
    question = Question(error=ValueError("no"))
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
    monkeypatch.setattr("apfproxy.authn.cache.STAND_IN_AFTER_S", 0.01)
    await keep_good(cache, clock)
    question = Question(is_slow=True)
    for _ in range(2):  # the second does not wait for it
        assert "good" == (await cache.get_or_ask(SECRET, question)).value
        clock.now_s += 2.0
    question.may_answer.set()
    await asyncio.gather(*cache._in_flight.values())  # noqa: SLF001 - nothing else waits

    new = cache.get(SECRET)
    assert new is not None
    assert ("answer 1", 1) == (new.value, question.asked)


async def test_answer_that_is_not_good_any_more(cache: AnswerCache[str], clock: Clock) -> None:
    """It ends what was good, even one that is not kept itself, and nothing stands in after it."""
    await keep_good(cache, clock)
    question = Question(lifetime_s=0.0)
    assert "answer 1" == (await cache.get_or_ask(SECRET, question)).value
    question.error = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        await cache.get_or_ask(SECRET, question)
