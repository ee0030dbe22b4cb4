"""Time that only a test moves, and what a test waits for."""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections import deque
from typing import TYPE_CHECKING, Any

from apfproxy.simulation import virtual_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

WAIT_S = 60.0
"""For what must come; a test that waits so long has failed."""
TURNS = 100
"""Turns of a loop that what needs no other thread or process has come after."""
PAUSE_S = 0.001


class VirtualClock(virtual_clock.VirtualClock):
    """The simulator's clock, moved by a test."""

    def run_until(self, end_ns: int) -> None:
        """Let every event due by `end_ns` happen, each at its own time, then stand at `end_ns`."""
        self._stop_at(end_ns)
        while self._events and self._events[0][0] <= end_ns:  # armed meanwhile for the same time
            self._stop_at(end_ns)

    def _stop_at(self, end_ns: int) -> None:
        self.arm(end_ns, lambda _: self.stop(), None)
        self.run()


class Clock:
    """Called for the time in seconds."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class _Skipping(selectors.DefaultSelector):
    """Waits for sockets and threads, but not for time."""

    def __init__(self, now_s: float, grace_s: float) -> None:
        super().__init__()
        self.now_s = now_s
        self._grace_s = grace_s
        self.threads = 0

    def select(self, timeout: float | None = None) -> Any:  # noqa: ANN401  as its base
        if timeout is None:
            assert self._grace_s, "nothing is left to wait for"
            return super().select(None)
        found = super().select(0)
        if found or timeout <= 0:
            return found
        if self._grace_s:
            found = super().select(self._grace_s)
            if found or self.threads:
                return found or super().select(timeout)
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that goes on to the time of its next timer in place of waiting.

    Args:
        now_s: When it starts.
        grace_s: How long the kernel may take to deliver what was sent; 0 for a test without
            sockets, which is an error once nothing is left to wait for.
    """

    def __init__(self, now_s: float = 1000.0, grace_s: float = 0.0) -> None:
        self._skipping = _Skipping(now_s, grace_s)
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s

    def run_in_executor(  # type: ignore[override]  # asyncio's own types are as loose
        self,
        executor: Executor | None,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401  what the function takes
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._skipping.threads += 1
        future.add_done_callback(self._on_done)
        return future

    def _on_done(self, _future: asyncio.Future[Any]) -> None:
        self._skipping.threads -= 1


class Steps:
    """Takes the place of a sleep: does the next of `steps` instead, if any."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = deque(steps)

    async def __call__(self, _delay_s: float) -> None:
        if self._steps:
            self._steps.popleft()()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until a condition holds, which some event makes hold.

    Other threads and processes get the core after some turns, but time that is skipped stays.

    Raises:
        TimeoutError: None did.
    """
    is_skipping = isinstance(asyncio.get_running_loop(), VirtualLoop)
    async with asyncio.timeout(WAIT_S):
        for turn in itertools.count():
            if condition():
                return
            await asyncio.sleep(0 if is_skipping or turn < TURNS else PAUSE_S)
