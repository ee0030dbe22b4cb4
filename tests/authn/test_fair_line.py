"""Turns, shared fairly between addresses."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.fair_line import FairLine, LineFullError, Place


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


async def test_turn_as_it_is_given_up() -> None:
    asked = Asked(FairLine(1, 8))
    first, second, third = [await asked.ask("a") for _ in range(3)]
    asked.line.leave(first)
    asked.waits[second].cancel()
    await asyncio.sleep(0)
    asked.line.leave(second)
    await steps()

    assert third.is_under_way
    assert 1 == asked.line.under_way


async def test_further_turns_of_a_place() -> None:
    line = FairLine(1, 8)
    place = Place("a")
    for turn in (1, 2):
        await line.wait(place)
        assert (turn, 1) == (place.turns, line.under_way)
        line.leave(place)

    assert 0 == line.under_way


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
