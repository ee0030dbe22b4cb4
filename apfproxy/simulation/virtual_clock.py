"""Time that moves from one event to the next.

Arrivals of a time come first, for the outside decides before anything that follows from it.
"""

from __future__ import annotations

import itertools
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_ARRIVAL = -(1 << 62)
"""Ranks of arrivals begin here, those of other events at 0."""


class VirtualTimer:
    """A timer of a `VirtualClock`; its callback is None once it is cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    __slots__ = ("_arrivals", "_events", "_is_running", "_ranks", "time_ns")

    def __init__(self, time_ns: int = 0) -> None:
        self.time_ns = time_ns
        self._events: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._is_running = False
        self._ranks = itertools.count()
        self._arrivals = itertools.count(FIRST_ARRIVAL)

    def now_ns(self) -> int:
        return self.time_ns

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heappush(self._events, (deadline_ns, next(self._ranks), _call, timer))
        return timer

    def arm(self, deadline_ns: int, action: Callable[[Any], None], argument: Any) -> None:  # noqa: ANN401  the action's own
        """Call `action(argument)` at a time, for certain: 0.4 us faster than `call_at`."""
        heappush(self._events, (deadline_ns, next(self._ranks), action, argument))

    def arm_arrival(self, deadline_ns: int, action: Callable[[Any], None], argument: Any) -> None:  # noqa: ANN401  as above
        """As `arm`, but before all other events of that time."""
        heappush(self._events, (deadline_ns, next(self._arrivals), action, argument))

    def run(self) -> None:
        """Let events happen until none is left or one calls `stop`."""
        events = self._events
        self._is_running = True
        while self._is_running and events:
            deadline_ns, _, action, argument = heappop(events)
            if deadline_ns > self.time_ns:  # noqa: PLR1730  never backwards; max() costs more
                self.time_ns = deadline_ns
            action(argument)

    def stop(self) -> None:
        self._is_running = False


def _call(timer: VirtualTimer) -> None:
    if timer.callback is not None:
        timer.callback()
