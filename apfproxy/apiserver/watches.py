"""Watches: a line of JSON for each change, for as long as the client wants it.

Source: Kubernetes documentation, "API Concepts", "Efficient detection of changes", "Watch
bookmarks", "Streaming lists"; apiserver's `storage/cacher`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from apfproxy.apiserver.counters import Tally, WatchMeter
from apfproxy.apiserver.errors import StatusError, expired
from apfproxy.apiserver.lists import wait_until_visible
from apfproxy.apiserver.options import ANY_VERSION
from apfproxy.apiserver.store.entries import ChangeType, Entry, TooOldError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from apfproxy.apiserver.lists import Selection
    from apfproxy.apiserver.options import ListOptions
    from apfproxy.apiserver.rendering import Renderer
    from apfproxy.apiserver.store.collection import Collection, Watcher
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.apiserver.store.store import Store

    Write = Callable[[bytes], Awaitable[None]]

T = TypeVar("T")

METER: ContextVar[WatchMeter | None] = ContextVar("meter", default=None)
"""The meter of the request, if it is a watch."""

SHORTEST_S, LONGEST_S = 1800, 3600
"""Bounds of the random duration of a watch without a timeout, so that not all end together."""
BOOKMARK_S = 60.0
"""Between bookmarks."""
BEFORE_END_S = 2.0
"""The last bookmark comes so long before the end, so that the next watch begins close to now."""
BATCH = 128
"""Changes that are read at once."""
WRITTEN_BYTES = 64 * 1024
"""Events of so many bytes are written before more are encoded: a client that reads nothing costs
so much, and one event."""


class Watch:
    def __init__(
        self,
        store: Store,
        collection: Collection,
        selection: Selection,
        options: ListOptions,
        renderer: Renderer,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._collection = collection
        self._selection = selection
        self._is_of_all = selection.is_whole and not selection.namespace
        self._options = options
        self._renderer = renderer
        self._duration_s = options.timeout_s or chance.uniform(SHORTEST_S, LONGEST_S)
        self._initial: deque[Entry] | None = None
        self._unwritten: deque[Change] = deque()
        self._position = 0
        self._failure: StatusError | None = None
        self._events = Tally()

    async def begin(self) -> None:
        """Find where to begin, before the response starts."""
        options, store = self._options, self._store
        is_any = options.resource_version in ANY_VERSION
        is_initial = options.send_initial_events
        if is_initial is None:
            is_initial = is_any
        if is_initial and not is_any:
            try:
                await wait_until_visible(store, int(options.resource_version))
            except StatusError as error:
                self._failure = error
                return
        if is_initial:
            entries = self._collection.snapshot(self._selection.namespace or None)
            self._initial = deque(filter(self._selection.matches, entries))
        is_now = is_initial or is_any
        self._position = store.resource_version if is_now else int(options.resource_version)

    async def run(self, write: Write, meter: WatchMeter | None = None) -> None:
        """Write events until the time is over, the server stops or the client leaves."""
        if meter is not None:
            self._events = meter.events
        if self._failure is not None:
            await self._write_error(write, self._failure)
            return
        try:
            end = asyncio.get_running_loop().time() + self._duration_s
            # No event after this is missed, though writing the initial ones takes time.
            with contextlib.closing(self._collection.watch(self._position)) as watcher:
                await self._write_initial(write)
                if meter is not None:
                    meter.on_initial()
                await self._run(watcher, write, end)
        except TooOldError as error:
            await self._write_error(write, expired(str(error)))

    async def _run(self, watcher: Watcher, write: Write, end: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            bookmark = self._next_bookmark(loop.time(), end)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end if bookmark is None else bookmark):
                    while await watcher.wait():
                        self._unwritten.extend(watcher.read(BATCH))
                        await self._write_changes(write)
                    return  # the server stops
            if bookmark is None:
                return
            # A bookmark promises that all changes before it are written.
            await self._write_changes(write)
            await self._write_bookmark(write, watcher.position)

    def _next_bookmark(self, now: float, end: float) -> float | None:
        if not self._options.allow_watch_bookmarks:
            return None
        time = min(now + BOOKMARK_S, end - BEFORE_END_S)
        return time if time > now else None

    async def _write_initial(self, write: Write) -> None:
        if self._initial is None:
            return
        event = partial(self._renderer.event, ChangeType.ADDED)
        while self._initial:
            await write(_taken(self._initial, event, self._events))
            # Writing to a fast client never waits, so let other tasks run.
            await asyncio.sleep(0)
        self._initial = None
        if self._options.send_initial_events and self._options.allow_watch_bookmarks:
            await self._write_bookmark(write, self._position, is_end_of_initial=True)

    async def _write_changes(self, write: Write) -> None:
        while self._unwritten:
            if lines := _taken(self._unwritten, self._line, self._events):
                await write(lines)

    async def _write_bookmark(
        self, write: Write, position: int, *, is_end_of_initial: bool = False
    ) -> None:
        self._events.count += 1
        await write(self._renderer.bookmark(position, is_end_of_initial=is_end_of_initial))

    async def _write_error(self, write: Write, error: StatusError) -> None:
        self._events.count += 1
        await write(msgspec.json.encode({"type": "ERROR", "object": error.status()}) + b"\n")

    def _line(self, change: Change) -> bytes:
        """The event of a change; empty if the client does not select it."""
        if self._is_of_all:
            return self._shared(change)
        matched = change.old is not None and self._selection.matches(change.old)
        if change.type is ChangeType.DELETED:
            return self._shared(change) if matched else b""
        matches = self._selection.matches(change.entry)
        if matches and matched == (change.old is not None):
            return self._shared(change)
        if matches:
            return self._renderer.event(ChangeType.ADDED, change.entry)
        if matched and change.old is not None:
            # The last state that the client saw, with the version of the change.
            left = _at_version(change.old, change.resource_version)
            return self._renderer.event(ChangeType.DELETED, left)
        return b""

    def _shared(self, change: Change) -> bytes:
        """The event for watchers that saw the object before, encoded once for all."""
        key, encoded = self._renderer.cache_key, change.encoded
        if not key or encoded is None:
            return self._renderer.event(change.type, change.entry)
        if key not in encoded:
            encoded[key] = self._renderer.event(change.type, change.entry)
        return encoded[key]


def _taken(items: deque[T], line: Callable[[T], bytes], events: Tally) -> bytes:
    """The lines of as many items as are written at once, which leave the queue and are counted."""
    lines: list[bytes] = []
    size = 0
    while items and size < WRITTEN_BYTES:
        if text := line(items.popleft()):
            lines.append(text)
            size += len(text)
    events.count += len(lines)
    return b"".join(lines)


def _at_version(entry: Entry, resource_version: int) -> Entry:
    obj = msgspec.json.decode(entry.data)
    obj["metadata"]["resourceVersion"] = str(resource_version)
    return msgspec.structs.replace(
        entry, resource_version=resource_version, data=msgspec.json.encode(obj)
    )
