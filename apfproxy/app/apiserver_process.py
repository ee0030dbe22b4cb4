"""A whole API server in one event loop: all parts put together, without a command line."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy import __version__
from apfproxy.admin.apiserver_metrics import ResourceState, StoreState, apiserver_page
from apfproxy.admin.metrics import CONTENT_TYPE
from apfproxy.admin.places import Places
from apfproxy.admin.responses import sliced_response
from apfproxy.admin.web import WebListener, health_routes
from apfproxy.apiserver.app import Api, no_such_path
from apfproxy.apiserver.controllers.control import CONTROLLERS, Controllers
from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.discovery import Discovery
from apfproxy.apiserver.gate import Gate, Load, LoadSettings, WriteGuard
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.responses import JSON, UNCACHED
from apfproxy.apiserver.seeds import SeedCounts, Seeder
from apfproxy.apiserver.store.entries import DEFAULT_CHANGES, FIRST_RESOURCE_VERSION
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from apfproxy.app.running import descriptor_limit
from apfproxy.base.address import is_local
from apfproxy.base.errors import ListenError
from apfproxy.base.faults import Faults
from apfproxy.base.health_checks import HEALTHZ, READYZ, HealthRegistry
from apfproxy.base.sockets import SocketFiles, listening_sockets, port_of
from apfproxy.settings import TEXT
from apfproxy.sources.stored_objects import starting

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

    from apfproxy.base.signals import Signals
    from apfproxy.settings import Address

PROGRESS_S = 2.0  # between two lines about seeding
REQUESTS_S = 10.0  # for requests that are under way when the server is to stop
SHUTDOWN_S = 5.0
"""For responses that are under way once watches were told to end; then connections are cut."""
MAX_CONNECTIONS = 16384
"""Far more than the watches of a load test; fewer if the process may not open as many files."""
MAX_FIELDS = 512
"""Header fields, 8 MiB at most: impersonation names each group in a field of its own."""
SPARE_DESCRIPTORS = 64
"""For the store's files, and for connections that are accepted only to be refused."""
BACKLOG = 4096  # connections that may wait to be accepted: thousands of watchers come back at once

OWN_PATHS = ("/healthz", "/livez", "/metrics", "/readyz")  # beside those of the API, for `/`

START, SHUTDOWN, STORE, CONTROLLERS_CHECK = "start", "shutdown", "store", "controllers"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """The flags of `apfproxy apiserver` explain each of them."""

    listen: Address
    store: str | None = None
    watch_window: int = DEFAULT_CHANGES
    controllers: frozenset[str] = field(default_factory=lambda: frozenset(CONTROLLERS))
    external_address: str | None = None
    load: LoadSettings = field(default_factory=LoadSettings)
    seeds: SeedCounts = field(default_factory=SeedCounts)
    random_seed: int | None = None
    log_level: str = "info"
    log_format: str = TEXT


