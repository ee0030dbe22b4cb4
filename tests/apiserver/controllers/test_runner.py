"""Running controllers, their queue, and which of them run."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.controllers import runner as runner_module
from apfproxy.apiserver.controllers.control import CONTROLLERS, OWN, parse_controllers
from apfproxy.apiserver.controllers.runner import (
    LONGEST_PAUSE_S,
    MOST_CHARACTERS,
    MOST_TIMES,
    STUCK,
    Controller,
    Queue,
    Runner,
)
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.errors import bad_request
from apfproxy.apiserver.store.entries import StoreError, TooOldError
from tests.apiserver.controllers.scene import NOW_S, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Change

    Result = float | None | Exception


class Recorder(Controller):
    """A controller that notes what happens to it; looks have the given results, then None."""

    kinds = (NAMESPACE,)

    def __init__(self, scene: Scene, results: Iterable[Result]) -> None:
        super().__init__(scene.registry)
        self.scene = scene
        self.starts = 0
        self.noticed: list[tuple[str, str]] = []
        self.looked: asyncio.Queue[str] = asyncio.Queue()
        self.results = list(results)
        self.notice_errors: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.early_s = 0.0
        self.put_off = asyncio.Event()
        self.runner = Runner("recorder", self.start, scene.registry)

    def start(self) -> Controller:
        self.starts += 1
        return self

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        if self.notice_errors:
            raise self.notice_errors.pop()
        self.noticed.append((change.type, change.entry.name))
        return [(change.entry.name,)]

    def due_s(self, _key: Key) -> float:
        if self.early_s > self.scene.now_s:
            self.put_off.set()
        return self.early_s

    async def look(self, key: Key) -> float | None:
        self.looked.put_nowait(key[0])
        await self.gate.wait()
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    async def looks(self, names: str) -> None:
        """Wait for these looks, one a letter; there are no others."""
        async with asyncio.timeout(60):
            assert names == "".join([await self.looked.get() for _ in names])
        assert self.looked.empty()


@asynccontextmanager
async def running(names: str, *results: Result) -> AsyncIterator[Recorder]:
    """A controller at work, where there are namespaces of these names, one a letter."""
    scene = Scene()
    for name in names:
        await scene.namespace(name)
    recorder = Recorder(scene, results)
    task = recorder.runner.start()
    await asyncio.sleep(0)
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(runner_module, "RESTART_PAUSE_S", 0)
    monkeypatch.setattr("apfproxy.base.tasks.FIRST_PAUSE_S", 0)


async def test_many_changes_cause_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "IN_A_ROW", 1)
    async with running("") as recorder:
        scene = recorder.scene
        await scene.namespace("a")
        await scene.change(NAMESPACE, "a", {"status": {"phase": "Active"}}, subresource="status")
        await scene.namespace("b")
        await recorder.looks("ab")


async def test_keys_come_again_at_their_time() -> None:
    async with running("a", NOW_S, NOW_S + 0.001) as recorder:
        await recorder.looks("aa")
        recorder.scene.now_s += 1
        await recorder.looks("a")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (bad_request("bad"), "s: bad"),
        (StoreError("full"), "s: full"),
    ],
)
async def test_failures_are_logged_and_repeated(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running("ab", error) as recorder:
        await recorder.looks("ab")
        recorder.scene.now_s += 1
        await recorder.looks("a")
    assert "controller recorder failed at a, tries again in 0.005 s" in caplog.text
    assert told in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("odd"), "controller recorder failed; begun again in 0 s"),
        (
            TooOldError(1, 2),
            "controller recorder starts over: it missed changes; see --watch-window",
        ),
    ],
)
async def test_lost_changes_cause_a_new_start(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running("a") as recorder:
        await recorder.looks("a")
        recorder.notice_errors = [error]
        await recorder.scene.namespace("b")
        await recorder.looks("ab")
    assert told in caplog.text
    assert recorder.starts == 2


async def test_a_controller_that_stands_still_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "STALE_S", 0)
    async with running("a") as recorder:
        recorder.gate.clear()
        await recorder.looks("a")
        assert "has done nothing for 0 s" == recorder.runner.problem()


async def test_keys_that_keep_failing_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a look succeeds; one that comes too early is put off, and is no success."""
    monkeypatch.setattr(runner_module, "FIRST_PAUSE_S", 1e-6)
    errors = [bad_request("bad" * 1000) for _ in range(STUCK)]
    async with running("a", *errors) as recorder:
        for _ in errors:
            assert recorder.runner.problem() is None
            await recorder.looks("a")
            recorder.early_s = recorder.scene.now_s + 0.002
            recorder.scene.now_s += 0.001
            await recorder.put_off.wait()
            recorder.put_off.clear()
            assert recorder.looked.empty()
            recorder.scene.now_s += 1
        told = f"fails again and again at a: {('bad' * 1000)[:MOST_CHARACTERS]}"
        assert told == recorder.runner.problem()
        await recorder.looks("a")
        await recorder.scene.namespace("b")
        await recorder.looks("b")
        assert recorder.runner.problem() is None


