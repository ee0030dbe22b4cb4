"""The store: one counter of resource versions over all collections, in memory, kept by a backend.

Rules:

1. A write gets its resource version, and becomes the head of its object, in the very call that
   hands it over.  Who decides about a write looks at heads.
2. Readers, watchers and the writer itself see it when the backend has it for good, in the order of
   resource versions.  Without a backend that is at once.
3. While the backend writes one batch, the next one gathers, so that many writers share one fsync.
4. If the backend refuses, every write that was handed over and is not kept fails, since later ones
   were decided on earlier ones.  Heads go back to what is published; new writes are tried again.
   Resource versions of failed writes are not given again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.store.collection import Collection
from apfproxy.apiserver.store.entries import (
    Change,
    ChangeType,
    Entry,
    ObjectTooLargeError,
    StoreError,
    entry_of,
    key_of,
)
from apfproxy.apiserver.store.window import DEFAULT_CHANGES
from apfproxy.base.faults import Part, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

log = logging.getLogger(__name__)

FIRST_RESOURCE_VERSION = 1
"""Of an empty store, as in etcd: 0 means "any" in requests."""

MAX_BATCH_CHANGES = 1000
"""Changes handed to the backend at once; publishing them takes about 10 ms."""

LARGEST_OBJECT_BYTES = 2 * 1024 * 1024
"""Of an object as JSON: about what fits into etcd's 1.5 MiB of protobuf, which is shorter."""


class Loaded(NamedTuple):
    """What a backend has.

    Attributes:
        resource_version: The newest one.
        entries: Objects that are there.
        changes: Of all resources, oldest first, as far back as the floors.
        floors: Resource to the resource version of the newest change that is no longer there.
    """

    resource_version: int
    entries: Sequence[Entry]
    changes: Sequence[Change]
    floors: Mapping[str, int]


class Backend(Protocol):
    """Makes changes durable.  Its methods block; only one is called at a time."""

    def load(self) -> Loaded:
        """Everything that is kept; StoreError if it cannot be read."""

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        """Keep changes, oldest first, all or none, in a thread of the store's; StoreError if none.

        The changes of a resource up to its floor, a resource version, need not be kept.
        """

    def close(self) -> None:
        """Release all resources."""


class Pending(NamedTuple):
    """A write that was handed over and is not durable yet."""

    change: Change
    future: asyncio.Future[Entry]


