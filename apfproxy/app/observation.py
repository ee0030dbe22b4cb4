"""What sees the requests of a process: its access log and its top flows, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.observe.access_log import AccessLog
from apfproxy.observe.health import READYZ
from apfproxy.observe.top_flows import TopFlows
from apfproxy.proxy.request_log import RequestLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apfproxy.clock import Clock
    from apfproxy.observe.health import HealthRegistry
    from apfproxy.proxy.server import ProxyServer
    from apfproxy.settings import AccessLogSettings, Settings

ACCESS_LOG = "access-log"


class Observation:
    """The access log of one process, and its top flows unless nobody could ask for them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        log = settings.access_log
        self._request_log: RequestLog | None = None
        self.access_log: AccessLog | None = None
        if log.path is not None:
            self.access_log = AccessLog(log.path, log.max_queued, clock)
            self._request_log = RequestLog(log, clock, self.access_log.write)
        self.top_flows: TopFlows | None = None
        if settings.top_flows.is_enabled and settings.admin is not None:
            self.top_flows = TopFlows(settings.top_flows.capacity, clock)

    def attach(self, server: ProxyServer, health: HealthRegistry) -> None:
        """Have the server tell of its requests, and the health pages of the log."""
        if self.access_log is not None:
            access_log = self.access_log
            health.add(
                ACCESS_LOG, pages=(READYZ,), is_blocking=False, look=lambda: access_log.problem
            )
        server.observe(self._request_log, self.top_flows)

    def open(self) -> None:
        """Open the access log; AccessLogError if it cannot be opened."""
        if self.access_log is not None:
            self.access_log.open()

    def configure(self, settings: AccessLogSettings) -> None:
        """Log other requests from now on, in the same file."""
        if self._request_log is not None:
            self._request_log.configure(settings)

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
