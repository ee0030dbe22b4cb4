"""Who listens to the live page's events, and who gets what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apfproxy.admin import live_feed
from apfproxy.admin.history import History
from apfproxy.admin.live_feed import Listener, LiveFeed, event
from tests.admin.scene import Scene

if TYPE_CHECKING:
    import pytest

S = 1_000_000_000


class Source:
    """A feed, and listeners that tell when they are cut."""

    def __init__(self) -> None:
        self.scene = Scene(())
        self.history = History()
        self.feed = LiveFeed(self.history)
        self.aborted: list[str] = []

    def listener(self, name: str = "") -> Listener:
        listener = Listener(lambda: self.aborted.append(name))
        self.feed.join(listener)
        return listener

    def second(self, number: int) -> None:
        state = self.scene.state()
        self.history.take(state, state.clusters[0], number * S, float(number))


def data(text: bytes) -> dict[str, Any]:
    """The JSON of an event."""
    name, line, *rest = text.decode().split("\n")
    assert ("event: state", ["", ""]) == (name, rest)
    loaded: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return loaded


async def test_states() -> None:
    """A listener gets the newest state, and no state twice; a new one gets one in any case."""
    source = Source()
    listener = source.listener()
    source.feed.offer({"n": 1}, 5.0)
    first = data(await listener.take())
    source.feed.offer({"n": 1}, 6.0)
    is_quiet = not listener._changed.is_set()  # noqa: SLF001 - there is nothing to await
    source.feed.offer({"n": 2}, 7.0)
    source.feed.offer({"n": 3}, 8.0)
    last = data(await listener.take())
    late = source.listener()
    source.feed.offer({"n": 3}, 9.0)

    assert ({"time": 5.0, "n": 1}, True, {"time": 8.0, "n": 3}) == (first, is_quiet, last)
    assert {"time": 9.0, "n": 3} == data(await late.take())


async def test_seconds() -> None:
    """A listener gets every second that it has not had, and is woken for it alone, too."""
    source = Source()
    listener = source.listener()
    source.feed.offer({"n": 1}, 5.0)
    await listener.take()
    none = source.feed.seconds_for(listener)
    for number in range(3):
        source.second(number)
    source.feed.offer({"n": 1}, 6.0)
    state = await listener.take()
    seconds = source.feed.seconds_for(listener)

    assert (b"", b"") == (none, state)
    assert event("seconds", source.history.columns()) == seconds
    assert b"" == source.feed.seconds_for(listener)


async def test_close() -> None:
    """At the end all are woken, and cut who is being written to."""
    source = Source()
    waiting, writing = source.listener("waiting"), source.listener("writing")
    writing.is_writing = True
    source.feed.close()

    assert b"" == await waiting.take()
    assert (True, ["writing"]) == (source.feed.is_closed, source.aborted)
    for listener in (waiting, writing):
        source.feed.leave(listener)
    assert source.feed.is_empty


async def test_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound to how many listen."""
    monkeypatch.setattr(live_feed, "MAX_LISTENERS", 1)
    source = Source()
    before = source.feed.is_full
    source.listener()

    assert (False, True) == (before, source.feed.is_full)
