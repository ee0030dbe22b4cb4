"""The queues of a queue set, in the order in which they take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.ticket import Queue
from apfproxy.flowcontrol.tournament import NEVER, Tournament

if TYPE_CHECKING:
    from apfproxy.flowcontrol.seats import SeatTicks


class RoundRobin:
    """Queues, of which the one that is next is known without visiting them.

    Next is the queue whose oldest request ends first in the virtual world; of several, the first
    one after the last winner.

    Attributes:
        queues: All of them; each knows its index here.
        last_index: The last winner's; -1 if that was the first queue, and it was dropped since.
    """

    __slots__ = ("_tournament", "last_index", "queues")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.last_index = 0
        self._tournament = Tournament(())

    def grow(self, number: int) -> None:
        """Add queues until there are that many."""
        have = len(self.queues)
        if have < number:
            self.queues.extend(map(Queue, range(have, number)))
            self._tournament = Tournament(self._tournament.keys() + [NEVER] * (number - have))

    def drop(self, queue: Queue) -> None:
        """Take a queue out; those after it move up.  The only operation that visits all queues."""
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
            queue.next_dispatch_r - queue.seats_in_use * seat_ticks_in_progress
            for queue in self.queues
            if queue.oldest is not None
        ]
        return (min(starts), max(starts)) if starts else None
