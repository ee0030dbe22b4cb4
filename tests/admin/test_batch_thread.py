"""A thread that gets what the event loop gathers, in batches."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.batch_thread import BatchThread
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

PERIOD_NS = 1_000
MOST = 4
WAIT_S = 30.0


class Worker:
    """What the thread does: it keeps the batches, once it may.

    Attributes:
        batches: Those that it has worked on.
        may_go_on: Set while it may.
        has_ended: Set once it has.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.thread: BatchThread[str] = BatchThread("test", PERIOD_NS, MOST, self.clock)
        self.batches: list[list[str]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_ended = threading.Event()

    def work(self, batches: Iterator[list[str]]) -> None:
        """Work on all of them."""
        for batch in batches:
            assert self.may_go_on.wait(WAIT_S)
            self.batches.append(batch)
        self.has_ended.set()

    def put(self, items: str) -> None:
        """Put items of one letter each."""
        for item in items:
            self.thread.put(item)


async def test_batches() -> None:
    """There is one a period, and one for many items; all are worked on, in their order."""
    worker = Worker()
    worker.thread.open(worker.work)
    worker.put("ab")
    worker.clock.run_until(PERIOD_NS)
    worker.put("cdefgh")
    worker.clock.run_until(2 * PERIOD_NS)
    worker.put("i")

    assert await worker.thread.close(WAIT_S)
    assert ["ab", "cdef", "gh", "i"] == ["".join(batch) for batch in worker.batches]
    assert worker.has_ended.is_set()


async def test_item_that_counts_as_many() -> None:
    """It does not wait for others."""
    worker = Worker()
    worker.thread.open(worker.work)
    worker.thread.put("a", MOST)
    worker.put("b")

    assert await worker.thread.close(WAIT_S)
    assert [["a"], ["b"]] == worker.batches


async def test_mark() -> None:
    """It comes after all that was put before."""
    worker = Worker()
    worker.thread.open(worker.work)
    worker.put("a")
    worker.thread.put_mark()
    worker.put("b")

    assert await worker.thread.close(WAIT_S)
    assert [["a"], [], ["b"]] == worker.batches


async def test_without_a_thread() -> None:
    """There is nothing to end, and nothing is handed over later; twice is no error."""
    worker = Worker()
    worker.put("a")
    assert await worker.thread.close(WAIT_S)
    worker.clock.run()
    worker.thread.open(worker.work)

    assert await worker.thread.close(WAIT_S)
    assert await worker.thread.close(WAIT_S)
    assert [["a"]] == worker.batches


async def test_thread_that_hangs() -> None:
    """It is waited for no longer than is said; then it may end whenever it likes."""
    worker = Worker()
    worker.may_go_on.clear()
    worker.thread.open(worker.work)
    worker.put("a")
    assert not await worker.thread.close(0.0)
    worker.may_go_on.set()

    assert worker.has_ended.wait(WAIT_S)
    assert [["a"]] == worker.batches


def test_end_that_is_not_waited_for() -> None:
    """An event loop whose wait for a thread that hangs is cancelled ends without that thread."""
    worker = Worker()
    worker.may_go_on.clear()

    async def close_and_leave() -> None:
        worker.thread.open(worker.work)
        worker.put("a")
        closing = asyncio.ensure_future(worker.thread.close(WAIT_S))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(close_and_leave())
    has_ended = worker.has_ended.is_set()
    worker.may_go_on.set()

    assert not has_ended
    assert worker.has_ended.wait(WAIT_S)
