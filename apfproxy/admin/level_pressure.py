"""Who wants most of a priority level now, and how long its oldest request has waited."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet

MAX_TICKETS = 5000
"""Of a level, the first ones that execute, and that wait: 1 ms of looking for each."""
MAX_QUEUES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """The flow that wants most seats of a level: those that it has, and those that it waits for.

    What it has does not tell the greedy from the modest, since a fair level gives both as much.
    """

    flow_schema: str
    flow: str
    seats: int
    waits_for: int


def greatest_holder(queue_set: QueueSet) -> Holder | None:
    """The flow whose requests have and wait for most seats; None if there are no requests."""
    wanted: dict[tuple[str, str], list[int]] = {}
    queues = islice(queue_set.queues, MAX_QUEUES)
    waiting = chain.from_iterable(queue.tickets() for queue in queues)
    for place, tickets in enumerate((queue_set.executing, waiting)):
        for ticket in islice(tickets, MAX_TICKETS):
            key = ticket.flow.counters.flow_schema, ticket.flow.distinguisher
            wanted.setdefault(key, [0, 0])[place] += ticket.estimate.max_seats
    if not wanted:
        return None
    (flow_schema, flow), (seats, waits_for) = max(wanted.items(), key=lambda item: sum(item[1]))
    return Holder(flow_schema, flow, seats, waits_for)


def oldest_wait_ns(queue_set: QueueSet, now_ns: int) -> int:
    """For how long the oldest request of the queues has waited; 0 if none waits."""
    if not queue_set.requests_waiting:
        return 0
    oldest = (queue.oldest for queue in islice(queue_set.queues, MAX_QUEUES))
    return max((now_ns - ticket.arrived_ns for ticket in oldest if ticket is not None), default=0)
