"""What a queue set would do with a request that arrived now, without doing it.

It goes through the same steps as `QueueSet.admit`, on copies: which queue of the hand, whether
that is full, and what is dispatched once the request is in it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.queue_set import QueueSetKind
from apfproxy.flowcontrol.ticket import RejectReason

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.flowcontrol.ticket import Queue, Ticket, WorkEstimate


MAX_DISPATCHES = 500
"""That an arrival brings about before its own, which only a withdrawal just before can have left.

Beyond, it is taken to wait; each costs a look at every queue where something waits.
"""


class Decision(enum.StrEnum):
    """What becomes of a request at its arrival."""

    EXECUTE = "execute"
    WAIT = "wait"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Foresight:
    """What a queue set would do.

    Attributes:
        queue: Index of the queue that the request would be in; None at a level without queues.
        ahead: Requests that would wait in that queue before it.
        reason: Why it would be rejected; None otherwise.
    """

    decision: Decision
    queue: int | None = None
    ahead: int = 0
    reason: RejectReason | None = None


def foresee(
    queue_set: QueueSet, hand: tuple[int, ...], estimate: WorkEstimate, limit: int
) -> Foresight:
    """Say what `admit` would do now.

    Args:
        queue_set: Where the request would arrive; `sync` it first.
        hand: Of the request's flow; empty at a level without queues.
        estimate: What the request is expected to need.
        limit: The seats that requests may use by then; `queue_set.seat_limit` or more.
    """
    seats = estimate.max_seats
    in_use = queue_set.seats_in_use
    if queue_set.config.kind is not QueueSetKind.QUEUE:
        if fits(limit, in_use, queue_set.requests_executing, seats):
            return Foresight(Decision.EXECUTE)
        return Foresight(Decision.REJECT, reason=RejectReason.CONCURRENCY_LIMIT)
    queue = chosen_queue(queue_set, hand)
    if not queue_set.requests_waiting and in_use + seats <= limit:
        return Foresight(Decision.EXECUTE, queue.index)
    is_full = queue.requests_waiting >= queue_set.config.queue_length_limit
    if is_full and in_use >= queue_set.seat_limit:
        return Foresight(
            Decision.REJECT, queue.index, queue.requests_waiting, RejectReason.QUEUE_FULL
        )
    return _after_dispatch(queue_set, queue, estimate, limit)


def chosen_queue(queue_set: QueueSet, hand: tuple[int, ...]) -> Queue:
    """The queue that an arrival with a hand would be put into."""
    offset = queue_set.enqueues % len(hand)
    cards = hand[offset:] + hand[:offset]
    return min((queue_set.queues[card] for card in cards), key=lambda queue: queue.work_waiting)


def fits(limit: int, in_use: int, executing: int, seats: int) -> bool:
    """Whether there are seats for a request; one wider than the limit has to be alone."""
    return executing == 0 if seats > limit else in_use + seats <= limit


class _Line:
    """A queue where something waits, as it would go on; the arrival is last if it is there.

    `start_r` is the queue's `next_dispatch_r`, kept after the arrival of what is oldest.
    """

    __slots__ = ("arrival", "index", "oldest", "start_r")

    def __init__(self, queue: Queue) -> None:
        self.index = queue.index
        self.oldest: Ticket | None = queue.oldest
        self.start_r = queue.next_dispatch_r
        self.arrival: WorkEstimate | None = None

    @property
    def next_estimate(self) -> WorkEstimate:
        """Of what is next in the line, which is not empty."""
        if self.oldest is not None:
            return self.oldest.estimate
        assert self.arrival is not None
        return self.arrival


def _after_dispatch(
    queue_set: QueueSet, queue: Queue, estimate: WorkEstimate, limit: int
) -> Foresight:
    """What becomes of a request in its queue, after the dispatches that its arrival brings."""
    now_r, count = queue_set.current_r, len(queue_set.queues)
    lines = {each.index: _Line(each) for each in queue_set.queues if each.requests_waiting}
    own = lines.setdefault(queue.index, _Line(queue))
    own.arrival = estimate
    if own.oldest is None:
        own.start_r = max(own.start_r, now_r) if queue.is_active else now_r
    last = queue_set.robin.last_index
    in_use, executing = queue_set.seats_in_use, queue_set.requests_executing
    for _ in range(MAX_DISPATCHES):
        if in_use >= limit:
            break
        line = min(
            lines.values(),
            key=lambda each: (
                each.start_r + each.next_estimate.work,
                (each.index - last - 1) % count,
            ),
        )
        next_estimate = line.next_estimate
        if not fits(limit, in_use, executing, next_estimate.max_seats):
            break
        if line.oldest is None:
            return Foresight(Decision.EXECUTE, queue.index)
        last = line.index
        if next_estimate.final_seats > limit:
            in_use += next_estimate.cut(limit).max_seats
        else:
            in_use += next_estimate.max_seats
        executing += 1
        line.start_r += next_estimate.work
        line.oldest = line.oldest.next
        if line.oldest is not None:
            line.start_r = max(line.start_r, line.oldest.arrival_r)
        elif line is own:
            line.start_r = max(line.start_r, now_r)
        else:
            del lines[line.index]
    ahead, ticket = 0, own.oldest
    while ticket is not None:
        ahead += 1
        ticket = ticket.next
    return Foresight(Decision.WAIT, queue.index, ahead)
