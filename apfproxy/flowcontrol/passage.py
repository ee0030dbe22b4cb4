"""One request's passage through flow control, from its arrival until it has given all back.

It classifies the request, asks the limits of its flow, estimates its work, asks the queue set, and
waits if need be; then it holds the seats until the request, or the origin, needs them no more.
What happens in which state is in `TRANSITIONS`, and so is that all is given back once: a state that
holds something is left by an event that gives it back.  Counters, the meter of the request's kind
and the notes on top flows are kept here and nowhere else.

Flow control is enforced, or only observed.  A request that is observed goes on at once, whatever
becomes of its passage:

1. A passage that gets its seats at once goes as if it were enforced.
2. One that is rejected is counted so, and its request goes on outside.
3. One that has to wait falls behind its request: whatever the request does, the passage does as
   much later as it waited.  So it holds its seats, and a long-running one its place among those
   of its flow, for as long as the request itself took, from the passage's own dispatch.

So, if the origin took the same time over each request, the same requests at the same times would
be counted exactly as they are where flow control is enforced.  They are not the same: an origin
without protection takes longer, and clients that are not rejected do not try again.

Source of the order of steps: `Handle` in kubernetes/apiserver pkg/util/flowcontrol/apf_filter.go.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

from mypy_extensions import mypyc_attr

from apfproxy.flowcontrol.flow_limits import Refusal, count_rejection
from apfproxy.flowcontrol.ticket import EXECUTING as HAS_SEATS
from apfproxy.flowcontrol.ticket import RejectReason, Ticket
from apfproxy.transitions import Event

if TYPE_CHECKING:
    from apfproxy.clock import Timer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.flow_control import FlowControl
    from apfproxy.flowcontrol.flow_limits import FlowLimits
    from apfproxy.flowcontrol.request_digest import RequestDigest
    from apfproxy.request.attributes import RequestAttributes


class PassageState(enum.StrEnum):
    """Where a passage stands."""

    NEW = "new"
    WAITING = "waiting"
    """In its queue."""
    EXECUTING = "executing"
    """It has its seats."""
    ABANDONED = "abandoned"
    """The request is over, but the origin works on, and so the seats are kept."""
    SEATLESS = "seatless"
    """It takes no seats, or has given them back; the request goes on."""
    OUTSIDE = "outside"
    """It was rejected; a request that is only observed goes on without it."""
    DONE = "done"


NEW: Final = PassageState.NEW
WAITING: Final = PassageState.WAITING
EXECUTING: Final = PassageState.EXECUTING
ABANDONED: Final = PassageState.ABANDONED
SEATLESS: Final = PassageState.SEATLESS
OUTSIDE: Final = PassageState.OUTSIDE
DONE: Final = PassageState.DONE

TRANSITIONS: Final = {
    NEW: {
        "passed": SEATLESS,
        "admitted": EXECUTING,
        "queued": WAITING,
        "rejected": OUTSIDE,
        "ended": DONE,
        "left": DONE,
    },
    WAITING: {
        "dispatched": EXECUTING,
        "timed-out": OUTSIDE,
        "failed": OUTSIDE,
        "ended": DONE,
        "left": DONE,
    },
    EXECUTING: {
        "released": SEATLESS,
        "left-to-origin": ABANDONED,
        "failed": OUTSIDE,
        "ended": DONE,
        "left": DONE,
    },
    ABANDONED: {"failed": OUTSIDE, "ended": DONE, "left": DONE},
    SEATLESS: {"released": SEATLESS, "failed": OUTSIDE, "ended": DONE, "left": DONE},
    OUTSIDE: {"released": OUTSIDE, "left-to-origin": OUTSIDE, "ended": DONE, "left": DONE},
    DONE: {},
}
"""State to event to the next state; `EXECUTING` and `ABANDONED` have seats, `WAITING` a place in a
queue, and all but `ABANDONED`, `OUTSIDE` and `DONE` a place among the flow's long-running ones."""

