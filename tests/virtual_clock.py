"""Time that moves only when a test moves it."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class VirtualTimer:
    """A timer of a `VirtualClock`."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Keep the callback from being called."""
        self.callback = None


class VirtualClock:
    """A clock that moves only when a test moves it; equal deadlines run in the order armed."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._armed = itertools.count()
        self._timers: list[tuple[int, int, VirtualTimer]] = []

    def now_ns(self) -> int:
        """The virtual time."""
        return self._now_ns

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        """Call `callback` when a run reaches the deadline."""
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (deadline_ns, next(self._armed), timer))
        return timer

    def run_until(self, end_ns: int) -> None:
        """Run every timer due by `end_ns`, each at its own time, then stand at `end_ns`."""
        while self._timers and self._timers[0][0] <= end_ns:
            deadline_ns, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._now_ns = max(self._now_ns, deadline_ns)  # time never runs backwards
            timer.callback()
        self._now_ns = max(self._now_ns, end_ns)

    def run(self) -> None:
        """Run until no timer is left."""
        while self._timers:
            self.run_until(self._timers[0][0])
