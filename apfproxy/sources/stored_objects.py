"""A store of objects: its API on the admin listener, and its objects as a configuration.

Changes come as events, and many at once are taken together.  One process may have the store for
several: then it writes the valid objects to a file, which the others read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.app import Api
from apfproxy.apiserver.controllers.control import OWN, Controllers
from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.gate import Gate, WriteGuard
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.outcomes import decoded
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.store.entries import StoreError, TooOldError
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from apfproxy.base.clock import LoopClock
from apfproxy.base.errors import OperatorError
from apfproxy.base.events import shortfall
from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.objects.types import GROUP, FlowControlObject, kind_of
from apfproxy.settings.change import nothing
from apfproxy.sources.in_force import InForce, load_when_woken
from apfproxy.sources.token_file import usable_token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from aiohttp import web

    from apfproxy.apiserver.kind import Kind
    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.settings import Settings
    from apfproxy.sources.in_force import LoadObserver, State

WORKERS_FILE = "-workers.json"  # follows the name of the store: its valid objects, for workers
STORE, OBJECTS, CONFIGURATION = "store", "objects", "configuration"  # health checks
BATCH = 1000  # changes that are read at a time; their contents do not matter here
MODE = 0o600

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def starting(refused: str) -> Iterator[None]:
    """Turn errors of a store at the start into `OperatorError`; `refused` objects are named so."""
    try:
        yield
    except StoreError as error:
        raise OperatorError(str(error)) from error
    except StatusError as error:
        raise OperatorError(f"{refused}: {error.message}") from error


class FlowControlApi:
    """A store of FlowSchemas and PriorityLevelConfigurations, and the API over it.

    `is_local` says whether only this machine can reach the listener.  `on_problem` is called with
    the reason when the disk refuses to write, and with None when it writes again.  OperatorError if
    the store's file cannot be used, or there is no token.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        is_local: Callable[[], bool],
        on_problem: Callable[[str | None], None],
    ) -> None:
        self._token_file = settings.admin_token_file
        token = usable_token(self._token_file)
        counters = ApiServerCounters()
        with starting("the store cannot be read"):
            self.store = Store(
                backend=SqliteBackend(path), counters=counters, on_problem=on_problem
            )
        # Not for secrets: uids and names are told to everybody.
        chance = random.Random()  # noqa: S311
        registry = Registry(FLOW_CONTROL_KINDS, self.store, time.time, chance)
        has_suggested = settings.flow_control.suggested_objects
        suggested_file = PRESETS[settings.preset].file if has_suggested else None
        self._controllers = Controllers(registry, OWN, suggested_file)
        assert settings.admin is not None, "the settings were checked"
        self._api = Api(registry, chance, settings.admin.from_here.authority)
        self._guard = WriteGuard(self._api.handle, is_local, token)
        self._gate = Gate(self._guard.handle, FLOW_CONTROL_KINDS, counters)

    def prepare_token(self, settings: Settings) -> Callable[[], None]:
        """Prepare for another file with the token of writers; OperatorError if there is none."""
        path = settings.admin_token_file
        if path == self._token_file:
            return nothing
        token = usable_token(path)

        def put() -> None:
            self._token_file = path
            self._guard.token = token

        return put

    def routes(self) -> list[web.RouteDef]:
        return self._api.routes(self._gate.handle)

    async def start(self) -> None:
        """Store the built-in objects, and keep them there; OperatorError if they are refused."""
        with starting("the built-in objects cannot be stored"):
            await self._controllers.start()

    async def stop(self) -> None:
        """End watches, finish writes, close the file; harmless once done."""
        await self._controllers.stop()
        await self.store.close()