PASSED: Final = Event("passed", TRANSITIONS)
"""It needs no seats."""
ADMITTED: Final = Event("admitted", TRANSITIONS)
QUEUED: Final = Event("queued", TRANSITIONS)
REJECTED: Final = Event("rejected", TRANSITIONS)
DISPATCHED: Final = Event("dispatched", TRANSITIONS)
TIMED_OUT: Final = Event("timed-out", TRANSITIONS)
RELEASED: Final = Event("released", TRANSITIONS)
"""The request goes on, but needs its seats no more."""
LEFT_TO_ORIGIN: Final = Event("left-to-origin", TRANSITIONS)
"""The request is over, but the origin may work on."""
ENDED: Final = Event("ended", TRANSITIONS)
LEFT: Final = Event("left", TRANSITIONS)
"""The client is gone, so that a request would not have gone on in any case."""
FAILED: Final = Event("failed", TRANSITIONS)
"""An error of the program, of which a request that is only observed knows nothing."""

PassageEvent = Event[PassageState]


class Passenger(Protocol):
    """The request itself, as its passage calls it; not where flow control is only observed."""

    def on_seats(self) -> None:
        """Its turn has come."""

    def on_time_out(self) -> None:
        """It has waited as long as it may; `Passage.refusal` says so."""

    def fail(self, error: Exception) -> None:
        """End after an error of the program, and call `Passage.leave`; never raises."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Passage:
    """The passage of one request; `enter` comes once, `end` at most once, `leave` last.

    Attributes:
        state: Where it stands.
        classification: Where the request belongs; None before it entered.
        ticket: What the queue set gave; None if it was not asked, or rejected the request.
        refusal: Why the request was rejected; None if it was not.
    """

    __slots__ = (
        "_behind",
        "_control",
        "_passenger",
        "_place",
        "_timer",
        "classification",
        "digest",
        "refusal",
        "state",
        "ticket",
    )

    def __init__(self, control: FlowControl, digest: RequestDigest) -> None:
        self._control = control
        self.digest = digest
        self._passenger: Passenger | None = None
        self.state = NEW
        self.classification: Classification | None = None
        self.ticket: Ticket | None = None
        self.refusal: Refusal | None = None
        self._place: FlowLimits | None = None
        self._timer: Timer | None = None
        self._behind: list[tuple[int, PassageEvent]] | None = None
        """What the request did, since its arrival, that the passage has still to do; None while the
        passage is not behind its request."""

    # What the dumps and the access log show.

    @property
    def user_name(self) -> str:
        """Who asks."""
        return self.digest.user.name

    @property
    def attributes(self) -> RequestAttributes:
        """What is asked."""
        return self.digest.attributes

    @property
    def seats(self) -> int:
        """That it took, or would have taken; 0 if none by the request's nature."""
        if self.ticket is not None:
            return self.ticket.estimate.max_seats
        return 0 if self.refusal is None else self.refusal.seats

    @property
    def has_seats(self) -> bool:
        """Whether it has seats that the request has not given back."""
        return self.state is EXECUTING and not self._behind

    # The request arrives.

    def enter(self, passenger: Passenger) -> bool:
        """Ask for seats; whether the request goes on at once, else it waits or is rejected."""
        self._passenger = passenger
        control, digest = self._control, self.digest
        found = digest.classification
        if found is None or found.generation != control.controller.generation:
            found = control.classify(digest)
        self.classification = found
        if found.limits is not None:
            refusal = self._refused_by(found.limits, found)
            if refusal is not None:
                if digest.takes_seats:
                    refusal.seats = control.foreseen_estimate(digest, found).max_seats
                count_rejection(found.level.queue_set, found.flow.counters, refusal.reason)
                return self._reject(REJECTED, found, refusal)
        if not digest.takes_seats:
            self.state = PASSED[self.state]
            return True
        estimate = digest.fixed_estimate
        if estimate is None:
            estimate = control.estimate(digest, found)
        result = found.level.queue_set.admit(found.flow, estimate, _on_dispatch, self)
        if type(result) is not Ticket:
            assert isinstance(result, RejectReason)
            refusal = control.refusal(found.level, result)
            refusal.seats = estimate.max_seats
            return self._reject(REJECTED, found, refusal)
        self.ticket = result
        if result.state == HAS_SEATS:
            self.state = EXECUTING if self.state is NEW else ADMITTED[self.state]
            digest.kind.executing.begin(result.arrived_ns)
            return True
        self.state = QUEUED[self.state]
        digest.kind.waiting.begin(result.arrived_ns)
        self._timer = control.clock.call_at(
            result.arrived_ns + found.level.longest_wait_ns(digest.timeout_ns), self._on_wait_limit
        )
        if control.is_observing:
            self._behind = []
            return True
        return False

    def _refused_by(self, limits: FlowLimits, found: Classification) -> Refusal | None:
        """Ask the limits of the flow; a long-running request that may go has a place there."""
        is_long_running = self.digest.is_long_running
        refusal = limits.refusal(
            found.flow.distinguisher,
            self._control.clock.now_ns(),
            is_long_running=is_long_running,
        )
        if refusal is None and is_long_running and limits.long_running_limit is not None:
            self._place = limits
        return refusal

    def _reject(
        self, event: PassageEvent, found: Classification, refusal: Refusal, waited_ns: int = 0
    ) -> bool:
        """Reject the request; whether it goes on all the same."""
        self.state = event[self.state]
        self.refusal = refusal
        self._leave_place()
        self._catch_up()
        flows = self._control.top_flows
        if flows is not None:
            flows.on_no_seats(found.flow, waited_ns, is_rejected=True)
        return self._control.is_observing

    # It waits.

    def on_dispatch(self, ticket: Ticket) -> None:
        """Take the seats that the queue set gives; never raises."""
        passenger = self._passenger
        try:
            now_ns, kind = ticket.dispatched_ns, self.digest.kind
            assert self._timer is not None
            self._timer.cancel()
            self._timer = None
            self.state = DISPATCHED[self.state]
            kind.waiting.end(now_ns)
            kind.executing.begin(now_ns)
            if self._behind is None:
                assert passenger is not None
                passenger.on_seats()
            else:
                self._wait_for_next()
        except Exception as error:  # noqa: BLE001  it is not the fault of whoever gave them back
            self._fail(error, passenger)

    def _on_wait_limit(self) -> None:
        passenger = self._passenger
        try:
            self._timer = None
            ticket, found, control = self.ticket, self.classification, self._control
            assert ticket is not None
            assert found is not None
            now_ns = control.clock.now_ns()
            found.level.queue_set.withdraw(ticket, RejectReason.TIME_OUT)
            ticket.details = None
            self.digest.kind.waiting.end(now_ns)
            refusal = control.refusal(found.level, RejectReason.TIME_OUT)
            if not self._reject(TIMED_OUT, found, refusal, now_ns - ticket.arrived_ns):
                assert passenger is not None
                passenger.on_time_out()
        except Exception as error:  # noqa: BLE001  nobody but the clock is there to hear of it
            self._fail(error, passenger)

    # The request goes on, and ends.

    def release(self, now_ns: int) -> None:
        """Give the seats back, if it still has them; the request goes on."""
        self._happen(RELEASED, now_ns)

    def leave_to_origin(self, now_ns: int) -> None:
        """Give all back but the seats, which the origin may need until `end`."""
        self._happen(LEFT_TO_ORIGIN, now_ns)

    def end(self, now_ns: int) -> None:
        """Give all back: the request is over."""
        if self.state is not EXECUTING or self._behind is not None or self._place is not None:
            self._happen(ENDED, now_ns)
            return
        # The usual way of `_give_back`, without what others hold.
        self.state = DONE
        self._passenger = None
        ticket, found, digest = self.ticket, self.classification, self.digest
        assert ticket is not None
        assert found is not None
        try:
            digest.kind.executing.end(now_ns)
        finally:
            found.level.queue_set.finish(ticket, digest.is_watch)
        ticket.details = None
        flows = self._control.top_flows
        if flows is not None:
            flows.on_seats_back(ticket, now_ns)

    def leave(self, now_ns: int) -> None:
        """Give all back at once, whatever was to come; harmless once that is done."""
        self._behind = None
        if self.state is not DONE:
            self._give_back(LEFT, now_ns)

    def _fail(self, error: Exception, passenger: Passenger | None) -> None:
        """End after an error of the program; never raises.

        Args:
            error: What it is.
            passenger: Of before: the error may come after the passage has let go of it.
        """
        control = self._control
        if control.on_error is None:
            assert passenger is not None
            passenger.fail(error)
            return
        control.on_error(error)
        try:
            if self.state in FAILED:
                self._give_back(FAILED, control.clock.now_ns())
                self._catch_up()
        except Exception as again:  # noqa: BLE001  as above
            control.on_error(again)

    def _happen(self, event: PassageEvent, now_ns: int) -> None:
        """Let an event of the request happen to the passage, later if that is behind."""
        behind = self._behind
        if behind is None:
            self._give_back(event, now_ns)
            return
        assert self.ticket is not None
        behind.append((now_ns - self.ticket.arrived_ns, event))
        if len(behind) == 1 and self.state is not WAITING:
            self._wait_for_next()

    def _wait_for_next(self) -> None:
        """Wait until the passage is where its request was when that did something."""
        if self._behind:
            assert self.ticket is not None
            self._timer = self._control.clock.call_at(
                self.ticket.dispatched_ns + self._behind[0][0], self._on_next
            )

    def _catch_up(self) -> None:
        """Do at once, outside, what the request did before."""
        behind, self._behind = self._behind, None
        for _, event in behind or ():
            self._give_back(event, 0)

    def _on_next(self) -> None:
        try:
            self._timer = None
            assert self._behind is not None
            _, event = self._behind.pop(0)
            self._give_back(event, self._control.clock.now_ns())
            self._wait_for_next()
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error, None)

    def _give_back(self, event: PassageEvent, now_ns: int) -> None:
        """Change the state, and give back what the new one does not have."""
        before = self.state
        after = self.state = event[before]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._place is not None and after is not SEATLESS:
            self._leave_place()
        if after is DONE:
            self._passenger = None  # no cycle is left: the collector comes hardly ever
        if before is EXECUTING or before is ABANDONED:
            if after is not ABANDONED:
                self._give_seats_back(now_ns)
        elif before is WAITING:
            self._leave_queue(now_ns)

    def _give_seats_back(self, now_ns: int) -> None:
        ticket, found, digest = self.ticket, self.classification, self.digest
        assert ticket is not None
        assert found is not None
        try:
            digest.kind.executing.end(now_ns)
        finally:
            found.level.queue_set.finish(ticket, digest.is_watch)
        ticket.details = None  # as above
        flows = self._control.top_flows
        if flows is not None:
            flows.on_seats_back(ticket, now_ns)

    def _leave_queue(self, now_ns: int) -> None:
        ticket, found = self.ticket, self.classification
        assert ticket is not None
        assert found is not None
        try:
            self.digest.kind.waiting.end(now_ns)
        finally:
            found.level.queue_set.withdraw(ticket, None)
        ticket.details = None
        flows = self._control.top_flows
        if flows is not None:
            flows.on_no_seats(ticket.flow, now_ns - ticket.arrived_ns, is_rejected=False)

    def _leave_place(self) -> None:
        if self._place is not None:
            assert self.classification is not None
            self._place.release(self.classification.flow.distinguisher)
            self._place = None

    def __repr__(self) -> str:
        return f"<Passage of {self.digest!r}, {self.state}>"


def _on_dispatch(ticket: Ticket) -> None:
    """Tell the passage; one function for all of them, so that admission makes no bound method."""
    passage: Passage = ticket.details
    passage.on_dispatch(ticket)
