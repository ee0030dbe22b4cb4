"""The parent's part: it keeps the listening sockets, and has a process in the place of each worker.

A worker is the command of the parent once more, which learns its place, and what it listens on,
from a variable (`place`).

1. Of a port each worker has a socket of its own (SO_REUSEPORT): the kernel divides the connections
   among them by their addresses.  A Unix socket, and what systemd has opened, all workers share.
2. Since the parent keeps them, a connection that waits to be accepted is not lost with a worker:
   the process that takes its place accepts it.
3. For a worker that ends again and again no one listens, until its next process does: new
   connections go to the others.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import secrets
import shlex
import sys
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from apfproxy.base.errors import ListenError
from apfproxy.base.faults import Part
from apfproxy.base.listeners import LISTEN, close
from apfproxy.base.sockets import described, joined, port_of
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.workers.ledger import READ, SWAP, Ledger
from apfproxy.workers.link import Cut, Drain, Urgent
from apfproxy.workers.place import WorkerPlace
from apfproxy.workers.process import WorkerProcess, ended, killed
from apfproxy.workers.slot import WorkerSlot

if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Callable, Sequence

    from apfproxy.base.address import Address
    from apfproxy.base.listeners import Listeners
    from apfproxy.settings import Settings
    from apfproxy.workers.link import Handlers

CUT_WITHIN_S: Final = 10.0
"""For workers that are to end at once, before they are killed."""
READ_WITHIN_S: Final = 30.0
"""For workers to put settings in force; then the service manager is told that they have."""

BACKLOG: Final = 4096
"""Connections that the kernel holds for each worker; as of a single process."""

log = logging.getLogger(__name__)


class WorkerSockets:
    """The sockets of one address; `written` is where they listen, for the log."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.written = "no address"
        self._sets: list[list[socket.socket]] = []

    async def open(self, address: Address, mode: int, count: int) -> None:
        """Listen for so many workers, or OperatorError."""
        is_group = count > 1 and not address.path and not self._listeners.was_given(LISTEN)
        first = await self._listeners.open(LISTEN, address, BACKLOG, mode, is_group=is_group)
        self._sets = [first]
        self.written = ", ".join(map(described, first))
        try:
            for _ in range(count - 1 if is_group else 0):
                self._sets.append(joined(first, BACKLOG))
        except OSError as error:
            self.close()
            raise ListenError(address, LISTEN, error) from error

    @property
    def port(self) -> int | None:
        return port_of(chain.from_iterable(self._sets))

    def of(self, index: int) -> list[int]:
        """The descriptors that a worker gets; `index` is from 1 on."""
        place = (index - 1) % len(self._sets)
        if not self._sets[place]:
            others = next(filter(None, self._sets))
            self._sets[place] = joined(others)  # the process begins to listen
        return [each.fileno() for each in self._sets[place]]

    def rest(self, index: int) -> None:
        """Listen no more for a worker, if others do."""
        if sum(map(bool, self._sets)) > 1:
            close(self._sets[index - 1])
            self._sets[index - 1] = []

    def close(self) -> None:
        """Listen no more: the workers go on with theirs; harmless once done."""
        for each in self._sets:
            close(each)
        self._sets = []

    def __repr__(self) -> str:
        return f"<WorkerSockets: {len(self._sets)} sets>"


