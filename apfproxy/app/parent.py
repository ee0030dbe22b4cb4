"""The parent of workers as a program: its workers, store, admin listener and settings."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import TYPE_CHECKING

from apfproxy.admin.access import ADMIN_ACCESS
from apfproxy.admin.gathering import gathered
from apfproxy.app.admin_listener import AdminListener
from apfproxy.app.parent_admin import WorkersStates
from apfproxy.app.reloading import SETTINGS, SettingsFile, reloading_tasks
from apfproxy.base import build
from apfproxy.base.errors import OperatorError
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.faults import Faults
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.base.listeners import Listeners
from apfproxy.base.service_manager import NO_SERVICE_MANAGER
from apfproxy.objects.field_errors import counted
from apfproxy.settings.change import nothing
from apfproxy.workers.parent import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apfproxy.admin.state import ProcessState
    from apfproxy.base.service_manager import ServiceManager
    from apfproxy.base.signals import Signals
    from apfproxy.settings import Settings
    from apfproxy.sources.stored_objects import SharedStore

SPARE_S = 40.0
"""For workers to end once their connections are cut; see `process.SPARE_STOP_S`."""

SHUTDOWN, WORKERS = "shutdown", "workers"
"""The health checks."""

log = logging.getLogger(__name__)


class Parent:
    """The parent of `count` workers.

    `file` is what the settings are read from again, None where they never change; `listeners` have
    what others have opened, `command` is of the workers if not that of this process.
    """

    ENDING = "draining"

    def __init__(
        self,
        settings: Settings,
        count: int,
        file: SettingsFile | None = None,
        *,
        listeners: Listeners | None = None,
        manager: ServiceManager = NO_SERVICE_MANAGER,
        command: Sequence[str] = (),
    ) -> None:
        self.manager = manager
        self.health = HealthRegistry()
        self.configuration_events = ConfigurationEvents()
        self.faults = Faults()
        self.faults.watch(asyncio.get_running_loop())
        self._file = file or SettingsFile(None, lambda: self.settings)
        self._listeners = listeners or Listeners()
        self.workers = workers = Workers(
            settings,
            count,
            self._listeners,
            lambda process: self.states.end(process.last),
            command=command,
        )
        self.admin = AdminListener(settings, self._listeners, time.monotonic_ns)
        self.access = self.admin.access
        self.states = WorkersStates(workers, self.health, self._gathered)
        self._started_s = time.time()
        self._store: SharedStore | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.health.add(SETTINGS, pages=(READYZ,), is_blocking=False)
        self.health.add(ADMIN_ACCESS, pages=(READYZ,), is_blocking=False, look=self.access.problem)
        self.health.add(WORKERS, pages=(READYZ,), look=workers.problem)
        self.health.add(SHUTDOWN, pages=(READYZ,))

    @property
    def settings(self) -> Settings:
        return self.workers.settings

    @property
    def port(self) -> int:
        return self.workers.sockets.port or 0

    async def start(self) -> None:
        """Listen, and start the workers; all or nothing, or OperatorError."""
        downstream, workers = self.settings.downstream, self.workers
        try:
            await workers.sockets.open(
                downstream.listen, downstream.socket_mode, len(workers.slots)
            )
            await self.admin.open(self.settings)
            await self._open_store()
            await workers.start()
            routes = () if self._store is None else self._store.api.routes()
            await self.admin.start(self.states, routes)
        except BaseException:
            await self.stop()
            raise
        self._listeners.serve()

    async def _open_store(self) -> None:
        """Open the store that settings name, with its objects in a file for the workers."""
        if self.settings.flow_control.store is None or self.settings.clusters:
            return
        from apfproxy.sources.stored_objects import SharedStore  # noqa: PLC0415 - the API server

        self._store = SharedStore(self.settings, self.health, self.admin.is_local)
        await self._store.start()
        self.workers.objects = self._store.path

    def hurry(self, cancel: Callable[[], object]) -> None:
        cancel()

    def is_busy(self) -> bool:
        return True

    def attend(self, signals: Signals) -> None:
        """SIGHUP reads settings again, SIGUSR1 opens logs again, SIGUSR2 replaces the workers."""
        log.info(
            "apfproxy %s listens on %s, with %s; the parent is process %d, admin on %s",
            build.version(),
            self.workers.sockets.written,
            counted(len(self.workers.slots), "worker"),
            os.getpid(),
            self.admin.written,
        )
        if text := self.admin.warning(self.settings):
            log.warning("%s", text)
        signals.on_rotation(self._rotate)
        signals.on_replacement(self.workers.replace)
        self.manager.begin(lambda: True)  # it looks after workers by itself
        self.workers.keep()
        self._tasks = reloading_tasks(signals.hangup, self, self._file)

    def _gathered(self) -> Iterator[ProcessState]:
        return gathered(started_s=self._started_s, health=self.health, admin=self.admin.state())

    async def renew(self, settings: Settings) -> None:
        """Take other settings once the workers have, and read their files again; OperatorError."""
        access = await self.access.prepare(settings)
        put_token = nothing if self._store is None else self._store.api.prepare_token(settings)
        if problems := await self.workers.renew(settings):
            access.discard()
            raise OperatorError("\n".join(problems))
        put_token()
        access.commit()

    async def read_again(self) -> None:
        """Read what gives access to the admin listener; the workers have read their files."""
        await self.access.read_again()

    def _rotate(self) -> None:
        if self.settings.access_log.path is None:
            log.warning("SIGUSR1 means nothing here, and is ignored: no access log is open")
            return
        self.workers.signal(signal.SIGUSR1)

    async def drain(self) -> None:
        """The workers accept connections for the shutdown delay; cancelled, stop at once."""
        drain = self.settings.drain
        within_s = drain.shutdown_delay_s + drain.timeout_s + SPARE_S
        self.health.report(SHUTDOWN, "the process is shutting down")
        self.manager.stopping(within_s)
        try:
            self._end_reloading()
            await self.workers.drain(within_s)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End at once; harmless if it never started."""
        self.manager.end()
        self._end_reloading()
        try:
            await self.workers.stop()
        finally:
            await self._close()

    def _end_reloading(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _close(self) -> None:
        await self.admin.close()
        if self._store is not None:
            await self._store.close()
            self._store = None
        self._listeners.give_up()

    def __repr__(self) -> str:
        return f"<Parent of {self.workers}>"
