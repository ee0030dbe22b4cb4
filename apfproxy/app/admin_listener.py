"""The admin listener of a process, which serves by itself or is the parent of workers.

aiohttp takes 12 MiB: it is imported, in a thread, only where there is such a listener.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from apfproxy.admin.access import AdminAccess
from apfproxy.admin.gathering import admin_state
from apfproxy.admin.places import BACKLOG, Places
from apfproxy.app.running import descriptor_limit
from apfproxy.base.listeners import ADMIN, close
from apfproxy.base.sockets import are_local, port_of
from apfproxy.settings.contradictions import access_warning

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from aiohttp import web

    from apfproxy.admin.questions import States
    from apfproxy.admin.state import AdminState
    from apfproxy.admin.web import WebListener
    from apfproxy.base.listeners import Listeners
    from apfproxy.settings import Settings

CONNECTIONS = 64
"""Scrapers, probes, a team's live pages and terminals, and watches of the store."""
DESCRIPTORS_PART = 8
"""Its part of the process's descriptors: one of so many, however few there are."""


class AdminListener:
    """There is none where the settings name no address; OperatorError for files of `access`."""

    def __init__(self, settings: Settings, listeners: Listeners, now_ns: Callable[[], int]) -> None:
        self.access = AdminAccess(settings)
        self._listeners = listeners
        self._places = Places(
            "admin", min(CONNECTIONS, descriptor_limit() // DESCRIPTORS_PART), now_ns
        )
        self._sockets: list[socket.socket] = []
        self._listener: WebListener | None = None

    @property
    def port(self) -> int | None:
        return port_of(self._sockets)

    @property
    def is_open(self) -> bool:
        return bool(self._sockets)

    @property
    def written(self) -> str:
        """The address as the settings name it, with its port."""
        return self._listeners.written(ADMIN) if self._sockets else "no address"

    def is_local(self) -> bool:
        """Whether it is on loopback addresses and Unix sockets only."""
        return are_local(self._sockets)

    def warning(self, settings: Settings) -> str:
        """Says that others can read what they should not; a worker leaves that to its parent."""
        return access_warning(settings, is_here=self.is_local()) if self._sockets else ""

    def state(self) -> AdminState | None:
        return admin_state(self._places, self.access.refused) if self._sockets else None

    async def open(self, settings: Settings) -> None:
        """Listen, or OperatorError; clients that connect wait for `start`."""
        if settings.admin is not None:
            self._sockets = await self._listeners.open(
                ADMIN, settings.admin, BACKLOG, settings.admin_socket_mode
            )

    async def start(self, states: States, api_routes: Iterable[web.RouteDef] = ()) -> None:
        """Respond on what `open` listens on, and watch the files of `access`."""
        if self._sockets:
            module = await asyncio.to_thread(importlib.import_module, "apfproxy.admin.admin")
            self._listener = module.listener(states, self._places, self.access, api_routes)
            await self._listener.start(self._sockets)
        self.access.start()

    async def close(self) -> None:
        """Let responses that are under way have their time, then cut all connections."""
        self.access.stop()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        close(self._sockets)
        self._sockets = []

    def __repr__(self) -> str:
        return f"<AdminListener: {self._places}>"
