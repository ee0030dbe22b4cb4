"""A store's objects as the source of a controller's configuration.

Changes come as events, nothing is polled, and many at once are taken together.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.outcomes import decoded
from apfproxy.apiserver.store.entries import TooOldError
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.sources.files import ObjectsError
from apfproxy.sources.in_force import InForce, load_when_woken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.sources.files import LoadObserver
    from apfproxy.sources.in_force import Prepared

BATCH = 1000
"""Changes that are read at a time; their contents do not matter here."""

logger = logging.getLogger(__name__)


class StoredObjects:
    """The flow control objects of a store, as the source of a controller's configuration."""

    def __init__(
        self,
        store: Store,
        name: str,
        controller: Controller,
        *,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._store = store
        self._in_force = InForce(name, controller, on_load)
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._read: dict[int, FlowControlObject | Problem] = {}  # by resource version

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why objects of the store are not in force."""
        return self._in_force.problems

    @property
    def valid(self) -> tuple[FlowControlObject, ...]:
        """What is in force of them: each as it last was valid."""
        return self._in_force.valid

    def load_first(self) -> None:
        """Put the store's objects in force; raises ObjectsError if there are problems."""
        self._in_force.put(self._prepare(self._entries()))
        if self.problems:
            raise ObjectsError(tuple(parts_of(self.problems)))

    async def reload(self) -> None:
        """Put the store's valid objects in force."""
        self._in_force.put(await asyncio.to_thread(self._prepare, self._entries()))

    def _entries(self) -> list[tuple[Kind, list[Entry]]]:
        """All objects as the store has them."""
        return [
            (kind, self._store.collection(kind.resource).snapshot()) for kind in FLOW_CONTROL_KINDS
        ]

    def _prepare(self, entries: list[tuple[Kind, list[Entry]]]) -> Prepared:
        """Read all objects, each once for each of its states; a thread may call this."""
        before, self._read = self._read, {}
        for kind, states in entries:
            for entry in states:
                version = entry.resource_version
                self._read[version] = before.get(version) or self._in_force.read(
                    kind.name, entry.name, decoded(kind, entry)
                )
        return self._in_force.prepare(self._read.values())

    async def watch(self) -> None:
        """Load after each change, until the store is closed or this is cancelled."""
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(
                load_when_woken(self._wake, self.reload, self.name, self._sleep)
            )
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
