"""Finds the queue that is next without visiting the queues.

A binary tree over queue indices, stored as a list: node 1 is the root, the children of node n are
2n and 2n + 1, the leaves are nodes `size` to `2 size - 1`.  A leaf holds the key of its queue, an
inner node the least key below it.  Changing a key costs one walk up, finding the first holder of
the least key after some index one walk up and one down: log2(queues) steps each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER: Final = 1 << 200
"""The key of a queue in which nothing waits.  An integer, since those compare faster than inf."""


class Tournament:
    """Keys by index, `NEVER` for one that takes no part; finds the least in logarithmic time."""

    __slots__ = ("length", "nodes", "size")

    def __init__(self, keys: Sequence[int]) -> None:
        self.length = len(keys)
        self.size = size = 1 << max(self.length - 1, 0).bit_length()
        self.nodes = nodes = [NEVER] * (2 * size)
        nodes[size : size + self.length] = keys
        for node in range(size - 1, 0, -1):
            left, right = nodes[2 * node], nodes[2 * node + 1]
            nodes[node] = min(left, right)

    def keys(self) -> list[int]:
        """The key of each index."""
        return self.nodes[self.size : self.size + self.length]

    def set(self, index: int, key: int) -> None:
        """Give the index another key."""
        nodes = self.nodes
        node = index + self.size
        nodes[node] = key
        while node > 1:
            sibling = nodes[node ^ 1]
            if sibling < key:  # noqa: PLR1730  min() costs 60 ns more per level
                key = sibling
            node >>= 1
            if nodes[node] == key:
                return
            nodes[node] = key

    def first_after(self, index: int) -> int:
        """The first index with the least key, from `index + 1` (0 or more) on, then from 0 on."""
        nodes = self.nodes
        size = self.size
        least = nodes[1]
        node = index + 1 + size
        if node >= 2 * size:
            node = 1
        while nodes[node] != least:
            while node & 1:
                node >>= 1
            # A node of ones is the rightmost of its level, of which the loop above leaves 0:
            # nothing at or after the start has the least key, so the search begins again at 0.
            node = node + 1 if node else 1
        while node < size:
            node *= 2
            if nodes[node] != least:
                node += 1
        return node - size
