"""A thread that gets what the event loop gathers, in batches: no one waits for what it does."""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.base.clock import Clock, Timer

Item = TypeVar("Item")


class BatchThread(Generic[Item]):
    """The thread, and the items on their way to it."""

    def __init__(self, name: str, period_ns: int, max_gathered: int, clock: Clock) -> None:
        self._name = name
        self._period_ns = period_ns
        self._max_gathered = max_gathered
        self._clock = clock
        self._batches: queue.SimpleQueue[list[Item] | None] = queue.SimpleQueue()
        self._items: list[Item] = []
        self._gathered = 0
        self._timer: Timer | None = None
        self._end: Future[None] | None = None
        """Set at the end of the thread; None if there is none."""

    def open(self, work: Callable[[Iterator[list[Item]]], None]) -> None:
        """Start the thread: it works on all batches, in their order, and ends after the last."""
        end: Future[None] = Future()
        end.set_running_or_notify_cancel()  # who does not wait for it any more does not cancel it

        def run() -> None:
            try:
                work(iter(self._batches.get, None))
            finally:
                end.set_result(None)

        self._end = end
        threading.Thread(target=run, name=self._name, daemon=True).start()

    def put(self, item: Item, count: int = 1) -> None:
        self._items.append(item)
        self._gathered += count
        if self._gathered >= self._max_gathered:
            self._hand_over()
        elif self._timer is None:
            self._timer = self._clock.call_at(
                self._clock.now_ns() + self._period_ns, self._on_timer
            )

    def put_mark(self) -> None:
        """Hand over what there is, and then a batch without items."""
        self._hand_over()
        self._batches.put([])

    async def close(self, timeout_s: float) -> bool:
        """Hand over what there is, and wait for the end: whether it came in time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end, self._end = self._end, None
        if end is None:
            return True
        self._hand_over()
        self._batches.put(None)
        # To join it would take a thread of the loop, which outlives a wait that is cancelled.
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wrap_future(end)
        except TimeoutError:
            return False
        return True

    def _on_timer(self) -> None:
        self._timer = None
        self._hand_over()

    def _hand_over(self) -> None:
        if self._items:
            self._batches.put(self._items)
            self._items = []
            self._gathered = 0
