"""The choice of requests that have a trace, and the queue of traces on their way to a collector.

1. No one waits: if too many traces are queued, new ones are dropped.
2. A thread gets them every second or 64 traces; to encode so many takes 5 ms, which is as long as
   the interpreter keeps the event loop waiting.
3. A failure is logged once, until exporting works again; what cannot be exported is lost.
4. At the end a collector that failed last is waited for only shortly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apfproxy.admin.batch_thread import BatchThread
from apfproxy.base.errors import OperatorError
from apfproxy.proxy.tracing import Tracer
from apfproxy.settings import TracingSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.spans import OtlpExporter, Traced
    from apfproxy.base.clock import Clock

PATH = "/v1/traces"
FLUSH_PERIOD_NS = 1_000_000_000
MAX_GATHERED = 64
"""Traces; the queue can exceed its bound by so many."""
CLOSE_TIMEOUT_S = 5.0
FAILING_CLOSE_TIMEOUT_S = 0.5
"""For one that failed last, in case that it works again."""

log = logging.getLogger(__name__)


class TraceQueue:
    """Traces that wait for a collector; `failed` could not be sent, `dropped` were not taken."""

    def __init__(
        self, collector: str, max_queued: int, clock: Clock, exporter: OtlpExporter
    ) -> None:
        self._collector = collector
        self._max_queued = max_queued
        self._exporter = exporter
        self._thread: BatchThread[Traced] = BatchThread(
            "traces", FLUSH_PERIOD_NS, MAX_GATHERED, clock
        )
        self._taken = 0
        self.dropped = 0
        # Written by the thread only:
        self.exported = 0
        self.failed = 0
        # And once it is given up, by the loop:
        self.problem: str | None = None

    @property
    def queued(self) -> int:
        return self._taken - self.exported - self.failed

    def tracer(self, settings: TracingSettings, cluster: str) -> Tracer:
        return Tracer(settings, lambda trace: self.take((trace, cluster)))

    def open(self) -> None:
        self._thread.open(self._run)

    def take(self, trace: Traced) -> None:
        if self.queued >= self._max_queued:
            self.dropped += 1
            return
        self._taken += 1
        self._thread.put(trace)

    async def close(self) -> None:
        """Export what is left, and end; harmless if it never was opened."""
        timeout_s = CLOSE_TIMEOUT_S if self.problem is None else FAILING_CLOSE_TIMEOUT_S
        if not await self._thread.close(timeout_s):
            # What the thread finds out later is no news.
            self.problem = f"{self.queued} traces are lost: {self._collector} takes no more"
            log.warning("%s", self.problem)
        self._exporter.shutdown()

    # In the thread.

    def _run(self, batches: Iterator[list[Traced]]) -> None:
        for traces in batches:
            try:
                problem = self._exporter.export(traces, self._fail)
            except Exception as error:  # noqa: BLE001  later traces may be exported
                problem = repr(error)
            if problem:
                self._fail(problem)
                self.failed += len(traces)
                continue
            if self.problem is not None:
                self.problem = None
                log.warning("traces are exported to %s again", self._collector)
            self.exported += len(traces)

    def _fail(self, problem: str) -> None:
        text = f"traces cannot be exported to {self._collector}: {problem}"
        if self.problem is None:
            log.error("%s; some may be lost until it works", text)
        self.problem = text


def trace_queue(settings: TracingSettings, clock: Clock) -> TraceQueue | None:
    """None if the settings name no collector; OperatorError if it takes what is not installed."""
    if settings.endpoint is None:
        return None
    try:
        # It takes half a second, and need not be installed.
        from apfproxy.admin.spans import OtlpExporter  # noqa: PLC0415
    except ImportError as error:
        raise OperatorError(
            f"tracing.endpoint: needs OpenTelemetry's SDK, but the module {error.name} is not"
            " installed: pip install 'apfproxy[otel]' adds what is missing (docs/tracing.md)"
        ) from error
    has_path = urlsplit(settings.endpoint).path not in ("", "/")
    url = settings.endpoint if has_path else settings.endpoint.rstrip("/") + PATH
    exporter = OtlpExporter(url, settings.service_name, clock.now_ns)
    return TraceQueue(url, settings.max_queued, clock, exporter)


def warning(settings: TracingSettings) -> str:
    """Why what the settings ask for has no effect; "" if it has, or if they ask for nothing."""
    if settings.endpoint is not None:
        return ""
    nothing = TracingSettings()
    if settings.sampling_rate_per_million:
        name = "samplingRatePerMillion"
    elif settings.parents_from != nothing.parents_from:
        name = "parentsFrom"
    else:
        return ""
    return (
        f"tracing.{name} has no effect: no request is traced without tracing.endpoint; name there"
        " a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318"
    )


def queue_parts(settings: TracingSettings) -> object:
    return settings.endpoint, settings.service_name, settings.max_queued
