"""Two workers with pages of their own on Unix sockets, and one listener that asks both."""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.admin import build_admin_app
from apfproxy.admin.explain_page import explain_route
from apfproxy.admin.live_state import LiveInputs
from apfproxy.admin.responses import own_names_only, plain_errors
from apfproxy.admin.top_flows import TopFlows
from apfproxy.admin.worker_answers import WorkerAdmin
from apfproxy.admin.worker_feeds import WorkerFeeds
from apfproxy.admin.worker_health_pages import worker_health_routes
from apfproxy.admin.worker_metrics_page import WorkerMetricsPage
from apfproxy.admin.worker_pages import WorkerPages
from apfproxy.app.worker_client import WorkerClient
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import WALL_OFFSET_NS, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]

QUEUING = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=10)
OBJECTS = (
    priority_level("wide", queuing=QUEUING),
    flow_schema("all", "wide", group_subject("everyone")),
)
SEATS = 4
"""Of each worker."""
WIDE = 3
"""Of them, those that its level has."""


class Worker:
    """A worker.

    Attributes:
        scene: Its flow control.
        health: Its checks.
        flows: What its flows used.
    """

    def __init__(self) -> None:
        self.scene = Scene(OBJECTS, SEATS)
        self.health = HealthRegistry()
        self.health.add("upstream", pages=(READYZ,), is_blocking=False)
        self.health.add("shutdown", pages=(READYZ,))
        clock = self.scene.clock
        self.flows = TopFlows(10, clock)

    def app(self) -> web.Application:
        """Its pages."""
        scene = self.scene
        return build_admin_app(
            scene.controller,
            scene.scrape,
            self.health,
            lambda: WALL_OFFSET_NS,
            live_inputs=LiveInputs(health=self.health),
            top_flows=lambda: self.flows,
            explain_page=explain_route(
                scene.controller, LearnedCosts(lambda: 0), lambda _method, _target: None
            ),
            endpoints=tuple,
        )


class Machine:
    """Two workers and the listener for both; make one with `machine`.

    Attributes:
        workers: In their order.
        admins: What the listener is told of them; a test may change it.
        health: The checks of the process that they belong to.
        client: Asks the listener.
    """

    def __init__(self, directory: str) -> None:
        self.workers = [Worker(), Worker()]
        self.admins = [
            WorkerAdmin(index, f"{directory}/{index}", "serving", 100 + index) for index in (1, 2)
        ]
        self.health = HealthRegistry()
        self.asking = WorkerClient(lambda: self.admins)
        self.restarts = 0
        self.has_several = False

    def app(self) -> web.Application:
        """The pages of the listener."""
        asking = self.asking
        metrics = WorkerMetricsPage(asking.ask_all, lambda: self.admins, lambda: self.restarts)
        feeds = WorkerFeeds(lambda: self.admins, asking.events, self.health)
        pages = WorkerPages(
            asking.ask_all, self.health, lambda: self.has_several, {"/apis": "the objects"}
        )
        app = web.Application(middlewares=[plain_errors, own_names_only])
        app.add_routes(worker_health_routes(self.health, asking.ask_all, pages.any))
        app.add_routes([web.get("/metrics", metrics.show), *feeds.routes(), *pages.routes()])
        app.on_shutdown.append(feeds.close)
        return app

    def add_silent(self) -> None:
        """Add a worker that does not answer."""
        self.admins.append(WorkerAdmin(3, "/nowhere/3", "serving", 103))


@contextlib.asynccontextmanager
async def served(app: web.Application, path: str) -> AsyncIterator[None]:
    """Serve an application on a Unix socket."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.UnixSite(runner, path).start()
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def machine() -> AsyncIterator[tuple[Machine, Client]]:
    """Two workers, and a client of the listener for both."""
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="apf"))
        found = Machine(directory)
        for worker, admin in zip(found.workers, found.admins, strict=True):
            await stack.enter_async_context(served(worker.app(), admin.path))
        stack.push_async_callback(found.asking.close)
        client = await stack.enter_async_context(TestClient(TestServer(found.app())))
        yield found, client


async def json_of(client: Client, path: str) -> Any:  # noqa: ANN401 - JSON
    """A page as JSON."""
    async with client.get(path, headers={"Accept": "application/json"}) as response:
        assert response.status == 200, await response.text()
        return await response.json(content_type=None)
