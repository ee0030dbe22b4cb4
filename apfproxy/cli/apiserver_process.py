"""A whole API server in one event loop: all parts put together, without a command line."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver.app import EXTERNAL_ADDRESS, Api
from apfproxy.apiserver.controllers.control import CONTROLLERS, Controllers
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from apfproxy.apiserver.store.window import DEFAULT_CHANGES
from apfproxy.cli.process import ListenError
from apfproxy.observe.health import READYZ, HealthRegistry
from apfproxy.settings import Address

if TYPE_CHECKING:
    from apfproxy.apiserver.store.store import Backend

SHUTDOWN_S = 5.0
"""For answers that are under way once watches were told to end; then connections are cut."""
BACKLOG = 4096
"""Connections that may wait to be accepted: thousands of watchers come back at once."""

DEFAULT_LISTEN = Address(host="127.0.0.1", port=6443)
"""Kubernetes' port, for this machine only: there is no authentication."""

START = "start"
SHUTDOWN = "shutdown"
STORE = "store"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """What an API server can be told.

    Attributes:
        listen: Where clients connect.
        store: The SQLite file; None to keep everything in memory.
        watch_window: Changes of each resource that a watch can go back.
        controllers: Names of those that run.
        external_address: What `/api` tells clients to connect to.
        random_seed: Of uids, names, faults and latencies; None for others each time.
        log_level: What is logged.
    """

    listen: Address = DEFAULT_LISTEN
    store: str | None = None
    watch_window: int = DEFAULT_CHANGES
    controllers: frozenset[str] = field(default_factory=lambda: frozenset(CONTROLLERS))
    external_address: str = EXTERNAL_ADDRESS
    random_seed: int | None = None
    log_level: str = "info"


class ApiServerProcess:
    """The API server with its store and controllers.

    Make it in the loop that it is to run in; call `start`, and `drain` or `stop` at the end.

    Args:
        settings: All of them.
    """

    def __init__(self, settings: ApiServerSettings) -> None:
        self.settings = settings
        self.health = HealthRegistry()
        self.health.add(START, pages=(READYZ,), problem="not started yet")
        self.health.add(SHUTDOWN, pages=(READYZ,))
        self.store: Store | None = None
        self._controllers: Controllers | None = None
        self._runner: web.AppRunner | None = None

    def __repr__(self) -> str:
        return f"<ApiServerProcess {self.store!r}>"

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        assert self._runner is not None, "it listens"
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Open the store, listen, and let the objects be there that always are; all or nothing.

        Raises:
            StoreError: The store cannot be used.
            ListenError: The address cannot be listened on.
            StatusError: The store refuses the objects that always are.
        """
        settings = self.settings
        try:
            backend: Backend | None = None
            if settings.store is not None:
                backend = SqliteBackend(settings.store)
            self.store = Store(window=settings.watch_window, backend=backend)
            registry = Registry(KINDS, self.store, time.time, self._chance("objects"))
            await self._listen(Api(registry, self._chance("watches"), settings.external_address))
            self._controllers = Controllers(registry, settings.controllers)
            await self._controllers.start()
        except BaseException:
            await self.stop()
            raise
        self.health.report(START, None)

    def _chance(self, purpose: str) -> random.Random:
        """Random numbers for one purpose, so that more of one kind does not change another."""
        seed = self.settings.random_seed
        # Not for secrets: uids and names are told to everybody.
        return random.Random(None if seed is None else f"{seed} {purpose}")  # noqa: S311

    async def _listen(self, api: Api) -> None:
        listen = self.settings.listen
        app = web.Application()
        app.add_routes(api.routes())
        # Watches must notice that their clients are gone, which aiohttp tells only by cancelling.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_S,
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, listen.host, listen.port, backlog=BACKLOG).start()
        except OSError as error:
            raise ListenError(listen, "listen", error) from error

    async def stop(self) -> None:
        """Stop listening, end watches, finish writes; harmless if it never started."""
        self.health.report(SHUTDOWN, "the process is shutting down")
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
        if self._controllers is not None:
            await self._controllers.stop()
            self._controllers = None
        if self.store is not None:
            await self.store.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
