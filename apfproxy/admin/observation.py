"""The observers of the requests of a process: its access log, its traces and its top flows."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.admin.access_log import AccessLog
from apfproxy.admin.top_flows import TopFlows
from apfproxy.admin.tracing import queue_parts, trace_queue, warning
from apfproxy.base.faults import Part, report
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import spawn
from apfproxy.proxy.request_log import LogBudget, RequestLog
from apfproxy.settings.change import NO_CHANGE, Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.tracing import TraceQueue
    from apfproxy.base.clock import Clock
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.proxy.context import Context, ListenerContext
    from apfproxy.settings import AccessLogSettings, Settings

ACCESS_LOG = "access-log"
TRACING = "tracing"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Observers:
    cluster: str
    request_log: RequestLog | None
    top_flows: TopFlows | None


class Observation:
    """The access log and traces of one process, and clusters' top flows unless no one could ask.

    OperatorError if traces need what is not installed.
    """

    def __init__(
        self, settings: Settings, clock: Clock, shared: ListenerContext, health: HealthRegistry
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._shared = shared
        self._health = health
        self.access_log = self._log_of(settings.access_log)
        self.log_budget = LogBudget(settings.access_log)
        self._unrouted_log: RequestLog | None = None
        """Logs requests that are refused before they are any cluster's."""
        self.traces = trace_queue(settings.tracing, clock)
        self._clusters: dict[Context, Observers] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._attach()

    def open(self) -> None:
        """Open the access log, and export traces; AccessLogError if it cannot be opened."""
        if self.access_log is not None:
            self.access_log.open()
        if self.traces is not None:
            self.traces.open()
        self._warn()

    def begin(self, served: Context, cluster: str = "") -> None:
        """Observe the requests of a cluster, which is named where there are several."""
        observers = self._clusters[served] = Observers(cluster, None, self._top_flows_of())
        self._observe(served, observers)

    def _observe(self, served: Context, observers: Observers) -> None:
        cluster, traces = observers.cluster, self.traces
        observers.request_log = self._request_log_of(cluster)
        tracer = None if traces is None else traces.tracer(self._settings.tracing, cluster)
        served.observe(observers.request_log, observers.top_flows, tracer)

    def end(self, served: Context) -> None:
        observers = self._clusters.pop(served, None)
        if observers is not None:
            if observers.request_log is not None:
                observers.request_log.close()
            if observers.top_flows is not None:
                observers.top_flows.close()
            served.observe(None, None, None)

    async def prepare(self, settings: Settings) -> Change:
        """Open what other settings name; OperatorError if that cannot be."""
        if observed(settings) == observed(self._settings):
            return NO_CHANGE
        new, old = settings.access_log, self._settings.access_log
        log, traces = self.access_log, self.traces
        if queue_parts(settings.tracing) != queue_parts(self._settings.tracing):
            traces = await asyncio.to_thread(trace_queue, settings.tracing, self._clock)
        if (new.path, new.max_queued) != (old.path, old.max_queued):
            log = self._log_of(new)
            if log is not None:
                log.open()
        if traces is not None and traces is not self.traces:
            traces.open()

        def discard() -> None:
            self._end(log, self.access_log)
            self._end(traces, self.traces)

        return Change(lambda: self._put(settings, log, traces), discard)

    def _put(
        self, settings: Settings, access_log: AccessLog | None, traces: TraceQueue | None
    ) -> None:
        for request_log in self._request_logs():
            request_log.close()
        self._end(self.access_log, access_log)
        self._end(self.traces, traces)
        before, self._settings = self._settings, settings
        self.access_log, self.traces = access_log, traces
        self.log_budget.configure(settings.access_log)
        if settings.top_flows != before.top_flows:
            for each in self._clusters.values():
                if each.top_flows is not None:
                    each.top_flows.close()
                each.top_flows = self._top_flows_of()
        if settings.tracing != before.tracing:
            self._warn()
        self._attach()

    def _attach(self) -> None:
        """Have all tell of their requests, and the health pages of the log and the collector."""
        for name, source in ((ACCESS_LOG, self.access_log), (TRACING, self.traces)):
            self._health.discard(name)
            if source is not None:
                self._health.add(
                    name,
                    pages=(READYZ,),
                    is_blocking=False,
                    look=lambda source=source: source.problem,  # type: ignore[misc]  # bound here
                )
        self._unrouted_log = self._shared.access_log = self._request_log_of("")
        for served, observers in self._clusters.items():
            self._observe(served, observers)

    def _request_logs(self) -> Iterator[RequestLog]:
        logs = [self._unrouted_log, *(each.request_log for each in self._clusters.values())]
        return filter(None, logs)

    def reopen(self) -> None:
        """Open the access log again, after a rotation."""
        for request_log in self._request_logs():
            request_log.flush()
        if self.access_log is not None:
            self.access_log.reopen()

    def top_flows(self, served: Context) -> TopFlows | None:
        """Return those of a cluster; None if no one could ask for them, or it is gone."""
        observers = self._clusters.get(served)
        return None if observers is None else observers.top_flows

    async def close(self) -> None:
        for served in list(self._clusters):
            self.end(served)
        for request_log in self._request_logs():
            request_log.close()
        self._end(self.access_log, None)
        self._end(self.traces, None)
        for task in list(self._closing):
            await task

    def _end(
        self, left: AccessLog | TraceQueue | None, in_force: AccessLog | TraceQueue | None
    ) -> None:
        if left is not None and left is not in_force:
            task = spawn(left.close(), name="closing a log, or the way of traces")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _log_of(self, settings: AccessLogSettings) -> AccessLog | None:
        if settings.path is None:
            return None
        return AccessLog(settings.path, settings.max_queued, self._clock)

    def _request_log_of(self, cluster: str) -> RequestLog | None:
        log, settings = self.access_log, self._settings.access_log
        if log is None:
            return None

        def on_error(error: Exception) -> None:
            message = "a request is not in the access log"
            self._shared.loop.call_soon_threadsafe(report, Part.ACCESS_LOG, error, message)

        return RequestLog(settings, self._clock, log.write, self.log_budget, on_error, cluster)

    def _top_flows_of(self) -> TopFlows | None:
        settings = self._settings.top_flows
        if not settings.is_enabled or self._settings.admin is None:
            return None
        return TopFlows(settings.capacity, self._clock)

    def _warn(self) -> None:
        if text := warning(self._settings.tracing):
            logger.warning("%s", text)


def observed(settings: Settings) -> object:
    return settings.access_log, settings.tracing, settings.top_flows