class StoredObjects:
    stale_after_s: float | None = None  # it is told of changes

    def __init__(
        self,
        store: Store,
        name: str,
        controller: Controller,
        *,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        kinds = {kind.name: kind for kind in FLOW_CONTROL_KINDS}
        self.in_force = InForce(
            name, controller, on_load, content=lambda kind, entry: decoded(kinds[kind], entry)
        )
        self._sleep = sleep
        self._wake = asyncio.Event()

    def load_first(self) -> None:
        """Put the store's objects in force; OperatorError if there are problems."""
        self.in_force.put_first(self.in_force.prepare(self.in_force.read(self._states())))

    async def reload(self) -> None:
        await self.in_force.load(self._states())

    def _states(self) -> list[State]:
        return [
            (kind.name, entry.name, entry)
            for kind in FLOW_CONTROL_KINDS
            for entry in self._store.collection(kind.resource).snapshot()
        ]

    async def watch(self, _beat: Callable[[], None]) -> None:
        """Load after each change, until the store is closed or this is cancelled."""
        async with asyncio.TaskGroup() as group:
            loading = load_when_woken(self._wake, self.reload, self.in_force.name, self._sleep)
            follower = group.create_task(loading)
            async with asyncio.TaskGroup() as watchers:
                for kind in FLOW_CONTROL_KINDS:
                    watchers.create_task(self._wake_on_changes(kind))
            follower.cancel()

    async def _wake_on_changes(self, kind: Kind) -> None:
        collection = self._store.collection(kind.resource)
        while True:
            # Changes before this watch began are loaded now.
            watcher = collection.watch(self._store.resource_version)
            self._wake.set()
            try:
                while await watcher.wait():
                    watcher.read(BATCH)
                    self._wake.set()
            except TooOldError:
                logger.debug("%s changes faster than it is read", kind.resource)
            else:
                return
            finally:
                watcher.close()


class SharedStore:
    """The store of settings that name one, and the file beside it that other processes read.

    `is_local` says whether only this machine reaches the listener of the API.  OperatorError if the
    store cannot be used.
    """

    def __init__(
        self, settings: Settings, health: HealthChecks, is_local: Callable[[], bool]
    ) -> None:
        store = settings.flow_control.store
        assert store is not None, "the caller has seen that there is one"
        self.path = f"{Path(store).absolute()}{WORKERS_FILE}"
        self._health = health
        for name in (STORE, OBJECTS, CONFIGURATION):
            health.add(name, pages=(READYZ,), is_blocking=False)
        self.api = FlowControlApi(
            store, settings, is_local=is_local, on_problem=partial(health.report, STORE)
        )
        # Nothing asks it for seats: it says what objects are good for.
        clock = LoopClock(asyncio.get_running_loop())
        controller = Controller(clock, settings.flow_control.seats(1), 0)
        self._changed = asyncio.Event()
        self._objects = StoredObjects(self.api.store, store, controller, on_load=self._on_load)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Write the file, from now on with each change; OperatorError if that cannot be."""
        await self.api.start()
        self._objects.load_first()
        try:
            self.write()
        except OSError as error:
            raise OperatorError(f"cannot write {self.path}: {error.strerror or error}") from error
        self._changed.clear()
        writing = partial(load_when_woken, self._changed, self._write, self.path, asyncio.sleep)
        for what, work in (("watching", self._objects.watch), ("writing", lambda _beat: writing())):
            task = Supervised(Part.OBJECTS, f"{what} the objects", work)
            self._tasks.append(task.start())

    def write(self) -> None:
        """Write the file as of now, or raise OSError."""
        write_objects(self.path, self._objects.in_force.valid.values())

    async def close(self) -> None:
        """End watches, finish writes, remove the file; harmless once done."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.api.stop()
        Path(self.path).unlink(missing_ok=True)  # noqa: ASYNC240 - one system call

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


def write_objects(path: str, objects: Iterable[FlowControlObject]) -> None:
    """Replace a file by one with objects, each with its uid, in one step; OSError if that fails."""
    items = [
        {"apiVersion": f"{GROUP}/v1", "kind": kind_of(each), **msgspec.to_builtins(each)}
        for each in objects
    ]
    data = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    new = f"{path}.new"
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(data)
        Path(new).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(new).unlink()
        raise
