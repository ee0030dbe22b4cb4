"""Tests of `apfproxy.apiserver.controllers.runner`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.controllers import runner as runner_module
from apfproxy.apiserver.controllers.runner import Runner, is_not_found
from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.errors import bad_request, not_found
from apfproxy.apiserver.store.entries import StoreError, TooOldError
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Change

LIMIT_S = 60


class Recorder:
    """A controller that notes what happens to it."""

    name = "recorder"
    kinds = (NAMESPACE,)

    def __init__(self) -> None:
        self.starts = 0
        self.noticed: list[tuple[str, str]] = []
        self.looked: asyncio.Queue[Key] = asyncio.Queue()
        self.again_s: list[float | None] = []
        self.errors: list[Exception] = []
        self.notice_errors: list[Exception] = []

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        """Note it, and have it looked at."""
        if self.notice_errors:
            raise self.notice_errors.pop()
        self.noticed.append((change.type, change.entry.name))
        return [(change.entry.name,)]

    async def look(self, key: Key) -> float | None:
        """Note it, and do as told."""
        self.looked.put_nowait(key)
        if self.errors:
            raise self.errors.pop(0)
        return self.again_s.pop(0) if self.again_s else None


class Run:
    """A controller at work."""

    def __init__(self, recorder: Recorder, scene: Scene) -> None:
        self.recorder = recorder
        self.runner = Runner(self.make, scene.registry)
        self.task = asyncio.create_task(self.runner.run())

    def make(self) -> Recorder:
        """Count it."""
        self.recorder.starts += 1
        return self.recorder

    async def looks(self, number: int) -> list[str]:
        """The next keys that are looked at."""
        async with asyncio.timeout(LIMIT_S):
            return [(await self.recorder.looked.get())[0] for _ in range(number)]

    async def end(self) -> None:
        """Stop it."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "RESTART_PAUSE_S", 0)


async def test_objects_and_changes_come_in_order() -> None:
    """First what is there, then what happens."""
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder()
    run = Run(recorder, scene)
    assert ["a"] == await run.looks(1)
    await scene.namespace("b")
    assert ["b"] == await run.looks(1)
    await run.end()

    assert [("ADDED", "a"), ("ADDED", "b")] == recorder.noticed


async def test_many_changes_cause_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where others need turns in between."""
    monkeypatch.setattr(runner_module, "LOOKS_IN_A_ROW", 1)
    scene = Scene()
    run = Run(Recorder(), scene)
    await asyncio.sleep(0)
    await scene.namespace("a")
    await scene.change(NAMESPACE, "a", {"status": {"phase": "Active"}}, subresource="status")
    await scene.namespace("b")

    assert ["a", "b"] == await run.looks(2)
    assert run.recorder.looked.empty()
    await run.end()


async def test_keys_come_again_at_their_time() -> None:
    """Here at once, as the time is now."""
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder()
    recorder.again_s = [scene.now_s]
    run = Run(recorder, scene)

    assert ["a", "a"] == await run.looks(2)
    await run.end()


async def test_a_time_to_come_is_waited_for() -> None:
    """A change comes first if it does."""
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder()
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
    """The rest goes on meanwhile."""
    caplog.set_level(logging.INFO)
    scene = Scene()
    await scene.namespace("a")
    await scene.namespace("b")
    recorder = Recorder()
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
        (ValueError("odd"), "controller recorder starts over"),
        (TooOldError(1, 2), "controller recorder starts over: it was too slow"),
    ],
)
async def test_lost_changes_cause_a_new_start(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A new controller is told of everything again."""
    caplog.set_level(logging.INFO)
    scene = Scene()
    await scene.namespace("a")
    recorder = Recorder()
    run = Run(recorder, scene)
    assert ["a"] == await run.looks(1)
    recorder.notice_errors = [error]
    await scene.namespace("b")

    assert ["a", "b"] == await run.looks(2)
    await run.end()
    assert told in caplog.text
    assert recorder.starts == 2


async def test_it_ends_with_the_store() -> None:
    """Nothing more can come."""
    scene = Scene()
    run = Run(Recorder(), scene)
    await asyncio.sleep(0)
    await scene.store.close()

    async with asyncio.timeout(LIMIT_S):
        await run.task


def test_missing_objects() -> None:
    """They are told from other failures."""
    assert is_not_found(not_found("", "pods", "p"))
    assert not is_not_found(bad_request("bad"))