class ApiServerProcess:
    """The API server with its store and controllers, in the loop that it was made in."""

    ENDING = "stopping"

    def __init__(self, settings: ApiServerSettings) -> None:
        self.settings = settings
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:  # else a proxy beside it has one
            Faults().watch(loop)
        self.health = HealthRegistry()
        self.health.add(START, pages=(READYZ,), problem="not started yet")
        self.health.add(SHUTDOWN, pages=(READYZ,))
        self.counters = ApiServerCounters()
        self.store: Store | None = None
        self.seeded = 0
        self._progress_due_s = time.monotonic() + PROGRESS_S
        self._controllers: Controllers | None = None
        self._gate: Gate | None = None
        self._listener: WebListener | None = None
        self._socket_files = SocketFiles(())

    @property
    def port(self) -> int:
        assert self._listener is not None, "it listens"
        return self._listener.port or 0

    async def start(self) -> None:
        """Open the store, listen, make what is always there; all or nothing, or OperatorError."""
        settings = self.settings
        try:
            with starting("the first objects cannot be made"):
                self.store = self._open_store()
                # Another run with what is stored is not to give the same uids to other objects.
                stored = self.store.resource_version
                purpose = "objects" if stored == FIRST_RESOURCE_VERSION else f"objects {stored}"
                registry = Registry(KINDS, self.store, time.time, self._chance(purpose))
                await self._listen(registry)
                self._controllers = Controllers(registry, settings.controllers)
                problem = self._controllers.problem
                self.health.add(CONTROLLERS_CHECK, pages=(READYZ,), is_blocking=False, look=problem)
                await self._controllers.start()
                seeder = Seeder(registry, self._chance("seeds"))
                self.seeded = await seeder.seed(settings.seeds, self._log_progress)
        except BaseException:
            await self.stop()
            raise
        self.health.report(START, None)

    def _log_progress(self, done: int) -> None:
        now_s = time.monotonic()
        if now_s >= self._progress_due_s:
            self._progress_due_s = now_s + PROGRESS_S
            logger.info("seeding: %d objects are there", done)

    def _open_store(self) -> Store:
        settings = self.settings
        if settings.store is None:
            return Store(window=settings.watch_window)
        # Reads go on from memory, and only the next write can tell that all is well again.
        self.health.add(STORE, pages=(READYZ, HEALTHZ), is_blocking=False)
        return Store(
            window=settings.watch_window,
            backend=SqliteBackend(settings.store),
            counters=self.counters,
            on_problem=functools.partial(self.health.report, STORE),
        )

    def _chance(self, purpose: str) -> random.Random:
        """Random numbers for one purpose, so that more of one kind does not change another."""
        seed = self.settings.random_seed
        # Not for secrets: uids and names are told to everybody.
        return random.Random(None if seed is None else f"{seed} {purpose}")  # noqa: S311

    async def _listen(self, registry: Registry) -> None:
        settings, listen = self.settings, self.settings.listen
        try:
            listeners = await listening_sockets(listen, BACKLOG)
        except OSError as error:
            raise ListenError(listen, "listen", error) from error
        self._socket_files = SocketFiles(listeners)
        here = dataclasses.replace(listen, port=port_of(listeners) or 0).from_here.authority
        api = Api(registry, self._chance("watches"), settings.external_address or here)
        load = None
        if settings.load != LoadSettings():
            load = Load(settings.load, self._chance("latencies"), self._chance("faults"))
        # No one needs to say who he is, but a web page is no one's client.
        guard = WriteGuard(api.handle, lambda: True, checks_host=False)
        self._gate = Gate(guard.handle, KINDS, self.counters, load)
        started_s = time.time()

        async def metrics(request: web.Request) -> web.StreamResponse:
            page = apiserver_page(self.counters, self._store_state(), started_s)
            return await sliced_response(request, page, CONTENT_TYPE)

        paths = sorted([*Discovery(KINDS).root_paths(), *OWN_PATHS])
        app = web.Application(middlewares=[as_kubernetes])
        app.add_routes(api.routes(self._gate.handle))
        app.add_routes([web.get("/metrics", metrics), *health_routes(lambda *_: self.health)])
        app.router.add_route("*", "/", functools.partial(_index, paths))
        app.router.add_route("*", "/{path:.*}", _not_found)
        limit = min(MAX_CONNECTIONS, descriptor_limit() - SPARE_DESCRIPTORS)
        places = Places("API", limit, time.monotonic_ns)
        self._listener = WebListener(app, places, shutdown_s=SHUTDOWN_S, max_fields=MAX_FIELDS)
        await self._listener.start(listeners, backlog=BACKLOG)

    def hurry(self, cancel: Callable[[], object]) -> None:
        cancel()

    def is_busy(self) -> bool:
        return True  # maybe: it does not count its requests

    def attend(self, _signals: Signals) -> None:
        settings, listen = self.settings, self.settings.listen
        if self.seeded:
            logger.info("%d objects were seeded", self.seeded)
        logger.info(
            "apfproxy %s serves the API on %s; objects are in %s; controllers: %s",
            __version__,
            dataclasses.replace(listen, host=listen.host or "*", port=self.port).url,
            "memory only and end with the process" if settings.store is None else settings.store,
            ", ".join(sorted(settings.controllers)) or "none",
        )
        if not (listen.path or is_local(listen.host)):
            logger.warning("all who reach %s may do everything: there is no authentication", listen)

    async def drain(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop listening, end watches, finish writes; harmless if it never started."""
        self.health.report(SHUTDOWN, "the process is shutting down")
        if self._listener is not None:
            self._listener.stop_accepting()
            self._socket_files.remove()
        if self._gate is not None:
            await self._gate.drain(REQUESTS_S)
            self._gate = None
        if self._controllers is not None:
            await self._controllers.stop()
            self._controllers = None
        if self.store is not None:
            await self.store.close()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    def _store_state(self) -> StoreState:
        store = self.store
        assert store is not None, "scrapes come after the start"
        kinds = [(kind, store.collection(kind.collection)) for kind in KINDS if kind.has_collection]
        resources = [
            ResourceState(kind.group, kind.plural, found.count(), found.watchers)
            for kind, found in kinds
        ]
        return StoreState(resources, store.pending, store.resource_version)


async def _index(paths: list[str], _request: web.Request) -> web.Response:
    body = json.dumps({"paths": paths}, indent=2).encode()
    return web.Response(body=body, content_type=JSON)


async def _not_found(_request: web.Request) -> web.Response:
    return no_such_path()


@web.middleware
async def as_kubernetes(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep every response out of caches that does not say else, and find checks of nothing."""
    try:
        response = await handler(request)
    except web.HTTPNotFound:
        response = no_such_path()
    if not response.prepared:
        response.headers.setdefault("Cache-Control", UNCACHED)
    return response
