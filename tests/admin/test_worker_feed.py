"""What the live page of several workers hears of each, from scripted workers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from apfproxy.admin import worker_feed
from apfproxy.admin.live_feed import Listener
from apfproxy.admin.worker_answers import WorkerAdmin
from apfproxy.admin.worker_feed import Heard, WorkerFeed
from apfproxy.base.health_checks import HealthRegistry
from tests.admin.test_merged_history import columns
from tests.admin.test_merged_live import state

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    import pytest

FIRST, SECOND = (WorkerAdmin(index, f"path/{index}", "serving", index) for index in (1, 2))


class Scripted:
    """Workers that tell what they are given to tell.

    Attributes:
        events: By the worker's index; one that has none cannot be reached.
        asked: How often each was asked.
    """

    def __init__(self) -> None:
        self.events: dict[int, list[tuple[str, object]]] = {}
        self.asked: list[int] = []
        self.more = asyncio.Event()

    async def follow(
        self, worker: WorkerAdmin, target: str
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Tell all of them, and nothing more until there is more."""
        assert target == "/events"
        self.asked.append(worker.index)
        if worker.index not in self.events:
            raise OSError("cannot\nconnect")
        for name, data in self.events[worker.index]:
            yield name, msgspec.json.encode(data)
        await self.more.wait()


