"""Tasks that are not awaited, and work that no error ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.faults import Faults, Part
from apfproxy.base.tasks import MAX_PAUSE_S, STEADY_S, Backoff, Recurring, Supervised, spawn
from tests.proxy.fakes import FakeLoop
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable


async def succeed() -> None: ...


async def fail() -> None:
    raise ValueError("broken")


async def hang() -> None:
    await asyncio.Event().wait()


async def test_failures_that_nobody_awaits_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    cancelled = spawn(hang(), name="cancelled")
    cancelled.cancel()
    tasks = [cancelled, spawn(succeed(), name="good"), spawn(fail(), name="work")]
    with caplog.at_level(logging.ERROR):
        await asyncio.wait(tasks)

    assert ["work failed"] == [message.partition("\n")[0] for message in caplog.messages]
    assert cancelled.cancelled()


S = 1_000_000_000


class Work:
    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise ValueError("a bug")


class Scene:
    """Recurring work once a second, stale after three, on a virtual clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.loop = FakeLoop(self.clock)
        self.errors = self.loop.errors = []
        self.work = Work()
        self.duty = Recurring(Part.SWEEP, self.loop.as_event_loop(), 1.0, 3.0, self.work)

    def wait(self, until_s: float) -> str | None:
        self.clock.run_until(round(until_s * S))
        return self.duty.problem()


def test_recurring_work_is_done_once_a_period_until_it_is_stopped() -> None:
    scene = Scene()
    scene.duty.stop()
    assert (None, 0) == (scene.wait(5), scene.work.calls)
    scene.duty.start()
    assert (None, 4) == (scene.wait(9.5), scene.work.calls)
    scene.duty.stop()
    assert (None, 4) == (scene.wait(99), scene.work.calls)
    assert [] == scene.errors


def test_errors_do_not_end_recurring_work() -> None:
    scene = Scene()
    scene.duty.start()
    assert None is scene.wait(2.5)
    scene.work.failures = 4
    assert None is scene.wait(5.0)
    assert "not done for 3.1 s; due every 1 s" == scene.wait(5.1)
    assert "not done for 4.5 s; due every 1 s" == scene.wait(6.5)
    assert None is scene.wait(7.0)

    assert (7, 4) == (scene.work.calls, len(scene.errors))


class Task:
    """A supervised task whose time is virtual, in a loop that is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: self.now_s)
        self.faults = Faults()
        self.faults.watch(loop)
        self.pauses: list[float] = []
        self.outcomes: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.beat: Callable[[], None]
        self.duty = Supervised(
            Part.OBJECTS, "following", self._work, stale_after_s=30.0, sleep=self._sleep
        )

    async def _work(self, beat: Callable[[], None]) -> None:
        self.beat = beat
        outcome = await self.outcomes.get()
        if outcome is not None:
            raise outcome

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s

    async def end_with(self, outcome: Exception | None) -> None:
        self.outcomes.put_nowait(outcome)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_task_that_fails_is_begun_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Task(monkeypatch)
    assert None is scene.duty.problem()
    task = scene.duty.start()
    for _ in range(7):
        await scene.end_with(KeyError("pods"))
    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] == scene.pauses
    assert "failed 30 s ago: KeyError: 'pods'" == scene.duty.problem()
    scene.now_s += STEADY_S
    scene.beat()
    assert None is scene.duty.problem()
    await scene.end_with(ValueError("x"))
    assert 1.0 == scene.pauses[-1]
    assert "failed 1 s ago: ValueError: x" == scene.duty.problem()
    await scene.end_with(None)

    assert task.done()
    assert None is scene.duty.problem()
    assert 8 == scene.faults.totals[Part.OBJECTS]
    assert MAX_PAUSE_S == max(scene.pauses)


async def test_task_that_does_not_beat_has_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Task(monkeypatch)
    task = scene.duty.start()
    await asyncio.sleep(0)
    scene.now_s = 30.0
    assert None is scene.duty.problem()
    scene.now_s = 31.0
    assert "has done nothing for 31 s" == scene.duty.problem()
    scene.beat()
    assert None is scene.duty.problem()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert 0 == scene.faults.totals[Part.OBJECTS]


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(0.0, [0.5, 1.0, 2.0, 3.0, 3.0], id="shortest"),
        pytest.param(0.5, [0.75, 1.5, 3.0, 4.5, 4.5], id="middle"),
    ],
)
def test_pauses_double_up_to_the_longest_and_are_as_long_as_a_server_asks(
    chance: float, expected: list[float]
) -> None:
    backoff = Backoff(1.0, 6.0, lambda: chance)

    for _ in range(2):
        assert expected == [backoff.next_s() for _ in expected]
        backoff.reset()
    assert [0.5, 2.0, 6.0] == [Backoff(1.0, 6.0, lambda: 0.0).next_s(s) for s in (0.1, 2.0, 9.0)]
