"""Tasks, and work that is done again and again, that everything else relies on.

1. A task is named, kept alive until it ends, and its failure is never silent.
2. No error ends recurring work: it arms its next time before it begins; a task that fails is begun
   again after a pause.
3. An error is contained, counted and logged, as `faults` says.
4. It can be seen that work is done: `problem` says so for the health pages and their metric.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from typing import TYPE_CHECKING, Any

from apfproxy.base.faults import Part, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

# The loop itself holds tasks weakly; without this one could vanish half-way.
_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Run a coroutine beside everything else."""
    task = asyncio.create_task(coroutine, name=name)  # noqa: TID251  the one place that may
    _running.add(task)
    task.add_done_callback(_on_done)
    return task


def _on_done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        report(Part.TASK, error, f"{task.get_name()} failed", loop=task.get_loop())


FIRST_PAUSE_S = 1.0
"""After a task's failure; twice as long after each further one."""
MAX_PAUSE_S = 30.0
STEADY_S = 60.0
"""A task that has run for so long since its last failure is well."""


class Recurring:
    """A plain call on the event loop, once a period, or after each of the endless `pauses_s`."""

    def __init__(
        self,
        part: Part,
        loop: asyncio.AbstractEventLoop,
        period_s: float,
        stale_after_s: float,
        work: Callable[[], None],
        pauses_s: Iterator[float] | None = None,
    ) -> None:
        self._part = part
        self._loop = loop
        self._period_s = period_s
        self._pauses_s = itertools.repeat(period_s) if pauses_s is None else pauses_s
        self._stale_after_s = stale_after_s
        self._work = work
        self._timer: asyncio.TimerHandle | None = None
        self._done_s = math.nan

    def start(self) -> None:
        self._done_s = self._loop.time()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def problem(self) -> str | None:
        """Says that the work is overdue; None while it is done, or is not to be done."""
        if self._timer is None:
            return None
        age_s = self._loop.time() - self._done_s
        if age_s <= self._stale_after_s:
            return None
        return f"not done for {age_s:.1f} s; due every {self._period_s:g} s"

    def _arm(self) -> None:
        self._timer = self._loop.call_later(next(self._pauses_s), self._run)

    def _run(self) -> None:
        self._arm()
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  whatever it is, the next time may do better
            report(self._part, error, loop=self._loop)
        else:
            self._done_s = self._loop.time()


class Supervised:
    """A task that runs for ever, or to its end, and is begun again when it fails.

    The work gets `beat`, which it calls when it has done something; something is wrong
    `stale_after_s` after the last one, or never with None.  Cancelling passes through.
    """

    def __init__(
        self,
        part: Part,
        name: str,
        work: Callable[[Callable[[], None]], Awaitable[None]],
        *,
        stale_after_s: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._part = part
        self._name = name
        self._work = work
        self._stale_after_s = stale_after_s
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._beat_s = math.nan
        self._failure: Exception | None = None
        self._failed_s = -math.inf

    def start(self) -> asyncio.Task[None]:
        self.beat()
        task = self._task = spawn(self._run(), name=self._name)
        return task

    def beat(self) -> None:
        self._beat_s = self._loop.time()

    def problem(self) -> str | None:
        """Says that it failed lately, or does nothing; None while all is well, or it is over."""
        if self._task is None or self._task.done():
            return None
        now_s = self._loop.time()
        if now_s - self._failed_s < MAX_PAUSE_S + STEADY_S:
            error = self._failure
            return f"failed {now_s - self._failed_s:.0f} s ago: {type(error).__name__}: {error}"
        age_s = now_s - self._beat_s
        if self._stale_after_s is not None and age_s > self._stale_after_s:
            return f"has done nothing for {age_s:.0f} s"
        return None

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            begun_s = self._loop.time()
            try:
                await self._work(self.beat)
            except Exception as error:  # noqa: BLE001  whatever it is, the next try may do better
                self._failure = error
            else:
                return
            self._failed_s = self._loop.time()
            if self._failed_s - begun_s >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            report(self._part, self._failure, f"{self._name} failed; begun again in {pause_s:g} s")
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
            self.beat()


FIRST_S = 0.8
LONGEST_S = 30.0
FACTOR = 2.0
"""The pauses of client-go's reflector."""


class Backoff:
    """Growing pauses between attempts, each drawn from the upper half of a bound that doubles."""

    def __init__(
        self,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._chance = chance
        self._bound_s = first_s

    def reset(self) -> None:
        self._bound_s = self._first_s

    def next_s(self, least_s: float = 0.0) -> float:
        """The next pause; at least the `least_s` that a server asks for, within the longest."""
        bound_s = self._bound_s
        self._bound_s = min(bound_s * FACTOR, self._longest_s)
        return max(bound_s * (1 + self._chance()) / 2, min(least_s, self._longest_s))
