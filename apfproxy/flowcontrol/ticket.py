"""A request inside a queue set: its flow, its work, its ticket and its queue.

Work is seats times time, an integer in units of 1e-8 seat-seconds.  Kubernetes counts in these so
that sums do not depend on their order.  It rounds each product of seats and time once, half away
from zero, after computing it in binary floating point; so does `seat_ticks`, because the last digit
can decide which of two queues is next.

Source: kubernetes/apiserver pkg/util/flowcontrol, request/seat_seconds.go.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.flowcontrol.dealer import Dealer
    from apfproxy.flowcontrol.meters import FlowSchemaCounters

SeatTicks: TypeAlias = int
"""Work in 1e-8 seat-seconds.  An alias: calling a NewType costs 40 ns a dozen times a request."""

NS_PER_TICK: Final = 10
"""Nanoseconds for which one seat makes one tick of work."""
SERVICE_GUESS_NS: Final = 3_000_000
"""How long a request is assumed to execute until it is known.  Kubernetes' value: 3 ms."""

SERVICE_GUESS_TICKS: Final = SERVICE_GUESS_NS // NS_PER_TICK


def seat_ticks(seats: float, duration_ns: int) -> SeatTicks:
    """The work of holding seats, maybe a fraction of one, with the sign of the duration."""
    exact = seats * duration_ns / NS_PER_TICK
    magnitude = abs(exact)
    # floor(x + 0.5) would be wrong where x + 0.5 is not a float: just below 0.5 and above 2**52.
    ticks = math.floor(magnitude)
    if magnitude - ticks >= 0.5:  # noqa: PLR2004  a half
        ticks += 1
    return ticks if exact >= 0 else -ticks


def ns_per_seat(work: SeatTicks, seats: int) -> int:
    """For how long that many seats have to be held to do the work; rounded down."""
    return int(work / seats * NS_PER_TICK)


def format_seat_seconds(work: SeatTicks) -> str:
    """The work as Kubernetes writes it in its dumps, such as `0.00300000ss`."""
    sign = "-" if work < 0 else ""
    whole, part = divmod(abs(work), 100_000_000)
    return f"{sign}{whole}.{part:08d}ss"


class RejectReason(enum.StrEnum):
    """Why a request got no seats; also the `reason` label of rejected_requests_total."""

    CONCURRENCY_LIMIT = "concurrency-limit"
    QUEUE_FULL = "queue-full"
    TIME_OUT = "time-out"
    # What additions to objects ask for, see `flow_limits`.
    BAN = "ban"
    RATE = "rate"
    TOKEN_RATE = "token-rate"  # noqa: S105  no password
    LONG_RUNNING = "long-running"
    FLOW_REQUESTS = "flow-requests"


class Flow:
    """Requests of one FlowSchema that share a distinguisher, "" where there is one queue or none.

    The queue set keeps the hand here, and deals again when its dealer is another one; the level's
    costs keep the tokens that a response of the flow has in the mean, 0 for unknown.
    """

    def __init__(self, hash_: int, distinguisher: str, counters: FlowSchemaCounters) -> None:
        self.hash = hash_
        self.distinguisher = distinguisher
        self.counters = counters
        self.hand: tuple[int, ...] = ()
        self.dealer: Dealer | None = None
        self.output_tokens = 0.0

    def deal(self, dealer: Dealer) -> tuple[int, ...]:
        self.dealer = dealer
        self.hand = hand = dealer.deal(self.hash)
        return hand


