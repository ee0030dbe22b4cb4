"""Seats are conserved, and the counters are true, over any history of a queue set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import (
    DONE,
    EXECUTING,
    LINGERING,
    WAITING,
    Flow,
    RejectReason,
    Ticket,
    WorkEstimate,
)
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterable

MS = 1_000_000
START_NS = 5

configs = st.sampled_from(
    [
        QueueSetConfig(QueueSetKind.EXEMPT),
        QueueSetConfig(QueueSetKind.REJECT),
        QueueSetConfig(QueueSetKind.QUEUE, 1, 1, 2),
        QueueSetConfig(QueueSetKind.QUEUE, 4, 2, 1),
        QueueSetConfig(QueueSetKind.QUEUE, 8, 3, 5),
        QueueSetConfig(QueueSetKind.QUEUE, 3, 2, 2, has_weights=True),
    ]
)
limits = st.integers(0, 8)
estimates = st.one_of(
    st.builds(WorkEstimate, st.just(1), weight=st.sampled_from([1, 5])),
    st.builds(WorkEstimate, st.integers(1, 9), st.integers(0, 9), st.sampled_from([0, 1, 9 * MS])),
)
numbers = st.integers(0, 1000)


class QueueSetMachine(RuleBasedStateMachine):
    @initialize(config=configs, limit=limits)
    def start(self, config: QueueSetConfig, limit: int) -> None:
        self.clock = VirtualClock(START_NS)
        self.demand = SeatDemand(START_NS)
        self.counters = [FlowSchemaCounters("level", name) for name in ("a", "b")]
        self.flows = [
            Flow(i * 0x9E3779B97F4A7C15 % 2**64, str(i), self.counters[i % 2]) for i in range(6)
        ]
        self.queue_set = QueueSet("level", self.clock, config, limit, self.demand)
        self.tickets: list[Ticket] = []
        self.told: list[Ticket] = []
        self.at_once: list[Ticket] = []
        self.executed_ns = {"a": [0, 0], "b": [0, 0]}  # of other requests, of watches
        self.waited_in_vain_ns = {"a": 0, "b": 0}
        self.reasons: list[tuple[FlowSchemaCounters, RejectReason | None]] = []

    def those(self, *states: int) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.state in states]

    @rule(number=numbers, estimate=estimates)
    def admit(self, number: int, estimate: WorkEstimate) -> None:
        flow = self.flows[number % len(self.flows)]
        result = self.queue_set.admit(flow, estimate, self.told.append)
        if isinstance(result, RejectReason):
            self.reasons.append((flow.counters, result))
            return
        self.tickets.append(result)
        if result.is_executing:
            self.at_once.append(result)

    @precondition(lambda self: self.queue_set.requests_executing)
    @rule(number=numbers, is_watch=st.booleans())
    def finish(self, number: int, is_watch: bool) -> None:
        executing = self.those(EXECUTING)
        ticket = executing[number % len(executing)]
        self.queue_set.finish(ticket, is_watch)
        duration_ns = self.clock.now_ns() - ticket.dispatched_ns
        self.executed_ns[ticket.flow.counters.flow_schema][is_watch] += duration_ns

    @precondition(lambda self: self.queue_set.requests_waiting)
    @rule(number=numbers, reason=st.sampled_from([None, RejectReason.TIME_OUT]))
    def withdraw(self, number: int, reason: RejectReason | None) -> None:
        waiting = self.those(WAITING)
        ticket = waiting[number % len(waiting)]
        self.queue_set.withdraw(ticket, reason)
        counters = ticket.flow.counters
        self.reasons.append((counters, reason))
        self.waited_in_vain_ns[counters.flow_schema] += self.clock.now_ns() - ticket.arrived_ns

    @precondition(lambda self: self.tickets)
    @rule(number=numbers)
    def end_again(self, number: int) -> None:
        ticket = self.tickets[number % len(self.tickets)]
        if ticket.state in (LINGERING, DONE):
            self.queue_set.finish(ticket)
            self.queue_set.withdraw(ticket, RejectReason.TIME_OUT)

    @rule(duration_ns=st.integers(0, 20 * MS))
    def wait(self, duration_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ns)

    @rule(config=configs, limit=limits)
    def reconfigure(self, config: QueueSetConfig, limit: int) -> None:
        self.queue_set.reconfigure(config, limit)

    @rule(limit=limits)
    def set_concurrency_limit(self, limit: int) -> None:
        self.queue_set.set_concurrency_limit(limit)

    @invariant()
    def seats_are_conserved(self) -> None:
        executing = self.those(EXECUTING)
        held = seats_of([*executing, *self.those(LINGERING)])
        waiting = self.those(WAITING)

        assert held == self.queue_set.seats_in_use
        assert seats_of(waiting) == self.queue_set.seats_waiting
        assert len(waiting) == self.queue_set.requests_waiting
        assert len(executing) == self.queue_set.requests_executing
        assert set(executing) == set(self.queue_set.executing)
        assert set(waiting) == {t for queue in self.queue_set.queues for t in queue.tickets()}
        assert held + seats_of(waiting) == self.demand.seats
        assert self.queue_set.is_idle == (not executing and not waiting)

    @invariant()
    def everyone_was_told_once(self) -> None:
        dispatched = [ticket for ticket in self.tickets if ticket.dispatched_ns >= 0]

        assert len(dispatched) == len(self.told) + len(self.at_once)
        assert set(dispatched) == {*self.told, *self.at_once}
        assert len(dispatched) == self.queue_set.dispatched_total
        reasons = [reason for _, reason in self.reasons]
        assert len(reasons) - reasons.count(None) == self.queue_set.rejected_total
        assert reasons.count(None) == self.queue_set.cancelled_total
        assert reasons.count(RejectReason.TIME_OUT) == self.queue_set.timed_out_total

    @invariant()
    def counters_are_true(self) -> None:
        for counters in self.counters:
            tickets = [t for t in self.tickets if t.flow.counters is counters]
            reasons = [reason for of, reason in self.reasons if of is counters]
            executing = [t for t in tickets if t.state == EXECUTING]
            lingering = [t for t in tickets if t.state == LINGERING]
            waiting = [t for t in tickets if t.state == WAITING]
            dispatched = [t for t in tickets if t.dispatched_ns >= 0]
            waits = sum(t.dispatched_ns - t.arrived_ns for t in dispatched)
            executions = [counters.execution_regular_ns, counters.execution_watch_ns]

            assert len(executing) == counters.executing_requests
            assert seats_of([*executing, *lingering]) == counters.executing_seats
            assert len(waiting) == counters.inqueue_requests
            assert seats_of(waiting) == counters.inqueue_seats
            assert len(dispatched) == counters.dispatched
            assert len(dispatched) == sum(counters.wait_executed_ns.counts)
            assert waits == counters.wait_executed_ns.sum
            assert len(reasons) == sum(counters.wait_rejected_ns.counts)
            assert self.waited_in_vain_ns[counters.flow_schema] == counters.wait_rejected_ns.sum
            assert reasons.count(None) == counters.cancelled
            assert reasons.count(RejectReason.TIME_OUT) == counters.rejected_time_out
            assert reasons.count(RejectReason.QUEUE_FULL) == counters.rejected_queue_full
            assert (
                reasons.count(RejectReason.CONCURRENCY_LIMIT) == counters.rejected_concurrency_limit
            )
            assert len(dispatched) - len(executing) == sum(sum(h.counts) for h in executions)
            assert self.executed_ns[counters.flow_schema] == [each.sum for each in executions]
            enqueued = sum(t.queue is not None for t in tickets)
            assert enqueued == sum(counters.queue_length_after_enqueue.counts)
            refused = sum(reason in AT_ONCE for reason in reasons)
            assert len(tickets) + refused == sum(counters.work_estimated_seats.counts)

    def teardown(self) -> None:
        """When all requests have ended nothing is left, and every nanosecond was measured."""
        while not self.queue_set.is_idle:
            for ticket in self.those(WAITING):
                self.queue_set.withdraw(ticket, None)
            for ticket in self.those(EXECUTING):
                self.queue_set.finish(ticket)
        self.clock.run()
        self.queue_set.sync()

        assert self.queue_set.seats_in_use == self.queue_set.seats_waiting == 0
        assert self.demand.seats == 0
        for counters in self.counters:
            assert counters.executing_requests == counters.executing_seats == 0
            assert counters.inqueue_requests == counters.inqueue_seats == 0
        for queue in self.queue_set.queues:
            assert not queue.is_active
            assert queue.seats_in_use == queue.seats_waiting == queue.work_waiting == 0
        meter = self.queue_set.meter
        elapsed_ns = self.clock.now_ns() - START_NS
        assert elapsed_ns == sum(meter.requests_executing.counts)
        assert elapsed_ns == sum(meter.seat_demand.counts)


AT_ONCE = (RejectReason.QUEUE_FULL, RejectReason.CONCURRENCY_LIMIT)


def seats_of(tickets: Iterable[Ticket]) -> int:
    return sum(ticket.estimate.max_seats for ticket in tickets)


QueueSetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueSetMachine = QueueSetMachine.TestCase
