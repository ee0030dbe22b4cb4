"""What sees the requests of a process: its access log, its traces and its top flows."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from apfproxy.admin.access_log import AccessLog
from apfproxy.admin.top_flows import TopFlows
from apfproxy.app.tracing import is_exported_alike, trace_queue, tracer_of, warning
from apfproxy.base.faults import Part, report
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import spawn
from apfproxy.proxy.request_log import LogBudget, RequestLog
from apfproxy.settings.change import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apfproxy.admin.trace_queue import TraceQueue
    from apfproxy.app.otlp_exporter import Traced
    from apfproxy.base.clock import Clock
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.proxy.client import ListenerContext
    from apfproxy.proxy.tracing import Tracer
    from apfproxy.settings import AccessLogSettings, Settings

ACCESS_LOG = "access-log"
TRACING = "tracing"

logger = logging.getLogger(__name__)


class Observed(Protocol):
    """A cluster as it is served."""

    def observe(
        self, access_log: RequestLog | None, top_flows: TopFlows | None, tracer: Tracer | None
    ) -> None:
        """Tell of requests from now on."""


class Seen:
    """What sees the requests of one cluster."""

    def __init__(
        self,
        cluster: str,
        served: Observed,
        request_log: RequestLog | None,
        top_flows: TopFlows | None,
        tracer: Tracer | None,
    ) -> None:
        self.cluster = cluster
        self.served = served
        self.request_log = request_log
        self.top_flows = top_flows
        self.tracer = tracer

    def attach(self) -> None:
        """Have the cluster tell of its requests."""
        self.served.observe(self.request_log, self.top_flows, self.tracer)

    def end_log(self) -> None:
        """Write the lines that there are, for the last time."""
        if self.request_log is not None:
            self.request_log.close()

    def end_flows(self) -> None:
        """Count no flows any more."""
        if self.top_flows is not None:
            self.top_flows.close()


class Observation:
    """The access log and traces of one process, and clusters' top flows unless nobody could ask.

    Attributes:
        access_log: The file; None for none.
        log_budget: What all lines of it have, and what was left out.
        traces: Those on their way to a collector; None for none.

    OperatorError if traces need what is not installed.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        shared: ListenerContext,
        health: HealthRegistry,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._shared = shared
        self._health = health
        self.access_log = self._log_of(settings.access_log)
        self.log_budget = LogBudget(settings.access_log)
        self._unrouted_log: RequestLog | None = None
        """Of what is refused before it is any cluster's."""
        self.traces = trace_queue(settings.tracing, clock)
        self._seen: dict[Observed, Seen] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._attach()

    def open(self) -> None:
        """Open the access log, and export traces; AccessLogError if it cannot be opened."""
        if self.access_log is not None:
            self.access_log.open()
        if self.traces is not None:
            self.traces.open()
        say_why_not(self._settings)

    def begin(self, served: Observed, cluster: str = "") -> None:
        """See the requests of a cluster, too; with its name where there are several."""
        settings = self._settings
        seen = Seen(
            cluster,
            served,
            self._request_log_of(settings.access_log, cluster),
            self._top_flows_of(settings),
            tracer_of(settings.tracing, self.traces, cluster),
        )
        self._seen[served] = seen
        seen.attach()

    def end(self, served: Observed) -> None:
        """See those of a cluster no more."""
        seen = self._seen.pop(served, None)
        if seen is not None:
            seen.end_log()
            seen.end_flows()
            served.observe(None, None, None)

    async def prepare(self, settings: Settings) -> Change:
        """Open what other settings name.

        Raises:
            AccessLogError: It cannot be opened.
            OperatorError: Traces need what is not installed.
        """
        new, old = settings.access_log, self._settings.access_log
        log, traces = self.access_log, self.traces
        if not is_exported_alike(settings.tracing, self._settings.tracing):
            traces = await asyncio.to_thread(trace_queue, settings.tracing, self._clock)
        if (new.path, new.max_queued) != (old.path, old.max_queued):
            log = self._log_of(new)
            if log is not None:
                log.open()
        if traces is not None and traces is not self.traces:
            traces.open()

        def discard() -> None:
            if log is not self.access_log:
                self._end(log)
            if traces is not self.traces:
                self._end(traces)

        return Change(lambda: self._put(settings, log, traces), discard)

    def _put(
        self,
        settings: Settings,
        access_log: AccessLog | None,
        traces: TraceQueue[Traced] | None,
    ) -> None:
        before, self._settings = self._settings, settings
        if access_log is not self.access_log:
            for seen in self._seen.values():
                seen.end_log()
            self._end_unrouted_log()
            self._end(self.access_log)
            self.access_log = access_log
            for seen in self._seen.values():
                seen.request_log = self._request_log_of(settings.access_log, seen.cluster)
        if traces is not self.traces:
            self._end(self.traces)
            self.traces = traces
        self.log_budget.configure(settings.access_log)
        for seen in self._seen.values():
            seen.tracer = tracer_of(settings.tracing, traces, seen.cluster)
            if seen.request_log is not None:
                seen.request_log.configure(settings.access_log)
            if settings.top_flows != before.top_flows:
                seen.end_flows()
                seen.top_flows = self._top_flows_of(settings)
        if settings.tracing != before.tracing:
            say_why_not(settings)
        self._health.discard(ACCESS_LOG)
        self._health.discard(TRACING)
        self._attach()

    def _attach(self) -> None:
        """Have all tell of their requests, and the health pages of the log and the collector."""
        if self.access_log is not None:
            access_log = self.access_log
            self._health.add(
                ACCESS_LOG, pages=(READYZ,), is_blocking=False, look=lambda: access_log.problem
            )
        if self.traces is not None:
            traces = self.traces
            self._health.add(
                TRACING, pages=(READYZ,), is_blocking=False, look=lambda: traces.problem
            )
        self._end_unrouted_log()
        self._unrouted_log = self._request_log_of(self._settings.access_log, "")
        self._shared.access_log = self._unrouted_log
        for seen in self._seen.values():
            seen.attach()

    def reopen(self) -> None:
        """Open the access log again, after a rotation."""
        for seen in self._seen.values():
            if seen.request_log is not None:
                seen.request_log.flush()
        if self.access_log is not None:
            self.access_log.reopen()

    def top_flows(self, served: Observed) -> TopFlows | None:
        """Those of a cluster; None if nobody could ask for them, or it is gone."""
        seen = self._seen.get(served)
        return None if seen is None else seen.top_flows

    def flows(self, served: Observed) -> Iterable[Mapping[str, Any]]:
        """The same, for the live page."""
        top_flows = self.top_flows(served)
        return () if top_flows is None else top_flows.top()

    def _end_unrouted_log(self) -> None:
        """Write what there is of it, while the file is there."""
        if self._unrouted_log is not None:
            self._unrouted_log.close()

    async def close(self) -> None:
        """Write what is left of the log, and export what is left of the traces."""
        self._end_unrouted_log()
        for seen in self._seen.values():
            seen.end_log()
            seen.end_flows()
        if self.access_log is not None:
            await self.access_log.close()
        if self.traces is not None:
            await self.traces.close()
        for task in list(self._closing):
            await task

    def _end(self, left: AccessLog | TraceQueue[Traced] | None) -> None:
        """Write what is left of a log that is no longer the one in force, or export traces."""
        if left is not None:
            task = spawn(left.close(), name="closing a log, or the way of traces")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _log_of(self, settings: AccessLogSettings) -> AccessLog | None:
        if settings.path is None:
            return None
        return AccessLog(settings.path, settings.max_queued, self._clock)

    def _request_log_of(self, settings: AccessLogSettings, cluster: str) -> RequestLog | None:
        log = self.access_log
        if log is None:
            return None

        def on_error(error: Exception) -> None:
            message = "a request is not in the access log"
            self._shared.loop.call_soon_threadsafe(report, Part.ACCESS_LOG, error, message)

        return RequestLog(settings, self._clock, log.write, self.log_budget, on_error, cluster)

    def _top_flows_of(self, settings: Settings) -> TopFlows | None:
        if not settings.top_flows.is_enabled or settings.admin is None:
            return None
        return TopFlows(settings.top_flows.capacity, self._clock)


def say_why_not(settings: Settings) -> None:
    """Log why no request is traced, where the settings look as if some were."""
    if text := warning(settings.tracing):
        logger.warning("%s", text)
