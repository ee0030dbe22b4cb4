"""The newest changes of a resource: what watches read and past snapshots are rebuilt from.

A reader is a position, the running number of the change that it reads next; it costs nothing while
it waits and delays nothing.  The window is bounded in changes and in bytes; a change that leaves it
raises the floor, the oldest resource version to start from.  It is cut by an eighth at a time, so
the cost of a change does not depend on the width of the window.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from apfproxy.apiserver.store.entries import Change, TooOldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def weight(change: Change) -> int:
    """Bytes that a change is taken to hold."""
    old = len(change.old.data) if change.old is not None else 0
    return CHANGE_BYTES + len(change.entry.data) + old


class Window:
    """The newest changes of one resource, oldest first.

    Attributes:
        floor: Resource version of the newest change that is no longer here; 0 if all are.
        end: Position after the newest change.
    """

    def __init__(self, changes: int) -> None:
        """An empty window that keeps so many changes, >= 1, and at most an eighth more.

        Fewer are kept if they weigh more than `MOST_BYTES`; the newest always is.
        """
        self._limit = changes
        self._changes: list[Change] = []
        self._bytes = 0
        self._first = 0  # position of the first of them
        self._shared_from = 0  # position of the first that keeps what watchers encoded
        self._shared_bytes = 0
        self.end = 0
        self.floor = 0

    def __len__(self) -> int:
        return len(self._changes)

    def append(self, change: Change) -> None:
        """Add the newest change; older ones may leave."""
        self._changes.append(change)
        self.end += 1
        self._bytes += weight(change)
        self._shared_bytes += len(change.entry.data)
        while (
            self.end - self._shared_from > SHARED_CHANGES or self._shared_bytes > SHARED_BYTES
        ) and self._shared_from < self.end - 1:
            oldest = self._changes[self._shared_from - self._first]
            oldest.encoded = None
            self._shared_bytes -= len(oldest.entry.data)
            self._shared_from += 1
        if len(self._changes) > self._limit + self._limit // 8 or self._bytes > MOST_BYTES:
            self._cut()

    def restore(self, changes: Iterable[Change], floor: int) -> None:
        """Fill an empty window with changes from before a restart."""
        self.floor = floor
        for change in changes:
            self.append(change)

    def position(self, after: int) -> int:
        """Where to read on after a resource version; TooOldError if the next change is gone."""
        if after < self.floor:
            raise TooOldError(after, self.floor)
        return self._first + bisect_right(
            self._changes, after, key=lambda change: change.resource_version
        )

    def read(self, position: int, limit: int) -> list[Change]:
        """As many changes from a position on, which is at most `end`, as there are, up to a limit.

        The next position is as much further.  TooOldError if the change at the position is gone.
        """
        start = position - self._first
        if start < 0:
            raise TooOldError(0, self.floor)
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
        is_heavy = self._bytes > MOST_BYTES
        most_bytes = MOST_BYTES - MOST_BYTES // 8 if is_heavy else MOST_BYTES
        cut = max(0, len(self._changes) - self._limit)
        left = self._bytes - sum(weight(change) for change in self._changes[:cut])
        while left > most_bytes and cut < len(self._changes) - 1:
            left -= weight(self._changes[cut])
            cut += 1
        if cut == 0:
            return
        self.floor = self._changes[cut - 1].resource_version
        del self._changes[:cut]
        self._bytes = left
        self._first += cut
        if self._shared_from < self._first:
            # Only if the window is narrower than the shared part.
            self._shared_from = self._first
            self._shared_bytes = sum(len(change.entry.data) for change in self._changes)
