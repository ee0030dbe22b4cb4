"""Running controllers, their queue, and which of them run."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.controllers import runner as runner_module
from apfproxy.apiserver.controllers.control import (
    CONTROLLERS,
    OWN,
    Controllers,
    parse_controllers,
)
from apfproxy.apiserver.controllers.runner import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Controller,
    Queue,
    Runner,
)
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.errors import bad_request
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.store.entries import StoreError, TooOldError
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change


LIMIT_S = 60


class Recorder(Controller):
    """A controller that notes what happens to it."""

    name = "recorder"
    kinds = (NAMESPACE,)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.starts = 0
        self.noticed: list[tuple[str, str]] = []
        self.looked: asyncio.Queue[Key] = asyncio.Queue()
        self.again_s: list[float | None] = []
        self.errors: list[Exception] = []
        self.notice_errors: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        if self.notice_errors:
            raise self.notice_errors.pop()
        self.noticed.append((change.type, change.entry.name))
        return [(change.entry.name,)]

    async def look(self, key: Key) -> float | None:
        self.looked.put_nowait(key)
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return self.again_s.pop(0) if self.again_s else None


class Run:
    """A controller at work."""

    def __init__(self, recorder: Recorder, scene: Scene) -> None:
        self.recorder = recorder
        self.runner = Runner("recorder", self.make, scene.registry)
        self.task = self.runner.start()

    def make(self) -> Recorder:
        self.recorder.starts += 1
        return self.recorder

    async def looks(self, number: int) -> list[str]:
        async with asyncio.timeout(LIMIT_S):
            return [(await self.recorder.looked.get())[0] for _ in range(number)]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "RESTART_PAUSE_S", 0)
    monkeypatch.setattr("apfproxy.base.tasks.FIRST_PAUSE_S", 0)


async def test_objects_and_changes_come_in_order() -> None:
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder(scene.registry)
    run = Run(recorder, scene)
    assert ["a"] == await run.looks(1)
    await scene.namespace("b")
    assert ["b"] == await run.looks(1)
    await run.end()

    assert [("ADDED", "a"), ("ADDED", "b")] == recorder.noticed


async def test_many_changes_cause_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where others need turns in between."""
    monkeypatch.setattr(runner_module, "IN_A_ROW", 1)
    scene = Scene()
    run = Run(Recorder(scene.registry), scene)
    await asyncio.sleep(0)
    await scene.namespace("a")
    await scene.change(NAMESPACE, "a", {"status": {"phase": "Active"}}, subresource="status")
    await scene.namespace("b")

    assert ["a", "b"] == await run.looks(2)
    assert run.recorder.looked.empty()
    await run.end()


async def test_keys_come_again_at_their_time() -> None:
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder(scene.registry)
    recorder.again_s = [scene.now_s]
    run = Run(recorder, scene)

    assert ["a", "a"] == await run.looks(2)
    await run.end()


async def test_a_time_to_come_is_waited_for() -> None:
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder(scene.registry)
    recorder.again_s = [scene.now_s + 0.001, None]
    run = Run(recorder, scene)
    assert ["a"] == await run.looks(1)
    scene.now_s += 1

    assert ["a"] == await run.looks(1)
    await run.end()


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
    caplog.set_level(logging.INFO)
    scene = Scene()
    await scene.namespace("a")
    await scene.namespace("b")
    recorder = Recorder(scene.registry)
    recorder.errors = [error]
    run = Run(recorder, scene)
    assert ["a", "b"] == await run.looks(2)
    scene.now_s += 1

    assert ["a"] == await run.looks(1)
    await run.end()
    assert "controller recorder failed at a, tries again in 0.005 s" in caplog.text
    assert told in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("odd"), "controller recorder failed; begun again in 0 s"),
        (TooOldError(1, 2), "controller recorder starts over: it was too slow"),
    ],
)
async def test_lost_changes_cause_a_new_start(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder(scene.registry)
    run = Run(recorder, scene)
    assert ["a"] == await run.looks(1)
    recorder.notice_errors = [error]
    await scene.namespace("b")

    assert ["a", "b"] == await run.looks(2)
    await run.end()
    assert told in caplog.text
    assert recorder.starts == 2


async def test_a_controller_that_stands_still_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "STALE_S", 0)
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder(scene.registry)
    recorder.gate.clear()
    run = Run(recorder, scene)
    await run.looks(1)
    problem = run.runner.problem()
    await run.end()

    assert "has done nothing for 0 s" == problem


async def test_it_ends_with_the_store() -> None:
    scene = Scene()
    run = Run(Recorder(scene.registry), scene)
    await asyncio.sleep(0)
    await scene.store.close()

    async with asyncio.timeout(LIMIT_S):
        await run.task


def test_keys_come_by_time() -> None:
    queue = Queue()
    queue.add(("late",), 3)
    queue.add(("early",), 1)

    assert ("early",) == queue.take(2)
    assert queue.take(2) is None
    assert queue.next_s == 3
    assert ("late",) == queue.take(3)
    assert queue.next_s is None


@pytest.mark.parametrize("times", [(1, 5), (5, 1)])
def test_keys_are_there_once(times: tuple[float, float]) -> None:
    queue = Queue()
    for time in times:
        queue.add(("key",), time)

    assert len(queue) == 1
    assert ("key",) == queue.take(2)
    assert queue.take(9) is None


def test_failures_come_again_later_and_later() -> None:
    queue = Queue()

    pauses = [queue.retry(("key",), 0) for _ in range(40)]

    assert [FIRST_PAUSE_S, FIRST_PAUSE_S * 2, FIRST_PAUSE_S * 4] == pauses[:3]
    assert pauses[-1] == LONGEST_PAUSE_S
    queue.forget_failures(("key",))
    assert queue.retry(("key",), 0) == FIRST_PAUSE_S


ALL = frozenset(CONTROLLERS)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ALL),
        (["*"], ALL),
        (["-disruption"], OWN),
        (["-disruption", "-bootstrap"], OWN - {"bootstrap"}),
        (["*", "-disruption", "-namespace"], ALL - {"disruption", "namespace"}),
        (["*,-disruption"], ALL - {"disruption"}),
        (["disruption"], {*OWN, "disruption"}),
        (["disruption", "-namespace"], {*OWN, "disruption"}),
        (["*", "disruption"], ALL),
        (["-*"], set()),
        (["-*", "namespace"], {"namespace"}),
        ([" ", ""], ALL),
    ],
)
def test_lists(texts: list[str], expected: set[str]) -> None:
    """A list without a star turns on what it names, and what the server does itself."""
    assert expected == parse_controllers(texts)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"no controller 'x', 'y'.*out of bootstrap, disruption"):
        parse_controllers(["-y", "x"])


def test_contradictions() -> None:
    with pytest.raises(ValueError, match="'disruption' is turned on and off"):
        parse_controllers(["disruption", "-disruption"])


async def test_only_what_is_served() -> None:
    scene = Scene(FLOW_CONTROL_KINDS)
    controllers = Controllers(scene.registry, ALL)
    await controllers.start()
    running = {task.get_name() for task in asyncio.all_tasks()}
    await controllers.stop()

    assert {
        "controller bootstrap",
        "controller flow-schema-status",
        "controller garbage-collector",
    } == {name for name in running if name.startswith("controller ")}