class Store:
    """All collections, and the one way to change them.

    Attributes:
        resource_version: Of the newest change that readers see.
    """

    def __init__(
        self,
        *,
        window: int = DEFAULT_CHANGES,
        backend: Backend | None = None,
        counters: ApiServerCounters | None = None,
        on_problem: Callable[[str | None], None] = lambda _problem: None,
    ) -> None:
        """A store with what the backend has, or in memory only; blocks while it loads.

        The window is the number of changes of each resource that watches can go back; fewer if they
        weigh too much, and at most an eighth more.  `on_problem` is called with the reason when
        the backend begins to fail, and with None when it works again.  StoreError if the backend
        cannot be read.
        """
        self._window = window
        self._backend = backend
        self.resource_version = FIRST_RESOURCE_VERSION
        self._collections: dict[str, Collection] = {}
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_closed = False
        # Only with a backend:
        self._heads: dict[tuple[str, str], Change] = {}  # the newest pending one of each object
        self._queue: list[Pending] = []
        self._in_flight: list[Pending] = []
        self._is_scheduled = False
        self._drained = asyncio.Event()
        self._drained.set()
        self._executor: ThreadPoolExecutor | None = None
        self._counters = counters or ApiServerCounters()
        self._on_problem = on_problem
        self._problem: str | None = None
        if backend is not None:
            try:
                self._restore(backend.load())
            except StoreError:
                backend.close()
                raise
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._assigned = self.resource_version

    @property
    def pending(self) -> int:
        """Writes that were handed over and are not durable yet."""
        return len(self._queue) + len(self._in_flight)

    def collection(self, resource: str) -> Collection:
        """The published objects of a resource; an empty collection if there never were any."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(
                resource, lambda: self.resource_version, self._window
            )
            if self._is_closed:
                found.close()
        return found

    def head(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The newest state of an object, kept or not; None if there is no such object."""
        if self._heads:
            change = self._heads.get((resource, key_of(namespace, name)))
            if change is not None:
                return None if change.type is ChangeType.DELETED else change.entry
        return self.collection(resource).get(namespace, name)

    def heads(self, resource: str, namespace: str | None = None) -> list[Entry]:
        """The newest states of the objects of a resource, in order."""
        overlay = {
            key: None if change.type is ChangeType.DELETED else change.entry
            for (pending_resource, key), change in self._heads.items()
            if pending_resource == resource
        }
        return self.collection(resource).overlaid(overlay, namespace)

    def put(
        self, resource: str, obj: dict[str, Any], fields: Mapping[str, str]
    ) -> asyncio.Future[Entry]:
        """Create or replace an object.  To be called with an event loop running.

        Args:
            resource: Plural, with the group if the caller's names have it.
            obj: In the storage version.  Its `metadata.resourceVersion` is set.
            fields: The values that field selectors may name.

        Returns:
            Resolves when readers see the new state; StoreError if the disk refuses.  Without a
            backend it is done already.  A caller that goes away does not take the write back.

        Raises:
            StoreError: The store is closed.
            ObjectTooLargeError: The object is; nothing was done.
            TypeError: The object is not JSON; nothing was done.
        """
        entry = self._entry(resource, obj, fields)
        size = len(entry.data)
        if size > LARGEST_OBJECT_BYTES:
            raise ObjectTooLargeError(f"{size} bytes are more than {LARGEST_OBJECT_BYTES}")
        old = self.head(resource, entry.namespace, entry.name)
        change_type = ChangeType.ADDED if old is None else ChangeType.MODIFIED
        return self._hand_over(Change(entry.resource_version, change_type, entry, old))

    def delete(
        self, resource: str, obj: dict[str, Any], fields: Mapping[str, str]
    ) -> asyncio.Future[Entry]:
        """Delete an object that has a head; as `put`, with the final state for watchers.

        Raises:
            LookupError: There is no such object; nothing was done.
        """
        entry = self._entry(resource, obj, fields)
        old = self.head(resource, entry.namespace, entry.name)
        if old is None:
            raise LookupError(f"{resource} {entry.key} is not in the store")
        return self._hand_over(Change(entry.resource_version, ChangeType.DELETED, entry, old))

    async def wait_for(self, resource_version: int, timeout_s: float) -> bool:
        """Wait until readers see a version; False if the time is over or the store closes."""
        if resource_version <= self.resource_version:
            return True
        if self._is_closed:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (resource_version, future)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return resource_version <= self.resource_version

    async def close(self) -> None:
        """Take no more writes, finish those that were handed over, end all watches."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._drained.wait()
        for collection in self._collections.values():
            collection.close()
        for _, future in self._waiters:
            if not future.done():
                future.set_result(None)
        if self._backend is not None and self._executor is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._backend.close)
            self._executor.shutdown()

    def _entry(self, resource: str, obj: dict[str, Any], fields: Mapping[str, str]) -> Entry:
        """The object's next state, with the next resource version."""
        if self._is_closed:
            raise StoreError("the store is closed: the server is stopping")
        resource_version = self._assigned + 1
        obj["metadata"]["resourceVersion"] = str(resource_version)
        return entry_of(resource, obj, fields, resource_version)

    def _hand_over(self, change: Change) -> asyncio.Future[Entry]:
        self._assigned = change.resource_version
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Entry] = loop.create_future()
        if self._backend is None:
            collection = self.collection(change.entry.resource)
            collection.apply(change)
            self.resource_version = change.resource_version
            future.set_result(change.entry)
            collection.wake()
            if self._waiters:
                self._wake_waiters()
            return future
        self._heads[change.entry.resource, change.entry.key] = change
        self._queue.append(Pending(change, future))
        self._drained.clear()
        if not self._is_scheduled and not self._in_flight:
            # All writes of one turn of the event loop share a batch.
            self._is_scheduled = True
            loop.call_soon(self._write)
        return future

    def _write(self) -> None:
        """Give the backend the next batch."""
        assert self._backend is not None
        self._is_scheduled = False
        self._in_flight = self._queue[:MAX_BATCH_CHANGES]
        del self._queue[:MAX_BATCH_CHANGES]
        changes = [pending.change for pending in self._in_flight]
        floors = {name: collection.floor for name, collection in self._collections.items()}
        try:
            asyncio.get_running_loop().run_in_executor(
                self._executor, timed_write, self._backend, changes, floors
            ).add_done_callback(self._on_written)
        except Exception as error:  # noqa: BLE001  the writers get any error
            report(Part.STORE, error)
            self._fail(error)
            self._drained.set()

    def _on_written(self, written: asyncio.Future[int]) -> None:
        batch, error = self._in_flight, written.exception()
        try:
            if error is None:
                self._counters.commit_ns.observe(written.result())
                self._counters.committed_changes += len(batch)
                self._publish()
            else:
                self._counters.commit_failures += 1
                self._fail(error)
            problem = None if error is None else str(error)
            if problem != self._problem:
                self._problem = problem
                self._on_problem(problem)
        except Exception as failure:  # noqa: BLE001  the next batch goes on
            report(Part.STORE, failure)
            refuse(batch, failure)
        if self._queue:
            self._write()
        else:
            self._drained.set()

    def _publish(self) -> None:
        """Make a durable batch visible."""
        batch, self._in_flight = self._in_flight, []
        touched: dict[str, Collection] = {}
        for change, _ in batch:
            entry = change.entry
            collection = touched[entry.resource] = self.collection(entry.resource)
            collection.apply(change)
            if self._heads.get((entry.resource, entry.key)) is change:
                del self._heads[entry.resource, entry.key]
        self.resource_version = batch[-1].change.resource_version
        for change, future in batch:
            if not future.done():
                future.set_result(change.entry)
        for collection in touched.values():
            collection.wake()
        self._wake_waiters()

    def _fail(self, error: BaseException) -> None:
        """Discard all writes that are not durable."""
        failed = self._in_flight + self._queue
        self._in_flight = []
        self._queue.clear()
        self._heads.clear()
        log.error("%d writes failed: %s", len(failed), error)
        refuse(failed, error)

    def _wake_waiters(self) -> None:
        version = self.resource_version
        for wanted, future in self._waiters:
            if wanted <= version and not future.done():
                future.set_result(None)

    def _restore(self, loaded: Loaded) -> None:
        """Fill the empty store."""
        self.resource_version = max(loaded.resource_version, FIRST_RESOURCE_VERSION)
        entries: dict[str, list[Entry]] = {}
        changes: dict[str, list[Change]] = {}
        for entry in loaded.entries:
            entries.setdefault(entry.resource, []).append(entry)
        for change in loaded.changes:
            changes.setdefault(change.entry.resource, []).append(change)
        for resource in sorted(entries.keys() | changes.keys() | loaded.floors.keys()):
            self.collection(resource).restore(
                entries.get(resource, ()), changes.get(resource, ()), loaded.floors.get(resource, 0)
            )


def timed_write(backend: Backend, changes: Sequence[Change], floors: Mapping[str, int]) -> int:
    """Have the backend keep changes; returns the nanoseconds that it took."""
    started_ns = time.monotonic_ns()
    backend.write(changes, floors)
    return time.monotonic_ns() - started_ns


def refuse(batch: Iterable[Pending], error: BaseException) -> None:
    """Fail the writers of changes that are not durable, or may not be."""
    for _, future in batch:
        if not future.done():
            refusal = StoreError(str(error))
            refusal.__cause__ = error
            future.set_exception(refusal)
            future.exception()  # retrieved: asyncio need not report it
