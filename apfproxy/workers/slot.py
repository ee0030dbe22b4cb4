"""The place of one worker, in which there is always a process, and another one when that ends.

1. A process that ends though no one told it to is followed by another one at once, and after a
   pause if that ends soon as well: 1 s, and twice as long each time, up to 30 s.
2. Told to end by another process than its parent, it drains; another one begins meanwhile.
3. One that shows no life for `LOOKS` times `LOOK_PERIOD_S`, though it serves or drains, is killed.
4. To be replaced, it goes on until another one serves; if none does, it goes on for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring
from apfproxy.workers.link import Drain, Leave
from apfproxy.workers.process import WorkerProcess, WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

START_WITHIN_S = 120.0
"""For a process to serve; objects of a Kubernetes API may take their time."""
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0
"""Before a process is started again that ended soon; twice as long each time."""
STEADY_S = 60.0
"""A process that has served for so long did not end soon."""
LOOK_PERIOD_S = 1.0
LOOKS = 10
"""In a row without a sign of life, of which there is one a look; one that sleeps counts none."""

log = logging.getLogger(__name__)


async def wait(event: asyncio.Event, within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()


class WorkerSlot:
    """One of the places.

    Args:
        start: Starts a process: its generation, counted from 1 on, and what to call at each change;
            OperatorError if it cannot.
        on_rest: Called before a pause in which there is no process.
        on_lost: Called with each process that has ended.

    Attributes:
        current: The process that serves; None if there is none.
        processes: All that have not ended: the current one, one that starts, some that drain.
        problem: Why there is no current process, for as long as there is none; else "".
    """

    def __init__(
        self,
        index: int,
        start: Callable[[int, Callable[[WorkerProcess], None]], WorkerProcess],
        on_rest: Callable[[], None],
        on_lost: Callable[[WorkerProcess], None],
    ) -> None:
        self.index = index
        self.current: WorkerProcess | None = None
        self.processes: dict[WorkerProcess, None] = {}
        self.problem = ""
        self.restarts = 0
        self._start = start
        self._on_rest = on_rest
        self._on_lost = on_lost
        self._generation = 0
        self._vacant = asyncio.Event()
        self._retry = asyncio.Event()
        self._filling = asyncio.Lock()
        self._pause_s = 0.0
        self._is_ending = False
        loop = asyncio.get_running_loop()
        self._looking = Recurring(Part.TASK, loop, LOOK_PERIOD_S, math.inf, self._look)

    async def begin(self) -> None:
        """Start the first process, and wait until it serves; OperatorError if it does not."""
        async with self._filling:
            await self._fill()
        self._looking.start()

    async def keep(self, _beat: Callable[[], None]) -> None:
        """Have another process whenever there is none, for ever."""
        while True:
            await self._vacant.wait()
            await wait(self._retry, self._pause_s)
            self._retry.clear()
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), MAX_PAUSE_S)
            async with self._filling:
                if not self._vacant.is_set():
                    continue
                self.restarts += 1
                try:
                    await self._fill()
                except OperatorError as error:
                    self.problem = str(error)
                    self._on_rest()  # before it is said: anyone who reads that may connect at once
                    log.error("%s; next try in %g s", error, self._pause_s)  # noqa: TRY400 - of others
                else:
                    log.info("worker %d serves again, as process %d", self.index, self._pid)

    def retry(self) -> None:
        """End a pause: what kept others from serving may be mended."""
        self._retry.set()

    async def replace(self) -> bool:
        """Have another process take over; whether one did, or is about to anyway."""
        async with self._filling:
            if self._vacant.is_set():
                return True  # it is started of the new code by itself
            before = self.current
            try:
                await self._fill()
            except OperatorError as error:
                log.error("%s; process %d goes on", error, self._pid)  # noqa: TRY400 - as above
                return False
            log.info("worker %d is process %d from now on", self.index, self._pid)
            if before is not None:
                before.tell(Leave())
            return True

    def end(self) -> list[WorkerProcess]:
        """Start none any more; looks after those that there are, which the caller ends."""
        self._is_ending = True
        return list(self.processes)

    @property
    def serves(self) -> bool:
        return self.current is not None and self.current.shows_life

    @property
    def _pid(self) -> int:
        return 0 if self.current is None else self.current.pid

    async def _fill(self) -> None:
        """Start a process, and wait until it serves; OperatorError if it does not."""
        self._generation += 1
        process = self._start(self._generation, self._on_process)
        self.processes[process] = None
        try:
            async with asyncio.timeout(START_WITHIN_S):
                await process.has_settled.wait()
        except TimeoutError:
            process.kill()
            await process.has_ended.wait()
            raise OperatorError(
                f"worker {self.index} did not serve within {START_WITHIN_S:g} s; its log says why"
            ) from None
        except asyncio.CancelledError:
            process.tell(Drain())
            raise
        if process.state is WorkerState.DRAINING:
            raise OperatorError(f"worker {self.index} was told to end as soon as it had begun")
        if process.state is WorkerState.ENDED:
            raise OperatorError(f"worker {self.index} {process.ended_how}; its log says why")
        self.current = process
        self.problem = ""
        self._vacant.clear()

    def _on_process(self, process: WorkerProcess) -> None:
        if process.state is WorkerState.ENDED:
            self.processes.pop(process, None)
        if process is self.current and process.state is not WorkerState.SERVING:
            self.current = None
            if time.monotonic() - process.served_s >= STEADY_S:
                self._pause_s = 0.0
            if not self._is_ending:
                if self._pause_s:
                    self._on_rest()
                self._say(process)
                self._vacant.set()
        if process.state is WorkerState.ENDED:
            self._on_lost(process)

    def _say(self, process: WorkerProcess) -> None:
        drains = "drains, though its parent did not tell it to"
        how = process.ended_how if process.state is WorkerState.ENDED else drains
        self.problem = f"process {process.pid} {how}"
        when = f"in {self._pause_s:g} s" if self._pause_s else "now"
        log.warning(
            "worker %d (process %d) %s; another one starts %s", self.index, process.pid, how, when
        )

    def _look(self) -> None:
        if self._is_ending and not self.processes:
            self._looking.stop()
        for process in tuple(self.processes):
            process.look()
            if process.missed == LOOKS + 1:
                log.error(
                    "worker %d (process %d) has shown no life for %g s, and is killed",
                    self.index,
                    process.pid,
                    LOOKS * LOOK_PERIOD_S,
                )
                process.kill()

    def __repr__(self) -> str:
        return f"<WorkerSlot {self.index}: {self.current or 'vacant'}>"