class Workers:
    """The workers of a machine; `objects` is the path of the store's objects, if there is a store.

    `on_lost` is called with each process that has ended; `command` is of the workers, if not that
    of this process.
    """

    def __init__(
        self,
        settings: Settings,
        count: int,
        listeners: Listeners,
        on_lost: Callable[[WorkerProcess], None] = lambda _: None,
        *,
        command: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.sockets = WorkerSockets(listeners)
        self.ledger = Ledger(self._tell_others)
        self.objects: str | None = None
        self.slots = [
            WorkerSlot(
                index,
                partial(self._start, index),
                partial(self.sockets.rest, index),
                self._on_lost,
            )
            for index in range(1, count + 1)
        ]
        seed = settings.flow_control.hash_seed
        self._hash_seed = secrets.randbits(32) if seed is None else seed
        self._lost = on_lost
        self._command = list(command) or [sys.executable, *sys.orig_argv[1:]]
        self._tasks: list[asyncio.Task[None]] = []
        self._rolling: asyncio.Task[None] | None = None
        self._is_ending = False

    @property
    def processes(self) -> list[WorkerProcess]:
        return [each for slot in self.slots for each in slot.processes]

    @property
    def restarts(self) -> int:
        return sum(slot.restarts for slot in self.slots)

    def problem(self) -> str | None:
        if any(slot.serves for slot in self.slots):
            return None
        return "no worker serves; the log says why"

    async def start(self) -> None:
        """Start the workers, which `stop` ends; OperatorError if one cannot start.

        The first one goes ahead: its problems are said once, and not by each of them.
        """
        first, *others = self.slots
        await first.begin()
        try:
            async with asyncio.TaskGroup() as group:
                for slot in others:
                    group.create_task(slot.begin())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def keep(self) -> None:
        """Have another process wherever one ends, from now on."""
        self._tasks = [
            Supervised(Part.TASK, f"looking after worker {slot.index}", slot.keep).start()
            for slot in self.slots
        ]

    def replace(self) -> None:
        """Have other processes take the workers' places, unless that goes on."""
        if self._is_ending:
            log.info("SIGUSR2 is ignored: the workers are to end")
            return
        if self._rolling is not None and not self._rolling.done():
            log.info("SIGUSR2: the workers are being replaced already")
            return
        log.info("SIGUSR2: replacing the workers: %s", shlex.join(self._command))
        self._rolling = spawn(self._roll(), name="replacing the workers")

    async def _roll(self) -> None:
        for slot in self.slots:
            if not await slot.replace():
                log.error("the workers are not replaced any further")
                return
        log.info("all workers are replaced; requests of the former ones go on to their end")

    async def renew(self, settings: Settings) -> list[str]:
        """Have all workers put settings in force, and read their files again.

        If one refuses them, all have those of before, and its reasons are returned.
        """
        processes = self.processes
        await self._put(settings, processes)
        if refused := [each.refused for each in processes if each.refused]:
            await self._put(self.settings, [each for each in processes if not each.refused])
            return list(dict.fromkeys(line for each in refused for line in each.splitlines()))
        self.settings = settings
        begun_meanwhile = [each for each in self.processes if each not in processes]
        for each in begun_meanwhile:
            each.renew(pickle.dumps(settings))
        for slot in self.slots:
            slot.retry()
        return []

    async def _put(self, settings: Settings, processes: Sequence[WorkerProcess]) -> None:
        """Send settings to processes, and wait until they have them in force, or refuse them."""
        data = pickle.dumps(settings)
        for each in processes:
            each.renew(data)
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await asyncio.gather(*(each.has_read.wait() for each in processes))
        except TimeoutError:
            log.warning("not all workers have read their settings within %g s", READ_WITHIN_S)

    def signal(self, number: signal.Signals) -> None:
        for each in self.processes:
            each.signal(number)

    async def drain(self, within_s: float) -> None:
        """Have all end in order; those that have not served yet get less time."""
        processes = await self._end_starts()
        self.sockets.close()
        for each in processes:
            each.tell(Drain())
        if not await ended([each for each in processes if each.has_served], within_s):
            log.warning("not all workers have ended within %g s", within_s)
        await ended([each for each in processes if not each.has_served], CUT_WITHIN_S)

    async def stop(self) -> None:
        """End all at once; harmless if none was started."""
        processes = await self._end_starts()
        self.sockets.close()
        for each in processes:
            each.tell(Cut())
        try:
            await ended(processes, CUT_WITHIN_S)
        finally:  # a second signal may come only now, and leaves no worker behind either
            await killed(processes)

    async def _end_starts(self) -> list[WorkerProcess]:
        self._is_ending = True
        tasks = self._tasks + ([] if self._rolling is None else [self._rolling])
        self._tasks, self._rolling = [], None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [each for slot in self.slots for each in slot.end()]

    def _start(
        self, index: int, generation: int, on_change: Callable[[WorkerProcess], None]
    ) -> WorkerProcess:
        member = f"worker-{index}" if generation == 1 else f"worker-{index}.{generation}"
        place = WorkerPlace(
            index=index,
            generation=generation,
            count=len(self.slots),
            member=member,
            sockets=tuple(self.sockets.of(index)),
            objects=self.objects,
            hash_seed=self._hash_seed,
        )
        handlers: Handlers = {READ: self.ledger.read, SWAP: partial(self.ledger.swap, member)}
        return WorkerProcess(place, self._command, self.settings, on_change, handlers)

    def _tell_others(self, key: str, member: str) -> None:
        for each in self.processes:
            if each.place.member != member:
                each.tell(Urgent(key))

    def _on_lost(self, process: WorkerProcess) -> None:
        """Let the others have the seats of a process that has ended."""
        self.ledger.drop(process.place.member)
        self._lost(process)

    def __repr__(self) -> str:
        return f"<Workers: {self.processes}>"
