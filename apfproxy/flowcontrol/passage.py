"""One request's passage through flow control, from its arrival until it has given all back.

It classifies the request, asks the limits of its flow, estimates its work, asks the queue set, and
waits if need be; then it holds the seats until the request, or the upstream, needs them no more.
What happens in which state is in `TRANSITIONS`, and so is that all is given back once: a state that
holds something is left by an event that gives it back.  Counters, the meter of the request's kind
and the notes on top flows are kept here and nowhere else.

The seats that a request needs, and how long it works on after its end, are estimated so:

- A LIST, and a WATCH that begins with initial events, takes a seat per 100 kB that the server
  holds in memory for it, up to a maximum that can be set; what comes from its cache takes 10.
- A write takes one seat, and then, when its response is out, seats for the watchers to be told.
- Everything else takes one seat.

A request whose flow control is only observed has an `ObservedPassage`.

Source: kubernetes/apiserver pkg/util/flowcontrol, of the order of steps apf_filter.go (`Handle`),
of estimates request/ (list_work_estimator.go, mutating_work_estimator.go, config.go), with the
feature gates WatchList and SizeBasedListCostEstimate on.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

from mypy_extensions import mypyc_attr

from apfproxy.base.transitions import Event
from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.flow_limits import Refusal, count_rejection
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.flowcontrol.ticket import EXECUTING as HAS_SEATS
from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason, Ticket, WorkEstimate, ns_per_seat
from apfproxy.request.completion import PATHS

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.flowcontrol.controller import Classification, Controller
    from apfproxy.flowcontrol.flow_limits import Places
    from apfproxy.flowcontrol.learned_costs import ObjectStats
    from apfproxy.flowcontrol.meters import FlowSchemaCounters, KindCounts
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.ticket import Flow
    from apfproxy.request.attributes import ListOptions, RequestAttributes, User
    from apfproxy.request.completion import Completion


def takes_seats(attributes: RequestAttributes) -> bool:
    """Whether a request takes seats; of the long-running ones only a WATCH does, until it began."""
    is_watch = attributes.is_resource_request and attributes.verb == "watch"
    return is_watch or not attributes.long_running


def is_completion(attributes: RequestAttributes) -> bool:
    return attributes.is_plain and attributes.verb == "post" and attributes.path.endswith(PATHS)


# All of these as in Kubernetes.
BYTES_PER_SEAT: Final = 100_000
MAX_LIST_SEATS: Final = 100  # unless set otherwise
MAX_CACHED_LIST_BYTES: Final = 1_000_000  # the watch cache streams what it has, piece by piece
MAX_OBJECT_BYTES: Final = 1_500_000  # the largest request that etcd takes
MAX_MUTATING_SEATS: Final = 10
WATCHES_PER_SEAT: Final = 10
SEAT_TICKS_PER_EVENT: Final = 500_000  # of 1e-8 seat-seconds: one seat for 5 ms

MOST_LIST_SEATS: Final = 10_000  # that can be set: each estimate is made beforehand

LIST_VERBS: Final = frozenset({"list", "watch"})
MUTATING_VERBS: Final = frozenset({"create", "update", "patch", "delete"})

LIST_ESTIMATES: Final = (ONE_SEAT, *(WorkEstimate(seats) for seats in range(1, MAX_LIST_SEATS + 1)))
"""Estimates by seats, shared: most LISTs need one of few widths."""


class WorkEstimator:
    def __init__(
        self,
        object_stats: Callable[[RequestAttributes], ObjectStats | None],
        watch_count: Callable[[RequestAttributes], int],
        max_list_seats: int = MAX_LIST_SEATS,
    ) -> None:
        self._object_stats = object_stats
        self._watch_count = watch_count
        self.bound_lists(max_list_seats)

    def bound_lists(self, seats: int) -> None:
        """Have a LIST, or a WATCH, take so many seats at most, from 1 to `MOST_LIST_SEATS`."""
        self.max_list_seats = seats
        wider = [WorkEstimate(each) for each in range(len(LIST_ESTIMATES), seats + 1)]
        self._list_estimates = (*LIST_ESTIMATES, *wider)

    def fixed(self, attributes: RequestAttributes) -> WorkEstimate | None:
        """The estimate if it depends on nothing but the attributes, else None."""
        verb = attributes.verb
        if attributes.is_plain:
            return ONE_SEAT
        if verb in LIST_VERBS:
            options = attributes.list_options
            assert options is not None
            if verb == "watch" and options.is_decodable and not options.sends_initial_events:
                return ONE_SEAT
            return None
        if verb in MUTATING_VERBS and not _makes_no_event(attributes):
            return None
        return ONE_SEAT

    def estimate(
        self,
        attributes: RequestAttributes,
        max_seats: int,
        counters: FlowSchemaCounters | None = None,
    ) -> WorkEstimate:
        """Estimate the work of a request; `max_seats` is its level's bound, 0 for none.

        `counters` count the watches that a write is of interest to.
        """
        estimate = self.fixed(attributes)
        if estimate is not None:
            return estimate
        if attributes.verb in LIST_VERBS:
            return self._list_estimates[self._list_seats(attributes, max_seats)]
        watch_count = self._watch_count(attributes)
        if counters is not None:
            counters.watch_count.observe(watch_count)
        return _mutating(watch_count, max_seats)

    def _list_seats(self, attributes: RequestAttributes, max_seats: int) -> int:
        most = min(max_seats or self.max_list_seats, self.max_list_seats)
        options = attributes.list_options
        assert options is not None
        if not options.is_decodable:
            return most  # bound to fail, and as dear as it can be until it has
        stats = self._object_stats(attributes)
        if stats is None:
            return 1
        is_from_cache = attributes.verb == "watch" or options.is_from_cache
        held = _bytes_held(
            stats, options, is_from_cache=is_from_cache, is_one=attributes.name != ""
        )
        return max(1, min(-(-held // BYTES_PER_SEAT), most))


def _bytes_held(
    stats: ObjectStats, options: ListOptions, *, is_from_cache: bool, is_one: bool
) -> int:
    average_bytes = stats.average_bytes
    if average_bytes <= 0 and stats.count != 0:
        average_bytes = MAX_OBJECT_BYTES
    count = stats.count
    if 0 < options.limit < count:
        count = options.limit
    if is_one:
        count = 1
    elif options.has_selector and not is_from_cache:
        count = max(count, stats.count // 2)
    held = count * average_bytes
    return min(held, MAX_CACHED_LIST_BYTES) if is_from_cache else held


def _mutating(watch_count: int, max_seats: int) -> WorkEstimate:
    if watch_count < WATCHES_PER_SEAT:
        return ONE_SEAT
    seats = -(-watch_count // WATCHES_PER_SEAT)
    work = seats * SEAT_TICKS_PER_EVENT
    # Narrower and longer, with the same work: a wide request keeps seats idle until all it needs
    # are free.
    seats = min(seats, max_seats or MAX_MUTATING_SEATS, MAX_MUTATING_SEATS)
    return WorkEstimate(1, seats, ns_per_seat(work, seats))


def _makes_no_event(attributes: RequestAttributes) -> bool:
    return attributes.resource == "serviceaccounts" and attributes.subresource == "token"


class FlowObserver(Protocol):
    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        """A dispatched request has given its seats back."""

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        """A request ended without having got any, rejected or given up by its client."""

    def on_tokens(self, flow: Flow, tokens: int) -> None:
        """Tokens came for a request, or turned out to be fewer than were told."""


class FlowControl:
    """Holds what all passages share; `unix_s` is the wall clock, in whole seconds.

    `on_error` gets errors of the program in passages that are only observed; None where flow
    control is enforced.
    """

    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        *,
        unix_s: Callable[[], int],
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.controller = controller
        self.costs = costs = LearnedCosts(clock.now_ns)
        self.estimator = WorkEstimator(costs.object_stats, costs.watch_count)
        self.kinds = KindMeter(clock.now_ns())
        self.clock = clock
        self._unix_s = unix_s
        self.on_error = on_error
        self.is_observing = on_error is not None
        self.top_flows: FlowObserver | None = None  # gathers what flows take

    def replace(self, on_error: Callable[[Exception], None] | None) -> FlowControl:
        other = FlowControl(self.controller, self.clock, unix_s=self._unix_s, on_error=on_error)
        other.costs, other.estimator, other.kinds = self.costs, self.estimator, self.kinds
        other.top_flows = self.top_flows
        return other

    def classify(
        self, digest: RequestDigest, completion: Completion | None = None
    ) -> Classification:
        controller = self.controller
        if completion is not None and controller.matches_models:
            # Of this request alone: the digest may be that of others with the same head.
            model = completion.model

            def header_of(name: str) -> str:
                return model if name == MODEL else digest.header(name)

            return controller.classify(digest.user, digest.attributes, header_of)
        found = digest.classification = self.controller.classify(
            digest.user, digest.attributes, digest.header
        )
        return found

    def foreseen_estimate(self, digest: RequestDigest, found: Classification) -> WorkEstimate:
        """The work of a request that does not come to be estimated; not counted."""
        return digest.fixed_estimate or self.estimator.estimate(
            digest.attributes, found.level.max_seats
        )

    def refusal(self, level: PriorityLevel, reason: RejectReason) -> Refusal:
        """Why there are no seats, and when to ask again; counts a request as dropped."""
        level.retry_after.record_drop(self._unix_s())
        return Refusal(reason, "", level.retry_after.get())


class RequestDigest:
    """A request as flow control sees it: who asks for what.

    Attributes:
        timeout_ns: How long the request may take; a long-running one, until it has its seats.
        kind: Counts the request while it waits and executes.
        fixed_estimate: The estimate of its work if that depends on the attributes alone, else None.
        is_completion: Whether its body says more, see `Passage.completion`.
        classification: The last one, by the configuration's generation that it names.
    """

    def __init__(
        self,
        user: User,
        attributes: RequestAttributes,
        timeout_ns: int,
        kind: KindCounts,
        fixed_estimate: WorkEstimate | None,
    ) -> None:
        self.user = user
        self.attributes = attributes
        self.timeout_ns = timeout_ns
        self.kind = kind
        self.fixed_estimate = fixed_estimate
        self.is_list = attributes.is_resource_request and attributes.verb == "list"
        self.is_watch = attributes.is_resource_request and attributes.verb == "watch"
        self.is_long_running = attributes.long_running
        self.takes_seats = takes_seats(attributes)
        self.is_completion = is_completion(attributes)
        self.classification: Classification | None = None

    def header(self, name: str) -> str:  # noqa: ARG002  for those that have headers
        """The first value of a header of the request, by its name in any case; "" if none."""
        return ""


class PassageState(enum.StrEnum):
    NEW = "new"
    WAITING = "waiting"
    EXECUTING = "executing"
    ABANDONED = "abandoned"
    """The request is over, but the upstream works on, and so the seats are kept."""
    SEATLESS = "seatless"
    """It takes no seats, or has given them back; the request goes on."""
    OUTSIDE = "outside"
    DONE = "done"


NEW: Final = PassageState.NEW
WAITING: Final = PassageState.WAITING
EXECUTING: Final = PassageState.EXECUTING
ABANDONED: Final = PassageState.ABANDONED
SEATLESS: Final = PassageState.SEATLESS
OUTSIDE: Final = PassageState.OUTSIDE
DONE: Final = PassageState.DONE

ENDS: Final = {"released": DONE, "cancelled": DONE}
TRANSITIONS: Final = {
    NEW: {"passed": SEATLESS, "admitted": EXECUTING, "queued": WAITING, "rejected": OUTSIDE} | ENDS,
    WAITING: {"dispatched": EXECUTING, "timed-out": OUTSIDE, **ENDS},
    EXECUTING: {"seats-released": SEATLESS, "left-to-upstream": ABANDONED, **ENDS},
    ABANDONED: ENDS,
    SEATLESS: {"seats-released": SEATLESS, **ENDS},
    OUTSIDE: ENDS,
    DONE: {},
}
"""State to event to the next state; `EXECUTING` and `ABANDONED` have seats, `WAITING` a place in a
queue, and all but `ABANDONED`, `OUTSIDE` and `DONE` a place among the flow's long-running ones if
these are limited.  If others are, those have a place that wait or have seats."""

PASSED: Final = Event("passed", TRANSITIONS)
ADMITTED: Final = Event("admitted", TRANSITIONS)
QUEUED: Final = Event("queued", TRANSITIONS)
REJECTED: Final = Event("rejected", TRANSITIONS)
DISPATCHED: Final = Event("dispatched", TRANSITIONS)
TIMED_OUT: Final = Event("timed-out", TRANSITIONS)
SEATS_RELEASED: Final = Event("seats-released", TRANSITIONS)
"""The request goes on, but needs its seats no more."""
LEFT_TO_UPSTREAM: Final = Event("left-to-upstream", TRANSITIONS)
"""The request is over, but the upstream may work on."""
RELEASED: Final = Event("released", TRANSITIONS)
CANCELLED: Final = Event("cancelled", TRANSITIONS)
"""The client is gone, so that a request would not have gone on in any case."""

PassageEvent = Event[PassageState]


class Waiter(Protocol):
    def on_seats(self) -> None:
        """Its turn has come."""

    def on_time_out(self) -> None:
        """It has waited as long as it may; `Passage.refusal` says so."""

    def fail(self, error: Exception) -> None:
        """End after an error of the program, and call `Passage.cancel`; never raises."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Passage:
    """The passage of one request; `acquire` comes once, `release` at most once, `cancel` last.

    Attributes:
        classification: Where the request belongs; None before it entered.
        ticket: What the queue set gave; None if it was not asked, or rejected the request.
        refusal: Why the request was rejected; None if it was not.
        completion: What the body says, set before it enters; None where that counts nowhere.
    """

    def __init__(self, control: FlowControl, digest: RequestDigest) -> None:
        self._control = control
        self.digest = digest
        self._waiter: Waiter | None = None
        self.state = NEW
        self.classification: Classification | None = None
        self.ticket: Ticket | None = None
        self.refusal: Refusal | None = None
        self.completion: Completion | None = None
        self._place: Places | None = None
        self._timer: Timer | None = None

    # What the dumps and the access log show.

    @property
    def user_name(self) -> str:
        return self.digest.user.name

    @property
    def attributes(self) -> RequestAttributes:
        return self.digest.attributes

    @property
    def seats(self) -> int:
        """The seats that it took or would have taken; 0 if none by the request's nature."""
        if self.ticket is not None:
            return self.ticket.estimate.max_seats
        return 0 if self.refusal is None else self.refusal.seats

    @property
    def limited_seats(self) -> int:
        """The seats that it began with, or would have; 0 of an exempt level, which has no limit."""
        found, ticket = self.classification, self.ticket
        if found is None or found.level.is_exempt:
            return 0
        # One that is only observed goes on without a ticket, too.
        return self.seats if ticket is None else ticket.estimate.initial_seats

    @property
    def longest_wait_ns(self) -> int:
        """In its queue; where APIs are plain a request's time begins with its seats."""
        assert self.classification is not None
        return self.classification.level.longest_wait_ns(
            self.digest.timeout_ns, is_in_all=not self.digest.attributes.is_plain
        )

    @property
    def has_seats(self) -> bool:
        return self.state is EXECUTING

    # The request arrives.

    def acquire(self, waiter: Waiter) -> bool:
        """Ask for seats; whether the request goes on at once, else it waits or is rejected."""
        self._waiter = waiter
        control, digest = self._control, self.digest
        found = digest.classification
        if (
            found is None
            or found.generation != control.controller.generation
            or self.completion is not None
        ):
            found = control.classify(digest, self.completion)
        self.classification = found
        completion = self.completion
        if completion is not None:
            found.level.costs.expect(completion, found.flow)
        if found.limits is not None:
            refusal = found.limits.refusal(
                found.flow.distinguisher,
                control.clock.now_ns(),
                is_long_running=digest.is_long_running,
                completion=completion,
            )
            if refusal is None:
                self._place = found.limits.places(is_long_running=digest.is_long_running)
            else:
                if digest.takes_seats:
                    refusal.seats = control.foreseen_estimate(digest, found).max_seats
                count_rejection(found.level.queue_set, found.flow.counters, refusal.reason)
                self._reject(REJECTED, found, refusal)
                return False
        if not digest.takes_seats:
            self.state = PASSED[self.state]
            return True
        estimate = digest.fixed_estimate
        if estimate is None:
            estimate = control.estimator.estimate(
                digest.attributes, found.level.max_seats, found.flow.counters
            )
        if found.has_costs:
            estimate = found.level.costs.estimate(
                estimate, completion, digest.header, weight=found.weight
            )
        result = found.level.queue_set.admit(found.flow, estimate, _on_dispatch, self)
        if type(result) is not Ticket:
            assert isinstance(result, RejectReason)
            refusal = control.refusal(found.level, result)
            refusal.seats = estimate.max_seats
            self._reject(REJECTED, found, refusal)
            return False
        self.ticket = result
        if result.state == HAS_SEATS:
            self.state = ADMITTED[self.state]
            digest.kind.executing.begin(result.arrived_ns)
            return True
        self.state = QUEUED[self.state]
        digest.kind.waiting.begin(result.arrived_ns)
        self._timer = control.clock.call_at(
            result.arrived_ns + self.longest_wait_ns, self._on_wait_limit
        )
        return False

    def _reject(
        self, event: PassageEvent, found: Classification, refusal: Refusal, waited_ns: int = 0
    ) -> None:
        self.state = event[self.state]
        self.refusal = refusal
        self._leave_place()
        flows = self._control.top_flows
        if flows is not None:
            flows.on_no_seats(found.flow, waited_ns, is_rejected=True)

    # It waits.

    def on_dispatch(self, ticket: Ticket) -> None:
        """Take the seats that the queue set gives; never raises."""
        waiter = self._waiter
        assert waiter is not None
        try:
            now_ns, kind = ticket.dispatched_ns, self.digest.kind
            assert self._timer is not None
            self._timer.cancel()
            self._timer = None
            self.state = DISPATCHED[self.state]
            kind.waiting.end(now_ns)
            kind.executing.begin(now_ns)
            waiter.on_seats()
        except Exception as error:  # noqa: BLE001  it is not the fault of anyone who gave them back
            waiter.fail(error)

    def _on_wait_limit(self) -> None:
        waiter = self._waiter
        assert waiter is not None
        try:
            self._timer = None
            found, control = self.classification, self._control
            assert found is not None
            waited_ns = self._leave_queue(control.clock.now_ns(), RejectReason.TIME_OUT)
            refusal = control.refusal(found.level, RejectReason.TIME_OUT)
            self._reject(TIMED_OUT, found, refusal, waited_ns)
            waiter.on_time_out()
        except Exception as error:  # noqa: BLE001  no one but the clock is there to hear of it
            waiter.fail(error)

    # The request goes on, and ends.

    def release_seats(self, now_ns: int) -> None:
        """Give the seats back, if it still has them; the request goes on."""
        self._give_back(SEATS_RELEASED, now_ns)

    def begin_stream(self, now_ns: int) -> Refusal | None:
        """Give the seats back for a response that may last; why not, where its flow has enough."""
        found = self.classification
        assert found is not None
        limits = found.limits
        long_running = None if limits is None else limits.places(is_long_running=True)
        if limits is not None and long_running is not None and self._place is not long_running:
            refusal = self.refusal = limits.begin_stream(found.flow.distinguisher)
            if refusal is not None:
                count_rejection(found.level.queue_set, found.flow.counters, refusal.reason)
                return refusal
            self._leave_place()
            self._place = long_running
        self.release_seats(now_ns)
        return None

    def leave_to_upstream(self, now_ns: int) -> None:
        """Give all back but the seats, which the upstream may need until `release`."""
        self._give_back(LEFT_TO_UPSTREAM, now_ns)

    def release(self, now_ns: int) -> None:
        self._give_back(RELEASED, now_ns)

    def cancel(self, now_ns: int) -> None:
        """Give all back at once, whatever was to come; harmless once that is done."""
        if self.state is not DONE:
            self._give_back(CANCELLED, now_ns)

    def _give_back(self, event: PassageEvent, now_ns: int) -> None:
        """Change the state, and give back what the new one does not have."""
        before = self.state
        after = self.state = event[before]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        place = self._place
        if place is not None and after is not (ABANDONED if place.are_with_seats else SEATLESS):
            self._leave_place()
        if after is DONE:
            self._waiter = None  # no cycle is left: the collector comes hardly ever
        if after is ABANDONED:
            return
        if self.completion is not None and after is DONE:
            self._settle(self.completion, now_ns)
        flows = self._control.top_flows
        if before is EXECUTING or before is ABANDONED:
            ticket, found, digest = self.ticket, self.classification, self.digest
            assert ticket is not None
            assert found is not None
            try:
                digest.kind.executing.end(now_ns)
                if ticket.estimate.units:
                    found.level.costs.settle(ticket, self.completion, now_ns)
            finally:
                found.level.queue_set.finish(ticket, digest.is_watch)
            ticket.details = None  # as above
            if flows is not None:
                flows.on_seats_back(ticket, now_ns)
        elif before is WAITING:
            waited_ns = self._leave_queue(now_ns, None)
            if flows is not None:
                assert self.ticket is not None
                flows.on_no_seats(self.ticket.flow, waited_ns, is_rejected=False)

    def _settle(self, completion: Completion, now_ns: int) -> None:
        """Learn what a completion had, and have the rate of its flow give that."""
        found = self.classification
        if found is None:
            return  # it has not entered
        found.level.costs.learn(completion, found.flow)
        if found.limits is not None:
            found.limits.settle(found.flow.distinguisher, now_ns, completion)

    def _leave_queue(self, now_ns: int, reason: RejectReason | None) -> int:
        """Wait no more; for how many nanoseconds it did."""
        ticket, found = self.ticket, self.classification
        assert ticket is not None
        assert found is not None
        try:
            self.digest.kind.waiting.end(now_ns)
        finally:
            found.level.queue_set.withdraw(ticket, reason)
        ticket.details = None
        return now_ns - ticket.arrived_ns

    def _leave_place(self) -> None:
        if self._place is not None:
            assert self.classification is not None
            self._place.release(self.classification.flow.distinguisher)
            self._place = None


def _on_dispatch(ticket: Ticket) -> None:
    """One function for all passages, so that admission makes no bound method."""
    passage: Passage = ticket.details
    passage.on_dispatch(ticket)
