"""Keeps a controller's configuration as the objects in a store are.

A change of the store is in force as soon as the event loop comes round: nothing is polled.  Many
changes at once are taken together.  What becomes of an object that is not valid says `in_force`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from apfproxy.api.decode import Problem
from apfproxy.api.flowcontrol.objects import read_object
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.outcomes import decoded
from apfproxy.apiserver.store.entries import TooOldError
from apfproxy.faults import Part, report
from apfproxy.sources.files import ObjectsError
from apfproxy.sources.in_force import InForce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.api.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.sources.files import LoadObserver
    from apfproxy.sources.in_force import Prepared

PAUSE_S = 0.02
"""Between two configurations: thousands of objects may be applied in a row, each one a change."""
REST = 4
"""A pause is so many times as long as the configuration before it took to make, if that is more: it
leaves the processor to requests."""
RETRY_S = 5.0
"""After a failure that nobody foresaw."""
BATCH = 1000
"""Changes that are read in one go; what is in them does not matter here."""

logger = logging.getLogger(__name__)


class StoredObjects:
    """The flow control objects of a store, as the source of a controller's configuration.

    Args:
        store: Has the objects.
        name: Of the store, for messages.
        controller: Gets the objects.
        on_load: Hears what became of each load, `load_first` included.
        sleep: Waits; tests pass one that does not.
    """

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

    def __repr__(self) -> str:
        return f"<StoredObjects of {self.name}: {len(self.problems)} problems>"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why objects that are in the store are not in force; empty if all are."""
        return self._in_force.problems

    def load_first(self) -> None:
        """Put in force what is in the store now.

        Raises:
            ObjectsError: There are problems, which a process does not start with.
        """
        self._in_force.put(self._prepare(self._entries()))
        if self.problems:
            raise ObjectsError(tuple(str(problem) for problem in self.problems))

    async def reload(self) -> None:
        """Put in force what is in the store now, and valid, and not in force yet."""
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
                self._read[version] = before.get(version) or self._object(kind, entry)
        return self._in_force.prepare(self._read.values())

    def _object(self, kind: Kind, entry: Entry) -> FlowControlObject | Problem:
        found = read_object(decoded(kind, entry))
        if not isinstance(found, list):
            return found
        messages = tuple(str(error) for error in found)
        return Problem(self.name, messages, None, kind.name, entry.name, tuple(found))

    async def watch(self) -> None:
        """Load after each change, until the store is closed or this is cancelled."""
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._load_when_woken())
            async with asyncio.TaskGroup() as watchers:
                for kind in FLOW_CONTROL_KINDS:
                    watchers.create_task(self._wake_on_changes(kind))
            follower.cancel()

    async def _load_when_woken(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            begun_s = time.monotonic()
            pause_s = PAUSE_S
            try:
                await self.reload()
            except Exception as error:  # noqa: BLE001  what is in force stays so
                report(Part.OBJECTS, error, f"the configuration in {self.name} cannot be taken")
                self._wake.set()
                pause_s = RETRY_S
            await self._sleep(max(pause_s, REST * (time.monotonic() - begun_s)))

    async def _wake_on_changes(self, kind: Kind) -> None:
        collection = self._store.collection(kind.resource)
        while True:
            # Whatever came before this watch began is loaded by this.
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
