"""Traces on their way to a collector."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from apfproxy.admin import trace_queue
from apfproxy.admin.trace_queue import FLUSH_PERIOD_NS, MAX_GATHERED, TraceQueue
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

WAIT_S = 30.0


class Collector:
    """Takes batches of traces, once it may.

    Attributes:
        batches: Those that arrived.
        problem: What it answers; "" for nothing.
        retried: What went wrong before; "" for nothing.
        error: What it raises; None for nothing.
        may_go_on: Set while it takes any.
        has_begun: Set once it has got one.
        is_over: Whether it was given up.
    """

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.problem = ""
        self.retried = ""
        self.error: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_begun = threading.Event()
        self.is_over = False

    def export(self, traces: Sequence[int], on_retry: Callable[[str], None]) -> str:
        """Take a batch."""
        if self.retried:
            on_retry(self.retried)
        self.has_begun.set()
        assert self.may_go_on.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        if not self.problem:
            self.batches.append(list(traces))
        return self.problem

    def shutdown(self) -> None:
        """Take no more."""
        self.is_over = True
        self.may_go_on.set()


class Way:
    """A queue to a collector, on a virtual clock."""

    def __init__(self, max_queued: int = 1000) -> None:
        self.clock = VirtualClock()
        self.collector = Collector()
        self.queue = TraceQueue("http://c/v1/traces", max_queued, self.clock, self.collector)

    def take(self, count: int) -> None:
        """Queue so many."""
        for number in range(count):
            self.queue.take(number)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Exported, failed, dropped, queued."""
        queue = self.queue
        return queue.exported, queue.failed, queue.dropped, queue.queued


async def test_few_traces() -> None:
    """They are sent together after a second."""
    way = Way()
    way.queue.open()
    way.take(3)
    assert not way.collector.has_begun.is_set()
    way.clock.run_until(FLUSH_PERIOD_NS)
    assert await asyncio.to_thread(way.collector.has_begun.wait, WAIT_S)
    await way.queue.close()

    assert [[0, 1, 2]] == way.collector.batches
    assert (3, 0, 0, 0) == way.counts
    assert way.collector.is_over


async def test_many_traces() -> None:
    """No batch keeps the event loop waiting; the end sends the rest."""
    way = Way()
    way.queue.open()
    way.take(2 * MAX_GATHERED + 1)
    await way.queue.close()

    assert [MAX_GATHERED, MAX_GATHERED, 1] == [len(batch) for batch in way.collector.batches]


async def test_too_many_traces() -> None:
    """Those beyond the bound are dropped, and counted."""
    way = Way(max_queued=100)
    way.collector.may_go_on.clear()
    way.queue.open()
    way.take(150)
    assert (0, 0, 50, 100) == way.counts
    way.collector.may_go_on.set()
    await way.queue.close()

    assert (100, 0, 50, 0) == way.counts


async def test_failures(caplog: pytest.LogCaptureFixture) -> None:
    """They are counted, and logged once until it works again."""
    way = Way()
    way.queue.open()
    caplog.set_level(logging.INFO, trace_queue.__name__)
    way.collector.problem = "503"
    way.take(2 * MAX_GATHERED)
    async with asyncio.timeout(WAIT_S):
        while way.queue.failed < 2 * MAX_GATHERED:  # noqa: ASYNC110  the thread gives no event
            await asyncio.sleep(0)
    assert "traces cannot be exported to http://c/v1/traces: 503" == way.queue.problem
    way.collector.problem = ""
    way.take(1)
    await way.queue.close()

    assert (1, 2 * MAX_GATHERED, 0, 0) == way.counts
    assert None is way.queue.problem
    assert [
        "traces cannot be exported to http://c/v1/traces: 503; some may be lost until it works",
        "traces are exported to http://c/v1/traces again",
    ] == caplog.messages


async def test_error_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """It costs a batch, not the thread."""
    way = Way()
    way.queue.open()
    way.collector.error = ZeroDivisionError("a bug")
    way.take(MAX_GATHERED)
    await way.queue.close()

    assert (0, MAX_GATHERED, 0, 0) == way.counts
    assert "ZeroDivisionError('a bug')" in caplog.text


async def test_collector_that_hangs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end does not wait for it for long, and says what is lost; once, if that fails later."""
    monkeypatch.setattr(trace_queue, "CLOSE_TIMEOUT_S", 0.0)
    way = Way()
    way.collector.problem = "timed out"
    way.collector.may_go_on.clear()
    way.queue.open()
    way.take(MAX_GATHERED + 1)
    await way.queue.close()
    async with asyncio.timeout(WAIT_S):
        while way.queue.queued:  # noqa: ASYNC110  the thread gives no event
            await asyncio.sleep(0)

    assert way.collector.is_over
    assert [f"{MAX_GATHERED + 1} traces are lost: http://c/v1/traces takes no more"] == (
        caplog.messages
    )


async def test_export_that_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """What went wrong is logged before it is known how the export ends."""
    way = Way()
    way.collector.retried = "connection refused"
    way.collector.may_go_on.clear()
    way.queue.open()
    way.take(MAX_GATHERED)
    assert await asyncio.to_thread(way.collector.has_begun.wait, WAIT_S)
    said, problem = list(caplog.messages), way.queue.problem
    way.collector.may_go_on.set()
    way.collector.retried = ""
    await way.queue.close()

    assert ["connection refused" in text for text in said] == [True]
    assert "traces cannot be exported to http://c/v1/traces: connection refused" == problem
    assert (MAX_GATHERED, 0, 0, 0) == way.counts
    assert "traces are exported to http://c/v1/traces again" == caplog.messages[-1]


async def test_end_while_the_collector_fails(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for less long, and what the thread finds out then is no news."""
    monkeypatch.setattr(trace_queue, "FAILING_CLOSE_TIMEOUT_S", 0.0)
    way = Way()
    way.collector.retried = way.collector.problem = "connection refused"
    way.collector.may_go_on.clear()
    way.queue.open()
    way.take(MAX_GATHERED)
    assert await asyncio.to_thread(way.collector.has_begun.wait, WAIT_S)
    await way.queue.close()
    async with asyncio.timeout(WAIT_S):
        while not way.queue.failed:  # noqa: ASYNC110  the thread gives no event
            await asyncio.sleep(0)

    first, second = caplog.messages
    assert first.startswith("traces cannot be exported to http://c/v1/traces: connection refused;")
    assert f"{MAX_GATHERED} traces are lost: http://c/v1/traces takes no more" == second


async def test_queue_that_was_never_opened() -> None:
    """There is nothing to end; twice is no error."""
    way = Way()
    await way.queue.close()
    way.queue.open()
    await way.queue.close()
    await way.queue.close()

    assert [] == way.collector.batches
