"""Lists, with pages, and watches: a line of JSON for each change, for as long as the client wants.

Tokens for the next page have Kubernetes' form: JSON with the resource version of the first page and
the key after the last object, `namespace/name` or `name` with a NUL, in base64 for URLs without
padding.

Source: Kubernetes documentation, "API Concepts", "Retrieving large results sets in chunks",
"Resource versions", "Efficient detection of changes", "Watch bookmarks", "Streaming lists";
apiserver's `storage/interfaces.go`, `storage/continue.go`, `storage/cacher`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import posixpath
import string
import sys
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from apfproxy.apiserver.counters import Tally, WatchMeter
from apfproxy.apiserver.errors import StatusError, bad_request, expired
from apfproxy.apiserver.options import ANY_VERSION, EXACT
from apfproxy.apiserver.schema.body import BodyError, parse_json
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.schema.types import Field, Scalar, Struct
from apfproxy.apiserver.store.entries import ChangeType, Entry, TooOldError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from apfproxy.apiserver.options import ListOptions
    from apfproxy.apiserver.responses import Renderer
    from apfproxy.apiserver.selectors import FieldSelector, LabelSelector
    from apfproxy.apiserver.store.collection import Collection, Watcher
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.objects.types import Object

    Write = Callable[[bytes], Awaitable[None]]

NEWER_WAIT_S = 3.0
"""How long a list waits for a future resource version; Kubernetes' time."""
CONDITIONS_AT_ONCE = 10_000
"""Conditions of a selector that are judged before other tasks run: about 2 ms."""

LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)
LATEST = -1
"""The resource version in tokens for an inconsistent continuation."""