async def until(is_so: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    for _ in iter(is_so, True):
        await asyncio.sleep(0)


def told(requests: int = 0) -> list[tuple[str, object]]:
    """What a worker tells first."""
    return [
        ("history", columns(10.0, 11.0)),
        ("state", state(requests)),
        ("seconds", columns(12.0)),
    ]


async def test_all_are_heard() -> None:
    """The state and the history are those of both."""
    script = Scripted()
    script.events = {1: told(1), 2: told(1)}
    feed = WorkerFeed(lambda: [FIRST, SECOND], script.follow, HealthRegistry(), "/events")
    assert await feed.ready()
    assert await feed.ready()  # a second page
    found = feed.state()
    feed.stop()

    assert found is not None
    assert feed.problems == {}
    assert sum(level["executing"] for level in found["levels"]) == 2
    assert found["verdict"]
    assert feed.history.columns()["levels"]["a"]["served"][:2] == [2.0, 2.0]
    assert script.asked == [1, 2]


async def test_one_that_cannot_be_reached() -> None:
    """The state is that of the other one, and says so."""
    script = Scripted()
    script.events = {2: told()}
    feed = WorkerFeed(lambda: [FIRST, SECOND], script.follow, HealthRegistry(), "/events")
    assert await feed.ready()
    found = feed.state()
    problems = feed.problems
    feed.stop()

    assert found is not None
    assert problems == {"1": "cannot connect"}
    assert "worker 1 does not answer: cannot connect" in {
        each["problem"] for each in found["problems"]
    }


async def test_one_of_another_version() -> None:
    """What cannot be understood makes its worker silent."""
    script = Scripted()
    script.events = {1: [("history", {})], 2: told()}
    feed = WorkerFeed(lambda: [FIRST, SECOND], script.follow, HealthRegistry(), "/events")
    await feed.ready()
    problems = feed.problems
    feed.stop()

    assert problems == {"1": "what it tells is of another version: KeyError('levels')"}


async def test_nobody_is_heard() -> None:
    """Then there are no events."""
    feed = WorkerFeed(lambda: [FIRST], Scripted().follow, HealthRegistry(), "/events")
    ready = await feed.ready()
    feed.stop()

    assert not ready


async def test_one_that_starts() -> None:
    """It is not followed yet."""
    script = Scripted()
    script.events = {1: told(), 2: told()}
    starting = replace(FIRST, state="starting")
    feed = WorkerFeed(lambda: [starting, SECOND], script.follow, HealthRegistry(), "/events")
    await feed.ready()
    problems = feed.problems
    feed.stop()

    assert script.asked == [2]
    assert problems == {"1": "it is starting"}


async def test_one_that_shows_no_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out at once, and asked anew as soon as it shows life, whatever it told before."""
    monkeypatch.setattr(worker_feed, "TICK_S", 0.001)
    script = Scripted()
    script.events = {1: told(), 2: told()}
    there = [FIRST, SECOND]
    feed = WorkerFeed(lambda: there, script.follow, HealthRegistry(), "/events")
    await feed.ready()
    there[:] = [replace(FIRST, state="silent"), SECOND]
    await until(lambda: bool(feed.problems))
    problems, asked = feed.problems, list(script.asked)
    there[:] = [FIRST, SECOND]
    await until(lambda: not feed.problems)
    feed.stop()

    assert problems == {"1": "it shows no life"}
    assert (asked, script.asked) == ([1, 2], [1, 2, 1])


async def test_all_fall_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no state any more, and who listens is ended."""
    monkeypatch.setattr(worker_feed, "TICK_S", 0.001)
    script = Scripted()
    script.events = {1: told()}
    there = [FIRST]
    feed = WorkerFeed(lambda: there, script.follow, HealthRegistry(), "/events")
    await feed.ready()
    feed.feed.join(Listener(lambda: None))
    there[:] = [replace(FIRST, state="silent")]
    await until(lambda: bool(feed.problems))
    found = feed.state()
    await until(lambda: feed.feed.is_closed)
    feed.stop()

    assert found is None


async def test_one_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hangs is waited for only so long."""
    monkeypatch.setattr(worker_feed, "READY_S", 0.0)
    script = Scripted()
    script.events = {1: []}
    feed = WorkerFeed(lambda: [FIRST], script.follow, HealthRegistry(), "/events")
    ready = await feed.ready()
    problems = feed.problems
    feed.stop()

    assert not ready
    assert problems == {"1": "it has told nothing yet"}


async def test_workers_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes another one's place is heard from the next look on."""
    monkeypatch.setattr(worker_feed, "TICK_S", 0.001)
    script = Scripted()
    script.events = {1: told(1), 2: told(1)}
    there = [FIRST]
    feed = WorkerFeed(lambda: there, script.follow, HealthRegistry(), "/events")
    await feed.ready()
    there[:] = [SECOND]
    await until(lambda: 2 in script.asked and not feed.problems)
    found = feed.state()
    feed.stop()

    assert found is not None
    assert [each["name"] for each in found["workers"]] == ["2"]


async def test_one_that_ends_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that end, or break off, are followed anew."""
    monkeypatch.setattr(worker_feed, "TICK_S", 0.001)
    script = Scripted()
    script.events = {1: told()}
    script.more.set()
    feed = WorkerFeed(lambda: [FIRST], script.follow, HealthRegistry(), "/events")
    await feed.ready()
    await until(lambda: len(script.asked) >= 3)
    feed.stop()

    assert script.asked[:3] == [1, 1, 1]


async def test_one_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last state is no state of now."""
    monkeypatch.setattr(worker_feed, "TICK_S", 0.001)
    monkeypatch.setattr(worker_feed, "SILENT_S", 0.0)
    script = Scripted()
    script.events = {1: told()}
    feed = WorkerFeed(lambda: [FIRST], script.follow, HealthRegistry(), "/events")
    await feed.ready()
    await until(lambda: bool(feed.problems))
    problems = feed.problems
    feed.stop()

    assert problems["1"].startswith("it has told nothing for")
    assert repr(feed) == "<WorkerFeed of 0 workers>"


def test_heard() -> None:
    """What a worker tells makes it well again."""
    heard = Heard(FIRST, 0.0)
    heard.fall_silent("away")
    assert repr(heard) == "<Heard of worker 1: away>"
    heard.take("state", b"{}", 5.0)

    assert (heard.problem, heard.heard_s, heard.state) == ("", 5.0, {})
