"""Tests of apfproxy.flowcontrol.queue_set: what becomes of requests, rule by rule."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import MAX_STATES
from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason, Ticket, TicketState, WorkEstimate
from tests.flowcontrol.level import EXEMPT, MS, ONE_QUEUE, REJECT, Level, queues


def test_what_fits_executes_at_once() -> None:
    """A request that fits gets its seats inside `admit`, and nobody is called."""
    level = Level(queues(8), limit=3)
    level.wait(7)
    ticket = level.admit(WorkEstimate(2), queue=5)

    assert ticket.is_executing
    assert (ticket.arrived_ns, ticket.dispatched_ns) == (7, 7)
    assert ticket.queue is level.queue_set.queues[5]
    assert list(level.queue_set.executing) == [ticket]
    assert level.queue_set.seats_in_use == 2
    assert level.queue_set.dispatched_total == 1
    assert level.demand.seats == 2
    assert level.dispatched == []


def test_what_does_not_fit_is_dispatched_later() -> None:
    """A waiting request is told once, when seats come back."""
    level = Level(ONE_QUEUE, limit=1)
    first = level.admit()
    second = level.admit()
    level.wait(4 * MS)

    assert not second.is_executing
    assert level.waiting == [second]
    assert (level.queue_set.requests_waiting, level.queue_set.seats_waiting) == (1, 1)
    assert level.demand.seats == 2

    level.queue_set.finish(first)

    assert level.dispatched == [second]
    assert second.is_executing
    assert second.dispatched_ns == 4 * MS
    assert level.demand.seats == 1


def test_a_full_queue_rejects_only_while_the_seats_are_taken() -> None:
    """With a seat free, a queue that is at its limit takes one more."""
    level = Level(queues(1, queue_length_limit=1), limit=4)
    level.admit(WorkEstimate(3))
    level.admit(WorkEstimate(2))

    assert not level.admit(WorkEstimate(2)).is_executing

    level.queue_set.set_concurrency_limit(3)

    assert level.reject() is RejectReason.QUEUE_FULL
    assert level.queue_set.rejected_total == 1
    assert level.counters.rejected_queue_full == 1
    assert level.queue_set.requests_waiting == 2


def test_a_level_without_queues_rejects_what_does_not_fit() -> None:
    """At such a level a request executes or is rejected at once."""
    level = Level(REJECT, limit=2)
    ticket = level.admit(WorkEstimate(2))

    assert ticket.queue is None
    assert level.reject() is RejectReason.CONCURRENCY_LIMIT
    assert level.counters.rejected_concurrency_limit == 1
    assert level.counters.wait_rejected_ns.counts[0] == 1

    level.queue_set.finish(ticket)

    assert level.queue_set.seats_in_use == 0
    assert level.admit(WorkEstimate(9)).is_executing  # wider than the limit, but alone
    assert level.reject(WorkEstimate(9)) is RejectReason.CONCURRENCY_LIMIT


def test_an_exempt_level_only_counts() -> None:
    """Everything is dispatched at once, whatever the limit."""
    level = Level(EXEMPT, limit=0)
    tickets = [level.admit(WorkEstimate(5)) for _ in range(10)]

    assert all(ticket.is_executing for ticket in tickets)
    assert level.queue_set.seats_in_use == 50
    assert level.queue_set.concurrency_limit == 0
    assert level.demand.seats == 50

    for ticket in tickets:
        level.queue_set.finish(ticket)

    assert level.queue_set.is_idle
    assert level.demand.seats == 0


@pytest.mark.parametrize(
    ("limit", "in_use", "asked", "fits"),
    [
        pytest.param(4, 3, 1, True, id="takes-the-last-seat"),
        pytest.param(4, 3, 2, False, id="one-seat-short"),
        pytest.param(4, 0, 9, True, id="wider-than-the-limit-but-idle"),
        pytest.param(4, 1, 9, False, id="wider-than-the-limit-and-busy"),
        pytest.param(0, 0, 1, False, id="no-seats-at-all"),
    ],
)
def test_fits(limit: int, in_use: int, asked: int, fits: bool) -> None:
    """A request wider than the limit runs alone; otherwise it would wait for ever."""
    level = Level(ONE_QUEUE, limit)
    if in_use:
        level.admit(WorkEstimate(in_use))

    assert fits == level.admit(WorkEstimate(asked)).is_executing


def test_the_least_loaded_queue_of_the_hand_wins() -> None:
    """Waiting work counts, and ties go to the card at which the visit begins."""
    level = Level(queues(3, hand_size=3), limit=1)
    flow = level.flow()
    level.queue_set.admit(flow, ONE_SEAT, level.dispatched.append)
    tickets = [level.queue_set.admit(flow, WorkEstimate(n), print) for n in (1, 5, 5, 1)]
    indices = [t.queue.index for t in tickets if isinstance(t, Ticket) and t.queue is not None]

    assert sorted(indices[:3]) == [0, 1, 2]
    assert indices[3] == indices[0]


def test_lingering_holds_seats() -> None:
    """After its end a request keeps its seats for the additional latency, but is not executing."""
    level = Level(ONE_QUEUE, limit=3)
    ticket = level.admit(WorkEstimate(1, 3, 5 * MS))
    waiting = level.admit()
    level.queue_set.finish(ticket)

    assert ticket.state == TicketState.LINGERING
    assert (level.queue_set.requests_executing, level.queue_set.seats_in_use) == (0, 3)
    assert (level.counters.executing_requests, level.counters.executing_seats) == (0, 3)
    assert not level.queue_set.is_idle  # for what waits

    level.wait(5 * MS)

    assert ticket.state == TicketState.DONE
    assert level.dispatched == [waiting]
    assert level.queue_set.seats_in_use == 1


def test_final_seats_are_cut_to_the_limit() -> None:
    """At dispatch final seats over the limit become fewer for longer; the work stays."""
    level = Level(queues(2), limit=2)
    level.admit()
    ticket = level.admit(WorkEstimate(1, 8, 3 * MS), queue=1)
    level.queue_set.finish(next(iter(level.queue_set.executing)))

    assert ticket.is_executing
    assert repr(ticket.estimate) == f"WorkEstimate(1, 2, {12 * MS})"
    assert level.queue_set.seats_in_use == 2
    assert level.queue_set.seats_waiting == 0
    assert level.counters.inqueue_seats == 0
    assert level.queue_set.queues[1].next_dispatch_r == ticket.arrival_r + 2_400_000 + 300_000


@pytest.mark.parametrize(
    ("reason", "timed_out", "cancelled"),
    [(RejectReason.TIME_OUT, 1, 0), (None, 0, 1)],
)
def test_withdraw(reason: RejectReason | None, timed_out: int, cancelled: int) -> None:
    """A request leaves the middle of its queue, and nothing is dispatched by that."""
    level = Level(ONE_QUEUE, limit=2)
    level.admit(WorkEstimate(2))
    first, second, third = (level.admit() for _ in range(3))
    level.wait(7 * MS)
    level.queue_set.withdraw(second, reason)

    assert level.waiting == [first, third]
    assert second.state == TicketState.DONE
    assert (timed_out, cancelled) == (
        level.queue_set.timed_out_total,
        level.queue_set.cancelled_total,
    )
    assert (timed_out, cancelled) == (
        level.counters.rejected_time_out,
        level.counters.cancelled,
    )
    assert level.queue_set.rejected_total == 1
    assert level.counters.wait_rejected_ns.sum == 7 * MS
    assert level.dispatched == []


def test_withdrawing_the_one_that_blocked_dispatches_nothing_by_itself() -> None:
    """The next event does: as in Kubernetes, a time-out only removes."""
    level = Level(ONE_QUEUE, limit=2)
    running = level.admit()
    wide = level.admit(WorkEstimate(2))
    narrow = level.admit()
    level.queue_set.withdraw(wide, RejectReason.TIME_OUT)

    assert level.dispatched == []

    level.queue_set.set_concurrency_limit(2)

    assert level.dispatched == [narrow]
    assert list(level.queue_set.executing) == [running, narrow]


def test_withdrawing_what_executes_finishes_it() -> None:
    """A seat granted to a caller that is gone passes to the next in line."""
    level = Level(ONE_QUEUE, limit=1)
    first, second = level.admit(), level.admit()
    level.queue_set.withdraw(first, None)

    assert level.dispatched == [second]
    assert level.queue_set.cancelled_total == 0


def test_seats_come_back_once() -> None:
    """Whatever is done to a ticket that has ended changes nothing."""
    level = Level(ONE_QUEUE, limit=5)
    done, lingering, withdrawn = level.admit(), level.admit(WorkEstimate(4, 1, MS)), level.admit()
    level.queue_set.withdraw(withdrawn, None)
    for _ in range(2):
        for ticket in (done, lingering, withdrawn):
            level.queue_set.finish(ticket)
            level.queue_set.withdraw(ticket, RejectReason.TIME_OUT)

    assert level.queue_set.seats_in_use == 4
    assert level.queue_set.requests_executing == 0
    assert level.queue_set.rejected_total == 1

    level.clock.run()

    assert level.queue_set.seats_in_use == 0


def test_counters_tell_the_story() -> None:
    """Gauges, totals and histograms of the FlowSchema follow each request."""
    level = Level(ONE_QUEUE, limit=2)
    counters = level.counters
    first = level.admit(WorkEstimate(2))
    second = level.admit(WorkEstimate(2))

    assert (counters.executing_requests, counters.executing_seats) == (1, 2)
    assert (counters.inqueue_requests, counters.inqueue_seats) == (1, 2)

    level.wait(6 * MS)
    level.queue_set.finish(first)
    level.wait(21 * MS)
    level.queue_set.finish(second, is_watch=True)

    assert (counters.executing_requests, counters.executing_seats) == (0, 0)
    assert (counters.inqueue_requests, counters.inqueue_seats) == (0, 0)
    assert counters.dispatched == 2
    assert counters.wait_executed_ns.counts[:3] == [1, 0, 1]
    assert counters.wait_executed_ns.sum == 6 * MS
    assert counters.execution_regular_ns.counts[:4] == [0, 0, 1, 0]
    assert counters.execution_regular_ns.sum == 6 * MS
    assert counters.execution_watch_ns.counts[:4] == [0, 0, 0, 1]
    assert counters.execution_watch_ns.sum == 21 * MS
    assert counters.queue_length_after_enqueue.counts[:2] == [0, 2]
    assert counters.work_estimated_seats.counts[:2] == [0, 2]
    assert counters.work_estimated_seats.sum == 4
    assert counters.no_accommodation == 0  # no seat was free while one waited


def test_no_accommodation_counts_attempts_with_seats_free() -> None:
    """Every attempt at dispatching the next one that fails for want of seats counts."""
    level = Level(ONE_QUEUE, limit=2)
    level.admit()
    level.admit(WorkEstimate(2))
    level.admit()

    assert level.counters.no_accommodation == 2


def test_progress_meter() -> None:
    """R runs at the seats asked for, or the limit, divided by the active queues."""
    level = Level(queues(4), limit=4)
    level.wait(MS)
    level.queue_set.sync()

    assert level.queue_set.current_r == 0  # no queue is active

    level.admit(WorkEstimate(3), queue=0)
    level.wait(MS)
    level.queue_set.sync()

    assert level.queue_set.current_r == 300_000

    level.admit(WorkEstimate(3), queue=1)
    level.wait(MS)
    level.queue_set.sync()

    assert level.queue_set.current_r == 500_000


def test_a_guess_is_made_good_at_the_end() -> None:
    """A queue is charged 3 ms at dispatch and the true time at the end."""
    level = Level(ONE_QUEUE, limit=4)
    queue = level.queue_set.queues[0]
    short, long = level.admit(WorkEstimate(2)), level.admit()

    assert queue.next_dispatch_r == 900_000

    level.wait(MS)
    level.queue_set.finish(short)

    assert queue.next_dispatch_r == 900_000 - 2 * 200_000

    level.wait(4 * MS + 5)
    level.queue_set.finish(long)

    assert queue.next_dispatch_r == 500_000 + 200_001


def test_a_queue_does_not_save_up_its_share() -> None:
    """A busy queue starts again no earlier than the arrival of its next request."""
    level = Level(ONE_QUEUE, limit=4)
    level.admit()
    level.wait(10 * MS)
    level.admit()

    assert level.queue_set.latest_s == level.queue_set.dispatch_r == 1_000_000
    assert level.queue_set.queues[0].next_dispatch_r == 1_300_000


@pytest.mark.parametrize("widths", [(1, 1), (1, 2), (1, 3)])
def test_two_greedy_flows_get_equal_seat_time(widths: tuple[int, int]) -> None:
    """Flows that always wait get the same seats in time as long as no seat stays idle."""
    level = Level(queues(2), limit=6)
    seat_ns = [0, 0]

    def execute(ticket: Ticket) -> None:
        level.clock.call_at(level.clock.now_ns() + 5 * MS, lambda: end(ticket))

    def end(ticket: Ticket) -> None:
        flow = int(ticket.flow.distinguisher[-1])
        seat_ns[flow] += widths[flow] * 5 * MS
        start(flow)
        level.queue_set.finish(ticket)

    def start(flow: int) -> None:
        ticket = level.admit(WorkEstimate(widths[flow]), flow, execute)
        if ticket.is_executing:
            execute(ticket)

    for _ in range(15):
        start(0)
        start(1)
    level.wait(2_000 * MS)

    assert seat_ns[0] == pytest.approx(seat_ns[1], rel=0.02)


def test_nobody_is_told_inside_its_own_admission() -> None:
    """`on_dispatch` is not called before the caller has the ticket, even by way of another's."""
    level = Level(ONE_QUEUE, limit=1)
    first = level.admit()
    level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.withdraw(first, None)

    assert level.queue_set.is_idle

    wide = level.admit(WorkEstimate(1))
    blocked = level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.finish(wide)

    assert blocked.state == TicketState.DONE
    assert level.dispatched == []


