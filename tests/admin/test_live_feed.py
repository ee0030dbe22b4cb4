"""Who listens to the live page's events, and who gets what."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apfproxy.admin import live_feed
from apfproxy.admin.live_feed import Listener, LiveFeed, event
from apfproxy.admin.live_history import LiveHistory
from tests.admin.scene import Scene

S = 1_000_000_000


class Source:
    """A feed whose time and state a test sets, and whose sleeps it ends.

    Attributes:
        state: What the next state is.
        made: How many were made.
        cost_ns: What making one takes.
        slept_s: Every sleep so far.
    """

    def __init__(self) -> None:
        self.scene = Scene(())
        self.history = LiveHistory(self.scene.controller, 0)
        self.state: dict[str, Any] | None = {"n": 1}
        self.made = 0
        self.cost_ns = 0
        self.now_ns = 0
        self.slept_s: list[float] = []
        self.sleeping = asyncio.Event()
        self.wake = asyncio.Event()
        self.feed = LiveFeed(
            self._make, self.history, lambda: self.now_ns, lambda: 5.0, self._sleep
        )
        self.aborted: list[str] = []

    def listener(self, name: str = "") -> Listener:
        """One that has joined."""
        listener = Listener(lambda: self.aborted.append(name))
        self.feed.join(listener)
        return listener

    def _make(self) -> dict[str, Any] | None:
        self.made += 1
        self.now_ns += self.cost_ns
        return None if self.state is None else dict(self.state)

    async def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.sleeping.set()
        await self.wake.wait()
        self.wake.clear()


def data(text: bytes) -> dict[str, Any]:
    """The JSON of an event."""
    name, line, *rest = text.decode().split("\n")
    assert ("event: state", ["", ""]) == (name, rest)
    loaded: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return loaded


async def test_works_only_for_listeners() -> None:
    """The first listener starts the work, the last one that goes ends it."""
    source = Source()
    await asyncio.sleep(0)
    before = source.made
    one, two = source.listener(), source.listener()
    await source.sleeping.wait()
    source.feed.leave(one)
    source.sleeping.clear()
    source.wake.set()
    await source.sleeping.wait()
    source.feed.leave(two)
    source.feed.leave(two)
    made = source.made
    source.wake.set()
    await asyncio.sleep(0)

    assert 0 == before
    assert (2, 2) == (made, source.made)
    assert "<LiveFeed: 0 listeners>" == repr(source.feed)


async def test_states() -> None:
    """A listener gets the newest state, and no state twice."""
    source = Source()
    listener = source.listener()
    source.feed.serve()
    first = data(await listener.take())
    source.feed.serve()
    is_quiet = not listener._changed.is_set()  # noqa: SLF001 - there is nothing to await
    source.state = {"n": 2}
    source.feed.serve()
    source.state = {"n": 3}
    source.feed.serve()
    last = data(await listener.take())
    source.feed.leave(listener)

    assert {"time": 5.0, "n": 1} == first
    assert is_quiet
    assert {"time": 5.0, "n": 3} == last


async def test_a_new_listener_gets_a_state() -> None:
    """Also if nothing has changed since the others got theirs."""
    source = Source()
    source.listener()
    source.feed.serve()
    late = source.listener()
    source.feed.serve()
    state = data(await late.take())
    source.feed.close()

    assert {"time": 5.0, "n": 1} == state
    assert {"time": 5.0, "n": 1} == json.loads(source.feed.state_json())


async def test_seconds() -> None:
    """A listener gets every second that it has not had, and is woken for it alone, too."""
    source = Source()
    listener = source.listener()
    source.feed.serve()
    await listener.take()
    none = source.feed.seconds_for(listener)
    source.history.sample(S, 1.0)
    source.history.sample(2 * S, 2.0)
    source.feed.serve()
    state = await listener.take()
    seconds = source.feed.seconds_for(listener)

    assert (b"", b"") == (none, state)
    assert event("seconds", source.history.columns()) == seconds
    assert b"" == source.feed.seconds_for(listener)
    source.feed.close()


@pytest.mark.parametrize(
    ("cost_ns", "expected_s"),
    [
        pytest.param(0, 0.1, id="cheap"),
        pytest.param(50_000_000, 1.0, id="dear"),
    ],
)
async def test_interval(cost_ns: int, expected_s: float) -> None:
    """States that are dear to make are made more seldom."""
    source = Source()
    source.cost_ns = cost_ns
    source.listener()
    await source.sleeping.wait()
    source.feed.close()

    assert [expected_s] == source.slept_s


async def test_close() -> None:
    """At the end all are woken, and cut who is being written to."""
    source = Source()
    waiting, writing = source.listener("waiting"), source.listener("writing")
    writing.is_writing = True
    source.feed.close()

    assert b"" == await waiting.take()
    assert (True, ["writing"]) == (source.feed.is_closed, source.aborted)
    assert "<Listener being written to>" == repr(writing)
    for listener in (waiting, writing):
        source.feed.leave(listener)


async def test_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound to how many listen."""
    monkeypatch.setattr(live_feed, "MAX_LISTENERS", 1)
    source = Source()
    before = source.feed.is_full
    listener = source.listener()

    assert (False, True) == (before, source.feed.is_full)
    source.feed.leave(listener)


async def test_an_error_does_not_end_the_service(caplog: pytest.LogCaptureFixture) -> None:
    """A state that cannot be made is left out; the next one is sent."""
    source = Source()
    make, calls = source._make, []

    def fail_once() -> dict[str, Any] | None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("a bug")
        return make()

    source.feed = LiveFeed(
        fail_once,
        source.history,
        lambda: source.now_ns,
        lambda: 5.0,
        source._sleep,  # noqa: SLF001  likewise
    )
    listener = source.listener()
    await source.sleeping.wait()
    source.wake.set()
    state = data(await listener.take())
    source.feed.leave(listener)

    assert {"time": 5.0, "n": 1} == state
    assert 1 == caplog.text.count("ValueError: a bug")


async def test_no_state_any_more() -> None:
    """Then all who listen are ended."""
    source = Source()
    listener = source.listener()
    await source.sleeping.wait()
    first = await listener.take()
    source.state = None
    source.wake.set()
    last = await listener.take()
    source.feed.leave(listener)

    assert {"n": 1, "time": 5.0} == data(first)
    assert (b"", True) == (last, source.feed.is_closed)
