"""Traces on their way to a collector: the event loop gathers them, and one thread exports them.

1. Nobody waits: if too many traces are queued, new ones are dropped.
2. The thread gets them every second or 64 traces.  To send some takes 1.5 ms however few they are;
   to encode so many takes 5 ms, which is as long as the interpreter keeps the event loop waiting.
3. A failure is logged once, until exporting works again; what cannot be exported is lost.  It is
   logged while an export is still tried again, which may take ten seconds.
4. At the end a collector that failed last is waited for only shortly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from apfproxy.admin.batch_thread import BatchThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apfproxy.base.clock import Clock

log = logging.getLogger(__name__)

Trace = TypeVar("Trace")
Exported_contra = TypeVar("Exported_contra", contravariant=True)

FLUSH_PERIOD_NS = 1_000_000_000
MAX_GATHERED = 64
"""Traces; the queue can exceed its bound by so many."""
CLOSE_TIMEOUT_S = 5.0
"""For a collector that does not answer."""
FAILING_CLOSE_TIMEOUT_S = 0.5
"""For one that failed last, in case that it works again."""


class Exporter(Protocol[Exported_contra]):
    """Sends traces."""

    def export(self, traces: Sequence[Exported_contra], on_retry: Callable[[str], None]) -> str:
        """Send some, in the thread: what went wrong, or "".

        `on_retry` is told at once what goes wrong with each attempt after the first.
        """

    def shutdown(self) -> None:
        """Give up what is under way; called by any thread."""


class TraceQueue(Generic[Trace]):
    """Traces that wait for a collector, of which some may wait at most.

    Attributes:
        exported, failed: Traces that were sent; that could not be.
    """

    def __init__(
        self, collector: str, max_queued: int, clock: Clock, exporter: Exporter[Trace]
    ) -> None:
        """`collector` is its name in the log."""
        self._collector = collector
        self._max_queued = max_queued
        self._exporter = exporter
        self._thread: BatchThread[Trace] = BatchThread(
            "traces", FLUSH_PERIOD_NS, MAX_GATHERED, clock
        )
        self._taken = 0
        self._refused = 0
        # Written by the thread only:
        self.exported = 0
        self.failed = 0
        # And once it is given up, by the loop:
        self._failure: str | None = None

    @property
    def queued(self) -> int:
        """Traces that wait to be exported."""
        return self._taken - self.exported - self.failed

    @property
    def dropped(self) -> int:
        """Traces that were not taken, since too many waited."""
        return self._refused

    @property
    def problem(self) -> str | None:
        """What is wrong now; None while all is well."""
        return self._failure

    def open(self) -> None:
        """Start exporting."""
        self._thread.open(self._run)

    def take(self, trace: Trace) -> None:
        """Queue a trace."""
        if self.queued >= self._max_queued:
            self._refused += 1
            return
        self._taken += 1
        self._thread.put(trace)

    async def close(self) -> None:
        """Export what is left, and end; harmless if it never was opened."""
        timeout_s = CLOSE_TIMEOUT_S if self._failure is None else FAILING_CLOSE_TIMEOUT_S
        if not await self._thread.close(timeout_s):
            # What the thread finds out later is no news.
            self._failure = f"{self.queued} traces are lost: {self._collector} takes no more"
            log.warning("%s", self._failure)
        self._exporter.shutdown()

    # In the thread.

    def _run(self, batches: Iterator[list[Trace]]) -> None:
        for traces in batches:
            try:
                problem = self._exporter.export(traces, self._fail)
            except Exception as error:  # noqa: BLE001  later traces may be exported
                problem = repr(error)
            if problem:
                self._fail(problem)
                self.failed += len(traces)
            else:
                self._recover()
                self.exported += len(traces)

    def _fail(self, problem: str) -> None:
        if self._failure is None:
            log.error(
                "traces cannot be exported to %s: %s; some may be lost until it works",
                self._collector,
                problem,
            )
        self._failure = f"traces cannot be exported to {self._collector}: {problem}"

    def _recover(self) -> None:
        if self._failure is not None:
            self._failure = None
            log.warning("traces are exported to %s again", self._collector)
