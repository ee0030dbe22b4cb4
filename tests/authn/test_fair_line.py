"""Turns that addresses share fairly, and responses that are cached and asked for once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.cache import AnswerCache, AskFailedError, CachedAnswer
from apfproxy.authn.fair_line import FairLine, LineFullError, Place
from tests.support.clocks import Clock


async def steps() -> None:
    """Let tasks run, two of which may follow one another."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@dataclass
class Asked:
    """Clients that ask, in a loop of the test."""

    line: FairLine
    served: str = ""
    refused: str = ""
    waits: dict[Place, asyncio.Task[None]] = field(default_factory=dict)

    async def ask(self, address: str, *, comes_first: bool = False) -> Place:
        place = Place(address, comes_first=comes_first)
        self.waits[place] = asyncio.create_task(self._wait(place, address))
        await steps()
        return place

    async def end(self, place: Place) -> None:
        self.waits[place].cancel()
        self.line.leave(place)
        await steps()

    async def drain(self) -> None:
        while under_way := [place for place in self.waits if place.is_under_way]:
            for place in under_way:
                await self.end(place)

    async def _wait(self, place: Place, address: str) -> None:
        try:
            await self.line.wait(place)
        except LineFullError:
            self.refused += address
            self.line.leave(place)
        else:
            self.served += address


@pytest.mark.parametrize(
    ("slots", "max_waiting", "asking", "at_once", "refused", "served"),
    [
        pytest.param(1, 100, "aaaaaaaabb", "a", "", "ababaaaaaa", id="every-second-turn"),
        pytest.param(4, 100, "aaaaab", "aaab", "", "aaabaa", id="a-quarter-for-others"),
        pytest.param(1, 1, "aaa", "a", "a", "aa", id="no-quarter-of-one-slot"),
        pytest.param(1, 8, "aaaaaaa", "a", "aa", "aaaaa", id="half-of-the-places"),
        # d takes two of a's places; then the lines are a2 b3 c1 d2, and b is the longest itself;
        # c takes one of b's; then all have two, and no line is longer than that of c.
        pytest.param(
            1, 8, "aaaaabbbcddbcccc", "a", "aabbccc", "abcdabcda", id="the-longest-gives-way"
        ),
    ],
)
async def test_turns(
    slots: int, max_waiting: int, asking: str, at_once: str, refused: str, served: str
) -> None:
    asked = Asked(FairLine(slots, max_waiting))
    for address in asking:
        await asked.ask(address)
    assert at_once == asked.served
    await asked.drain()

    assert (refused, served) == ("".join(sorted(asked.refused)), asked.served)


async def test_comes_first() -> None:
    """Among those of one address it is before the others, and takes the place of the newest."""
    asked = Asked(FairLine(1, 4))
    places = [await asked.ask("a") for _ in range(3)]
    known = await asked.ask("a", comes_first=True)
    assert "a" == asked.refused
    assert not asked.waits[places[1]].done()
    await asked.end(places[0])
    assert known.is_under_way

    # Those that come first themselves give way to no other of their address.
    for _ in range(3):
        await asked.ask("a", comes_first=True)
    assert "aaa" == asked.refused


async def test_gone() -> None:
    """A place that leaves before its turn takes none, and to leave twice changes nothing."""
    asked = Asked(FairLine(1, 8))
    first, second, third = [await asked.ask("a") for _ in range(3)]
    asked.waits[second].cancel()  # it has not left yet
    for place in (first, second, second, first, Place("a")):
        asked.line.leave(place)
    await steps()

    assert (0, 1) == (second.turns, third.turns)
    assert (1, 0) == (asked.line.under_way, asked.line.waiting)


STEPS = st.sampled_from(["ask", "first", "end", "gone"])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), STEPS), max_size=60),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_bounds_hold(drawn: list[tuple[str, str]], slots: int, max_waiting: int) -> None:
    """Whatever happens, bounds hold, no turn is lost, and an empty line leaves nothing behind."""

    async def run() -> None:
        asked = Asked(FairLine(slots, max_waiting))
        line = asked.line
        for address, step in drawn:
            if step in {"ask", "first"}:
                await asked.ask(address, comes_first=step == "first")
            else:
                mine = [
                    place
                    for place, task in asked.waits.items()
                    if place.address == address
                    and (place.is_under_way if step == "end" else not task.done())
                ]
                for place in mine[:1]:
                    await asked.end(place)
            under_way = [place for place in asked.waits if place.is_under_way]
            waiting = [place for place, task in asked.waits.items() if not task.done()]
            assert (len(under_way), len(waiting)) == (line.under_way, line.waiting)
            assert line.under_way <= slots
            assert line.waiting <= max_waiting
            most = max(1, slots - -(-slots // 4))
            counts = Counter(place.address for place in under_way)
            assert all(count <= most for count in counts.values())
            if line.under_way < slots:
                assert all(counts[place.address] == most for place in waiting)
            lengths = Counter(place.address for place in waiting)
            assert max(lengths.values(), default=0) == line._longest  # noqa: SLF001
            assert all(length <= max(1, max_waiting // 2) for length in lengths.values())
        await asked.drain()
        assert (0, 0) == (line.under_way, line.waiting)
        assert {} == line._lines  # noqa: SLF001 - what is left behind

    asyncio.run(run())


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
