"""Requests whose flow control is only observed: none is rejected, and none waits.

The flow control goes on beside them as if it were enforced, so that its metrics, its dumps and
its page tell what would happen:

1. A request that fits takes its seats and gives them back, just as it would.
2. One that would be rejected is counted as such, and forwarded.
3. One that would wait is forwarded at once.  Its shadow waits in its queue, up to the same limit;
   when the shadow's turn comes it holds the seats for as long as the request itself took, from
   its dispatch to the end of its answer, which may be long after the answer.

So, if the origin took the same time over each request, the same requests at the same times would
be counted here exactly as they are where the limits are enforced.  They are not the same: an
origin without protection takes longer, and clients that are not rejected do not try again.

Limits of another kind stay in force: those of connections, of bodies and of the time to answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from apfproxy.faults import Part, contained, report
from apfproxy.flowcontrol.ticket import (
    DONE,
    ONE_SEAT,
    WAITING,
    RejectReason,
    Ticket,
    WorkEstimate,
)
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.guarded import guarded

if TYPE_CHECKING:
    from apfproxy.clock import Timer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.flow_limits import Refusal
    from apfproxy.flowcontrol.ticket import Flow
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.downstream import DownstreamConnection
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.proxy.seat_holder import Place
    from apfproxy.request.attributes import RequestAttributes


class ObservedExchange(Exchange):
    """One request and its answer, whatever the flow control would have it do.

    Its ticket's `details` are the exchange itself if the request fitted, its shadow if it would
    have waited, and the reason if it would have been rejected.  The last two are kept for the
    access log, too, since a request may outlive its ticket or do without.
    """

    __slots__ = ("_verdict",)

    def __init__(
        self, context: Context, downstream: DownstreamConnection, head: RequestHead
    ) -> None:
        super().__init__(context, downstream, head)
        self._verdict: Shadow | RejectReason | None = None
        """None while there is nothing against the request."""

    def _wait_for_seats(self, found: Classification, ticket: Ticket) -> None:
        """Leave the waiting to the shadow."""
        self._verdict = ticket.details = shadow = Shadow(self._context, self.head, found, ticket)
        if self._place is not None:
            # It is the shadow now that is told of the request's end.
            shadow.place, self._place = self._place, shadow
        self._go_on(ticket.arrived_ns)

    def _reject(self, found: Classification, reason: RejectReason, waited_ns: int = 0) -> None:
        """Have the request go on that would be rejected."""
        place = self._place
        if place is not None:
            self._place = None
            place.release(found.flow.distinguisher)
        found.level.retry_after.record_drop(int(time.time()))
        self._go_on_rejected(found.flow, reason, waited_ns)

    def _refuse(self, found: Classification, refusal: Refusal) -> None:
        """Have the request go on that additions are against."""
        self._go_on_rejected(found.flow, refusal.reason, 0)

    def _go_on_rejected(self, flow: Flow, reason: RejectReason, waited_ns: int) -> None:
        """Go on without holding anything; the deadlines are the same as with seats."""
        self._verdict = reason
        top_flows = self._context.top_flows
        if top_flows is not None:
            top_flows.on_no_seats(flow, waited_ns, is_rejected=True)
        now_ns = self._context.clock.now_ns()
        if self.head.takes_seats:
            estimate = ONE_SEAT
            if self._context.access_log is not None:
                estimate = WorkEstimate(self._context.admission.seats(self.head))
            self.ticket = Ticket(flow, estimate, reason, now_ns, None, DONE, now_ns, 0)
        self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        self._sent_ns = now_ns
        self._set_deadline(now_ns)
        self._dispatch()

    def on_client_left(self) -> None:
        """The client is gone; it would not have waited any longer, either."""
        super().on_client_left()
        # If the ticket is still there, its seats are kept for the origin, which works on.
        if isinstance(self._verdict, Shadow) and self.ticket is None:
            self._verdict.leave()

    def give_up(self) -> None:
        if isinstance(self._verdict, Shadow):
            with contained(Part.CONNECTION, self._context.loop):
                self._verdict.leave()
        super().give_up()

    def _give_seats_back(self, now_ns: int) -> None:
        ticket = self.ticket
        assert ticket is not None
        details = ticket.details
        if details is self:
            super()._give_seats_back(now_ns)
            return
        self.ticket = None
        if isinstance(details, Shadow):
            details.end(now_ns - self._sent_ns)

    def _log(
        self, ticket: Ticket | None, now_ns: int, answer: tuple[int, int, int], reason: str
    ) -> None:
        if not reason and (ticket is None or ticket.details is not self):
            # The line has the origin's answer, and why there would have been none.
            verdict = self._verdict
            reason = verdict.reason if isinstance(verdict, Shadow) else verdict or ""
        super()._log(ticket, now_ns, answer, reason)


class Shadow:
    """A request that would have waited: its place in a queue, then its seats.

    A long-running one has its place among those of its flow, too, for as long after the shadow's
    dispatch as it lasted.

    Args:
        context: The proxy's.
        head: The request's.
        classification: Where it belongs.
        ticket: Its place in the queue.

    Attributes:
        place: Where it has a place among the long-running requests; None for nowhere.
        reason: Why it would have been rejected; "" if it would not, or not yet.
    """

    __slots__ = (
        "_context",
        "_duration_ns",
        "_head",
        "_lasted_ns",
        "_level",
        "_place_timer",
        "_ticket",
        "_timer",
        "place",
        "reason",
    )

    def __init__(
        self, context: Context, head: RequestHead, classification: Classification, ticket: Ticket
    ) -> None:
        self._context = context
        self._head = head
        self._level = classification.level
        self._ticket = ticket
        self._duration_ns: int | None = None  # until the request needs no seats any more
        self._lasted_ns: int | None = None  # until the request's end
        self._place_timer: Timer | None = None
        self.place: Place | None = None
        self.reason: str = ""
        arrived_ns = ticket.arrived_ns
        self._timer: Timer = context.clock.call_at(
            arrived_ns + self._level.longest_wait_ns(head.timeout_ns), self._on_wait_limit
        )
        head.kind.waiting.begin(arrived_ns)

    @property
    def user_name(self) -> str:
        """Who asks."""
        return self._head.user.name

    @property
    def attributes(self) -> RequestAttributes:
        """What is asked."""
        return self._head.attributes

    def on_dispatch(self, ticket: Ticket) -> None:
        """The shadow's turn has come."""
        self._timer.cancel()
        kind = self._head.kind
        kind.waiting.end(ticket.dispatched_ns)
        kind.executing.begin(ticket.dispatched_ns)
        if self._duration_ns is not None:
            self._hold_seats(self._duration_ns)
        if self._lasted_ns is not None:
            self._hold_place(self._lasted_ns)

    def end(self, duration_ns: int) -> None:
        """The request itself is through, or needs its seats no more.

        Args:
            duration_ns: How long it took, since it was forwarded.
        """
        self._duration_ns = duration_ns
        if self._ticket.is_executing:
            self._hold_seats(duration_ns)

    def release(self, distinguisher: str) -> None:  # noqa: ARG002  as of a `Place`
        """The request itself is over, and would have had its place so long."""
        self._lasted_ns = self._context.clock.now_ns() - self._ticket.arrived_ns
        if self._ticket.dispatched_ns >= 0:
            self._hold_place(self._lasted_ns)

    def leave(self) -> None:
        """The client is gone, before the answer was through."""
        self._timer.cancel()
        self._leave_place()
        ticket = self._ticket
        if ticket.state == WAITING:
            self._leave_queue(None)
        elif ticket.is_executing:
            self._finish()

    def fail(self, error: Exception) -> None:
        """Leave after an error of the program; the request itself goes on.  Never raises."""
        loop = self._context.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: a shadow leaves", loop=loop)
        with contained(Part.CONNECTION, loop):
            self.leave()

    def _hold_seats(self, duration_ns: int) -> None:
        """Hold the seats for as long as the request did, from the shadow's dispatch on."""
        end_ns = self._ticket.dispatched_ns + duration_ns
        self._timer = self._context.clock.call_at(end_ns, self._finish)

    def _hold_place(self, lasted_ns: int) -> None:
        """Hold the place for as long as the request lasted, from the shadow's dispatch on."""
        if self.place is not None:
            self._place_timer = self._context.clock.call_at(
                self._ticket.dispatched_ns + lasted_ns, self._leave_place
            )

    @guarded
    def _leave_place(self) -> None:
        if self._place_timer is not None:
            self._place_timer.cancel()
            self._place_timer = None
        if self.place is not None:
            self.place.release(self._ticket.flow.distinguisher)
            self.place = None

    @guarded
    def _finish(self) -> None:
        head, context = self._head, self._context
        now_ns = context.clock.now_ns()
        if context.top_flows is not None:
            context.top_flows.on_seats_back(self._ticket, now_ns)
        head.kind.executing.end(now_ns)
        self._level.queue_set.finish(self._ticket, head.is_watch)

    @guarded
    def _on_wait_limit(self) -> None:
        self.reason = RejectReason.TIME_OUT
        self._level.retry_after.record_drop(int(time.time()))
        self._leave_queue(RejectReason.TIME_OUT)
        self._leave_place()

    def _leave_queue(self, reason: RejectReason | None) -> None:
        context, ticket = self._context, self._ticket
        now_ns = context.clock.now_ns()
        if context.top_flows is not None:
            waited_ns = now_ns - ticket.arrived_ns
            context.top_flows.on_no_seats(ticket.flow, waited_ns, is_rejected=reason is not None)
        self._head.kind.waiting.end(now_ns)
        self._level.queue_set.withdraw(ticket, reason)

    def __repr__(self) -> str:
        return f"<Shadow of {self._head!r}, {self._ticket!r}>"
