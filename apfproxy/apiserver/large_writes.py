"""Writes of large objects: computed in a thread, one at a time.

To validate the largest object and to update the owners of its fields takes up to a second, in which
other requests must go on.  The new object is a function of the old one and of what the client sent;
only the hand-over to the store needs the event loop.

A thread must not block the others for long either.  Python's code yields to them, its garbage
collector does not: it would visit hundreds of thousands of new objects again and again, 10 to 50 ms
each time.  They are short-lived trees, which need no collector, so it pauses.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

Made = TypeVar("Made")

LARGE_BYTES = 32 * 1024
"""Size of what a client sends, or of the stored object; such a write takes about 5 ms."""


class LargeWrites:
    """Lets one large write run at a time: each needs a processor and several times its size."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def turn(self, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until no other large write is under way; one of fewer bytes does not wait."""
        return self._lock if size >= LARGE_BYTES else nullcontext()


class CollectorPause:
    """Turns the garbage collector off while any thread asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._is_ours = False  # whether the collector was on before

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Turn the collector off."""
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._is_ours = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0 and self._is_ours:
                    gc.enable()


COLLECTOR_PAUSE = CollectorPause()


async def compute(size: int, work: Callable[[], Made]) -> Made:
    """The result of a function: computed in a thread for a large write, at once for a small one.

    The function must not touch anything that others change.
    """
    return work() if size < LARGE_BYTES else await asyncio.to_thread(COLLECTOR_PAUSE.hold()(work))
