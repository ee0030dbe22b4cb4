"""The parent of workers: a small process that serves no request, and looks after those that do.

It opens the listening sockets, and keeps them; starts the workers, and others in place of those
that end; has the record by which they share the seats; and passes on what signals tell it.

A worker is the command of the parent once more, which learns its place from a variable
(`worker_place`) and takes the sockets that it is given (`given_sockets`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import shlex
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.admin.access import ADMIN_ACCESS, AdminAccess
from apfproxy.app.given_sockets import GivenSockets
from apfproxy.app.own_addresses import OwnAddresses
from apfproxy.app.parent_admin import ParentAdmin
from apfproxy.app.reloading import SETTINGS, SettingsFile, reload_when
from apfproxy.app.runtime_directory import SOCKET, RuntimeDirectory
from apfproxy.app.service import Service
from apfproxy.app.service_manager import NO_SERVICE_MANAGER
from apfproxy.app.worker_place import WorkerPlace
from apfproxy.app.worker_process import (
    WorkerProcess,
    WorkerState,
    command_of_workers,
    ended,
    killed,
)
from apfproxy.app.worker_slot import WorkerSlot
from apfproxy.app.worker_sockets import WorkerSockets
from apfproxy.base import build
from apfproxy.base.errors import OperatorError
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.faults import Faults, Part
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.fleet.ledger_server import LedgerServer
from apfproxy.settings.contradictions import access_warning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.app.service_manager import ServiceManager
    from apfproxy.base.signals import Signals
    from apfproxy.settings import Settings
    from apfproxy.sources.stored_objects import SharedStore

BACKLOG = 4096
"""Connections that the kernel holds for each worker; as of a single process."""
SPARE_S = 40.0
"""For workers to end once their connections are cut; see `process.SPARE_STOP_S`."""
CUT_WITHIN_S = 10.0
"""For workers that are to end at once, before they are killed."""
READ_WITHIN_S = 30.0
"""For workers to read their settings again, before the service manager is told that they have."""
DIRECTORY_PERIOD_S = 1.0
"""Between two looks whether the directory of the workers' sockets is there."""
REPLACE_PERIOD_S = 10.0
"""Between two tries to replace workers whose sockets are not there."""

SHUTDOWN, WORKERS = "shutdown", "workers"
"""The health checks."""

log = logging.getLogger(__name__)