FORM = "meta.k8s.io/v1"
LONGEST_TOKEN = 4096
"""Characters; namespace and name have 316 at most."""
ALPHABET = frozenset(string.ascii_letters + string.digits + "-_")
TOKEN = Struct(
    "continueToken",
    (Field("v", Scalar.STRING), Field("rv", Scalar.INT64), Field("start", Scalar.STRING)),
    "storage",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected objects; "" and None are for all."""

    namespace: str = ""
    name: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    @property
    def is_whole(self) -> bool:
        return not self.name and self.labels is None and self.fields is None

    @property
    def at_once(self) -> int:
        """Objects, at least one, that are judged before other tasks run."""
        conditions = 1 if self.fields is None else 1 + len(self.fields.requirements)
        if self.labels is not None:
            conditions += sum(1 + len(each.values) for each in self.labels.requirements)
        return max(CONDITIONS_AT_ONCE // conditions, 1)

    async def among(self, entries: list[Entry], most: int | None = None) -> list[Entry]:
        """The selected ones, at most so many."""
        found: list[Entry] = []
        at_once = self.at_once
        for start in range(0, len(entries), at_once):
            if start:
                await asyncio.sleep(0)
            found += filter(self.matches, entries[start : start + at_once])
            if most is not None and len(found) >= most:
                break
        return found[:most]

    def matches(self, entry: Entry) -> bool:
        return (
            (not self.namespace or entry.namespace == self.namespace)
            and (not self.name or entry.name == self.name)
            and (self.labels is None or self.labels.matches(entry.labels))
            and (self.fields is None or self.fields.matches(entry))
        )


class Page(NamedTuple):
    entries: list[Entry]
    metadata: Object


async def wait_until_visible(store: Store, resource_version: int) -> None:
    """Wait until readers see a resource version; StatusError 504 after `NEWER_WAIT_S`."""
    if await store.wait_for(resource_version, NEWER_WAIT_S):
        return
    problem = "Too large resource version"
    cause = {"reason": "ResourceVersionTooLarge", "message": problem}
    message = f"Timeout: {problem}: {resource_version}, current: {store.resource_version}"
    raise StatusError(504, "Timeout", message, {"causes": [cause]}, retry_after_s=1)


async def page(
    store: Store, collection: Collection, selection: Selection, options: ListOptions
) -> Page:
    """Select the objects of a list; StatusError if their state is too old or in the future."""
    at: int | None = None
    start: tuple[str, str] | None = None
    limit = options.limit
    if options.continue_token:
        resource_version, start = _read_token(options.continue_token)
        if options.resource_version not in ANY_VERSION:
            raise bad_request("specifying resource version is not allowed when using continue")
        at = None if resource_version == LATEST else resource_version
    elif options.resource_version == "0":
        limit = 0  # as from Kubernetes' watch cache, which ignores the limit
    elif options.resource_version:
        wanted = int(options.resource_version)
        await wait_until_visible(store, wanted)
        is_paged = limit > 0 and not options.resource_version_match
        if options.resource_version_match == EXACT or is_paged:
            at = wanted
    namespace, is_whole = selection.namespace or None, selection.is_whole
    version = store.resource_version if at is None else at
    metadata: Object = {"resourceVersion": str(version)}
    # One more tells whether there are more; no list has the largest number that a client can ask.
    most = limit + 1 if 0 < limit < sys.maxsize else None
    try:
        entries = collection.snapshot(namespace, at, start, most if is_whole else None)
    except TooOldError as error:
        if start is None:
            raise expired(LIST_TOO_OLD) from error
        # With a token to go on without consistency.
        metadata = {"continue": _token(LATEST, start)}
        raise StatusError(410, "Expired", CONTINUE_TOO_OLD, metadata=metadata) from error
    if not is_whole:
        entries = await selection.among(entries, most)
    if 0 < limit < len(entries):
        del entries[limit:]
        last = (entries[-1].namespace, entries[-1].name)
        metadata["continue"] = _token(version, last)
        if is_whole:
            metadata["remainingItemCount"] = collection.count(namespace, at, last)
    return Page(entries, metadata)


def _token(resource_version: int, last: tuple[str, str]) -> str:
    key = "/".join(filter(None, last))
    data = msgspec.json.encode({"v": FORM, "rv": resource_version, "start": f"{key}\0"})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    """The resource version, and the key after which the list goes on; StatusError 400."""
    if len(token) > LONGEST_TOKEN:
        raise _refused(f"it has more than {LONGEST_TOKEN} characters")
    wrong = next((at for at, each in enumerate(token) if each not in ALPHABET), None)
    if wrong is None and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong is not None:
        raise _refused(f"illegal base64 data at input byte {len(token[:wrong].encode())}")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        raw = parse_json(data).raw
        found = read(TOKEN, {} if raw is None else raw).obj
    except (BodyError, MismatchError) as error:
        raise _refused(str(error)) from error
    version, resource_version = found.get("v", ""), found.get("rv", 0)
    start = found.get("start", "")
    if version != FORM:
        raise _refused(f"server does not recognize this encoded version {version}")
    if resource_version == 0:
        raise _refused(f"incorrect encoded start resourceVersion (version {FORM})")
    if not start:
        raise _refused(f"encoded start key empty (version {FORM})")
    key = "/" + start.removeprefix("/")
    if posixpath.normpath(key) != key:
        raise _refused(start)
    namespace, _, name = key.removesuffix("\0").removeprefix("/").rpartition("/")
    return resource_version, (namespace, name)


def _refused(message: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {message}")


T = TypeVar("T")

METER: ContextVar[WatchMeter | None] = ContextVar("meter", default=None)
"""The meter of the request, if it is a watch."""

LEFT = "left"
"""The key, among what was encoded of a change, of the object's last state with the new version."""
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


@dataclass(slots=True)
class Watch:
    """A watch of one client; `chance` draws how long it lasts."""

    store: Store
    collection: Collection
    selection: Selection
    options: ListOptions
    renderer: Renderer
    chance: random.Random
    _is_of_all: bool = False
    _duration_s: float = 0
    _initial: deque[Entry] | None = None
    _unwritten: deque[Change] = field(default_factory=deque)
    _position: int = 0
    _failure: StatusError | None = None
    _events: Tally = field(default_factory=Tally)

    async def begin(self) -> None:
        options, store = self.options, self.store
        self._is_of_all = self.selection.is_whole and not self.selection.namespace
        self._duration_s = options.timeout_s or self.chance.uniform(SHORTEST_S, LONGEST_S)
        is_any = options.resource_version in ANY_VERSION
        wanted = options.send_initial_events
        is_initial = is_any if wanted is None else wanted
        if is_initial and not is_any:
            try:
                await wait_until_visible(store, int(options.resource_version))
            except StatusError as error:
                self._failure = error
                return
        is_now = is_initial or is_any
        self._position = store.resource_version if is_now else int(options.resource_version)
        if is_initial:
            entries = self.collection.snapshot(self.selection.namespace or None)
            is_whole = self.selection.is_whole
            self._initial = deque(entries if is_whole else await self.selection.among(entries))

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
            with contextlib.closing(self.collection.watch(self._position)) as watcher:
                await self._write_initial(write)
                if meter is not None:
                    meter.on_initial()
                await self._run(watcher, write, end)
        except TooOldError as error:
            await self._write_error(write, expired(str(error)))

    async def _run(self, watcher: Watcher, write: Write, end: float) -> None:
        loop, at_once = asyncio.get_running_loop(), min(BATCH, self.selection.at_once)
        while True:
            bookmark = self._next_bookmark(loop.time(), end)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end if bookmark is None else bookmark):
                    while await watcher.wait():
                        self._unwritten.extend(changes := watcher.read(at_once))
                        await self._write_changes(write)
                        if len(changes) == at_once:
                            await asyncio.sleep(0)  # a watch that catches up never waits
                    return  # the server stops
            if bookmark is None:
                return
            # A bookmark promises that all changes before it are written.
            await self._write_changes(write)
            await self._write_bookmark(write, watcher.position)

    def _next_bookmark(self, now: float, end: float) -> float | None:
        if not self.options.allow_watch_bookmarks:
            return None
        time = min(now + BOOKMARK_S, end - BEFORE_END_S)
        return time if time > now else None

    async def _write_initial(self, write: Write) -> None:
        if self._initial is None:
            return
        event = partial(self.renderer.event, ChangeType.ADDED)
        while self._initial:
            await write(_taken(self._initial, event, self._events))
            # Writing to a fast client never waits, so let other tasks run.
            await asyncio.sleep(0)
        self._initial = None
        if self.options.send_initial_events and self.options.allow_watch_bookmarks:
            await self._write_bookmark(write, self._position, is_end_of_initial=True)

    async def _write_changes(self, write: Write) -> None:
        while self._unwritten:
            if lines := _taken(self._unwritten, self._line, self._events):
                await write(lines)

    async def _write_bookmark(
        self, write: Write, position: int, *, is_end_of_initial: bool = False
    ) -> None:
        self._events.count += 1
        await write(self.renderer.bookmark(position, is_end_of_initial=is_end_of_initial))

    async def _write_error(self, write: Write, error: StatusError) -> None:
        self._events.count += 1
        await write(msgspec.json.encode({"type": "ERROR", "object": error.status()}) + b"\n")

    def _line(self, change: Change) -> bytes:
        """The event of a change; empty if the client does not select it."""
        if self._is_of_all:
            return self._shared(change, change.type)
        matched = change.old is not None and self.selection.matches(change.old)
        if change.type is ChangeType.DELETED:
            return self._shared(change, change.type) if matched else b""
        matches = self.selection.matches(change.entry)
        if matches:
            is_new = not matched and change.old is not None
            return self._shared(change, ChangeType.ADDED if is_new else change.type)
        return self._shared(change, ChangeType.DELETED) if matched else b""

    def _shared(self, change: Change, type_: ChangeType) -> bytes:
        """The event of a type that a change is for some watchers, encoded once for all of them."""
        renderer, encoded = self.renderer, change.encoded
        if encoded is None:
            return renderer.event(type_, _seen(change, type_, {}))
        if not renderer.cache_key:
            return renderer.event(type_, _seen(change, type_, encoded), encoded)
        key = f"{renderer.cache_key} {type_}"
        if key not in encoded:
            encoded[key] = renderer.event(type_, _seen(change, type_, encoded))
        return encoded[key]


def _seen(change: Change, type_: ChangeType, encoded: dict[str, bytes]) -> Entry:
    """The state that an event has.

    Of an object that a watcher no longer selects it is the last that it saw, with the version of
    the change.
    """
    if change.type is type_ or type_ is not ChangeType.DELETED or change.old is None:
        return change.entry
    version = change.resource_version
    if LEFT not in encoded:
        obj = msgspec.json.decode(change.old.data)
        obj["metadata"]["resourceVersion"] = str(version)
        encoded[LEFT] = msgspec.json.encode(obj)
    return msgspec.structs.replace(change.old, resource_version=version, data=encoded[LEFT])


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
