"""Time as the pure code sees it: passed in, so that tests and simulations own it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Keep the callback from being called; harmless once it was."""


class Clock(Protocol):
    """A source of monotonic time and of timers."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed point; never goes backwards."""

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once when `now_ns` reaches the deadline, never from inside this call.

        Callbacks with equal deadlines run in the order in which they were armed.
        """
