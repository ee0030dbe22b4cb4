"""The admin listener of a proxy: health and metrics, and the other pages when one is wanted."""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.admin.live_history import SAMPLE_S, LiveHistory
from apfproxy.app.listening import Listener
from apfproxy.app.probes import Probes
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from apfproxy.admin.metrics import MetricsPage
    from apfproxy.app.admin_access import AdminAccess
    from apfproxy.app.clusters import Clusters
    from apfproxy.app.observation import Observation
    from apfproxy.app.places import Places
    from apfproxy.app.web_runner import WebRunner
    from apfproxy.base.clock import Clock
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.faults import Faults
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.sockets import DescriptorWatch
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What the pages show; `settings` gives those in force.

    `started_s` is when the process began, in seconds since 1970.
    """

    settings: Callable[[], Settings]
    access: AdminAccess
    clock: Clock
    clusters: Clusters
    counters: ListenerCounters
    observation: Observation
    health: HealthRegistry
    faults: Faults
    descriptors: DescriptorWatch
    events: ConfigurationEvents
    api_routes: tuple[web.RouteDef, ...]
    started_s: float


class AdminListener:
    """The listener; see `probes` for what is answered without aiohttp."""

    def __init__(self, parts: AdminParts, places: Places) -> None:
        self._parts = parts
        self._places = places
        only = parts.clusters.only
        self._history = (
            None
            if only is None  # 100 clusters would have 70 MB of histories, which nobody looks at
            else LiveHistory(only.controller, time.monotonic_ns(), only.counters)
        )
        loop = asyncio.get_running_loop()
        self._sampling = Recurring(Part.LIVE_PAGE, loop, SAMPLE_S, math.inf, self._sample)
        access = parts.access
        probes = Probes(places, parts.health, self._metrics_page, self._start_others, access)
        self._listener = Listener(probes.connection, places, lambda: access.context)
        self._metrics: MetricsPage | None = None
        self._runner: WebRunner | None = None

    @property
    def sockets(self) -> list[socket.socket]:
        """Those that are listened on."""
        return self._listener.sockets

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return self._listener.port

    async def start(self, listeners: Sequence[socket.socket]) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        await self._listener.start(listeners)
        if self._history is not None:
            self._sampling.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        self._listener.stop_accepting()

    async def leave_counts(self, path: str) -> None:
        """Leave in a file what was counted, for who reads it at the end of the process."""
        page = await self._metrics_page()
        from apfproxy.app.last_counts import leave_counts  # noqa: PLC0415 - with the metrics

        try:
            leave_counts(path, page)
        except OSError as error:
            log.warning(
                "what was counted since the last scrape is lost: %s", error.strerror or error
            )

    async def close(self) -> None:
        """Let answers that are under way have their time, then cut all connections."""
        self._listener.stop_accepting()
        self._sampling.stop()
        if self._runner is not None:
            await self._runner.close()
        self._listener.close()

    async def _metrics_page(self) -> MetricsPage:
        """Import the metrics, in a thread, and make their page at the first scrape."""
        if self._metrics is None:
            module = await asyncio.to_thread(importlib.import_module, "apfproxy.app.metrics_page")
            self._metrics = module.metrics_page(self._parts, self._places)
        return self._metrics

    async def _start_others(self) -> Callable[[], asyncio.Protocol]:
        """Import aiohttp and all pages, in a thread, and serve them."""
        module = await asyncio.to_thread(importlib.import_module, "apfproxy.app.admin_app")
        metrics = await self._metrics_page()
        runner: WebRunner = module.admin_runner(self._parts, metrics, self._history, self._places)
        self._sampling.stop()  # the live page goes on with it
        await runner.start()
        self._runner = runner
        return runner.protocol

    def _sample(self) -> None:
        assert self._history is not None
        self._history.sample(time.monotonic_ns(), time.time())