def test_an_admission_that_lets_another_go_first() -> None:
    """A request that waits for want of an event goes, and may end, inside another's admission."""
    level = Level(ONE_QUEUE, limit=2)
    level.admit()
    wide = level.admit(WorkEstimate(2))
    narrow = level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.withdraw(wide, None)
    last = level.admit()

    assert narrow.state == TicketState.DONE
    assert last.is_executing
    assert level.dispatched == []


def test_a_long_chain_of_dispatches_does_not_nest() -> None:
    """Requests that end as soon as they are told of their dispatch need no stack."""
    level = Level(queues(1, queue_length_limit=5_000), limit=1)
    first = level.admit()
    chain = [level.admit(on_dispatch=level.queue_set.finish) for _ in range(5_000)]
    level.queue_set.finish(first)

    assert {ticket.state for ticket in chain} == {TicketState.DONE}
    assert level.queue_set.is_idle


def test_a_request_that_ended_before_its_turn_is_not_told() -> None:
    """Of two dispatched together, the first may end the second."""
    level = Level(ONE_QUEUE, limit=2)
    wide = level.admit(WorkEstimate(2))
    tickets: list[Ticket] = []
    tickets.append(level.admit(on_dispatch=lambda _: level.queue_set.withdraw(tickets[1], None)))
    tickets.append(level.admit())
    level.queue_set.finish(wide)

    assert tickets[1].state == TicketState.DONE
    assert level.dispatched == []


