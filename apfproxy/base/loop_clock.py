"""The clock of a running process: the system's monotonic one, with an event loop's timers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.base.clock import Timer


class LoopClock:
    """A `Clock` over an event loop.

    Attributes:
        now_ns: The system's own function, not a method around it: it is called for every request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now_ns = time.monotonic_ns

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` when the time comes, to the loop's resolution of a millisecond."""
        return self._loop.call_later(max(0, deadline_ns - self.now_ns()) / 1e9, callback)
