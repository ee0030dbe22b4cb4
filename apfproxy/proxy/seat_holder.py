"""A request in flow control: its place in a queue, its seats, and how a watch gives them up.

What it takes goes back exactly once, whoever ends first: the answer, the client, the origin, a
deadline.  A request that fits passes through `_admit` and `_give_back` as plain calls.
"""

from __future__ import annotations

import abc
import time
from typing import TYPE_CHECKING, Protocol

from apfproxy.faults import Part, contained
from apfproxy.flowcontrol.flow_limits import count_rejection
from apfproxy.flowcontrol.ticket import RejectReason, Ticket
from apfproxy.proxy import answers
from apfproxy.proxy.guarded import guarded
from apfproxy.proxy.request_log import Failure
from apfproxy.proxy.watch_seats import WatchSeats

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.flow_limits import FlowLimits, Refusal
    from apfproxy.flowcontrol.ticket import Flow
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.downstream import DownstreamConnection
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.proxy.upstream import UpstreamConnection
    from apfproxy.request.attributes import RequestAttributes

_EXECUTING = 1  # TicketState.EXECUTING, without the enum's attribute look-up


class FlowObserver(Protocol):
    """Gathers what flows take."""

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        """A dispatched request gives its seats back."""

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        """A request ends without having got any, rejected or given up by its client."""


class Place(Protocol):
    """Among the long-running requests of a flow, or the slow readers of a level."""

    def release(self, distinguisher: str) -> None:
        """The request, of that flow, is over."""