class WorkEstimate:
    """Seats and time that a request is expected to need; immutable, so it may be shared.

    It holds `max_seats` from dispatch until it has lingered.  `work` is in seat ticks, for a
    guessed time, which is in whole ticks, divided by the flow's weight: a seat makes one of these
    in `ns_per_tick`.  `units` are those of its level's cost; 0 where time is the cost.
    """

    def __init__(
        self,
        initial_seats: int,
        final_seats: int = 0,
        additional_latency_ns: int = 0,
        guess_ns: int = SERVICE_GUESS_NS,
        units: float = 0.0,
        weight: int = 1,
    ) -> None:
        self.guess_ns = guess_ns
        self.units = units
        self.initial_seats = initial_seats
        self.final_seats = final_seats
        self.additional_latency_ns = additional_latency_ns
        self.max_seats = max(initial_seats, final_seats)
        self.final_work = seat_ticks(final_seats, additional_latency_ns)
        self.weight = weight
        self.work = (initial_seats * (guess_ns // NS_PER_TICK) + self.final_work) // weight
        self.ns_per_tick = NS_PER_TICK * weight

    def cut(self, seats: int) -> WorkEstimate:
        """An estimate with its final work done by only that many final seats, in a longer time."""
        latency_ns = ns_per_seat(self.final_work, seats)
        return WorkEstimate(
            self.initial_seats, seats, latency_ns, self.guess_ns, self.units, self.weight
        )

    def weighed(self, weight: int) -> WorkEstimate:
        if weight == self.weight:
            return self
        seats, latency_ns = (self.initial_seats, self.final_seats), self.additional_latency_ns
        return WorkEstimate(*seats, latency_ns, self.guess_ns, self.units, weight)

    def __repr__(self) -> str:
        return (
            f"WorkEstimate({self.initial_seats}, {self.final_seats}, {self.additional_latency_ns})"
        )


ONE_SEAT: Final = WorkEstimate(1)


# Where a request stands in its queue set: it only moves downwards.  Plain integers, since reading a
# member of an enum costs 30 ns.
WAITING: Final = 0
EXECUTING: Final = 1
LINGERING: Final = 2
DONE: Final = 3


class Ticket:
    """A request inside a queue set: its place in a queue, then its seats.

    The queue set owns every field but `details`, the caller's own.  `dispatched_ns` is -1 before it
    was dispatched, `arrival_r` the progress meter at its arrival; `previous` and `next` are its
    neighbours in the queue; the estimate is replaced if it had to be cut.  `worked_ns` is for how
    long its execution counts, -1 for as long as it was; set before the end where cost is not time.
    """

    def __init__(
        self,
        flow: Flow,
        estimate: WorkEstimate,
        details: Any,  # noqa: ANN401  the caller's own
        now_ns: int,
        queue: Queue | None,
        state: int,
        dispatched_ns: int,
        arrival_r: int,
    ) -> None:
        self.flow = flow
        self.estimate = estimate
        self.details = details
        self.arrived_ns = now_ns
        self.queue = queue
        self.state = state
        self.dispatched_ns = dispatched_ns
        self.arrival_r = arrival_r
        self.worked_ns = -1
        self.on_dispatch: Callable[[Ticket], None] | None = None
        self.previous: Ticket | None = None
        self.next: Ticket | None = None

    @property
    def is_executing(self) -> bool:
        return self.state == EXECUTING


NO_OWNER: Final = -1


class Queue:
    """Tickets in order of arrival, chained through themselves so that any can leave at once.

    Its index changes when a queue before it goes away; requests of one that `is_removed` may
    linger.  At `next_dispatch_r` of the progress meter the oldest request begins in the virtual
    world.  The weight is that of the request that is the oldest, or was the last one of these; the
    owner is the hash of the flow that has the queue to itself.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_removed = False
        self.oldest: Ticket | None = None
        self.newest: Ticket | None = None
        self.requests_waiting = 0
        self.initial_seats_waiting = 0
        self.seats_waiting = 0
        self.work_waiting: SeatTicks = 0
        self.requests_executing = 0
        self.seats_in_use = 0
        self.next_dispatch_r: SeatTicks = 0
        self.weight = 1
        self.owner = NO_OWNER

    @property
    def is_active(self) -> bool:
        """Whether it shares in the seats: something waits or executes, not merely lingers."""
        return self.requests_waiting > 0 or self.requests_executing > 0

    def append(self, ticket: Ticket) -> None:
        ticket.previous = newest = self.newest
        ticket.next = None
        if newest is None:
            self.oldest = ticket
        else:
            newest.next = ticket
        self.newest = ticket
        estimate = ticket.estimate
        self.requests_waiting += 1
        self.initial_seats_waiting += estimate.initial_seats
        self.seats_waiting += estimate.max_seats
        self.work_waiting += estimate.work

    def remove(self, ticket: Ticket) -> None:
        previous, following = ticket.previous, ticket.next
        if previous is None:
            self.oldest = following
        else:
            previous.next = following
        if following is None:
            self.newest = previous
        else:
            following.previous = previous
        ticket.previous = ticket.next = None
        estimate = ticket.estimate
        self.requests_waiting -= 1
        self.initial_seats_waiting -= estimate.initial_seats
        self.seats_waiting -= estimate.max_seats
        self.work_waiting -= estimate.work

    def tickets(self) -> Iterator[Ticket]:
        ticket = self.oldest
        while ticket is not None:
            yield ticket
            ticket = ticket.next
