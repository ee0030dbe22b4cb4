"""The admin listener of the parent of workers, at the address that the settings name.

aiohttp is imported as it starts, in a thread: a parent without this listener has no use for it.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Final

from apfproxy.admin.gathering import ProcessParts, admin_state
from apfproxy.admin.places import BACKLOG, Places
from apfproxy.admin.sources import ENDED, Told, WorkersStates
from apfproxy.app.running import descriptor_limit
from apfproxy.base.address import is_loopback
from apfproxy.base.listeners import ADMIN, close
from apfproxy.base.sockets import is_unix
from apfproxy.workers.link import LinkError

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from aiohttp import web

    from apfproxy.admin.access import AdminAccess
    from apfproxy.admin.web import WebListener
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.listeners import Listeners
    from apfproxy.settings import Settings
    from apfproxy.workers.parent import Workers
    from apfproxy.workers.process import WorkerProcess
    from apfproxy.workers.slot import WorkerSlot

CONNECTIONS: Final = 64
"""As many as the listener of one process has."""
DESCRIPTORS_PART: Final = 8
"""Of the descriptors it takes no more than one part of so many, however few there are."""


class ParentAdmin:
    """The listener.

    Args:
        listeners: Open what is listened on.
        workers: Whose pages it has.
        health: The checks of the parent itself.
        access: Who may read.
    """

    def __init__(
        self,
        listeners: Listeners,
        workers: Workers,
        health: HealthRegistry,
        access: AdminAccess,
    ) -> None:
        self._access = access
        self._listeners = listeners
        self._health = health
        self._started_s = time.time()
        limit = min(CONNECTIONS, descriptor_limit() // DESCRIPTORS_PART)
        self._places = Places("admin", limit, time.monotonic_ns)
        self.states = WorkersStates(
            lambda: [each for slot in workers.slots for each in workers_of(slot)],
            self._parts,
            lambda: workers.restarts,
            LinkError,
        )
        self._sockets: list[socket.socket] = []
        self._listener: WebListener | None = None

    def __repr__(self) -> str:
        return f"<ParentAdmin: {self._places}>"

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return None if self._listener is None else self._listener.port

    @property
    def written(self) -> str:
        """The address that is listened on, as the settings name it, with its port."""
        return self._listeners.written(ADMIN) if self._sockets else "no address"

    def is_local(self) -> bool:
        """Whether it is on loopback addresses and Unix sockets only."""
        return bool(self._sockets) and all(
            is_unix(each) or is_loopback(each.getsockname()[0]) for each in self._sockets
        )

    async def open(self, settings: Settings) -> None:
        """Listen, if the settings name an address; OperatorError if that cannot be.

        Who connects waits for `start`, so what is wrong is known before any worker serves.
        """
        if settings.admin is not None:
            self._sockets = await self._listeners.open(
                ADMIN, settings.admin, BACKLOG, settings.admin_socket_mode
            )

    async def start(self, api_routes: Sequence[web.RouteDef] = ()) -> None:
        """Respond, if `open` has begun to listen; OperatorError if that cannot be."""
        if not self._sockets:
            return
        module = await asyncio.to_thread(importlib.import_module, "apfproxy.admin.admin")
        self._listener = module.listener(self.states, self._places, self._access, api_routes)
        await self._listener.start(self._sockets)

    async def close(self) -> None:
        """Let responses that are under way have their time, then cut all connections."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        close(self._sockets)
        self._sockets = []

    def _parts(self) -> ProcessParts:
        return ProcessParts(
            started_s=self._started_s,
            health=self._health,
            admin=admin_state(self._places, self._access.refused),
        )


def workers_of(slot: WorkerSlot) -> list[Told]:
    """The processes of a slot; without one, what is wrong."""
    if not slot.processes:
        return [Told(slot.index, 0, ENDED, slot.problem)]
    return [told(each, slot.problem) for each in slot.processes]


def told(process: WorkerProcess, trouble: str = "") -> Told:
    """A process as the pages know it."""
    return Told(
        process.place.index,
        process.pid,
        process.shown_state,
        trouble,
        process.shows_life,
        process.last,
        process.ask,
    )
