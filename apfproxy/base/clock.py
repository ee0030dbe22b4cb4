"""Time as the code sees it: passed in, so that tests and simulations own it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Timer(Protocol):
    def cancel(self) -> None:
        """Keep the callback from being called; harmless once it was."""


class Clock(Protocol):
    def now_ns(self) -> int:
        """Nanoseconds since some fixed point; never goes backwards."""

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once when `now_ns` reaches the deadline, never from inside this call.

        Callbacks with equal deadlines run in the order in which they were armed.
        """


class LoopClock:
    """A `Clock` over an event loop, to a millisecond; `now_ns` is called for every request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now_ns = time.monotonic_ns

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        return self.loop.call_later(max(0, deadline_ns - self.now_ns()) / 1e9, callback)
