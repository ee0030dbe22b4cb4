"""The queues of a queue set, and which is next without visiting them.

A tournament is a binary tree over queue indices, stored as a list: node 1 is the root, the
children of node n are 2n and 2n + 1, the leaves are nodes `size` to `2 size - 1`.  A leaf holds the
key of its queue, an inner node the least key below it.  Changing a key costs one walk up, finding
the first holder of the least key after some index one walk up and one down: log2(queues) steps
each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.ticket import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.flowcontrol.ticket import SeatTicks

NEVER: Final = 1 << 200
"""The key of a queue in which nothing waits.  An integer, since those compare faster than inf."""


class Tournament:
    """Keys by index, `NEVER` for one that takes no part; finds the least in logarithmic time."""

    def __init__(self, keys: Sequence[int]) -> None:
        self.length = len(keys)
        self.size = size = 1 << max(self.length - 1, 0).bit_length()
        self.nodes = nodes = [NEVER] * (2 * size)
        nodes[size : size + self.length] = keys
        for node in range(size - 1, 0, -1):
            left, right = nodes[2 * node], nodes[2 * node + 1]
            nodes[node] = min(left, right)

    def keys(self) -> list[int]:
        return self.nodes[self.size : self.size + self.length]

    def set(self, index: int, key: int) -> None:
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


class RoundRobin:
    """Queues, of which the one that is next is known without visiting them.

    Next is the queue whose oldest request ends first in the virtual world; of several, the first
    one after the last winner.

    Attributes:
        queues: All of them; each knows its index here.
        last_index: The last winner's; -1 if that was the first queue, and it was dropped since.
    """

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.last_index = 0
        self._tournament = Tournament(())

    def grow(self, number: int) -> None:
        have = len(self.queues)
        if have < number:
            self.queues.extend(map(Queue, range(have, number)))
            self._tournament = Tournament(self._tournament.keys() + [NEVER] * (number - have))

    def drop(self, queue: Queue) -> None:
        """Take a queue out; those after it move up.  No other operation visits all queues."""
        index = queue.index
        queue.is_removed = True
        del self.queues[index]
        keys = self._tournament.keys()
        del keys[index]
        self._tournament = Tournament(keys)
        for later in self.queues[index:]:
            later.index -= 1
        # The next queue to be visited stays the next.
        if self.last_index >= index:
            self.last_index -= 1

    def oldest_changed(self, queue: Queue) -> None:
        """Note another oldest request, or another start, and keep the start after the arrival."""
        oldest = queue.oldest
        if oldest is None:
            self._tournament.set(queue.index, NEVER)
            return
        start_r = queue.next_dispatch_r
        if start_r < oldest.arrival_r:
            start_r = queue.next_dispatch_r = oldest.arrival_r
        self._tournament.set(queue.index, start_r + oldest.estimate.work)

    def next(self) -> Queue:
        """The queue that is next; something must be waiting."""
        return self.queues[self._tournament.first_after(self.last_index)]

    def went_around(self) -> None:
        """Note that the next queue had to be left as it is.

        The reference's index then stands where it stood, but for -1, which is the last queue's
        now.  That makes a difference if queues are added.
        """
        if self.last_index < 0:
            self.last_index = len(self.queues) - 1

    def start_bounds(self, seat_ticks_in_progress: SeatTicks) -> tuple[SeatTicks, SeatTicks] | None:
        """Least and greatest `next_dispatch_r` of the queues where something waits; None if none.

        `seat_ticks_in_progress` is deducted for each seat that the queue has in use.
        """
        starts = [
            queue.next_dispatch_r - queue.seats_in_use * seat_ticks_in_progress // queue.weight
            for queue in self.queues
            if queue.oldest is not None
        ]
        return (min(starts), max(starts)) if starts else None
