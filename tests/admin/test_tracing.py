"""Traces on their way to a collector, and what the settings say of them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.admin import tracing
from apfproxy.admin.tracing import MAX_GATHERED, TraceQueue, trace_queue
from apfproxy.base.errors import OperatorError
from apfproxy.settings import TracingSettings
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.admin.spans import OtlpExporter, Traced
    from apfproxy.proxy.tracing import RequestTrace

TRACE: Traced = (cast("RequestTrace", None), "")
WAIT_S = 30.0


class Collector:
    def __init__(self) -> None:
        self.problem = ""
        self.retried = ""
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_begun = threading.Event()
        self.is_over = False

    def export(self, _traces: Sequence[Traced], on_retry: Callable[[str], None]) -> str:
        if self.retried:
            on_retry(self.retried)
        self.has_begun.set()
        assert self.may_go_on.wait(WAIT_S)
        return self.problem

    def shutdown(self) -> None:
        self.is_over = True
        self.may_go_on.set()


class Way:
    def __init__(self, max_queued: int = 1000) -> None:
        self.clock = VirtualClock()
        self.collector = Collector()
        self.queue = TraceQueue(
            "http://c/v1/traces", max_queued, self.clock, cast("OtlpExporter", self.collector)
        )

    def take(self, count: int) -> None:
        for _ in range(count):
            self.queue.take(TRACE)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Exported, failed, dropped, queued."""
        queue = self.queue
        return queue.exported, queue.failed, queue.dropped, queue.queued


async def test_too_many_traces() -> None:
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
    caplog.set_level(logging.INFO, tracing.__name__)
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


@pytest.mark.parametrize("is_failing", [False, True])
async def test_collector_that_hangs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    name = "FAILING_CLOSE_TIMEOUT_S" if is_failing else "CLOSE_TIMEOUT_S"
    monkeypatch.setattr(tracing, name, 0.0)
    way = Way()
    way.collector.problem = "timed out"
    way.collector.retried = "connection refused" * is_failing
    way.collector.may_go_on.clear()
    way.queue.open()
    way.take(MAX_GATHERED)
    assert await asyncio.to_thread(way.collector.has_begun.wait, WAIT_S)
    await way.queue.close()
    async with asyncio.timeout(WAIT_S):
        while not way.queue.failed:  # noqa: ASYNC110  the thread gives no event
            await asyncio.sleep(0)

    assert way.collector.is_over
    *first, last = caplog.messages
    assert f"{MAX_GATHERED} traces are lost: http://c/v1/traces takes no more" == last
    assert ["connection refused" in each for each in first] == [True] * is_failing


ON = TracingSettings(endpoint="http://127.0.0.1:9")


@pytest.mark.parametrize(
    "module", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"]
)
def test_without_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "apfproxy.admin.spans", raising=False)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(OperatorError, match=r"tracing\.endpoint: .*pip install 'apfproxy\[otel\]'"):
        trace_queue(ON, VirtualClock())
