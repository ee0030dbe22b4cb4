"""Runs controllers: passes each the changes of the kinds that it watches, and lets it work.

1. A controller gets every object first, then every change, in order; if it is too slow, or fails,
   a new one takes its place.
2. The keys that it has to look at wait in a queue, each once, with the earliest time that it was
   added with; so many changes cause one look.
3. A look that fails is logged, and repeated after a pause that doubles with each failure in a row;
   other keys go on meanwhile.
4. `problem` tells of one that failed lately, stands still, or fails again and again at a key.

Source: client-go's `util/workqueue`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from typing import TYPE_CHECKING, ClassVar

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.outcomes import WriteOptions
from apfproxy.apiserver.store.entries import Change, ChangeType, StoreError, TooOldError
from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import Supervised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.collection import Watcher
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

    Edit = Callable[[Object], Object]
    Place = tuple[str, str]  # namespace and name

log = logging.getLogger(__name__)

Key = tuple[str, ...]
"""Holds what a controller looks at in one go, such as namespace and name of an object."""

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 60.0
"""client-go's pauses are from 5 ms to 1000 s, which is too long for an unattended server."""
STUCK = 5  # failures in a row at a key that `problem` tells of
MOST_TIMES = 100  # of keys that came again for earlier times, beside two for each key
MOST_CHARACTERS = 500  # of the reason that is told
BATCH = 200  # changes that are read at once: a few milliseconds of work at most
NOTED_AT_ONCE = 1000  # objects or keys that are noted before other tasks run: some milliseconds
IN_A_ROW = 20
"""Looks, or writes of one look, before other tasks run, since a store in memory never waits."""
RESTART_PAUSE_S = 1.0
IDLE_S = 60.0
STALE_S = 600.0
"""No look takes longer; a controller without work shows each `IDLE_S` that it is there."""
NOT_FOUND = 404