class Parent:
    """The parent, as a program that serves.

    Args:
        settings: Of the whole, with more than one worker.
        count: How many.
        file: What the settings are read from again; None where they never change.
        given: Listening sockets that somebody else has opened.
        manager: Whoever is to know how the workers are.
        command: Of the workers, if it is not that of this process.
    """

    ENDING = "draining"

    def __init__(
        self,
        settings: Settings,
        count: int,
        file: SettingsFile | None = None,
        *,
        given: GivenSockets | None = None,
        manager: ServiceManager = NO_SERVICE_MANAGER,
        command: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.service = Service(manager)
        self.health = HealthRegistry()
        self.configuration_events = ConfigurationEvents()
        self.faults = Faults()
        self.faults.watch(asyncio.get_running_loop())
        self.ledger = LedgerServer()
        self.sockets = WorkerSockets()
        self.slots = [
            WorkerSlot(index, self._starter(index), self._on_change, self._on_lost)
            for index in range(1, count + 1)
        ]
        self._file = file or SettingsFile(None, lambda: self.settings)
        self._given = given or GivenSockets()
        self._addresses = OwnAddresses(self._given)
        self.access = AdminAccess(settings)
        self.admin = ParentAdmin(
            self._addresses,
            lambda: self.slots,
            lambda: sum(slot.restarts for slot in self.slots),
            self.health,
            self.access,
        )
        self._command = list(command) or command_of_workers()
        seed = settings.flow_control.hash_seed
        self._hash_seed = secrets.randbits(32) if seed is None else seed
        self._directory: RuntimeDirectory | None = None
        self._store: SharedStore | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._rolling: asyncio.Task[None] | None = None
        self._replaced_s = -math.inf  # when workers without sockets were, or were to be
        self.health.add(SETTINGS, pages=(READYZ,), is_blocking=False)
        self.health.add(ADMIN_ACCESS, pages=(READYZ,), is_blocking=False, look=self.access.problem)
        self.health.add(WORKERS, pages=(READYZ,), look=self._problem_of_workers)
        self.health.add(SHUTDOWN, pages=(READYZ,))

    @property
    def processes(self) -> list[WorkerProcess]:
        """All workers' processes that have not ended."""
        return [each for slot in self.slots for each in slot.processes]

    @property
    def port(self) -> int:
        """The port that clients connect to; 0 if there is none."""
        return self.sockets.port or 0

    async def start(self) -> None:
        """Listen, and start the workers; all or nothing.

        The first one goes ahead: what is wrong is said once, and not by each of them.

        OperatorError if a worker cannot start.
        """
        downstream = self.settings.downstream
        try:
            self._directory = RuntimeDirectory(os.environ)
            await self._start_ledger(self._directory.file(SOCKET))
            await self.sockets.open(
                downstream.listen, BACKLOG, downstream.socket_mode, len(self.slots), self._given
            )
            await self.admin.open(self.settings)
            await self._open_store(self._directory.file("objects.json"))
            first, *others = self.slots
            await first.begin()
            async with asyncio.TaskGroup() as group:
                for slot in others:
                    group.create_task(slot.begin())
            routes = () if self._store is None else self._store.routes()
            await self.admin.start(lambda: self.settings, routes)
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from errors
        except BaseException:
            await self.stop()
            raise
        self.access.start()
        self._addresses.serve()

    async def _open_store(self, path: str) -> None:
        """Have the store that settings name, and its objects in a file for the workers."""
        if self.settings.flow_control.store is None or self.settings.clusters:
            return
        from apfproxy.sources.stored_objects import SharedStore  # noqa: PLC0415 - the API server

        self._store = SharedStore(self.settings, path, self.health, self.admin.is_local)
        await self._store.start()

    async def _start_ledger(self, path: str) -> None:
        try:
            await self.ledger.start(path)
        except OSError as error:
            raise OperatorError(f"cannot listen on {path}: {error.strerror or error}") from error

    def hurry(self, cancel: Callable[[], object]) -> None:
        """Start no more: the process is to end."""
        cancel()

    def attend(self, signals: Signals) -> None:
        """Log and tell the start; from now on signals have a meaning.

        SIGHUP has the settings read again, SIGUSR1 the logs opened again; SIGUSR2 replaces the
        workers, one after the other.
        """
        log.info(
            "apfproxy %s listens on %s, with %d workers; the parent is process %d, admin on %s",
            build.version(),
            self.sockets.written,
            len(self.slots),
            os.getpid(),
            self.admin.written,
        )
        if text := access_warning(self.settings, is_here=self.admin.is_local()):
            log.warning("%s", text)
        signals.on_rotation(self._rotate)
        signals.on_succession(self._replace)
        self.service.show(self._is_well)
        asked, file = signals.hangup, self._file
        self._tasks = [
            Supervised(Part.TASK, f"looking after worker {slot.index}", slot.keep).start()
            for slot in self.slots
        ]
        self._tasks += [
            spawn(reload_when(asked, self, file), name="reading settings again"),
            Supervised(
                Part.TASK, "watching the settings", lambda beat: file.watch(asked, beat)
            ).start(),
            Supervised(
                Part.TASK, "watching the directory", lambda _beat: self._keep_directory()
            ).start(),
        ]

    async def renew(self, settings: Settings) -> None:
        """Take other settings: those of the parent itself; workers read theirs.

        OperatorError if the token of writers, or what gives access to the admin listener, cannot be
        used.
        """
        access = await self.access.prepare(settings)
        if self._store is not None:
            self._store.prepare_token(settings)()
        access.commit()
        self.settings = settings

    async def read_again(self) -> None:
        """Have the workers read their settings and files again, and wait until they have."""
        await self.access.read_again()
        processes = self.processes
        for each in processes:
            each.read_again()
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await asyncio.gather(*(each.has_read.wait() for each in processes))
        except TimeoutError:
            log.warning("not all workers have read their settings within %g s", READ_WITHIN_S)
        for each in processes:
            if each.state is WorkerState.SILENT:
                log.warning(
                    "worker %d (process %d) shows no life; it reads its settings when it goes on",
                    each.place.index,
                    each.pid,
                )

    def _rotate(self) -> None:
        """Have the workers open the access log again."""
        if self.settings.access_log.path is None:
            log.warning("SIGUSR1 means nothing here, and is ignored: no access log is open")
            return
        for each in self.processes:
            each.signal(signal.SIGUSR1)

    def _replace(self) -> None:
        """Have other processes take the workers' places, unless that goes on."""
        if self._rolling is not None and not self._rolling.done():
            log.info("SIGUSR2: the workers are being replaced already")
            return
        log.info("SIGUSR2: replacing the workers: %s", shlex.join(self._command))
        self._rolling = spawn(self._roll(), name="replacing the workers")

    async def _keep_directory(self) -> None:
        """Have the directory of the workers' sockets again when somebody has deleted it, for ever.

        Workers that serve go on without it, but nobody reaches their admin pages, and no other
        worker can start: so the directory is made again, and others take their places.  Where
        only a worker's socket in it is gone, another process takes that worker's place.
        """
        assert self._directory is not None, "the start made it"
        path, is_said = self._directory.path, False
        while True:
            await asyncio.sleep(DIRECTORY_PERIOD_S)
            if self._directory.is_whole:
                is_said = False
                self._keep_files()
                continue
            try:
                self._directory.restore()
                if self._store is not None:
                    self._store.write()
                await self.ledger.close()
                await self.ledger.start(self._directory.file(SOCKET))
            except OSError as error:
                if not is_said:
                    log.error(  # noqa: TRY400 - of others
                        "%s was deleted, and cannot be made again, so no worker can start: %s",
                        path,
                        error.strerror or error,
                    )
                is_said = True
                continue
            log.error("%s was deleted; it is made again, and the workers are replaced", path)
            if self._rolling is not None:
                await asyncio.wait([self._rolling])  # some of those may have no sockets any more
            self._rolling = spawn(self._roll(), name="replacing the workers")

    def _keep_files(self) -> None:
        """Have the files in the directory again that somebody has deleted.

        What cannot be replaced is tried again after a while.
        """
        now_s = time.monotonic()
        is_replacing = self._rolling is not None and not self._rolling.done()
        if is_replacing or now_s < self._replaced_s + REPLACE_PERIOD_S:
            return
        gone = [
            slot
            for slot in self.slots
            if slot.current is not None and slot.serves and not slot.current.has_socket
        ]
        if gone:
            self._replaced_s = now_s
            self._rolling = spawn(self._replace_unreached(gone), name="replacing workers")

    async def _replace_unreached(self, slots: Sequence[WorkerSlot]) -> None:
        for slot in slots:
            log.error("the socket of worker %d was deleted, so the worker is replaced", slot.index)
            await slot.replace()

    async def _roll(self) -> None:
        for slot in self.slots:
            if not await slot.replace():
                log.error("the workers are not replaced any further")
                return
        log.info("all workers are replaced; requests of the former ones go on to their end")

    async def drain(self) -> None:
        """Stop without losing a request; cancelled, stop at once.

        The workers go on to accept connections for the shutdown delay, and end by themselves.
        """
        drain = self.settings.drain
        within_s = drain.shutdown_delay_s + drain.timeout_s + SPARE_S
        self.health.report(SHUTDOWN, "the process is shutting down")
        try:
            await self.service.end(within_s)
            processes = await self._end_starts()
            self.sockets.steer(())
            self.sockets.close()
            for each in processes:
                each.drain()
            serving = [each for each in processes if each.has_served]
            if not await ended(serving, within_s):
                log.warning("not all workers have ended within %g s", within_s)
            await ended([each for each in processes if not each.has_served], CUT_WITHIN_S)
        finally:
            await self.stop()

    async def _end_starts(self) -> list[WorkerProcess]:
        """Start no worker any more: the processes that there are."""
        tasks = self._tasks + ([] if self._rolling is None else [self._rolling])
        self._tasks, self._rolling = [], None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [each for slot in self.slots for each in slot.end()]

    async def stop(self) -> None:
        """End at once; harmless if it never started."""
        self.service.stop()
        processes = await self._end_starts()
        self.sockets.close()
        for each in processes:
            each.cut()
        try:
            await ended(processes, CUT_WITHIN_S)
        finally:  # a second signal may come only now, and leaves no worker behind either
            await killed(processes)
            await self._close()

    async def _close(self) -> None:
        """Close what the workers used, once there are none."""
        self.access.stop()
        await self.admin.close()
        if self._store is not None:
            await self._store.close()
            self._store = None
        await self.ledger.close()
        self.sockets.remove_files()
        self._addresses.give_up()
        if self._directory is not None:
            self._directory.remove()

    def _starter(
        self, index: int
    ) -> Callable[[int, Callable[[WorkerProcess], None]], WorkerProcess]:
        """What starts a process for a slot."""

        def start(generation: int, on_change: Callable[[WorkerProcess], None]) -> WorkerProcess:
            return WorkerProcess(
                partial(self._place, index, generation),
                self.sockets.heritage(index),
                self._command,
                on_change,
            )

        return start

    def _place(self, index: int, generation: int, link: int) -> WorkerPlace:
        assert self._directory is not None, "the start made it"
        name = f"worker-{index}" if generation == 1 else f"worker-{index}.{generation}"
        return WorkerPlace(
            index=index,
            generation=generation,
            count=len(self.slots),
            member=name,
            link=link,
            ledger=self._directory.file(SOCKET),
            admin=self._directory.file(f"{name}.admin"),
            counts=None if self.settings.admin is None else self._directory.file(f"{name}.counts"),
            objects=None if self._store is None else self._store.path,
            hash_seed=self._hash_seed,
            version=build.version(),
        )

    def _on_change(self) -> None:
        """Let new connections go where they are accepted; if all are silent, to all of these."""
        serving = [slot.index for slot in self.slots if slot.serves]
        there = [slot.index for slot in self.slots if slot.current is not None]
        self.sockets.steer(serving or there)

    def _on_lost(self, process: WorkerProcess) -> None:
        """Let the others have the seats of a process that has ended; keep what it counted."""
        self.ledger.drop(process.place.member)
        if process.place.counts is not None:
            self.admin.bury(process.place.index, process.pid, process.place.counts)

    def _is_well(self) -> bool:
        """Whether a new parent would be of no help: it looks after workers by itself."""
        return True

    def _problem_of_workers(self) -> str | None:
        """That no worker serves."""
        if any(slot.serves for slot in self.slots):
            return None
        return "no worker serves; the log says why"

    def __repr__(self) -> str:
        return f"<Parent of {len(self.slots)} workers>"
