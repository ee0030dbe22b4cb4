"""Keeps a controller's configuration as the objects in a store are.

A change of the store is in force as soon as the event loop comes round: nothing is polled.  Many
changes at once are taken together.  What is taken is the whole of it, or nothing: with any object
that is not valid the last good configuration stays, as with files.  The store takes only valid
objects; one that another version of the program wrote may be none for this one.

The mandatory objects are always in force, even in the moment between their deletion from the store
and their return.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apfproxy.api.decode import Problem
from apfproxy.api.flowcontrol.wire import from_wire
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.registry import decoded
from apfproxy.apiserver.store.entries import TooOldError
from apfproxy.sources.files import MAX_LOGGED_PROBLEMS, ObjectsError
from apfproxy.sources.object_files import effective_objects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.api.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.sources.files import LoadObserver

PAUSE_S = 0.02
"""Between two configurations: thousands of objects may be applied in a row, each one a change."""
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
        self._controller = controller
        self._on_load = on_load
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._read: dict[int, FlowControlObject | Problem] = {}  # by resource version
        self._in_force: list[tuple[object, ...]] | None = None
        self.problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<StoredObjects of {self.name}: {len(self.problems)} problems>"

    def load_first(self) -> None:
        """Put in force what is in the store now.

        Raises:
            ObjectsError: There are problems; nothing is in force.
        """
        self.load()
        if self.problems:
            raise ObjectsError(tuple(str(problem) for problem in self.problems))

    def load(self) -> None:
        """Put in force what is in the store now, if it is well and not in force yet."""
        read = self._objects()
        objects = [each for each in read if not isinstance(each, Problem)]
        problems = tuple(each for each in read if isinstance(each, Problem))
        # Statuses and labels come and go; only this changes what requests are in for.
        relevant: list[tuple[object, ...]] = [
            (each.metadata.name, each.metadata.uid, each.spec) for each in objects
        ]
        if problems == self.problems and (problems or relevant == self._in_force):
            return
        self.problems = problems
        dangling: tuple[str, ...] = ()
        if problems:
            for problem in problems[:MAX_LOGGED_PROBLEMS]:
                logger.error("%s", problem)
            logger.error(
                "%s in %s: the configuration stays as it was",
                f"{len(problems)} problems" if len(problems) > 1 else "a problem",
                self.name,
            )
        else:
            digest = self._controller.digest(effective_objects(objects, with_suggested=False))
            self._controller.commit(digest)
            self._in_force = relevant
            dangling = digest.problems
            logger.info(
                "generation %d of the configuration: %d objects from %s",
                self._controller.generation,
                len(objects),
                self.name,
            )
            for text in dangling:
                logger.warning("%s", text)
        if self._on_load is not None:
            self._on_load(problems, dangling)

    def _objects(self) -> list[FlowControlObject | Problem]:
        """All objects, each of which is read once for each of its states."""
        before, self._read = self._read, {}
        for kind in FLOW_CONTROL_KINDS:
            for entry in self._store.collection(kind.resource).snapshot():
                version = entry.resource_version
                self._read[version] = before.get(version) or self._object(kind, entry)
        return list(self._read.values())

    def _object(self, kind: Kind, entry: Entry) -> FlowControlObject | Problem:
        found = from_wire(decoded(kind, entry))
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
            try:
                self.load()
            except Exception:
                logger.exception("the configuration in %s cannot be taken", self.name)
            await self._sleep(PAUSE_S)

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