class Queue:
    """Keys by time, in seconds since 1970."""

    def __init__(self) -> None:
        self._times: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._stuck: dict[Key, str] = {}
        self._now_s = 0.0

    def __len__(self) -> int:
        return len(self._times)

    def add(self, key: Key, at_s: float) -> None:
        known = self._times.get(key)
        if known is None or at_s < known:
            self._times[key] = at_s
            heapq.heappush(self._heap, (at_s, key))
            if len(self._heap) > MOST_TIMES + 2 * len(self._times):
                self._heap = [(at_s, key) for key, at_s in self._times.items()]
                heapq.heapify(self._heap)

    def take(self, now_s: float) -> Key | None:
        """The key that has been due longest; None if none is due.

        All are due once the clock went back: they would wait for as long as it did.
        """
        if now_s < self._now_s:
            self._times = dict.fromkeys(self._times, now_s)
            self._heap = [(now_s, key) for key in self._times]
        self._now_s = now_s
        next_s = self.next_s
        if next_s is None or next_s > now_s:
            return None
        _, key = heapq.heappop(self._heap)
        del self._times[key]
        return key

    @property
    def next_s(self) -> float | None:
        """When the next key is due; None if there is none."""
        while self._heap:
            at_s, key = self._heap[0]
            if self._times.get(key) == at_s:
                return at_s
            heapq.heappop(self._heap)  # it was added again for an earlier time
        return None

    def problem(self) -> str | None:
        """Says which key has failed longest, and how many others; None if none keeps failing."""
        if not self._stuck:
            return None
        key, why = next(iter(self._stuck.items()))
        others = f" and {len(self._stuck) - 1} more" if len(self._stuck) > 1 else ""
        return f"fails again and again at {'/'.join(key)}{others}: {why}"

    def retry(self, key: Key, now_s: float, why: str) -> float:
        """Have a key that failed looked at again, after a pause in seconds, which is returned."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if failures + 1 >= STUCK:
            self._stuck[key] = why[:MOST_CHARACTERS]
        pause_s = min(FIRST_PAUSE_S * (1 << min(failures, 30)), LONGEST_PAUSE_S)
        self.add(key, now_s + pause_s)
        return pause_s

    def forget_failures(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._stuck.pop(key, None)


class Controller:
    name: ClassVar[str] = ""
    manager: ClassVar[str] = "kube-controller-manager"
    kinds: tuple[Kind, ...] = ()

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        """The keys to look at because of a change, or of an object that is there, as `ADDED`."""
        raise NotImplementedError

    def due_s(self, _key: Key) -> float:
        """When a key may be looked at, in seconds since 1970; 0 for at once."""
        return 0.0

    async def look(self, key: Key) -> float | None:
        """Make it as it should be; a StatusError "not found" means that nothing is to be done.

        Returns:
            When to look again even if nothing changes, in seconds since 1970; None for never.
        """
        raise NotImplementedError

    def _head(self, kind: Kind, namespace: str, name: str) -> Entry | None:
        return self._registry.store.head(kind.collection, namespace, name)

    async def _update(self, kind: Kind, place: Place, edit: Edit, subresource: str = "") -> None:
        options = WriteOptions(self.manager, subresource=subresource)
        await self._registry.update(kind, *place, edit, options)

    async def _apply_condition(
        self, kind: Kind, place: Place, condition: Object, manager: str
    ) -> None:
        patch = {"metadata": {"name": place[1]}, "status": {"conditions": [condition]}}
        options = WriteOptions(manager, subresource="status", force=True)
        await self._registry.apply(kind, *place, patch, options)


class Runner:
    """One controller at work; `make` makes one that knows nothing yet."""

    def __init__(self, name: str, make: Callable[[], Controller], registry: Registry) -> None:
        self._name = f"controller {name}"
        self._make = make
        self._registry = registry
        self._queue = Queue()
        self._wake = asyncio.Event()
        self._is_over = False
        supervised = Supervised(Part.CONTROLLER, self._name, self._run, stale_after_s=STALE_S)
        self.start, self._problem = supervised.start, supervised.problem

    def problem(self) -> str | None:
        return self._problem() or self._queue.problem()

    async def _run(self, beat: Callable[[], None]) -> None:
        """Run until the store is closed; ExceptionGroup if the changes could not be followed."""
        while not self._is_over:
            try:
                await self._follow(beat)
            except* TooOldError:
                log.info("%s starts over: it missed changes; see --watch-window", self._name)
                await asyncio.sleep(RESTART_PAUSE_S)

    async def _follow(self, beat: Callable[[], None]) -> None:
        controller, self._queue = self._make(), Queue()
        store = self._registry.store
        watchers: list[tuple[Kind, Watcher]] = []
        try:
            for kind in controller.kinds:
                collection = store.collection(kind.collection)
                watchers.append((kind, collection.watch(store.resource_version)))
                for number, entry in enumerate(collection.snapshot(), 1):
                    change = Change(entry.resource_version, ChangeType.ADDED, entry, None)
                    await self._note(controller, kind, change)
                    if number % NOTED_AT_ONCE == 0:
                        await asyncio.sleep(0)
            async with asyncio.TaskGroup() as group:
                for kind, watcher in watchers:
                    name = f"{self._name} {kind.plural}"
                    group.create_task(self._pump(controller, kind, watcher), name=name)
                await self._work(controller, beat)
        finally:
            for _, watcher in watchers:
                watcher.close()

    async def _pump(self, controller: Controller, kind: Kind, watcher: Watcher) -> None:
        while await watcher.wait():
            for number, change in enumerate(watcher.read(BATCH), 1):
                await self._note(controller, kind, change)
                await let_others(number)
            self._wake.set()
        self._is_over = True
        self._wake.set()

    async def _note(self, controller: Controller, kind: Kind, change: Change) -> None:
        now_s = self._registry.clock()
        for number, key in enumerate(controller.notice(kind, change), 1):
            self._queue.add(key, now_s)
            if number % NOTED_AT_ONCE == 0:  # an owner may have any number of dependents
                await asyncio.sleep(0)

    async def _work(self, controller: Controller, beat: Callable[[], None]) -> None:
        looks = 0
        while not self._is_over:
            beat()
            self._wake.clear()
            key = self._queue.take(self._registry.clock())
            if key is None:
                await self._wait()
                looks = 0
                continue
            due_s = controller.due_s(key)
            if due_s > self._registry.clock():
                self._queue.add(key, due_s)
            else:
                await self._look(controller, key)
            looks += 1
            await let_others(looks)

    async def _look(self, controller: Controller, key: Key) -> None:
        try:
            again_s = await look_at(controller, key)
        except Exception as error:  # noqa: BLE001  others go on meanwhile
            why = error.message if isinstance(error, StatusError) else str(error)
            pause_s = self._queue.retry(key, self._registry.clock(), why)
            text = f"{self._name} failed at {'/'.join(key)}, tries again in {pause_s:.3f} s"
            if isinstance(error, StatusError):
                log.info("%s: %s", text, why)
            elif isinstance(error, StoreError):
                # Without a trace: it fails for each object while the disk is full.
                log.warning("%s: %s", text, why)
            else:
                report(Part.CONTROLLER, error, text)
            return
        self._queue.forget_failures(key)
        if again_s is not None:
            self._queue.add(key, again_s)

    async def _wait(self) -> None:
        next_s = self._queue.next_s
        delay_s = IDLE_S if next_s is None else min(next_s - self._registry.clock(), IDLE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(delay_s, 0)):
                await self._wake.wait()


async def let_others(number: int) -> None:
    """Let other tasks run after each few pieces of work; this is the one of such a number."""
    if number % IN_A_ROW == 0:
        await asyncio.sleep(0)


async def look_at(controller: Controller, key: Key) -> float | None:
    """Let a controller look at a key; a missing object needs nothing."""
    try:
        return await controller.look(key)
    except StatusError as error:
        if not is_not_found(error):
            raise
        return None


def is_not_found(error: StatusError) -> bool:
    return error.code == NOT_FOUND
