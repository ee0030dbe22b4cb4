"""The live page of several workers: what each tells as it changes, as one state and one history.

While anybody listens, the events of every worker are followed; without listeners nothing is done.
A worker that is heard no more is left out, and the state says so; it is asked again every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from apfproxy.admin.live_feed import LiveFeed
from apfproxy.admin.live_state import problems
from apfproxy.admin.merged_history import MergedHistory, WorkerSeconds
from apfproxy.admin.merged_live import merged_state
from apfproxy.admin.verdict import verdict
from apfproxy.admin.worker_answers import in_service, names_of
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring, spawn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from apfproxy.admin.worker_answers import WorkerAdmin
    from apfproxy.base.health_checks import HealthRegistry

TICK_S: Final = 1.0
SILENT_S: Final = 5.0
"""A worker tells its seconds; one that tells nothing for so long hangs."""
READY_S: Final = 3.0
"""How long a new page waits for the first words of all workers."""
VERDICT_S: Final = 1.0
"""Between two verdicts, which nobody could read if they changed faster."""


class Follow(Protocol):
    """Follows the events of a worker."""

    def __call__(self, worker: WorkerAdmin, target: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """Their names and data, until it ends; OSError if it fails."""


class Heard:
    """What one worker has told.

    Attributes:
        worker: Which one.
        state: The last one; None before the first.
        seconds: Its history.
        heard_s: When it was heard last, by the loop's clock.
        problem: Why it is heard no more; "" while it is.
        task: Follows it; None if nothing does.
    """

    def __init__(self, worker: WorkerAdmin, now_s: float) -> None:
        self.worker = worker
        self.state: dict[str, Any] | None = None
        self.seconds = WorkerSeconds()
        self.heard_s = now_s
        self.problem = ""
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Heard of worker {self.worker.index}: {self.problem or 'well'}>"

    def take(self, name: str, data: bytes, now_s: float) -> None:
        """Take an event."""
        self.heard_s = now_s
        self.problem = ""
        if name == "state":
            self.state = msgspec.json.decode(data)
        elif name == "history":
            self.seconds.begin(msgspec.json.decode(data))
        elif name == "seconds":
            self.seconds.add(msgspec.json.decode(data))

    def fall_silent(self, problem: str) -> None:
        """It is heard no more."""
        self.state = None
        self.problem = problem

    def leave(self) -> None:
        """Follow it no more; harmless if it is not followed."""
        if self.task is not None:
            self.task.cancel()
            self.task = None


class WorkerFeed:
    """Who listens to all workers, and what they hear.

    Args:
        workers: Those that there are now.
        follow: Follows one.
        own: The checks of the process that they belong to.
        target: Of their events.

    Attributes:
        feed: The listeners.
        history: The last 15 minutes of all.
        guests: Clients that listen, or are about to.
    """

    def __init__(
        self,
        workers: Callable[[], Sequence[WorkerAdmin]],
        follow: Follow,
        own: HealthRegistry,
        target: str,
    ) -> None:
        self._workers = workers
        self._own = own
        self._follow = follow
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._heard: dict[tuple[int, int], Heard] = {}
        self._news = asyncio.Event()
        self._verdict: list[dict[str, str]] = []
        self._verdict_s = -math.inf
        self.history = MergedHistory()
        self.feed = LiveFeed(self.state, self.history, time.monotonic_ns, time.time)
        self._ticking = Recurring(Part.LIVE_PAGE, self._loop, TICK_S, math.inf, self._tick)
        self._started: asyncio.Task[None] | None = None
        self.guests = 0

    def __repr__(self) -> str:
        return f"<WorkerFeed of {len(self._heard)} workers>"

    @property
    def problems(self) -> dict[str, str]:
        """Why workers are not heard, by their names."""
        return {
            name: heard.problem or "it has told nothing yet"
            for name, heard in self._named()
            if heard.state is None
        }

    async def ready(self) -> bool:
        """Begin to follow the workers, unless that is done; whether any has told something."""
        if self._started is None:
            self._started = spawn(self._start(), name="following the workers")
        await asyncio.shield(self._started)
        return any(each.state is not None for each in self._all())

    async def _start(self) -> None:
        self._reconcile()
        self._ticking.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                while any(not each.problem and each.state is None for each in self._all()):
                    self._news.clear()
                    await self._news.wait()
        self.history.begin(each.seconds for each in self._all())

    def stop(self) -> None:
        """Follow nobody any more, and end who listens."""
        self._ticking.stop()
        self.feed.close()
        if self._started is not None:
            self._started.cancel()
        for each in self._all():
            each.leave()
        self._heard.clear()

    def state(self) -> dict[str, Any] | None:
        """The state of all workers that are heard; None if none is: who asks again learns why."""
        states = [(name, heard.state) for name, heard in self._named() if heard.state is not None]
        if not states:
            return None
        merged = merged_state(states, self.problems, problems(self._own))
        now_s = self._loop.time()
        if now_s - self._verdict_s >= VERDICT_S:
            self._verdict_s = now_s
            self._verdict = verdict(merged, time.time())
        return {"verdict": self._verdict, **merged}

    def _all(self) -> list[Heard]:
        return list(self._heard.values())

    def _named(self) -> list[tuple[str, Heard]]:
        heard = self._all()
        return list(zip(names_of([each.worker for each in heard]), heard, strict=True))

    def _tick(self) -> None:
        """Follow new workers, leave those that are gone, and take a sample."""
        self._reconcile()
        now_s = self._loop.time()
        for each in self._all():
            silent_s = now_s - each.heard_s
            if not each.problem and silent_s > SILENT_S:
                each.fall_silent(f"it has told nothing for {silent_s:.0f} s")
        # All samples of the second before the last one have come.
        self.history.sample((each.seconds for each in self._all()), time.time() - TICK_S)

    def _reconcile(self) -> None:
        workers = in_service(self._workers())
        there = {(worker.index, worker.pid): worker for worker in workers}
        for key in [key for key in self._heard if key not in there]:
            self._heard.pop(key).leave()
        for key, worker in there.items():
            known = self._heard.get(key)
            if known is None:
                known = self._heard[key] = Heard(worker, self._loop.time())
            known.worker = worker
            if worker.why_not:
                known.fall_silent(worker.why_not)
                known.leave()  # what it told until it lives again is missed, so it is asked anew
            elif known.task is None or known.task.done():
                known.task = spawn(self._hear(known), name=f"following worker {worker.index}")
        self._heard = dict(sorted(self._heard.items()))

    async def _hear(self, heard: Heard) -> None:
        try:
            async with contextlib.aclosing(self._follow(heard.worker, self._target)) as events:
                async for name, data in events:
                    heard.take(name, data, self._loop.time())
                    self._news.set()
            heard.fall_silent("it has ended its events")
        except OSError as error:
            heard.fall_silent(" ".join(str(error).split()) or type(error).__name__)
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            heard.fall_silent(f"what it tells is of another version: {error!r}")
        finally:
            self._news.set()
