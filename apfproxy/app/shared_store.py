"""A store of objects that one process has for several: its API, and a file that they read.

The workers take the file for their objects, as it is written: what of the store is valid, or as it
last was valid.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.app.flow_control_api import FlowControlApi
from apfproxy.base.clock import LoopClock
from apfproxy.base.errors import OperatorError
from apfproxy.base.events import shortfall
from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised
from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.sources.in_force import load_when_woken
from apfproxy.sources.objects_file import write_objects
from apfproxy.sources.stored_objects import StoredObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.settings import Settings

STORE, OBJECTS, CONFIGURATION = "store", "objects", "configuration"
"""The health checks."""

log = logging.getLogger(__name__)


class SharedStore:
    """The store of settings that name one.

    Args:
        settings: Of the whole.
        path: Of the file.
        health: Of the process.
        is_local: Whether only this machine reaches the listener of the API.

    Raises:
        OperatorError: The store cannot be used.
    """

    def __init__(
        self, settings: Settings, path: str, health: HealthChecks, is_local: Callable[[], bool]
    ) -> None:
        store = settings.flow_control.store
        assert store is not None, "the caller has seen that there is one"
        self.path = path
        self._health = health
        add = partial(health.add, pages=(READYZ,), is_blocking=False)
        for name in (STORE, OBJECTS, CONFIGURATION):
            add(name)
        self._token_file = settings.admin_token_file
        self._api = FlowControlApi(
            store, settings, is_local=is_local, on_problem=partial(health.report, STORE)
        )
        # Nothing asks it for seats: it says what objects are good for.
        controller = Controller(
            LoopClock(asyncio.get_running_loop()),
            settings.flow_control.server_concurrency_limit,
            0,
        )
        self._changed = asyncio.Event()
        self._objects = StoredObjects(self._api.store, store, controller, on_load=self._on_load)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Write the file, from now on with each change; OperatorError if that cannot be."""
        await self._api.start()
        self._objects.load_first()
        try:
            self.write()
        except OSError as error:
            raise OperatorError(f"cannot write {self.path}: {error.strerror or error}") from error
        self._changed.clear()
        writing = partial(load_when_woken, self._changed, self._write, self.path, asyncio.sleep)
        self._tasks = [
            Supervised(
                Part.OBJECTS, "watching the objects", lambda _beat: self._objects.watch()
            ).start(),
            Supervised(Part.OBJECTS, "writing the objects", lambda _beat: writing()).start(),
        ]

    def write(self) -> None:
        """Write the file as of now; OSError if that cannot be."""
        write_objects(self.path, self._objects.valid)

    def keep(self) -> None:
        """Have the file written again if somebody has deleted it."""
        if not self._changed.is_set() and not Path(self.path).exists():
            log.error("%s was deleted; it is written again", self.path)
            self._changed.set()

    def routes(self) -> Sequence[web.RouteDef]:
        """Those of the API."""
        return self._api.routes()

    def prepare_token(self, settings: Settings) -> Callable[[], None]:
        """What puts another token of writers in force; OperatorError if there is none."""
        if settings.admin_token_file == self._token_file:
            return lambda: None
        ask = self._api.prepare_token(settings.admin_token_file)

        def put() -> None:
            self._token_file = settings.admin_token_file
            ask()

        return put

    async def close(self) -> None:
        """End watches, finish writes; harmless once done."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._api.stop()

    def _on_load(self, problems: tuple[Problem, ...], dangling: tuple[str, ...]) -> None:
        texts = list(parts_of(problems))
        self._health.report(CONFIGURATION, shortfall(texts, dangling, is_whole=False) or None)
        self._changed.set()

    async def _write(self) -> None:
        try:
            await asyncio.to_thread(self.write)
        except OSError as error:
            self._health.report(
                OBJECTS, f"workers go on with former objects: {self.path}: {error.strerror}"
            )
            raise
        self._health.report(OBJECTS, None)

    def __repr__(self) -> str:
        return f"<SharedStore {self.path}>"
