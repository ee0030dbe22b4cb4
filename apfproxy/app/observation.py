"""What sees the requests of a process: its access log and its top flows, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.app.change import Change
from apfproxy.observe.access_log import AccessLog
from apfproxy.observe.health import READYZ
from apfproxy.observe.top_flows import TopFlows
from apfproxy.proxy.request_log import RequestLog
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from apfproxy.clock import Clock
    from apfproxy.observe.health import HealthRegistry
    from apfproxy.proxy.served_cluster import ServedCluster
    from apfproxy.settings import AccessLogSettings, Settings

ACCESS_LOG = "access-log"


class Observation:
    """The access log of one process, and its top flows unless nobody could ask for them."""

    def __init__(
        self, settings: Settings, clock: Clock, served: ServedCluster, health: HealthRegistry
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._served = served
        self._health = health
        self.access_log = self._log_of(settings.access_log)
        self._request_log = self._request_log_of(settings.access_log, self.access_log)
        self.top_flows = self._top_flows_of(settings)
        self._closing: set[asyncio.Task[None]] = set()
        self._attach()

    def open(self) -> None:
        """Open the access log; AccessLogError if it cannot be opened."""
        if self.access_log is not None:
            self.access_log.open()

    async def prepare(self, settings: Settings) -> Change:
        """Open what other settings name.

        Raises:
            AccessLogError: It cannot be opened.
        """
        new, old = settings.access_log, self._settings.access_log
        log = self.access_log
        if (new.path, new.max_queued) == (old.path, old.max_queued):
            return Change(lambda: self._put(settings, log))
        opened = self._log_of(new)
        if opened is not None:
            opened.open()
        return Change(lambda: self._put(settings, opened), lambda: self._end(opened))

    def _put(self, settings: Settings, access_log: AccessLog | None) -> None:
        before, self._settings = self._settings, settings
        if access_log is not self.access_log:
            if self._request_log is not None:
                self._request_log.close()
            self._end(self.access_log)
            self.access_log = access_log
            self._request_log = self._request_log_of(settings.access_log, access_log)
        elif self._request_log is not None:
            self._request_log.configure(settings.access_log)
        if settings.top_flows != before.top_flows:
            if self.top_flows is not None:
                self.top_flows.close()
            self.top_flows = self._top_flows_of(settings)
        self._health.discard(ACCESS_LOG)
        self._attach()

    def _attach(self) -> None:
        """Have the cluster tell of its requests, and the health pages of the log."""
        if self.access_log is not None:
            access_log = self.access_log
            self._health.add(
                ACCESS_LOG, pages=(READYZ,), is_blocking=False, look=lambda: access_log.problem
            )
        self._served.observe(self._request_log, self.top_flows)

    def reopen(self) -> None:
        """Open the access log again, after a rotation."""
        if self._request_log is not None:
            self._request_log.flush()
        if self.access_log is not None:
            self.access_log.reopen()

    def flows(self) -> Iterable[Mapping[str, Any]]:
        """The top flows, for the live page."""
        return () if self.top_flows is None else self.top_flows.top()

    async def close(self) -> None:
        """Write what is left of the log."""
        if self.top_flows is not None:
            self.top_flows.close()
        if self._request_log is not None:
            self._request_log.close()
        if self.access_log is not None:
            await self.access_log.close()
        for task in list(self._closing):
            await task

    def _end(self, log: AccessLog | None) -> None:
        """Write what is left of a log that is no longer the one in force."""
        if log is not None:
            task = spawn(log.close(), name="closing an access log")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _log_of(self, settings: AccessLogSettings) -> AccessLog | None:
        if settings.path is None:
            return None
        return AccessLog(settings.path, settings.max_queued, self._clock)

    def _request_log_of(
        self, settings: AccessLogSettings, log: AccessLog | None
    ) -> RequestLog | None:
        return None if log is None else RequestLog(settings, self._clock, log.write)

    def _top_flows_of(self, settings: Settings) -> TopFlows | None:
        if not settings.top_flows.is_enabled or settings.admin is None:
            return None
        return TopFlows(settings.top_flows.capacity, self._clock)
