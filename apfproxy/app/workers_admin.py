"""The one admin listener of several workers: it asks all of them, and answers as one proxy does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from apfproxy.admin.admin import API_INDEX
from apfproxy.admin.gathering import ProcessParts, admin_state
from apfproxy.admin.places import Places
from apfproxy.admin.responses import own_names_only, plain_errors
from apfproxy.admin.web import WebListener
from apfproxy.admin.worker_answers import ONE
from apfproxy.admin.worker_feeds import WorkerFeeds
from apfproxy.admin.worker_health_pages import worker_health_routes
from apfproxy.admin.worker_metrics_page import PATH as METRICS
from apfproxy.admin.worker_metrics_page import WorkerMetricsPage
from apfproxy.admin.worker_pages import WorkerPages
from apfproxy.app.last_counts import take_counts
from apfproxy.app.running import descriptor_limit
from apfproxy.app.worker_client import WorkerClient

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from apfproxy.admin.access import AdminAccess
    from apfproxy.admin.worker_answers import WorkerAdmin
    from apfproxy.base.health_checks import HealthRegistry

    WorkerAdmins = Callable[[], Sequence[WorkerAdmin]]

CONNECTIONS: Final = 64
"""As many as the listener of one process has."""
DESCRIPTORS_PART: Final = 8
"""Of the descriptors it takes no more than one part of so many, however few there are."""
SHUTDOWN_S: Final = 1.0
"""For an answer that is under way; the listener closes last, when there is nothing more to see."""


class WorkersAdmin:
    """The listener.

    Args:
        workers: Those that there are now.
        own_health: The checks of the process that they belong to.
        access: Who may read.
        api_routes: Of the objects that it keeps for all of them.
        has_several: Whether the settings have several clusters.
        restarts: How many workers were started again since they had ended by themselves.
        are_all: Whether nobody but the workers has a part of the limit that they share.
    """

    def __init__(
        self,
        workers: WorkerAdmins,
        own_health: HealthRegistry,
        access: AdminAccess,
        api_routes: Sequence[web.RouteDef] = (),
        *,
        has_several: Callable[[], bool] = lambda: False,
        restarts: Callable[[], int] = lambda: 0,
        are_all: bool = True,
    ) -> None:
        started_s = time.time()
        self._client = client = WorkerClient(workers)
        limit = min(CONNECTIONS, descriptor_limit() // DESCRIPTORS_PART)
        self._places = places = Places("admin", limit, time.monotonic_ns)
        self._metrics = metrics = WorkerMetricsPage(
            client.ask_all,
            workers,
            restarts,
            lambda: ProcessParts(
                started_s=started_s, health=own_health, admin=admin_state(places, access.refused)
            ),
        )
        feeds = WorkerFeeds(workers, client.events, own_health)
        pages = WorkerPages(
            client.ask_all,
            own_health,
            has_several,
            API_INDEX if api_routes else {},
            are_all=are_all,
        )
        app = web.Application(middlewares=[plain_errors, own_names_only])
        app.add_routes(worker_health_routes(own_health, client.ask_all, pages.any))

        async def show_metrics(request: web.Request) -> web.StreamResponse:
            return await (pages.any(request) if ONE in request.query else metrics.show(request))

        app.add_routes([web.get(METRICS, show_metrics), *feeds.routes(), *api_routes])
        app.add_routes(pages.routes())
        app.on_shutdown.append(feeds.close)
        self._listener = WebListener(app, places, access, shutdown_s=SHUTDOWN_S)

    def __repr__(self) -> str:
        return f"<WorkersAdmin: {self._places}>"

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return self._listener.port

    async def start(self, listeners: Sequence[socket.socket]) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        await self._listener.start(listeners)

    def bury(self, index: int, pid: int, path: str) -> None:
        """Keep what a process has counted that has ended; `path` is where it left that."""
        self._metrics.bury((index, pid), take_counts(path))

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        self._listener.stop_accepting()

    async def close(self) -> None:
        """Let answers that are under way have their time, then cut all connections."""
        await self._listener.close()
        await self._client.close()
