"""Bounds for what is kept to be used again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Values by their keys: of those that came twice lately, a bounded number.

    What never comes again is not kept.  It would push out what does, and it would cost more than
    its parsing: new memory for every request takes the interpreter's own place in the CPU's caches.

    Args:
        bound: Values kept at most; the older half goes when there are more.

    Attributes:
        values: The values kept, by their keys; to be read, on a hot path without a call.
    """

    __slots__ = ("_bound", "_seen", "values")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._seen: set[int] = set()
        self.values: dict[Key, Value] = {}

    def offer(self, key: Key, value: Value) -> None:
        """Keep the value if its key came before; keys are told apart by their hashes there."""
        mark = hash(key)
        if mark in self._seen:
            self._seen.discard(mark)
            if len(self.values) >= self._bound:
                for old in list(self.values)[: (self._bound + 1) // 2]:
                    del self.values[old]
            self.values[key] = value
            return
        if len(self._seen) >= 2 * self._bound:
            self._seen.clear()
        self._seen.add(mark)

    def __repr__(self) -> str:
        return f"<Kept, {len(self.values)} of {self._bound}>"
