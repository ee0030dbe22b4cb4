"""Runs a controller: passes it the changes of the kinds that it watches, and lets it work.

1. A controller gets every object first, then every change, in order; if it is too slow, or fails,
   a new one takes its place.
2. The keys that it has to look at wait in a queue, so many changes cause one look.
3. A look that fails is logged and repeated later; other keys go on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from apfproxy.apiserver.controllers.queue import Queue
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.store.entries import Change, ChangeType, StoreError, TooOldError
from apfproxy.base.faults import Part, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.collection import Watcher

log = logging.getLogger(__name__)

BATCH = 200
"""Changes that are read at once: a few milliseconds of work at most."""
LOOKS_IN_A_ROW = 20
"""Looks before other tasks run, since a store in memory never waits."""
RESTART_PAUSE_S = 1.0
NOT_FOUND = 404


class Controller(Protocol):
    """Watches some kinds, and corrects objects."""

    @property
    def name(self) -> str:
        """As in the list of controllers that are on."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Whose changes it is told of."""

    def notice(self, kind: Kind, change: Change, /) -> Iterable[Key]:
        """The keys to look at because of a change, or of an object that is there, as `ADDED`."""

    async def look(self, key: Key, /) -> float | None:
        """Make it as it should be; a StatusError "not found" means that nothing is to be done.

        Returns:
            When to look again even if nothing changes, in seconds since 1970; None for never.
        """


class Runner:
    """One controller at work; `make` makes one that knows nothing yet."""

    def __init__(self, make: Callable[[], Controller], registry: Registry) -> None:
        self._make = make
        self._controller = make()
        self._name = self._controller.name
        self._registry = registry
        self._queue = Queue()
        self._wake = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        """Run until the store is closed, or this is cancelled."""
        while not self._is_over:
            try:
                await self._follow()
            except* TooOldError:
                log.info("controller %s starts over: it was too slow", self._name)
            except* Exception as errors:  # noqa: BLE001  a new controller may work
                report(Part.CONTROLLER, errors, f"controller {self._name} starts over")
            if not self._is_over:
                await asyncio.sleep(RESTART_PAUSE_S)
                self._controller = self._make()

    async def _follow(self) -> None:
        """Run until the store is closed; ExceptionGroup if the changes could not be followed."""
        self._queue = Queue()
        store = self._registry.store
        watchers: list[tuple[Kind, Watcher]] = []
        try:
            for kind in self._controller.kinds:
                collection = store.collection(kind.collection)
                watchers.append((kind, collection.watch(store.resource_version)))
                for entry in collection.snapshot():
                    self._note(kind, Change(entry.resource_version, ChangeType.ADDED, entry, None))
            async with asyncio.TaskGroup() as group:
                for kind, watcher in watchers:
                    group.create_task(self._pump(kind, watcher), name=f"{self._name} {kind.plural}")
                await self._work()
        finally:
            for _, watcher in watchers:
                watcher.close()

    async def _pump(self, kind: Kind, watcher: Watcher) -> None:
        """Pass changes to the controller."""
        while await watcher.wait():
            for change in watcher.read(BATCH):
                self._note(kind, change)
            self._wake.set()
        self._is_over = True
        self._wake.set()

    def _note(self, kind: Kind, change: Change) -> None:
        now_s = self._registry.clock()
        for key in self._controller.notice(kind, change):
            self._queue.add(key, now_s)

    async def _work(self) -> None:
        """Look at keys as they become due."""
        looks = 0
        while not self._is_over:
            self._wake.clear()
            key = self._queue.take(self._registry.clock())
            if key is None:
                await self._wait()
                looks = 0
                continue
            await self._look(key)
            looks += 1
            if looks % LOOKS_IN_A_ROW == 0:
                await asyncio.sleep(0)

    async def _look(self, key: Key) -> None:
        try:
            again_s = await look_at(self._controller, key)
        except Exception as error:  # noqa: BLE001  others go on meanwhile
            pause_s = self._queue.retry(key, self._registry.clock())
            text = "controller %s failed at %s, tries again in %.3f s"
            values = (self._name, "/".join(key), pause_s)
            if isinstance(error, StatusError):
                log.info(f"{text}: %s", *values, error.message)  # noqa: G004  a constant
            elif isinstance(error, StoreError):
                # Without a trace: it fails for each object while the disk is full.
                log.warning(f"{text}: %s", *values, error)  # noqa: G004  a constant
            else:
                report(Part.CONTROLLER, error, text % values)
            return
        self._queue.forget_failures(key)
        if again_s is not None:
            self._queue.add(key, again_s)

    async def _wait(self) -> None:
        """Wait for a change, or until something is due."""
        next_s = self._queue.next_s
        delay_s = None if next_s is None else max(next_s - self._registry.clock(), 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._wake.wait()


async def look_at(controller: Controller, key: Key) -> float | None:
    """Let a controller look at a key; a missing object needs nothing."""
    try:
        return await controller.look(key)
    except StatusError as error:
        if not is_not_found(error):
            raise
        return None


def is_not_found(error: StatusError) -> bool:
    """Whether an operation failed because its object is missing."""
    return error.code == NOT_FOUND
