"""Writes of large objects: worked out in a thread, one at a time.

To validate the largest object, and to account for who owns its fields, takes up to a second, for
which nobody else should wait.  What becomes of an object is a function of what is there and of what
the client sent; only to hand it over to the store takes the event loop.

A thread must not stop the others for long either.  Python's code lets them have their turn, its
collector of garbage does not: it would look at hundreds of thousands of new objects time and again,
10 to 50 ms each time.  They are trees, which need no collector, and short-lived.  So it pauses.
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
"""Of what a client sends, or of what is there: it takes about 5 ms to work that out."""


class LargeWrites:
    """Where large writes take turns: each needs a processor and several times its size."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def turn(self, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until no other large write is under way; one of fewer bytes does not wait."""
        return self._lock if size >= LARGE_BYTES else nullcontext()


class CollectorPause:
    """Lets the collector of garbage rest while any thread wants it to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._is_ours = False  # whether it worked before

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let it rest."""
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


async def worked_out(size: int, work: Callable[[], Made]) -> Made:
    """What a function comes to: of a large write in a thread, of a small one at once.

    The function may touch nothing that anybody else changes.
    """
    return work() if size < LARGE_BYTES else await asyncio.to_thread(_work_undisturbed, work)


def _work_undisturbed(work: Callable[[], Made]) -> Made:
    with COLLECTOR_PAUSE.hold():
        return work()
