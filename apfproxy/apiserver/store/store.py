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
import contextlib
import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.store.collection import Collection, Signal
from apfproxy.apiserver.store.entries import (
    DEFAULT_CHANGES,
    FIRST_RESOURCE_VERSION,
    Change,
    ChangeType,
    Entry,
    ObjectTooLargeError,
    Pool,
    StoreError,
    entry_of,
)
from apfproxy.base.faults import Part, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apfproxy.apiserver.store.sqlite import Loaded, SqliteBackend

    Pending = tuple[Change, asyncio.Future[Entry]]

log = logging.getLogger(__name__)

MAX_BATCH_CHANGES = 1000
"""Changes handed to the backend at once; publishing them takes about 10 ms."""
LARGEST_OBJECT_BYTES = 2 * 1024 * 1024
"""JSON of this size is about what fits into etcd's 1.5 MiB of protobuf, which is shorter."""


class Store:
    """All collections, and the one way to change them.

    The backend's methods block; only one is called at a time, `write` in a thread of the store's.

    Attributes:
        resource_version: Of the newest change that readers see.
    """

    def __init__(
        self,
        *,
        window: int = DEFAULT_CHANGES,
        backend: SqliteBackend | None = None,
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
        self._pool = Pool()
        self._published = Signal()
        self._is_closed = False
        # Only with a backend:
        self._heads: dict[tuple[str, str], Change] = {}  # the newest pending one of each object
        self._queue: list[Pending] = []
        self._in_flight: list[Pending] = []
        self._drained = asyncio.Event()  # nothing is pending
        self._drained.set()
        self._executor: ThreadPoolExecutor | None = None
        self._counters = counters or ApiServerCounters()
        self._on_problem = on_problem
        self._problem: str | None = None
        self._rare_log = RareLog(log, time.monotonic_ns)
        if backend is not None:
            try:
                self._restore(backend.load(self._pool))
            except StoreError:
                backend.close()
                raise
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._assigned = self.resource_version

    @property
    def pending(self) -> int:
        return len(self._queue) + len(self._in_flight)

    def collection(self, resource: str) -> Collection:
        """The published objects of a resource; an empty collection if there never were any."""
        found = self._collections.get(resource)
        if found is None:
            found = Collection(lambda: self.resource_version, self._window)
            self._collections[resource] = found
            if self._is_closed:
                found.changed.close()
        return found

    def head(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The newest state of an object, maybe not durable yet; None if there is none."""
        if self._heads:
            change = self._heads.get((resource, f"{namespace}/{name}"))
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
        self, resource: str, obj: dict[str, Any], fields: dict[str, str]
    ) -> asyncio.Future[Entry]:
        """Create or replace an object.  To be called with an event loop running.

        Args:
            resource: Plural, with the group if the caller's names have it.
            obj: In the storage version.  Its `metadata.resourceVersion` is set.
            fields: Field selector's name to value, but for the object's name and namespace.

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
        self, resource: str, obj: dict[str, Any], fields: dict[str, str]
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
        if resource_version > self.resource_version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while resource_version > self.resource_version and not self._is_closed:
                        await self._published.wait()
        return resource_version <= self.resource_version

    async def close(self) -> None:
        """Take no more writes, finish those that were handed over, end all watches."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._drained.wait()
        for collection in self._collections.values():
            collection.changed.close()
        self._published.close()
        if self._backend is not None and self._executor is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._backend.close)
            self._executor.shutdown()

    def _entry(self, resource: str, obj: dict[str, Any], fields: dict[str, str]) -> Entry:
        if self._is_closed:
            raise StoreError("the store is closed: the server is stopping")
        resource_version = self._assigned + 1
        obj["metadata"]["resourceVersion"] = str(resource_version)
        return entry_of(resource, obj, fields, resource_version, self._pool)

    def _hand_over(self, change: Change) -> asyncio.Future[Entry]:
        self._assigned = change.resource_version
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        entry = change.entry
        if self._backend is None:  # as `_publish`, for one change, 1.5 us of 11 less
            collection = self.collection(entry.resource)
            collection.apply(change)
            self.resource_version = change.resource_version
            future.set_result(entry)
            collection.changed.wake()
            self._published.wake()
            return future
        self._heads[entry.resource, entry.key] = change
        self._queue.append((change, future))
        if self._drained.is_set():
            # All writes of one turn of the event loop share a batch.
            self._drained.clear()
            spawn(self._write_batches(self._backend), name="store")
        return future

    async def _write_batches(self, backend: SqliteBackend) -> None:
        try:
            while self._queue:
                self._in_flight = self._queue[:MAX_BATCH_CHANGES]
                del self._queue[:MAX_BATCH_CHANGES]
                await self._write(backend, self._in_flight)
        finally:
            self._drained.set()

    async def _write(self, backend: SqliteBackend, batch: list[Pending]) -> None:
        problem = None
        try:
            try:
                changes = [change for change, _ in batch]
                floors = {name: found.floor for name, found in self._collections.items()}
                took_ns = await asyncio.get_running_loop().run_in_executor(
                    self._executor, _timed_write, backend, changes, floors
                )
            except Exception as error:  # noqa: BLE001  the writers get any error
                self._counters.commit_failures += 1
                problem = str(error)
                self._fail(error)
            else:
                self._counters.commit_ns.observe(took_ns)
                self._counters.committed_changes += len(batch)
                self._in_flight = []
                self._publish(batch)
            if problem != self._problem:
                self._problem = problem
                self._on_problem(problem)
        except Exception as error:  # noqa: BLE001  the next batch goes on
            report(Part.STORE, error)
            _refuse(batch, error)

    def _publish(self, batch: list[Pending]) -> None:
        """Make writes visible: readers first, then the writers, then watchers."""
        touched: dict[str, Collection] = {}
        for change, _ in batch:
            entry = change.entry
            collection = touched[entry.resource] = self.collection(entry.resource)
            collection.apply(change)
            if self._heads.get((entry.resource, entry.key)) is change:
                del self._heads[entry.resource, entry.key]
        self.resource_version = batch[-1][0].resource_version
        for change, future in batch:
            if not future.done():
                future.set_result(change.entry)
        for collection in touched.values():
            collection.changed.wake()
        self._published.wake()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            report(Part.STORE, error)
        failed = self._in_flight + self._queue
        self._in_flight = []
        self._queue.clear()
        self._heads.clear()
        self._rare_log.log(logging.ERROR, "failed", "%d writes failed: %s", len(failed), error)
        _refuse(failed, error)

    def _restore(self, loaded: Loaded) -> None:
        self.resource_version = loaded.resource_version
        entries: defaultdict[str, list[Entry]] = defaultdict(list)
        changes: defaultdict[str, list[Change]] = defaultdict(list)
        for entry in loaded.entries:
            entries[entry.resource].append(entry)
        for change in loaded.changes:
            changes[change.entry.resource].append(change)
        for resource in sorted(entries.keys() | changes.keys() | loaded.floors.keys()):
            floor = loaded.floors.get(resource, 0)
            self.collection(resource).restore(entries[resource], changes[resource], floor)


def _timed_write(
    backend: SqliteBackend, changes: Sequence[Change], floors: Mapping[str, int]
) -> int:
    started_ns = time.monotonic_ns()
    backend.write(changes, floors)
    return time.monotonic_ns() - started_ns


def _refuse(batch: Iterable[Pending], error: Exception) -> None:
    """Let writes fail; the error was reported with its trace, whose frames would keep the batch."""
    for _, future in batch:
        if not future.done():
            refusal = StoreError(str(error))
            refusal.__cause__ = error.with_traceback(None)
            future.set_exception(refusal)
            future.exception()  # retrieved: asyncio need not report it
