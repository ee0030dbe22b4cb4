"""Backends for tests: one in memory, and one that waits and fails when told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, StoreError
from apfproxy.apiserver.store.store import Backend, Loaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ListBackend:
    """Keeps what it must and nothing more, in the plainest way."""

    def __init__(self) -> None:
        self.resource_version = 1
        self.entries: dict[tuple[str, str], Entry] = {}
        self.changes: list[Change] = []
        self.floors: dict[str, int] = {}

    def load(self) -> Loaded:
        """All of it."""
        return Loaded(
            self.resource_version, list(self.entries.values()), list(self.changes), self.floors
        )

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        """Keep changes."""
        for change in changes:
            self.entries.pop((change.entry.resource, change.entry.key), None)
            if change.type is not ChangeType.DELETED:
                self.entries[change.entry.resource, change.entry.key] = change.entry
            self.resource_version = change.resource_version
        self.changes.extend(changes)
        self.floors.update(floors)
        self.changes = [
            change
            for change in self.changes
            if change.resource_version > self.floors.get(change.entry.resource, 0)
        ]

    def close(self) -> None:
        """Nothing to let go of."""


class GatedBackend:
    """A backend whose writes wait until the test lets them, and fail where it says so.

    Attributes:
        gate: Writes wait while it is not set.
        outcomes: For each of the next writes, whether the disk takes it; it does without.
        batches: Number of changes of each write that was tried.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.gate = threading.Event()
        self.outcomes: list[bool] = []
        self.batches: list[int] = []
        self.is_closed = False

    def load(self) -> Loaded:
        """What the inner one has."""
        return self.inner.load()

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        """Wait, then keep changes or refuse."""
        self.gate.wait()
        self.batches.append(len(changes))
        if self.outcomes and not self.outcomes.pop(0):
            raise StoreError("the disk is full")
        self.inner.write(changes, floors)

    def close(self) -> None:
        """Close the inner one."""
        self.is_closed = True
        self.inner.close()
