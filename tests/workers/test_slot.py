"""The place of a worker, in which there is always a process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
import pytest

from apfproxy.base.tasks import spawn
from apfproxy.settings import Settings
from apfproxy.workers import slot as module
from apfproxy.workers.process import WorkerProcess
from apfproxy.workers.slot import WorkerSlot
from tests.support.clocks import until
from tests.workers.scripts import (
    ENDS,
    HANGS,
    NEVER_SERVES,
    PLACE,
    SERVES,
    SERVES_AND_ENDS,
    command,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


slept: list[float] = []


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_: asyncio.Event, pause_s: float) -> None:
        slept.append(pause_s)

    slept.clear()
    monkeypatch.setattr(module, "wait", sleep)


class Scene:
    """A slot whose processes are of scripts, the last one for ever."""

    def __init__(self, *scripts: str) -> None:
        self._scripts = list(scripts)
        self.lost: list[int] = []
        self.rests: list[float] = []
        self.slot = WorkerSlot(1, self._start, self._note, self._note_lost)

    def _start(self, generation: int, on_change: Callable[[WorkerProcess], None]) -> WorkerProcess:
        script = self._scripts[min(generation, len(self._scripts)) - 1]
        place = msgspec.structs.replace(PLACE, member=str(generation))
        return WorkerProcess(place, command(script), Settings(), on_change, {})

    def _note(self) -> None:
        self.rests.append(len(slept))

    def _note_lost(self, process: WorkerProcess) -> None:
        self.lost.append(int(process.place.member))

    @property
    def current(self) -> WorkerProcess:
        assert self.slot.current is not None
        return self.slot.current


@contextlib.asynccontextmanager
async def kept(scene: Scene) -> AsyncIterator[Scene]:
    keeping = spawn(scene.slot.keep(lambda: None), name="keeping")
    try:
        yield scene
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        for process in scene.slot.end():
            process.kill()
            await process.has_ended.wait()


async def test_restart(caplog: pytest.LogCaptureFixture) -> None:
    """A process that is killed is followed by another one at once."""
    caplog.set_level("INFO")
    async with kept(Scene(HANGS, SERVES)) as scene:
        await scene.slot.begin()
        first = scene.current
        first.kill()
        await until(lambda: scene.slot.current not in {None, first})

        assert 1 == scene.slot.restarts
        assert [1] == scene.lost
        assert [] == scene.rests
    assert (
        f"worker 1 (process {first.pid}) was ended by SIGKILL; another one starts now"
        in caplog.text
    )
    assert "worker 1 serves again" in caplog.text


async def test_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    async with kept(Scene(HANGS, ENDS, SERVES_AND_ENDS, ENDS)) as scene:
        await scene.slot.begin()
        scene.current.kill()
        await until(lambda: len(slept) >= 7)

    assert [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0] == slept[:7]
    assert [1, 2, 3] == scene.rests[:3]  # before each pause, of which the first is none
    assert "worker 1 ended with exit code 3; its log says why; next try in 1 s" in caplog.text


@pytest.mark.parametrize(
    ("script", "reason"),
    [(ENDS, "worker 1 ended with exit code 3"), (NEVER_SERVES, "did not serve within 0.5 s")],
)
async def test_replaced_by_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: str, reason: str
) -> None:
    async with kept(Scene(SERVES, script)) as scene:
        await scene.slot.begin()
        monkeypatch.setattr(module, "START_WITHIN_S", 0.5 if script == NEVER_SERVES else 60.0)
        first = scene.current
        done = await scene.slot.replace()

        assert not done
        assert first is scene.current
        assert [first] == list(scene.slot.processes)
    assert reason in caplog.text
    assert f"process {first.pid} goes on" in caplog.text


async def test_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    async with kept(Scene(HANGS, SERVES)) as scene:
        scene.slot._look()  # noqa: SLF001 - what a timer does; here no one is there yet
        await scene.slot.begin()
        first = scene.current
        for _ in range(module.LOOKS + 1):
            assert first.status is None
            scene.slot._look()  # noqa: SLF001 - as above
        serves = scene.slot.serves
        await first.has_ended.wait()
        await until(lambda: scene.slot.current not in {None, first})

    assert not serves
    assert "has shown no life for 10 s, and is killed" in caplog.text
