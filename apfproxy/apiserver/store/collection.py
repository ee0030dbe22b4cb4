"""The objects of one resource in memory: lookups, ordered present and past snapshots, watches."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING

from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, TooOldError, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Signal:
    """Wakes all that wait, in the order in which they began to; from `close` on nothing waits."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._is_closed = False

    async def wait(self) -> None:
        if self._is_closed:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        self._is_closed = True
        self.wake()


class Collection:
    """The published objects of one resource, in the order of `namespace/name`.

    The window is the number of changes that are kept, for watches and past snapshots; `newest`
    gives the resource version of the newest change that the store's readers see.
    """

    def __init__(self, newest: Callable[[], int], window: int) -> None:
        self.newest = newest
        self.window = Window(window)
        self.watchers = 0
        self._objects: dict[str, Entry] = {}
        self._keys: list[str] = []
        self.changed = Signal()

    @property
    def floor(self) -> int:
        return self.window.floor

    def get(self, namespace: str, name: str) -> Entry | None:
        return self._objects.get(f"{namespace}/{name}")

    def snapshot(
        self,
        namespace: str | None = None,
        at: int | None = None,
        start: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Objects in order, as they are or as they were.

        Costs what it returns, and a step for each change since `at`.

        Args:
            namespace: Only of this one; None for all.
            at: Resource version of the state to give; None, or one that is yet to come, for now.
            start: Namespace and name after which to begin, whether or not such an object is there.
            limit: The most objects to give; None for all.

        Raises:
            TooOldError: `at` is before the window.
        """
        return self.overlaid(self._undone(at), namespace, start, limit)

    def count(
        self,
        namespace: str | None = None,
        at: int | None = None,
        start: tuple[str, str] | None = None,
    ) -> int:
        """How many objects `snapshot` would give without a limit; TooOldError."""
        first, end = _bounds(namespace, start)
        low, high = self._range(first, end)
        return (high - low) + sum(
            (old is not None) - (key in self._objects)
            for key, old in self._undone(at).items()
            if _is_between(key, first, end)
        )

    def watch(self, after: int) -> Watcher:
        """Follow the changes after a resource version; TooOldError if it is before the window."""
        return Watcher(self, after)

    def overlaid(
        self,
        overlay: Mapping[str, Entry | None],
        namespace: str | None = None,
        start: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Objects in order as `snapshot` gives them, some replaced by key; None for none."""
        objects = self._objects
        first, end = _bounds(namespace, start)
        low, high = self._range(first, end)
        if limit is not None:
            # Each replacement takes at most one of the keys away.
            high = min(high, low + limit + len(overlay))
        keys = self._keys[low:high]
        if not overlay:
            return [objects[key] for key in keys]
        keys += [
            key
            for key, entry in overlay.items()
            if entry is not None and key not in objects and _is_between(key, first, end)
        ]
        keys.sort()
        states = (overlay[key] if key in overlay else objects[key] for key in keys)
        return list(islice((entry for entry in states if entry is not None), limit))

    def restore(self, entries: Iterable[Entry], changes: Iterable[Change], floor: int) -> None:
        self._objects = {entry.key: entry for entry in entries}
        self._keys = sorted(self._objects)
        self.window.floor = floor
        for change in changes:
            self.window.append(change)

    def apply(self, change: Change) -> None:
        """Make a change visible; the signal `changed` wakes its watchers."""
        entry = change.entry
        key = f"{entry.namespace}/{entry.name}"
        if change.type is ChangeType.DELETED:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self._objects:
                insort(self._keys, key)
            self._objects[key] = entry
        self.window.append(change)

    def _undone(self, at: int | None) -> dict[str, Entry | None]:
        """Objects that changed since, by key, as they were; None for those that were not there."""
        if at is None or at >= self.newest():
            return {}
        return {change.entry.key: change.old for change in self.window.since(at)}

    def _range(self, first: str, end: str | None) -> tuple[int, int]:
        keys = self._keys
        low = bisect_right(keys, first) if first else 0
        high = len(keys) if end is None else bisect_left(keys, end)
        return low, max(low, high)


def _bounds(namespace: str | None, start: tuple[str, str] | None) -> tuple[str, str | None]:
    """The keys between which a namespace's objects after a start are; neither is one of theirs."""
    first = "" if start is None else "/".join(start)
    if namespace is None:
        return first, None
    return max(first, f"{namespace}/"), f"{namespace}0"  # 0 follows /


def _is_between(key: str, first: str, end: str | None) -> bool:
    return first < key and (end is None or key < end)


class Watcher:
    """A reader of the changes of one collection, at a position of its own."""

    __slots__ = ("_collection", "_is_closed", "_known", "_next", "_window")

    def __init__(self, collection: Collection, after: int) -> None:
        self._collection = collection
        self._window = collection.window
        self._next = self._window.position(after)
        self._known = after
        self._is_closed = False
        collection.watchers += 1

    @property
    def position(self) -> int:
        """Resource version up to which everything was read.

        A watcher that has read all there is knows that nothing happened up to the newest resource
        version of the whole store: that is what a bookmark may say.
        """
        if self._next == self._window.end:
            self._known = max(self._known, self._collection.newest())
        return self._known

    def read(self, limit: int) -> list[Change]:
        """Changes that were not read yet, oldest first; TooOldError if the window is beyond."""
        changes: list[Change] = []
        while not changes and self._next < self._window.end:
            if self._next < self._window.first:
                raise TooOldError(self._known, self._window.floor)
            changes = self._window.read(self._next, limit)
            self._next += len(changes)
            # One that began at a resource version yet to come skips what is before it.
            if changes[0].resource_version <= self._known:
                changes = [c for c in changes if c.resource_version > self._known]
        if changes:
            self._known = changes[-1].resource_version
        return changes

    async def wait(self) -> bool:
        """Wait for something to read; False once this or the store is closed and all is read."""
        if self._is_closed:
            return False
        if self._next == self._window.end:
            await self._collection.changed.wait()
        return self._next < self._window.end

    def close(self) -> None:
        """Stop reading; harmless once done.  Not from beside a `wait`, which is to be cancelled."""
        if not self._is_closed:
            self._is_closed = True
            self._collection.watchers -= 1
