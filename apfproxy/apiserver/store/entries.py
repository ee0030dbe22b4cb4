"""States of objects, the changes between them, and a window of the newest changes of a resource."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import deque
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_RESOURCE_VERSION = 1
"""An empty store has it, as etcd: 0 means "any" in requests."""
DEFAULT_CHANGES = 10_000
"""Changes kept of a resource.  kube-apiserver's watch cache grows up to 102 400, from 100."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of old and new states kept of a resource: 10 000 changes of 3 KiB objects fit."""
CHANGE_BYTES = 1024
"""The assumed weight of a change beside its JSON: two states with labels and fields."""
SHARED_CHANGES = 1024
"""The newest changes keep what watchers encoded; slower watchers encode for themselves."""
SHARED_BYTES = 8 * 1024 * 1024
"""Bytes of JSON of these changes; each form that watchers encode is about as large."""

SHARED_VALUES = 1024
"""Labels and fields that a pool remembers."""
LARGEST_SHARED = 4096
"""Characters of their names and values, so that the pool is bounded in bytes."""

TYPE_FIELDS = frozenset({"apiVersion", "kind"})


encoder = msgspec.json.Encoder()
encode, encode_into = encoder.encode, encoder.encode_into


class TooOldError(Exception):
    """A resource version is asked for that the window, which begins at `floor`, has no longer."""

    def __init__(self, resource_version: int, floor: int) -> None:
        super().__init__(f"too old resource version: {resource_version} ({floor})")
        self.resource_version = resource_version
        self.floor = floor


class StoreError(Exception):
    """The disk refused, or what is on it cannot be used; says what, where and what to do."""


class ObjectTooLargeError(StoreError):
    """An object is larger than the store takes; the client's fault."""


class ChangeType(enum.StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


# Entries are in no reference cycle, so the garbage collector need not visit hundreds of thousands.
class Entry(msgspec.Struct, frozen=True, gc=False):
    """One state of an object; never changes.

    Attributes:
        resource: Plural, with the group if the caller's names have it.
        labels, fields: Shared with entries that have equal ones; never changed.
        fields: Field selector's name to value, but for the object's own name and namespace.
        data: JSON of the object in the storage version, without `apiVersion` and `kind`; with
            `metadata.resourceVersion`.
    """

    resource: str
    namespace: str
    name: str
    resource_version: int
    uid: str
    labels: dict[str, str]
    fields: dict[str, str]
    data: bytes

    @property
    def key(self) -> str:
        """Sorts as etcd's keys, in which `/` follows `-` and `.`."""
        return f"{self.namespace}/{self.name}"


class Change(msgspec.Struct, gc=False):
    """One step from a state to the next.

    Attributes:
        resource_version: Unique in the store.
        entry: The new state; for DELETED the final one, which has the deletion's resource version.
        old: The state before; None for ADDED.
        encoded: What watchers made of it, by a key of their own, so that many of a kind encode
            once; None for all but the newest changes.
    """

    resource_version: int
    type: ChangeType
    entry: Entry
    old: Entry | None
    encoded: dict[str, bytes] | None = msgspec.field(default_factory=dict)

    @property
    def weight(self) -> int:
        old = 0 if self.old is None else len(self.old.data)
        return CHANGE_BYTES + len(self.entry.data) + old


class Pool:
    """Makes the parts of entries small, of which there are many.

    One of equal labels and fields is kept.  JSON that msgspec returns has up to half of it again as
    unused room, which a copy has not.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._values: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def encoded(self, obj: dict[str, Any]) -> bytes:
        encode_into(obj, self._buffer)
        return bytes(self._buffer)

    def shared(self, strings: dict[str, str]) -> dict[str, str]:
        """The first of those that are equal to these, unless it was forgotten."""
        if sum(map(len, chain.from_iterable(strings.items()))) > LARGEST_SHARED:
            return strings
        if len(self._values) >= SHARED_VALUES:
            self._values.clear()
        return self._values.setdefault(tuple(strings.items()), strings)


def entry_of(
    resource: str,
    obj: dict[str, Any],
    fields: dict[str, str],
    resource_version: int,
    pool: Pool,
) -> Entry:
    """The state of an object, whose metadata has name and uid; TypeError if it is not JSON."""
    metadata = obj["metadata"]
    return Entry(
        resource,
        metadata.get("namespace", ""),
        metadata["name"],
        resource_version,
        metadata["uid"],
        pool.shared(dict(metadata.get("labels") or {})),
        pool.shared(fields),
        pool.encoded({name: part for name, part in obj.items() if name not in TYPE_FIELDS}),
    )


_version_of = attrgetter("resource_version")


class Window:
    """The newest changes of one resource: what watches read and past snapshots are rebuilt from.

    A reader is a position, the running number of the change that it reads next; it costs nothing
    while it waits and delays nothing.  A change that leaves the window raises the floor.  An eighth
    leaves at a time, so the cost of a change does not depend on the width of the window.

    Attributes:
        floor: Resource version of the newest change that is no longer here, the oldest one to start
            from; 0 if all are here.
        first, end: Positions of the oldest change, and after the newest one.
    """

    def __init__(self, changes: int) -> None:
        """An empty window that keeps so many changes, >= 1, and at most an eighth more.

        Fewer are kept if they weigh more than `MOST_BYTES`; the newest always is.
        """
        self._limit, self._most = changes, changes + changes // 8
        self._changes: list[Change] = []
        self._bytes = 0
        self._shared: deque[Change] = deque()  # those that keep what watchers encoded
        self._shared_bytes = 0
        self.first = self.end = 0
        self.floor = 0

    def append(self, change: Change) -> None:
        changes, shared = self._changes, self._shared
        changes.append(change)
        self.end += 1
        self._bytes += change.weight
        shared.append(change)
        self._shared_bytes += len(change.entry.data)
        while len(shared) > SHARED_CHANGES or (
            self._shared_bytes > SHARED_BYTES and len(shared) > 1
        ):
            oldest = shared.popleft()
            oldest.encoded = None
            self._shared_bytes -= len(oldest.entry.data)
        if len(changes) > self._most or self._bytes > MOST_BYTES:
            self._cut()

    def position(self, after: int) -> int:
        """Where to read on after a resource version; TooOldError if the next change is gone."""
        if after < self.floor:
            raise TooOldError(after, self.floor)
        return self.first + bisect_right(self._changes, after, key=_version_of)

    def read(self, position: int, limit: int) -> list[Change]:
        """Changes from a position on, `first` to `end`; the next position is as much further."""
        start = position - self.first
        return self._changes[start : start + limit]

    def since(self, resource_version: int) -> Iterator[Change]:
        """Changes after a resource version, newest first; the first step may raise TooOldError."""
        if resource_version < self.floor:
            raise TooOldError(resource_version, self.floor)
        for change in reversed(self._changes):
            if change.resource_version <= resource_version:
                return
            yield change

    def _cut(self) -> None:
        """Drop the oldest changes: down to the limit, and to 7/8 of the bytes if too many."""
        changes = self._changes
        most_bytes = MOST_BYTES // 8 * 7 if self._bytes > MOST_BYTES else MOST_BYTES
        cut, most_cut = 0, len(changes) - 1
        while cut < most_cut and (len(changes) - cut > self._limit or self._bytes > most_bytes):
            self._bytes -= changes[cut].weight
            cut += 1
        if cut:
            self.floor = changes[cut - 1].resource_version
            self.first += cut
            del changes[:cut]