def test_a_callback_that_raises_keeps_no_other_from_its_seats() -> None:
    """The others are told at the next event."""

    def fail(_ticket: Ticket) -> None:
        raise ZeroDivisionError

    level = Level(ONE_QUEUE, limit=2)
    wide = level.admit(WorkEstimate(2))
    broken = level.admit(on_dispatch=fail)
    patient = level.admit()
    with pytest.raises(ZeroDivisionError):
        level.queue_set.finish(wide)

    assert patient.is_executing
    assert level.dispatched == []

    level.queue_set.finish(broken)

    assert level.dispatched == [patient]


def test_s_bounds() -> None:
    """They span the queues where something waits, or else repeat the last dispatch."""
    level = Level(queues(3), limit=2)
    level.admit(WorkEstimate(2), queue=0)

    assert level.queue_set.next_s_bounds() == (0, 0)
    assert level.queue_set.next_discounted_s_bounds() == (0, 0)

    level.wait(MS)
    level.admit(queue=0)
    level.admit(queue=1)

    assert level.queue_set.next_s_bounds() == (200_000, 600_000)
    assert level.queue_set.next_discounted_s_bounds() == (0, 200_000)


def test_level_meter() -> None:
    """Time is measured by what executed and waited in it, over the limits of that time."""
    level = Level(queues(2, queue_length_limit=5), limit=4)
    level.wait(MS)
    level.admit(WorkEstimate(3))
    level.admit(WorkEstimate(2))
    level.wait(MS)
    level.queue_set.set_seats_denominator(3)
    level.queue_set.set_concurrency_limit(3)
    level.wait(MS)
    level.queue_set.sync()
    meter = level.queue_set.meter

    assert meter.requests_executing.sum == pytest.approx(MS / 4 + MS / 3)
    assert meter.requests_waiting.sum == pytest.approx(2 * MS / 10)
    assert meter.seats_in_use.sum == pytest.approx(3 * MS / 4 + MS)
    assert meter.seat_demand.sum == pytest.approx(5 * MS / 4 + 5 * MS / 3)
    assert sum(meter.seat_demand.counts) == 3 * MS


def test_level_meter_is_bounded() -> None:
    """However many states a level goes through, few are kept."""
    level = Level(EXEMPT, limit=10)
    tickets = []
    for _ in range(MAX_STATES + 100):
        tickets.append(level.admit())
        level.wait(1)

    assert len(level.queue_set.meter.time_at) < MAX_STATES

    level.queue_set.sync()

    assert sum(level.queue_set.meter.seats_in_use.counts) == MAX_STATES + 100


def test_repr() -> None:
    """A log can tell how busy a level is."""
    level = Level(ONE_QUEUE, limit=1)
    level.admit()
    level.admit()

    assert repr(level.queue_set) == "<QueueSet level: 1 waiting, 1 executing, 1 of 1 seats in use>"
