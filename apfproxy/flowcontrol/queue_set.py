"""Fair queuing for requests: which of the waiting ones gets the next seats.

The theory is KEP-1040's "Fair Queuing for Server Requests", a generalisation of Demers, Keshav and
Shenker's fair queuing of packets on one link to requests of different widths (seats) on a
server of many seats.

In a virtual world every active queue is served at every moment, each with the same number of
seats: the level's limit (or less, if less is asked for) divided by the number of active queues.
The progress meter R is what each of them has been given since the start, in seat ticks; it runs
as fast as one queue's share.  A queue's `next_dispatch_r` is the R at which its oldest request
begins to execute in the virtual world; adding that request's work tells when it ends.  The real
world dispatches, whenever it has seats, the request that ends first in the virtual one.

1. An arrival's queue is that of its flow's hand with the least work waiting.  The hand is visited
   from another card each time, so that ties favour none.
2. A queue that had nothing waiting or executing starts again: its `next_dispatch_r` is R.
3. Queues are visited round robin from the one after the last winner, so that ties take turns.
   If the winner does not fit, nothing is dispatched: seats are saved up for it.
4. How long a request will execute is guessed to be 3 ms.  The error is made good when it ends.
   Where a level counts costs of another kind, a request counts for longer or shorter, see `costs`.
5. Virtual dispatch never precedes arrival: after any change of what is oldest in a queue, its
   `next_dispatch_r` is at least the R of that request's arrival.  Otherwise a queue that does not
   use its share would save it up and later shut out the others.
6. A request holds the larger of its initial and final seats from its dispatch until it has
   lingered for its additional latency.  Lingering does not make a queue active.
7. A queue set that has more queues than it should drops one whenever the seats of a request come
   back whose queue has nothing else waiting or executing.  Later queues move up.

Weights.  Where flows have different weights, a request's work is divided by that of its flow, and R
runs by the sum of the weights of the active queues, each that of its oldest request: so R keeps
pace with queues that always have something waiting, and rules 2 and 5 neither take shares away nor
give newcomers more.  A flow has a queue to itself, one that was not active, in place of its hand;
else its share would depend on how many queues it fills, and which flows it meets there.  So flows
that always have requests waiting have shares as their weights, exactly but for what executes, and
for a tick or two a request.  It is not exact:

- for flows beyond the number of queues.  They share those of others by their hands: requests are
  served in the order of their arrival there, each charged by its own weight.
- for a request under way while the weight of its flow changes: it keeps the one that it came with.
- while seats are saved up for wide requests: R runs as if they were in use, as without weights.

Costs.  Everything the rules need of all queues is a sum kept up to date (active queues, seats
requested) or the least of the keys in a `Tournament`, where only queues with something waiting
take part (see `RoundRobin`).  So an arrival costs its hand, a dispatch or a finish log2(queues).
Only dropping a queue visits all, once for each queue dropped.  A request that fits while nothing
waits, the usual one, takes a short way through `admit` that comes to the same as the general one;
with weights all take that.

Differences from Kubernetes.  Python's integers need no epochs.  A queue is dropped once, even if
several of its requests linger.  The seats of a request that waits are counted out as they were
counted in, also if its final seats are cut at dispatch.

Source: KEP-1040; kubernetes/apiserver pkg/util/flowcontrol, fairqueuing/queueset/queueset.go.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.meters import MAX_STATES, SEATS_SHIFT, SHORT_NS, LevelMeter, pack
from apfproxy.flowcontrol.ticket import (
    DONE,
    EXECUTING,
    LINGERING,
    NO_OWNER,
    NS_PER_TICK,
    SERVICE_GUESS_TICKS,
    WAITING,
    RejectReason,
    Ticket,
)
from apfproxy.flowcontrol.tournament import RoundRobin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.meters import SeatDemand
    from apfproxy.flowcontrol.ticket import Flow, Queue, SeatTicks, WorkEstimate

UNLIMITED: Final = 1 << 62


class QueueSetKind(enum.Enum):
    """Says what a queue set does with a request that does not fit."""

    EXEMPT = "exempt"  # there is none: everything fits
    REJECT = "reject"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class QueueSetConfig:
    """How requests queue; `hand_size` and lengths are of `QueueSetKind.QUEUE` only.

    Requests may use `least_seats` whatever the limit; Kubernetes has none.  Only if it
    `has_weights` may estimates have others than 1.
    """

    kind: QueueSetKind
    queues: int = 0
    hand_size: int = 0
    queue_length_limit: int = 0
    least_seats: int = 0
    has_weights: bool = False


class QueueSet:
    """The queues and the seats of one priority level.

    Args:
        concurrency_limit: Seats; >= 0.  Only counted, not enforced, at an exempt level.
        demand: Told of every change of seats in use plus seats waited for.
        on_wait: Called when an arrival is about to wait; it may bring about more seats for it.
        on_rejection: Called with the name and the seats asked for when an arrival that cannot wait
            is about to be rejected; the same.

    Raises:
        ValueError: The dealer cannot deal such hands from so many queues.

    Attributes (to read only, but for the next two):
        share_out: In place of what dispatches by itself, where levels have a pool of seats; see
            `seat_pool`.  Called after a change, and settled; it tells who was dispatched.
        is_contended: Whether something waits at any level of the pool.
        requests_executing, seats_in_use: What executes, and its seats and those of what lingers.
        executing: The tickets that execute, in the order of dispatch; the values say nothing.
        rejected_total: Counts `timed_out_total`, too, but not `cancelled_total`.
        current_r: The progress meter as of the last event; call `sync` first to have it now.
        dispatch_r, latest_s: R, and the winner's `next_dispatch_r`, at the last dispatch.
        seat_limit: The seats that requests may use: the concurrency limit, or what overrides it.
        queues: All of them, surplus ones included; `robin` has the order of their turns.
        enqueues: Arrivals so far that were dealt a hand.
        meter: How the level spent its time; call `sync` first.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        config: QueueSetConfig,
        concurrency_limit: int,
        demand: SeatDemand,
        on_wait: Callable[[], None] | None = None,
        on_rejection: Callable[[str, int], None] | None = None,
    ) -> None:
        self.name = name
        self.meter = LevelMeter()
        self._now_ns = clock.now_ns
        self._call_at = clock.call_at
        self._demand = demand
        self._on_wait = on_wait
        self._on_rejection = on_rejection
        self.share_out: Callable[[int], None] | None = None
        self.is_contended = False
        self._time_at = self.meter.time_at

        self.config = config
        self.concurrency_limit = concurrency_limit
        self.requests_waiting = 0
        self.requests_executing = 0
        self.seats_in_use = 0
        self.seats_waiting = 0
        self.executing: dict[Ticket, None] = {}
        self.dispatched_total = 0
        self.rejected_total = 0
        self.timed_out_total = 0
        self.cancelled_total = 0
        self.current_r: SeatTicks = 0
        self.dispatch_r: SeatTicks = 0
        self.latest_s: SeatTicks = 0
        self.robin = RoundRobin()
        self.queues = self.robin.queues

        self._dealer: Dealer | None = None  # None: nothing is queued any more
        self.seat_limit = self._queue_length_limit = self.enqueues = 0
        self._active_weight = 0  # of the active queues
        self._has_weights = False
        self._short_limit = 0  # the seat limit for the short way
        self._own: dict[int, Queue] = {}  # by flow's hash; these two are for weights
        self._free: list[Queue] = []  # those that are not active
        self._seats_requested = 0  # in use by, or waited for in, any of `queues`
        self._last_ns = self._now_ns()
        self._state = 0  # as `meter.pack` makes it, since `_last_ns`
        self._ready: deque[Ticket] = deque()  # dispatched, but not told yet
        self._is_notifying = False

        self.meter.set_seats_denominator(max(concurrency_limit, 1))
        self.reconfigure(config, concurrency_limit)

    # Requests

    def admit(
        self,
        flow: Flow,
        estimate: WorkEstimate,
        on_dispatch: Callable[[Ticket], None],
        details: Any = None,  # noqa: ANN401  the caller's own
    ) -> Ticket | RejectReason:
        """Give the request seats now, a place in a queue, or the reason why it gets neither.

        `on_dispatch` is called with the ticket at most once, later, if the request has to wait;
        never from inside this call.  It may call any method, but must not raise.  A ticket says
        whether it `is_executing`; hand it to `finish` or `withdraw`.
        """
        now_ns = self._now_ns()
        if now_ns != self._last_ns:
            self._advance(now_ns)
        seats = estimate.max_seats
        counters = flow.counters
        histogram = counters.work_estimated_seats
        if seats == 1:
            histogram.counts[0] += 1
            histogram.sum += 1
        else:
            histogram.observe(seats)
        dealer = self._dealer
        if dealer is None:
            return self._admit_without_queue(flow, estimate, details, now_ns)
        hand = flow.hand if flow.dealer is dealer else flow.deal(dealer)
        offset = self.enqueues % len(hand)
        self.enqueues += 1

        if self.requests_waiting or self.seats_in_use + seats > self._short_limit:
            return self._enqueue(hand, offset, flow, estimate, on_dispatch, details, now_ns)

        # Nothing waits, so the first card of the hand wins and so does the request in it: what
        # `_enqueue` and `_dispatch` would do, without its place in the queue and the tournament.
        queue = self.queues[hand[offset]]
        current_r = self.current_r
        if queue.requests_executing == 0:
            self._active_weight += 1
            start_r = current_r
        else:
            start_r = queue.next_dispatch_r
            if start_r < current_r:  # noqa: PLR1730  max() costs 60 ns more
                start_r = current_r
        queue.next_dispatch_r = start_r + estimate.work
        queue.requests_executing += 1
        queue.seats_in_use += seats
        self.robin.last_index = queue.index
        self.dispatch_r = current_r
        self.latest_s = start_r
        self._seats_requested += seats
        self.requests_executing += 1
        self.seats_in_use = seats_in_use = self.seats_in_use + seats
        self.dispatched_total += 1
        self._state += 1 + (seats << SEATS_SHIFT)
        self._demand.update(now_ns, seats_in_use)
        counters.executing_requests += 1
        counters.executing_seats += seats
        counters.dispatched += 1
        counters.dispatched_at_once += 1
        ticket = Ticket(flow, estimate, details, now_ns, queue, EXECUTING, now_ns, current_r)
        self.executing[ticket] = None
        return ticket

    def finish(self, ticket: Ticket, is_watch: bool = False) -> None:  # noqa: FBT002  a label
        """End the execution of a request; its seats come back now, or when it has lingered.

        Tells others of their dispatch.  Harmless if the ticket does not execute (any more).
        """
        if ticket.state != EXECUTING:
            return
        now_ns = self._now_ns()
        if now_ns != self._last_ns:
            self._advance(now_ns)
        ticket.state = DONE
        del self.executing[ticket]
        self.requests_executing -= 1
        duration_ns = now_ns - ticket.dispatched_ns
        counters = ticket.flow.counters
        counters.executing_requests -= 1
        histogram = counters.execution_watch_ns if is_watch else counters.execution_regular_ns
        if 0 < duration_ns <= SHORT_NS:  # as most are: 60 ns less than to search
            histogram.counts[1] += 1
            histogram.sum += duration_ns
        else:
            histogram.observe(duration_ns)

        estimate = ticket.estimate
        queue = ticket.queue
        if queue is not None:
            # The guess was charged at dispatch; the difference, rounded half away from zero.
            worked_ns = duration_ns if ticket.worked_ns < 0 else ticket.worked_ns
            error = estimate.initial_seats * (worked_ns - estimate.guess_ns)
            ns_per_tick = estimate.ns_per_tick
            if error >= 0:
                queue.next_dispatch_r += (error + ns_per_tick // 2) // ns_per_tick
            else:
                queue.next_dispatch_r -= (ns_per_tick // 2 - error) // ns_per_tick
            queue.requests_executing -= 1
            if queue.requests_waiting:
                self.robin.oldest_changed(queue)  # not the oldest, but the start
            elif queue.requests_executing == 0:
                self._active_weight -= queue.weight
                if self._has_weights:
                    self._vacate(queue)

        if estimate.additional_latency_ns > 0:
            ticket.state = LINGERING
            self._call_at(
                now_ns + estimate.additional_latency_ns, partial(self._end_lingering, ticket)
            )
        else:
            self._release_seats(ticket)
        # Also if it lingers: a request wider than the limit waits only for what executes.
        if self.requests_waiting or self.is_contended:
            self._go_on(now_ns)
        else:
            self._settle(now_ns)

    def withdraw(self, ticket: Ticket, reason: RejectReason | None) -> None:
        """Take a request out of its queue; one that executes already is finished instead.

        Dispatches nothing by itself, as in Kubernetes.  Harmless if the request has ended.  The
        reason is `TIME_OUT`, or None if the client left.
        """
        if ticket.state != WAITING:
            self.finish(ticket)
            return
        queue = ticket.queue
        assert queue is not None
        now_ns = self._now_ns()
        self._advance(now_ns)
        self._leave_queue(ticket, queue)
        ticket.state = DONE
        counters = ticket.flow.counters
        counters.wait_rejected_ns.observe(now_ns - ticket.arrived_ns)
        if reason is None:
            self.cancelled_total += 1
            counters.cancelled += 1
        else:
            self.rejected_total += 1
            self.timed_out_total += 1
            counters.rejected_time_out += 1
        if not queue.is_active:
            self._active_weight -= queue.weight
            if self._has_weights:
                self._vacate(queue)
        self._seats_requested -= ticket.estimate.max_seats
        self._oldest_changed(queue)
        self._settle(now_ns)

    # Configuration

    def reconfigure(self, config: QueueSetConfig, concurrency_limit: int) -> None:
        """Queue and limit by other rules from now on; tells requests of their dispatch if they fit.

        New queues are there at once, surplus ones go away as they become empty.

        Raises:
            ValueError: The dealer cannot deal such hands from so many queues; nothing changed.
        """
        is_queuing = config.kind is QueueSetKind.QUEUE
        dealer = Dealer(config.queues, config.hand_size) if is_queuing else None
        self._advance(self._now_ns())
        self.config, self._dealer = config, dealer
        if is_queuing:
            self._queue_length_limit = config.queue_length_limit
            self.robin.grow(config.queues)
        self._set_weights(has_weights=config.has_weights)
        self.meter.set_waiting_capacity(max(self._queue_length_limit, 1) * max(config.queues, 1))
        self.set_concurrency_limit(concurrency_limit)

    def set_concurrency_limit(self, concurrency_limit: int) -> None:
        """Have so many seats from now on; dispatches what fits, takes seats back as they end."""
        self._advance(now_ns := self._now_ns())
        self.concurrency_limit = concurrency_limit
        if self.share_out is None:
            config = self.config
            least = UNLIMITED if config.kind is QueueSetKind.EXEMPT else config.least_seats
            self.seat_limit = max(concurrency_limit, least)
            self._short_limit = -1 if self._has_weights else self.seat_limit
        self._go_on(now_ns)

    def leave_pool(self) -> None:
        """Dispatch by itself again, once the concurrency limit is set."""
        self.share_out = None
        self.is_contended = False
        self.concurrency_limit = -1  # whatever it is next, it is another one

    def set_seat_limit(self, seats: int, now_ns: int) -> None:
        """Let requests use that many seats of the pool; dispatches nothing."""
        self._advance(now_ns)
        self.seat_limit = seats
        self._short_limit = -1 if self._has_weights else seats

    def next_seats(self) -> int:
        ticket = self.robin.next().oldest
        assert ticket is not None
        return ticket.estimate.max_seats

    def dispatch_next(self, widest: int, now_ns: int) -> None:
        """Dispatch the next request, which fits, or is wider than `widest` and alone."""
        self._advance(now_ns)
        self._dispatch_from(self.robin.next(), widest, now_ns)
        self._settle(now_ns)

    def tell(self) -> None:
        if self._ready and not self._is_notifying:
            self._notify()

    def set_seats_denominator(self, seats: int) -> None:
        """Measure what executes, and seat demand, as parts of so many seats from now on; >= 1."""
        self._advance(self._now_ns())
        self.meter.set_seats_denominator(seats)

    # Views

    @property
    def is_idle(self) -> bool:
        return self.requests_waiting == 0 and self.requests_executing == 0

    def sync(self) -> None:
        """Bring the progress meter, the level meter and the seat demand up to now."""
        now_ns = self._now_ns()
        self._advance(now_ns)
        self._demand.update(now_ns, self.seats_in_use + self.seats_waiting)
        self.meter.fold()

    def next_s_bounds(self) -> tuple[SeatTicks, SeatTicks]:
        """Least and greatest `next_dispatch_r` where something waits; visits all queues."""
        return self.robin.start_bounds(0) or (self.latest_s, self.latest_s)

    def next_discounted_s_bounds(self) -> tuple[SeatTicks, SeatTicks]:
        """As `next_s_bounds`, less the guessed work of what a queue has in progress."""
        return self.robin.start_bounds(SERVICE_GUESS_TICKS) or (self.latest_s, self.latest_s)

    # Time

    def _advance(self, now_ns: int) -> None:
        """Bring R and the level meter up to now; to be called before any change."""
        elapsed_ns = now_ns - self._last_ns
        if elapsed_ns == 0:
            return
        self._last_ns = now_ns
        weight = self._active_weight
        if weight:
            seats = self._seats_requested
            if seats > self.seat_limit:  # noqa: PLR1730  min() costs 60 ns more
                seats = self.seat_limit
            # `seat_ticks` in place, for numbers that are not negative: 60 ns less.
            exact = seats / weight * elapsed_ns / NS_PER_TICK
            ticks = int(exact)
            if exact - ticks >= 0.5:  # noqa: PLR2004  a half
                ticks += 1
            self.current_r += ticks
        time_at = self._time_at
        try:
            time_at[self._state] += elapsed_ns
        except KeyError:
            if len(time_at) >= MAX_STATES:
                self.meter.fold()
            time_at[self._state] = elapsed_ns

    def _settle(self, now_ns: int) -> None:
        """Report the state that a change has led to, then tell who was dispatched."""
        seats = self.seats_in_use
        if waiting := self.requests_waiting:
            self._state = pack(self.requests_executing, seats, waiting, self.seats_waiting)
            seats += self.seats_waiting
        else:
            self._state = self.requests_executing | seats << SEATS_SHIFT
        self._demand.update(now_ns, seats)
        if self._ready and self.share_out is None and not self._is_notifying:
            self._notify()

    def _go_on(self, now_ns: int) -> None:
        if self.share_out is None:
            self._dispatch(now_ns)
            self._settle(now_ns)
        else:
            self._settle(now_ns)  # first, so that anyone who is told finds everything settled
            self.share_out(now_ns)

    def _notify(self) -> None:
        """Tell who was dispatched; anyone who is dispatched by what they do is told from here too.

        So a callback may call any method, and a chain of requests that end at once does not
        nest.  A request that ended before its turn is not told.
        """
        ready = self._ready
        self._is_notifying = True
        try:
            while ready:
                ticket = ready.popleft()
                if ticket.on_dispatch is not None and ticket.state == EXECUTING:
                    ticket.on_dispatch(ticket)
        finally:
            self._is_notifying = False

    # Seats

    def _fits(self, seats: int) -> bool:
        """Whether there are seats for a request; one wider than the limit has to be alone."""
        if seats > self.seat_limit:
            return self.requests_executing == 0
        return self.seats_in_use + seats <= self.seat_limit

    def _take_seats(self, ticket: Ticket, now_ns: int) -> None:
        seats = ticket.estimate.max_seats
        ticket.state = EXECUTING
        ticket.dispatched_ns = now_ns
        self.executing[ticket] = None
        self.requests_executing += 1
        self.seats_in_use += seats
        self.dispatched_total += 1
        counters = ticket.flow.counters
        counters.executing_requests += 1
        counters.executing_seats += seats
        counters.dispatched += 1
        counters.waited_ns.observe(now_ns - ticket.arrived_ns)

    def _release_seats(self, ticket: Ticket) -> None:
        seats = ticket.estimate.max_seats
        self.seats_in_use -= seats
        ticket.flow.counters.executing_seats -= seats
        queue = ticket.queue
        if queue is None:
            return
        queue.seats_in_use -= seats
        if not queue.is_removed:
            self._seats_requested -= seats
            if len(self.queues) > self.config.queues and not queue.is_active:
                self._seats_requested -= queue.seats_in_use  # what lingers
                self.robin.drop(queue)
                if self._has_weights:
                    self._free.remove(queue)

    def _end_lingering(self, ticket: Ticket) -> None:
        now_ns = self._now_ns()
        self._advance(now_ns)
        ticket.state = DONE
        self._release_seats(ticket)
        self._go_on(now_ns)

    # Queues

    def _admit_without_queue(
        self,
        flow: Flow,
        estimate: WorkEstimate,
        details: Any,  # noqa: ANN401  the caller's own
        now_ns: int,
    ) -> Ticket | RejectReason:
        seats = estimate.max_seats
        if not self._fits(seats):
            if self._on_rejection is not None:
                self._on_rejection(self.name, seats)
            if not self._fits(seats):
                self.rejected_total += 1
                flow.counters.rejected_concurrency_limit += 1
                flow.counters.wait_rejected_ns.observe(0)
                return RejectReason.CONCURRENCY_LIMIT
        ticket = Ticket(flow, estimate, details, now_ns, None, EXECUTING, now_ns, 0)
        self._take_seats(ticket, now_ns)
        self._settle(now_ns)
        return ticket

    def _enqueue(
        self,
        hand: tuple[int, ...],
        offset: int,
        flow: Flow,
        estimate: WorkEstimate,
        on_dispatch: Callable[[Ticket], None],
        details: Any,  # noqa: ANN401  the caller's own
        now_ns: int,
    ) -> Ticket | RejectReason:
        queues = self.queues
        if self._has_weights:
            queue = self.queue_of(flow.hash, hand[offset:] + hand[:offset])
        else:
            queue = queues[hand[offset]]
            for card in hand[offset + 1 :] + hand[:offset]:
                other = queues[card]
                if other.work_waiting < queue.work_waiting:
                    queue = other
        counters = flow.counters
        is_full = queue.requests_waiting >= self._queue_length_limit
        if is_full and self._has_weights:
            is_full = self.is_full(queue)
        if is_full and self.seats_in_use >= self.seat_limit:
            self.rejected_total += 1
            counters.rejected_queue_full += 1
            counters.wait_rejected_ns.observe(0)
            return RejectReason.QUEUE_FULL

        if not queue.is_active:
            self._active_weight += queue.weight
            queue.next_dispatch_r = self.current_r
            if self._has_weights:
                self._free.pop()
                self._own[flow.hash] = queue
                queue.owner = flow.hash
        ticket = Ticket(flow, estimate, details, now_ns, queue, WAITING, -1, self.current_r)
        queue.append(ticket)
        if queue.oldest is ticket:
            self._oldest_changed(queue)
        seats = estimate.max_seats
        self.requests_waiting += 1
        self.seats_waiting += seats
        self._seats_requested += seats
        counters.inqueue_requests += 1
        counters.inqueue_seats += seats
        counters.lengths_met.observe(queue.requests_waiting)
        self._go_on(now_ns)
        if ticket.state == WAITING and self._on_wait is not None:
            try:
                self._on_wait()
            except BaseException:  # else no one would have the ticket, to give it back
                self.withdraw(ticket, None)
                raise
        # Set only now, so that no one has told the ticket before the caller has it.
        if ticket.state == WAITING:
            ticket.on_dispatch = on_dispatch
        return ticket

    def _leave_queue(self, ticket: Ticket, queue: Queue) -> None:
        queue.remove(ticket)
        seats = ticket.estimate.max_seats
        self.requests_waiting -= 1
        self.seats_waiting -= seats
        counters = ticket.flow.counters
        counters.inqueue_requests -= 1
        counters.inqueue_seats -= seats

    def _oldest_changed(self, queue: Queue) -> None:
        if self._has_weights and queue.oldest is not None:
            weight = queue.oldest.estimate.weight
            self._active_weight += weight - queue.weight
            queue.weight = weight
        self.robin.oldest_changed(queue)

    # Weights

    def queue_of(self, flow_hash: int, cards: Sequence[int]) -> Queue:
        """The flow's own queue, or one that is free, or by its hand one of others, if none is."""
        own = self._own.get(flow_hash)
        if own is not None:
            return own
        if self._free:
            return self._free[-1]
        return min((self.queues[card] for card in cards), key=lambda queue: queue.work_waiting)

    def is_full(self, queue: Queue) -> bool:
        """Whether no more may wait there; a flow's own queue stands for all of its hand."""
        config, limit, waiting = self.config, self._queue_length_limit, queue.requests_waiting
        if not self._has_weights or waiting < limit:
            return waiting >= limit
        return waiting >= limit * config.hand_size or self.requests_waiting >= limit * config.queues

    def _set_weights(self, *, has_weights: bool) -> None:
        if has_weights != self._has_weights:
            self._has_weights = has_weights
            self._short_limit = -1 if has_weights else self.seat_limit
            self._active_weight = 0
            self._own.clear()
            for queue in self.queues:
                queue.weight, queue.owner = 1, NO_OWNER
                self._active_weight += queue.is_active
                self._oldest_changed(queue)
        self._free = [queue for queue in self.queues if has_weights and not queue.is_active]

    def _vacate(self, queue: Queue) -> None:
        self._own.pop(queue.owner, None)
        queue.owner = NO_OWNER
        self._free.append(queue)

    def _dispatch(self, now_ns: int) -> None:
        robin = self.robin
        while self.requests_waiting and self.seats_in_use < self.seat_limit:
            queue = robin.next()
            ticket = queue.oldest
            assert ticket is not None
            if not self._fits(ticket.estimate.max_seats):
                ticket.flow.counters.no_accommodation += 1
                robin.went_around()
                return
            self._dispatch_from(queue, self.seat_limit, now_ns)

    def _dispatch_from(self, queue: Queue, seat_limit: int, now_ns: int) -> None:
        """Dispatch the oldest request of a queue, with no more final seats than the limit."""
        ticket = queue.oldest
        assert ticket is not None
        estimate = ticket.estimate
        self.robin.last_index = queue.index
        self.dispatch_r = self.current_r
        self.latest_s = queue.next_dispatch_r
        self._leave_queue(ticket, queue)
        if estimate.final_seats > seat_limit:
            ticket.estimate = estimate.cut(seat_limit)
            self._seats_requested += ticket.estimate.max_seats - estimate.max_seats
        self._take_seats(ticket, now_ns)
        queue.requests_executing += 1
        queue.seats_in_use += ticket.estimate.max_seats
        queue.next_dispatch_r += estimate.work
        self._oldest_changed(queue)
        self._ready.append(ticket)