async def test_it_ends_with_the_store() -> None:
    scene = Scene()
    task = Recorder(scene, []).runner.start()
    await asyncio.sleep(0)
    await scene.store.close()
    async with asyncio.timeout(60):
        await task


TIMES = st.integers(0, 5)


@given(st.lists(st.tuples(st.sampled_from([("a",), ("b",), ("c",), None]), TIMES)))
def test_keys_come_once_by_time(steps: list[tuple[Key | None, int]]) -> None:
    """Steps add a key for a time, or, without one, take a key that is due then.

    Once the clock goes back, all are due.
    """
    queue, now_s = Queue(), 0
    times: dict[Key, int] = {}
    for key, at_s in steps:
        if key is None:
            times, now_s = dict.fromkeys(times, at_s) if at_s < now_s else times, at_s
        if key is not None:
            queue.add(key, at_s)
            times[key] = min(at_s, times.get(key, at_s))
        elif (taken := queue.take(at_s)) is None:
            assert all(each > at_s for each in times.values())
        else:
            assert min(times.values()) == times.pop(taken) <= at_s
        assert (len(times), min(times.values(), default=None)) == (len(queue), queue.next_s)


def test_times_that_an_earlier_one_replaced_are_forgotten() -> None:
    queue = Queue()
    for now_s in range(1000):
        queue.add(("a",), 1e9)
        queue.add(("a",), now_s)
        assert ("a",) == queue.take(now_s)

    assert len(vars(queue)["_heap"]) <= MOST_TIMES


def test_failures_come_again_later_and_later() -> None:
    queue = Queue()
    pauses = [queue.retry(("key",), 0, "why") for _ in range(40)]
    for _ in range(STUCK):
        queue.retry(("n", "other"), 0, "else")
    assert "fails again and again at key and 1 more: why" == queue.problem()
    queue.forget_failures(("key",))
    assert "fails again and again at n/other: else" == queue.problem()

    assert [0.005, 0.01, 0.02] == pauses[:3]
    assert [LONGEST_PAUSE_S, 0.005] == [pauses[-1], queue.retry(("key",), 0, "why")]


ALL = frozenset(CONTROLLERS)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ALL), (["*"], ALL), (["-disruption"], OWN),
        (["-disruption", "-bootstrap"], OWN - {"bootstrap"}),
        (["*,-disruption", "-namespace"], ALL - {"disruption", "namespace"}),
        (["disruption", "-namespace"], {*OWN, "disruption"}),
        (["*", "disruption"], ALL), (["-*"], set()),
        (["-*", "namespace"], {"namespace"}),
        ([" ", ""], "the list is empty; .*out of bootstrap, disruption"),
        (["-y", "x"], "no controller 'x', 'y'.*out of bootstrap, disruption"),
        (["disruption", "-disruption"], "'disruption' is turned on and off"),
    ],
)  # fmt: skip
def test_lists(texts: list[str], expected: set[str] | str) -> None:
    """A list without a star turns on what it names, and what the server does itself."""
    if isinstance(expected, set | frozenset):
        assert expected == parse_controllers(texts)
    else:
        with pytest.raises(ValueError, match=expected):
            parse_controllers(texts)


async def test_others_run_while_much_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the first objects nor the keys that one change concerns keep them waiting."""
    monkeypatch.setattr(runner_module, "NOTED_AT_ONCE", 1)
    async with running("abc") as recorder:
        turns = []
        while recorder.looked.empty():
            turns.append(len(recorder.noticed))
            await asyncio.sleep(0)
        await recorder.looks("abc")
    assert {1, 2, 3} <= set(turns)
    assert max(map(turns.count, (1, 2))) >= 2