class SeatHolder(abc.ABC):
    """A request in flow control; what it does with its seats is its subclass's.

    A subclass and no part, since a part would be an object and some calls more for each request.

    Args:
        context: The listener's.
        downstream: The client's connection.
        head: The request's head.

    Attributes:
        head: The request's head.
        ticket: Its place in the queue set, until that is given back.
    """

    __slots__ = (
        "_classification",
        "_context",
        "_downstream",
        "_pf_headers",
        "_place",
        "_request_is_whole",
        "_sent_ns",
        "_used",
        "_wait_timer",
        "_watch",
        "head",
        "ticket",
    )

    def __init__(
        self, context: Context, downstream: DownstreamConnection, head: RequestHead
    ) -> None:
        self._context = context
        self._downstream = downstream
        self.head = head
        self.ticket: Ticket | None = None
        self._request_is_whole = False
        self._classification: Classification | None = None
        """Set by `_admit`."""
        self._pf_headers = b""
        """The header lines that name the class; b"" before it is known."""
        self._sent_ns = 0
        """When it was dispatched; 0 before."""
        self._place: Place | None = None
        self._wait_timer: asyncio.TimerHandle | None = None
        self._watch: WatchSeats | None = None
        self._used: tuple[int, int] | None = None
        """For the access log, of a ticket given back early: its seats, and when they were asked
        for, 0 if they were refused at once."""

    @abc.abstractmethod
    def on_connection(self, connection: UpstreamConnection) -> None:
        """Send the request."""

    @abc.abstractmethod
    def on_no_connection(self, code: int, reason: str) -> None:
        """The origin cannot be reached."""

    @abc.abstractmethod
    def _log_end(self, reason: str) -> None:
        """Have the request in the access log."""

    @abc.abstractmethod
    def _drop_upstream(self) -> None:
        """Give up the connection to the origin, or the wait for one, or for who asks."""

    @abc.abstractmethod
    def _dispatch(self) -> None:
        """Get a connection to the origin."""

    @abc.abstractmethod
    def _answer(self, code: int, build: Callable[[bytes, bytes], bytes], reason: str) -> None:
        """Answer without the origin.

        Args:
            code: The status.
            build: Takes more header lines and the Connection line.
            reason: For the access log.
        """

    # What others look at.

    @property
    def user_name(self) -> str:
        """Who asks."""
        return self.head.user.name

    @property
    def attributes(self) -> RequestAttributes:
        """What is asked."""
        return self.head.attributes

    @property
    def is_long_running(self) -> bool:
        """Whether it may go on for as long as client and origin like."""
        return self.head.is_watch or not self.head.takes_seats

    # After an error of the program.

    def fail(self, error: Exception) -> None:
        """End after an error of the program, and the client's connection with it; never raises."""
        self._downstream.fail(error, self)

    def give_up(self) -> None:
        """Give back all that the request holds, in whatever state it is; never raises."""
        context, ticket, found = self._context, self.ticket, self._classification
        loop = context.loop
        context.limits.watched.discard(self)
        with contained(Part.CONNECTION, loop):
            self._log_end(Failure.INTERNAL)
        with contained(Part.CONNECTION, loop):
            self._drop_upstream()
        with contained(Part.CONNECTION, loop):
            self._give_back(context.clock.now_ns())
        if ticket is not None and found is not None:
            with contained(Part.CONNECTION, loop):
                found.level.queue_set.withdraw(ticket, None)  # harmless once it is done

    # From its arrival to its dispatch.

    def _admit(self) -> None:
        """Admit, queue or refuse a request of somebody known."""
        context, head, is_whole = self._context, self.head, self._request_is_whole
        admission = context.admission
        found = self._classification = admission.classify(head)
        self._pf_headers = head.pf_headers
        if found.limits is not None and self._is_against(found, found.limits):
            return
        if head.upgrade is not None or not head.takes_seats:
            self._admit_long_running(found)
            return
        result = found.level.queue_set.admit(
            found.flow, head.fixed_estimate or admission.estimate(head), _on_dispatch, self
        )
        if type(result) is not Ticket:
            assert isinstance(result, RejectReason)
            self._reject(found, result)
            return
        self.ticket = result
        if result.state == _EXECUTING:
            arrived_ns = self._sent_ns = result.arrived_ns
            head.kind.executing.begin(arrived_ns)
            if is_whole:
                self._downstream.deadline_ns = arrived_ns + head.answer_timeout_ns
            else:
                self._set_deadline(arrived_ns)
            # `_dispatch`, in place: with the other such places, 0.6 us per request.
            upstream = context.pool.take()
            if upstream is None:
                context.pool.wait(self)
            else:
                self.on_connection(upstream)
        else:
            self._wait_for_seats(found, result)

    def _is_against(self, found: Classification, limits: FlowLimits) -> bool:
        """Refuse what the limits of the flow do not allow; whether they do not."""
        is_long_running = self.is_long_running
        refusal = limits.refusal(
            found.flow.distinguisher,
            self._context.clock.now_ns(),
            is_long_running=is_long_running,
        )
        if refusal is None:
            if is_long_running and limits.long_running_limit is not None:
                self._place = limits
            return False
        count_rejection(found.level.queue_set, found.flow.counters, refusal.reason)
        if self.head.upgrade is not None:
            # What the client sends next may be of the protocol that it hopes for.
            self._downstream.keep_alive = False
        self._refuse(found, refusal)
        return True

    def _admit_long_running(self, found: Classification) -> None:
        """Let a request go that takes no seats, or a WATCH that is to be upgraded."""
        context, head = self._context, self.head
        if head.upgrade is not None:
            # What the client sends next may be of the protocol that it hopes for.
            self._downstream.keep_alive = False
        if head.takes_seats:
            result = found.level.queue_set.admit(
                found.flow,
                head.fixed_estimate or context.admission.estimate(head),
                _on_dispatch,
                self,
            )
            if type(result) is not Ticket:
                assert isinstance(result, RejectReason)
                self._reject(found, result)
                return
            self.ticket = result
            if result.state != _EXECUTING:
                self._wait_for_seats(found, result)
                return
            head.kind.executing.begin(result.arrived_ns)
        self._sent_ns = context.clock.now_ns()
        self._set_deadline(self._sent_ns)
        self._dispatch()

    def _wait_for_seats(self, found: Classification, ticket: Ticket) -> None:
        """Wait in the queue, for as long as the request may."""
        context, head = self._context, self.head
        self._downstream.deadline_ns = ticket.arrived_ns + head.timeout_ns
        wait_ns = found.level.longest_wait_ns(head.timeout_ns)
        self._wait_timer = context.loop.call_later(wait_ns / 1e9, self._on_wait_limit)
        head.kind.waiting.begin(ticket.arrived_ns)

    def on_dispatch(self, ticket: Ticket) -> None:
        """The request's turn has come."""
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        kind = self.head.kind
        self._sent_ns = ticket.dispatched_ns
        kind.waiting.end(ticket.dispatched_ns)
        kind.executing.begin(ticket.dispatched_ns)
        self._set_deadline(ticket.dispatched_ns)
        self._dispatch()

    @guarded
    def _on_wait_limit(self) -> None:
        ticket, found = self.ticket, self._classification
        assert ticket is not None
        assert found is not None
        self._wait_timer = None
        self._note_use(ticket)
        now_ns = self._context.clock.now_ns()
        self.head.kind.waiting.end(now_ns)
        found.level.queue_set.withdraw(ticket, RejectReason.TIME_OUT)
        self.ticket = None
        self._reject(found, RejectReason.TIME_OUT, now_ns - ticket.arrived_ns)

    def _note_use(self, ticket: Ticket) -> None:
        """Remember for the access log what a ticket was for that goes before the request's end."""
        if self._context.access_log is not None:
            self._used = (ticket.estimate.max_seats, ticket.arrived_ns)

    def _note_wish(self) -> None:
        """Remember for the access log what a request would have taken that is refused at once."""
        context, head = self._context, self.head
        if context.access_log is not None and self._used is None and head.takes_seats:
            self._used = (context.admission.seats(head), 0)

    def _reject(self, found: Classification, reason: RejectReason, waited_ns: int = 0) -> None:
        """Refuse for want of seats, as Kubernetes does."""
        if self._context.top_flows is not None:
            self._context.top_flows.on_no_seats(found.flow, waited_ns, is_rejected=True)
        self._note_wish()
        tracker = found.level.retry_after
        tracker.record_drop(int(time.time()))
        self._answer(
            429,
            lambda extra, connection: answers.too_many_requests(
                tracker.get(), is_head=self.head.is_head, extra=extra, connection=connection
            ),
            reason,
        )

    def _refuse(self, found: Classification, refusal: Refusal) -> None:
        """Refuse for what an addition to the FlowSchema or its level says."""
        self._note_wish()
        if self._context.top_flows is not None:
            self._context.top_flows.on_no_seats(found.flow, 0, is_rejected=True)
        # To ask again later is of use where another answer may be had then.
        code = 403 if refusal.reason is RejectReason.BAN else 429
        retry = b"Retry-After: %d\r\n" % refusal.retry_after_s if refusal.retry_after_s else b""
        self._answer(
            code,
            lambda extra, connection: answers.status_answer(
                code,
                refusal.message,
                is_head=self.head.is_head,
                extra=retry + extra,
                connection=connection,
            ),
            refusal.reason,
        )

    def _set_deadline(self, now_ns: int) -> None:
        """Give the origin its time to answer in, once it can have all of the request."""
        head, ticket = self.head, self.ticket
        deadline_ns = 0
        if ticket is not None and not (head.is_watch and self._request_is_whole):
            deadline_ns = ticket.arrived_ns + head.timeout_ns
        if self._request_is_whole:
            answer_ns = now_ns + self._context.answer_timeout_ns
            deadline_ns = min(deadline_ns, answer_ns) if deadline_ns else answer_ns
        self._downstream.deadline_ns = deadline_ns

    # From there on.

    def _start_watch(self, body: bytes) -> None:
        """The watch is on: its seats go back once its initial events are through."""
        self._downstream.deadline_ns = 0
        context = self._context
        context.admission.costs.watch_started(self.head.attributes)
        self._watch = WatchSeats(
            context.loop, context.watch_settings, self.head.attributes, self._on_watch_initialized
        )
        if body:
            self._watch.on_data(body)

    @guarded
    def _on_watch_initialized(self) -> None:
        if self.ticket is not None:
            self._note_use(self.ticket)
            self._give_seats_back(self._context.clock.now_ns())

    def _goes_on_without_seats(self) -> bool:
        """Give the seats back before the answer is through, unless enough others of the level did.

        Then it keeps them, until one of those others is through.
        """
        assert self.ticket is not None
        assert self._classification is not None
        place = self._context.limits.admit_slow_reader(self._classification.level)
        if place is None:
            return False
        self._place = place
        self._note_use(self.ticket)
        self._give_seats_back(self._context.clock.now_ns())
        return True

    def _give_back(self, now_ns: int) -> None:
        """Give back all that the request holds but its connections."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._context.admission.costs.watch_ended(self.head.attributes)
        if self._place is not None:
            assert self._classification is not None
            self._place.release(self._classification.flow.distinguisher)
            self._place = None
        if self.ticket is not None:
            self._give_seats_back(now_ns)

    def _give_seats_back(self, now_ns: int) -> None:
        """Give back the place in the queue or the seats."""
        ticket, found = self.ticket, self._classification
        assert ticket is not None
        assert found is not None
        head = self.head
        queue_set = found.level.queue_set
        flows = self._context.top_flows
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
            if flows is not None:
                flows.on_no_seats(ticket.flow, now_ns - ticket.arrived_ns, is_rejected=False)
            head.kind.waiting.end(now_ns)
            self.ticket = None
            queue_set.withdraw(ticket, None)
        else:
            if flows is not None:
                flows.on_seats_back(ticket, now_ns)
            head.kind.executing.end(now_ns)
            # Only now: after an error before this, `give_up` still has it to give back.
            self.ticket = None
            queue_set.finish(ticket, head.is_watch)


def _on_dispatch(ticket: Ticket) -> None:
    """Tell the exchange; one function for all of them, so that admission makes no bound method."""
    request = ticket.details
    try:
        request.on_dispatch(ticket)
    except Exception as error:  # noqa: BLE001  it is not the fault of whoever gave the seats back
        request.fail(error)
