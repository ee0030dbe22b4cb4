"""Bounds for what is kept to be used again."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def drop_older_half(kept: dict[Key, Value]) -> None:
    """Forget the half of a dictionary that was put in first."""
    for key in list(kept)[: (len(kept) + 1) // 2]:
        del kept[key]
