"""What goes into a queue set and what comes out: flows, work estimates, tickets, reasons."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.counters import FlowSchemaCounters
    from apfproxy.flowcontrol.dealer import Dealer
    from apfproxy.flowcontrol.queue import Queue


class RejectReason(enum.StrEnum):
    """Why a request got no seats; also the `reason` label of rejected_requests_total."""

    CONCURRENCY_LIMIT = "concurrency-limit"
    QUEUE_FULL = "queue-full"
    TIME_OUT = "time-out"


class Flow:
    """Requests of one FlowSchema that share a distinguisher; made once, used for many requests.

    Attributes:
        distinguisher: The user name or namespace, or "" without a distinguisher method.
        hash: 64 bits that the dealer turns into a hand.
        counters: Those of the FlowSchema at its priority level.
        hand, dealer: The hand dealt last and its dealer; kept by the queue set, which deals
            again when its dealer is another one.
    """

    __slots__ = ("counters", "dealer", "distinguisher", "hand", "hash")

    def __init__(self, hash_: int, distinguisher: str, counters: FlowSchemaCounters) -> None:
        self.hash = hash_
        self.distinguisher = distinguisher
        self.counters = counters
        self.hand: tuple[int, ...] = ()
        self.dealer: Dealer | None = None

    def __repr__(self) -> str:
        return f"<Flow {self.counters.flow_schema}/{self.distinguisher} {self.hash:#x}>"


class WorkEstimate:
    """Seats and time that a request is expected to need; immutable, so it may be shared.

    Attributes:
        initial_seats: Seats while it executes; >= 1.
        final_seats: Seats for `additional_latency_ns` after its end; >= 0.
        additional_latency_ns: How long it lingers after its end.
        max_seats: The larger of the two, which it holds from dispatch until it has lingered.
    """

    __slots__ = ("additional_latency_ns", "final_seats", "initial_seats", "max_seats")

    def __init__(
        self, initial_seats: int, final_seats: int = 0, additional_latency_ns: int = 0
    ) -> None:
        self.initial_seats = initial_seats
        self.final_seats = final_seats
        self.additional_latency_ns = additional_latency_ns
        self.max_seats = max(initial_seats, final_seats)

    def __repr__(self) -> str:
        return (
            f"WorkEstimate({self.initial_seats}, {self.final_seats}, {self.additional_latency_ns})"
        )


ONE_SEAT = WorkEstimate(1)


class TicketState(enum.IntEnum):
    """Where a request stands in its queue set; it only moves downwards."""

    WAITING = 0
    EXECUTING = 1
    LINGERING = 2
    DONE = 3


class Ticket:
    """A request inside a queue set: its place in a queue, then its seats.

    The queue set owns every field but `details`.

    Attributes:
        details: Whatever the caller wants to find again in the dumps.
        arrived_ns, dispatched_ns: Clock readings; -1 before it was dispatched.
        queue: The queue it was put into; None at a level without queues.
    """

    __slots__ = (
        "additional_latency_ns",
        "arrival_r",
        "arrived_ns",
        "details",
        "dispatched_ns",
        "estimate",
        "flow",
        "next",
        "on_dispatch",
        "previous",
        "queue",
        "seats_held",
        "state",
        "work",
    )

    def __init__(
        self,
        flow: Flow,
        estimate: WorkEstimate,
        on_dispatch: Callable[[Ticket], None],
        details: Any,  # noqa: ANN401  the caller's own
        arrived_ns: int,
    ) -> None:
        self.flow = flow
        self.estimate = estimate
        self.on_dispatch = on_dispatch
        self.details = details
        self.arrived_ns = arrived_ns
        self.dispatched_ns = -1
        self.queue: Queue | None = None
        self.state = 0
        # arrival_r, work, seats_held, previous and next are set by the queue set when they mean
        # something: a request that fits at once never uses most of them.

    @property
    def is_executing(self) -> bool:
        """Whether it has its seats and has not ended."""
        return self.state == TicketState.EXECUTING

    def __repr__(self) -> str:
        return f"<Ticket {self.flow!r} {TicketState(self.state).name.lower()}>"
