"""The source of a cluster's endpoints where its settings name none: DNS or a Service."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.settings import UNSAID
from apfproxy.settings.change import NO_CHANGE, Change
from apfproxy.upstream.dns_endpoints import DnsEndpoints, Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.settings import EndpointAddress, Settings, UpstreamSettings
    from apfproxy.sources.servers_behind import ServersBehind
    from apfproxy.sources.service_endpoints import ServiceEndpoints

    Source = DnsEndpoints | ServiceEndpoints

# The wait for the first endpoints: at the start, and before other settings come into force.
FIRST_ANSWER_S = 10.0

ENDPOINTS = "endpoints"  # the health check

logger = logging.getLogger(__name__)


class Followed:
    def __init__(self, source: Source) -> None:
        self.source = source
        self._following = Supervised(
            Part.UPSTREAM, f"following {source.name}", lambda _beat: source.run()
        )
        self._task = self._following.start()

    def problem(self) -> str | None:
        return self._following.problem() or self.source.problem()

    async def has_some(self) -> None:
        """Wait until it has endpoints; OperatorError if it has none, or none in time."""
        await self.source.found.wait(FIRST_ANSWER_S)
        if not self.source.found.endpoints:
            raise OperatorError(f"upstream: {self.problem() or self.source.name}")

    async def close(self) -> None:
        self._task.cancel()
        await self.source.close()


class EndpointSource:
    """Finds the endpoints of a cluster; `on_endpoints` gets all of them after each change."""

    def __init__(
        self,
        settings: Settings,
        health: HealthChecks,
        on_endpoints: Callable[[tuple[EndpointAddress, ...]], None],
        behind: ServersBehind,
    ) -> None:
        self._settings = settings
        self._health = health
        self._on_endpoints = on_endpoints
        self._behind = behind
        self._resolver = Resolver()
        self._current: Followed | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """OperatorError if there is no way to the API that has the Service."""
        self._put(self._settings, self._followed(self._settings))

    async def wait(self) -> None:
        """Wait for the first endpoints within a limit: requests get 503 until there are some."""
        current = self._current
        if current is None:
            return
        found = current.source.found
        await found.wait(FIRST_ANSWER_S)
        if not found.endpoints:
            logger.warning(
                "requests get 503 until a server behind is known: %s",
                current.problem() or current.source.name,
            )

    def stop_waiting(self) -> None:
        if self._current is not None:
            self._current.source.found.stop_waiting()

    def leave(self, servers: Collection[str]) -> None:
        """Ask none of these servers behind, which do not work."""
        if self._current is not None:
            self._current.source.leave(servers)

    async def prepare(self, settings: Settings) -> Change:
        """Find the endpoints that other settings mean; OperatorError if there are none."""
        if parts_of(settings.upstream) == parts_of(self._settings.upstream):
            return NO_CHANGE
        followed = self._followed(settings)
        if followed is not None:
            try:
                await followed.has_some()
            except BaseException:
                await followed.close()
                raise
        return Change(lambda: self._put(settings, followed), lambda: self._retire(followed))

    def _followed(self, settings: Settings) -> Followed | None:
        source = source_of(settings.upstream, self._resolver, self._behind)
        return None if source is None else Followed(source)

    def _put(self, settings: Settings, followed: Followed | None) -> None:
        self._retire(self._current)
        self._settings, self._current = settings, followed
        self._health.discard(ENDPOINTS)
        if followed is not None:
            self._health.add(ENDPOINTS, pages=(READYZ,), is_blocking=False, look=followed.problem)
            followed.source.found.tell(self._on_endpoints)

    def _retire(self, followed: Followed | None) -> None:
        if followed is None:
            return
        followed.source.found.tell_nobody()
        task = spawn(followed.close(), name="closing a source of endpoints")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def close(self) -> None:
        current, self._current = self._current, None
        self._retire(current)
        await asyncio.gather(*self._retiring, return_exceptions=True)


def parts_of(upstream: UpstreamSettings) -> tuple[object, ...]:
    return upstream.dns, upstream.resolve_interval_s, upstream.service


def source_of(
    upstream: UpstreamSettings, resolver: Resolver, behind: ServersBehind
) -> Source | None:
    """The source that settings name, or OperatorError; None for none."""
    service = upstream.service
    if upstream.dns != UNSAID:
        return DnsEndpoints(upstream.dns, upstream.resolve_interval_s, resolver)
    if service.name is None:
        return None
    from apfproxy.sources.kubernetes_api import open_api  # noqa: PLC0415 - aiohttp
    from apfproxy.sources.service_endpoints import ServiceEndpoints  # noqa: PLC0415

    setting = "upstream.service.kubeconfig"
    api = open_api(service.kubeconfig, service.context, "where requests go", setting, behind)
    return ServiceEndpoints(api, service)
