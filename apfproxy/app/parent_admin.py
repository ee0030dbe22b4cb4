"""The admin listener of the parent of workers, at the address that the settings name.

aiohttp is imported as it starts, in a thread: a parent without this listener has no use for it.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Protocol

from apfproxy.admin.places import BACKLOG
from apfproxy.admin.worker_answers import ENDED, WorkerAdmin
from apfproxy.base.address import is_loopback
from apfproxy.base.listeners import ADMIN, close
from apfproxy.base.sockets import is_unix

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Sequence

    from aiohttp import web

    from apfproxy.admin.access import AdminAccess
    from apfproxy.app.workers_admin import WorkersAdmin
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.listeners import Listeners
    from apfproxy.settings import Settings


class Placed(Protocol):
    """What a worker was told."""

    @property
    def admin(self) -> str:
        """Path of the Unix socket of its admin pages."""


class Process(Protocol):
    """A process of a worker."""

    @property
    def place(self) -> Placed:
        """What it was told."""

    @property
    def shown_state(self) -> str:
        """`starting`, `serving`, `silent`, `draining` or `ended`."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def shows_life(self) -> bool:
        """Whether there was a sign of life lately."""


class Slot(Protocol):
    """The place of a worker, in which there always is to be a process."""

    @property
    def index(self) -> int:
        """Its number."""

    @property
    def problem(self) -> str:
        """Why there is no process that serves; "" if there is one."""

    @property
    def processes(self) -> Collection[Process]:
        """Those that have not ended."""


class ParentAdmin:
    """The listener.

    Args:
        addresses: Opens what is listened on.
        slots: Those of all workers.
        restarts: How many were started again since they had ended by themselves.
        health: The checks of the parent itself.
        access: Who may read.
    """

    def __init__(
        self,
        addresses: Listeners,
        slots: Callable[[], Sequence[Slot]],
        restarts: Callable[[], int],
        health: HealthRegistry,
        access: AdminAccess,
    ) -> None:
        self._access = access
        self._addresses = addresses
        self._slots = slots
        self._restarts = restarts
        self._health = health
        self._sockets: list[socket.socket] = []
        self._listener: WorkersAdmin | None = None

    def __repr__(self) -> str:
        return f"<ParentAdmin: {self._listener or 'not started'}>"

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return None if self._listener is None else self._listener.port

    @property
    def written(self) -> str:
        """The address that is listened on, as the settings name it, with its port."""
        return self._addresses.written(ADMIN) if self._sockets else "no address"

    def is_local(self) -> bool:
        """Whether it is on loopback addresses and Unix sockets only."""
        return bool(self._sockets) and all(
            is_unix(each) or is_loopback(each.getsockname()[0]) for each in self._sockets
        )

    def workers(self) -> list[WorkerAdmin]:
        """Where the pages of the workers are, slot by slot, one without a process being `ended`."""
        return [each for slot in self._slots() for each in workers_of(slot)]

    async def open(self, settings: Settings) -> None:
        """Listen, if the settings name an address; OperatorError if that cannot be.

        Who connects waits for `start`, so what is wrong is known before any worker serves.
        """
        if settings.admin is not None:
            self._sockets = await self._addresses.open(
                ADMIN, settings.admin, BACKLOG, settings.admin_socket_mode
            )

    async def start(
        self, settings: Callable[[], Settings], api_routes: Sequence[web.RouteDef] = ()
    ) -> None:
        """Answer, if `open` has begun to listen; OperatorError if that cannot be."""
        if not self._sockets:
            return
        module = await asyncio.to_thread(importlib.import_module, "apfproxy.app.workers_admin")
        self._listener = module.WorkersAdmin(
            self.workers,
            self._health,
            self._access,
            api_routes,
            has_several=lambda: bool(settings().clusters),
            restarts=self._restarts,
            are_all=settings().fleet.store is None,
        )
        await self._listener.start(self._sockets)

    def bury(self, index: int, pid: int, path: str) -> None:
        """Keep what a process has counted that has ended; `path` is where it left that."""
        if self._listener is not None:
            self._listener.bury(index, pid, path)

    async def close(self) -> None:
        """Let answers that are under way have their time, then cut all connections."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        close(self._sockets)
        self._sockets = []


def workers_of(slot: Slot) -> list[WorkerAdmin]:
    """The processes of a slot; without one, what is wrong."""
    if not slot.processes:
        return [WorkerAdmin(slot.index, "", ENDED, 0, slot.problem)]
    return [
        WorkerAdmin(
            slot.index,
            each.place.admin,
            each.shown_state,
            each.pid,
            slot.problem,
            shows_life=each.shows_life,
        )
        for each in slot.processes
    ]
