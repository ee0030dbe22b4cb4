"""Who holds the seats of a priority level now, and how long its oldest request has waited."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet

MAX_TICKETS = 5000
"""Of a level, the first ones: 1 ms of looking."""
MAX_QUEUES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """The flow that holds most seats of a level."""

    flow_schema: str
    flow: str
    seats: int


def greatest_holder(queue_set: QueueSet) -> Holder | None:
    """The flow whose executing requests have most seats; None if nothing executes."""
    seats: dict[tuple[str, str], int] = {}
    for ticket in islice(queue_set.executing, MAX_TICKETS):
        key = ticket.flow.counters.flow_schema, ticket.flow.distinguisher
        seats[key] = seats.get(key, 0) + ticket.estimate.max_seats
    if not seats:
        return None
    (flow_schema, flow), most = max(seats.items(), key=lambda item: item[1])
    return Holder(flow_schema, flow, most)


def oldest_wait_ns(queue_set: QueueSet, now_ns: int) -> int:
    """For how long the oldest request of the queues has waited; 0 if none waits."""
    if not queue_set.requests_waiting:
        return 0
    oldest = (queue.oldest for queue in islice(queue_set.queues, MAX_QUEUES))
    return max((now_ns - ticket.arrived_ns for ticket in oldest if ticket is not None), default=0)
