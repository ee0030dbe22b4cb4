"""The requests of one priority level that wait or execute, oldest first, for the live page."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Any

from apfproxy.admin.live_recent import State, displayable
from apfproxy.admin.live_state import MAX_QUEUES

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet, Ticket

MAX_REQUESTS = 50
"""Of each kind: more than anybody reads."""
MAX_CHARACTERS = 256
"""Of a name or a path; `dump_requests` has the whole."""

NS_PER_S = 1_000_000_000


def level_requests(queue_set: QueueSet, now_ns: int) -> State:
    """What waits and what executes now, with how much of each there is in all.

    Returns:
        `waiting` and `executing`, at most `MAX_REQUESTS` of each, with their `seconds` of waiting
        or executing; `waitingCount` and `executingCount`.
    """
    queues = islice(queue_set.queues, MAX_QUEUES)
    waiting = heapq.merge(
        *(queue.tickets() for queue in queues if queue.requests_waiting),
        key=lambda ticket: ticket.arrived_ns,
    )
    return {
        "waiting": [
            _request(ticket, now_ns - ticket.arrived_ns) for ticket in islice(waiting, MAX_REQUESTS)
        ],
        "executing": [
            _request(ticket, now_ns - ticket.dispatched_ns)
            for ticket in islice(queue_set.executing, MAX_REQUESTS)
        ],
        "waitingCount": queue_set.requests_waiting,
        "executingCount": queue_set.requests_executing,
    }


def _request(ticket: Ticket, age_ns: int) -> State:
    details: Any = ticket.details
    attributes = details.attributes
    return {
        "user": _text(details.user_name),
        "verb": attributes.verb,
        "path": _text(attributes.path),
        "flowSchema": ticket.flow.counters.flow_schema,
        "flow": _text(ticket.flow.distinguisher),
        "queue": None if ticket.queue is None else ticket.queue.index,
        "seats": ticket.estimate.max_seats,
        "seconds": round(age_ns / NS_PER_S, 3),
    }


def _text(text: str) -> str:
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    return displayable(cut)
