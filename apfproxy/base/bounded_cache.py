"""Bounds for what is kept to be used again: in numbers, and in bytes of memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MARK_BYTES = 112
"""The memory of a key's hash in a set that is as empty as it gets."""


class MemoryBudget:
    """The `max_bytes` of memory that some collections may take together.

    `on_forget` is called when values are forgotten, so that others forget them, too; `taken` is
    what they take now, in bytes.
    """

    def __init__(self, max_bytes: int, on_forget: Callable[[], None] = lambda: None) -> None:
        self._max_bytes = max_bytes
        self.on_forget = on_forget
        self._collections: weakref.WeakSet[BoundedCache[Any, Any]] = weakref.WeakSet()
        self.taken = 0

    def add(self, collection: BoundedCache[Any, Any]) -> None:
        """Have one more collection, as long as it is used."""
        self._collections.add(collection)

    def take(self, size: int) -> None:
        """Take so many bytes; the older half of all that is kept goes until there is room."""
        self.taken += size
        while self.taken > self._max_bytes:
            taken = self.taken
            for each in list(self._collections):
                each.forget_older()
            self.on_forget()  # once for all of them: those others are many, too
            if self.taken == taken:
                return  # the last one alone is larger


class BoundedCache(Generic[Key, Value]):
    """Values by their keys: of those that came twice lately, a bounded number, in bounded room.

    What never comes again is not kept.  It would push out what does, and it would cost more than
    its parsing: new memory for every request takes the interpreter's own place in the CPU's caches.
    When there are more than `bound`, the older half goes; `size_of` says bytes.  `values` are those
    kept, to be read on a hot path without a call.
    """

    __slots__ = ("__weakref__", "_bound", "_room", "_seen", "_size_of", "_sizes", "values")

    def __init__(
        self, bound: int, room: MemoryBudget, size_of: Callable[[Key, Value], int]
    ) -> None:
        self._bound = bound
        self._room = room
        self._size_of = size_of
        self._seen: set[int] = set()
        self._sizes: dict[Key, int] = {}
        self.values: dict[Key, Value] = {}
        room.add(self)

    def __del__(self) -> None:
        self._room.taken -= sum(self._sizes.values()) + MARK_BYTES * len(self._seen)

    def offer(self, key: Key, value: Value) -> bool:
        """Keep the value if its key, told apart by its hash, came before; whether it is kept."""
        mark = hash(key)
        room = self._room
        if mark in self._seen:
            self._seen.discard(mark)
            if len(self.values) >= self._bound:
                self._forget_half()
                room.on_forget()
            size = self._size_of(key, value)
            room.taken -= MARK_BYTES + self._sizes.get(key, 0)
            self._sizes[key] = size
            self.values[key] = value
            room.take(size)
            return True
        if len(self._seen) >= 2 * self._bound:
            self._forget_marks()
        self._seen.add(mark)
        room.take(MARK_BYTES)
        return False

    def forget_older(self) -> None:
        """Forget the older half, and what has come once; whoever calls this tells others."""
        self._forget_half()
        self._forget_marks()

    def _forget_half(self) -> None:
        values, sizes = self.values, self._sizes
        for old in list(values)[: (len(values) + 1) // 2]:
            del values[old]
            self._room.taken -= sizes.pop(old)

    def _forget_marks(self) -> None:
        self._room.taken -= MARK_BYTES * len(self._seen)
        self._seen.clear()
