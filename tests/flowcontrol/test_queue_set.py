"""Tests of a queue set, beside those against the plain one and its machine."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import MAX_STATES
from apfproxy.flowcontrol.queue_set import DONE, RejectReason, Ticket, WorkEstimate
from tests.flowcontrol.level import EXEMPT, MS, ONE_QUEUE, REJECT, Level, queues


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
    assert second.state == DONE
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


def test_seats_come_back_once() -> None:
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
    level = Level(ONE_QUEUE, limit=2)
    level.admit()
    level.admit(WorkEstimate(2))
    level.admit()

    assert level.counters.no_accommodation == 2


def test_nobody_is_told_inside_its_own_admission() -> None:
    level = Level(ONE_QUEUE, limit=1)
    first = level.admit()
    level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.withdraw(first, None)

    assert level.queue_set.is_idle

    wide = level.admit(WorkEstimate(1))
    blocked = level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.finish(wide)

    assert blocked.state == DONE
    assert level.dispatched == []


def test_an_admission_that_lets_another_go_first() -> None:
    """A request that waits for want of an event goes, and may end, inside another's admission."""
    level = Level(ONE_QUEUE, limit=2)
    level.admit()
    wide = level.admit(WorkEstimate(2))
    narrow = level.admit(on_dispatch=level.queue_set.finish)
    level.queue_set.withdraw(wide, None)
    last = level.admit()

    assert narrow.state == DONE
    assert last.is_executing
    assert level.dispatched == []


def test_a_long_chain_of_dispatches_does_not_nest() -> None:
    level = Level(queues(1, queue_length_limit=5_000), limit=1)
    first = level.admit()
    chain = [level.admit(on_dispatch=level.queue_set.finish) for _ in range(5_000)]
    level.queue_set.finish(first)

    assert {ticket.state for ticket in chain} == {DONE}
    assert level.queue_set.is_idle


def test_a_request_that_ended_before_its_turn_is_not_told() -> None:
    """Of two dispatched together, the first may end the second."""
    level = Level(ONE_QUEUE, limit=2)
    wide = level.admit(WorkEstimate(2))
    tickets: list[Ticket] = []
    tickets.append(level.admit(on_dispatch=lambda _: level.queue_set.withdraw(tickets[1], None)))
    tickets.append(level.admit())
    level.queue_set.finish(wide)

    assert tickets[1].state == DONE
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


def test_an_impossible_configuration_changes_nothing() -> None:
    """The dealer's objection comes before any change."""
    level = Level(queues(4), limit=1)
    level.admit()
    waiting = level.admit()
    with pytest.raises(ValueError, match="hand size 9"):
        level.queue_set.reconfigure(queues(8, hand_size=9), 5)

    assert level.queue_set.config == queues(4)
    assert len(level.queue_set.queues) == 4
    assert level.waiting == [waiting]
    assert level.queue_set.concurrency_limit == 1


def test_a_surplus_queue_goes_once_though_several_linger() -> None:
    """Only the first of its lingering requests takes it away; its other seats stay counted."""
    level = Level(queues(4), limit=9)
    tickets = [level.admit(WorkEstimate(1, 2, n * MS), queue=3) for n in (1, 2, 3)]
    others = list(level.queue_set.queues[:3])
    level.queue_set.reconfigure(queues(1), 9)
    for ticket in tickets:
        level.queue_set.finish(ticket)
    level.wait(MS)

    assert level.queue_set.queues == others
    assert level.queue_set.seats_in_use == 4

    level.clock.run()

    assert level.queue_set.queues == others
    assert level.queue_set.seats_in_use == 0


def test_turns_go_on_when_the_first_queue_goes() -> None:
    """After queue 0 won and went, the next to be visited is the one that took its place."""
    level = Level(queues(2), limit=2)
    first = level.admit(queue=0)
    blocker = level.admit(queue=1)
    level.queue_set.finish(first)
    last = level.admit(queue=0)
    level.queue_set.reconfigure(REJECT, 2)
    level.queue_set.finish(last)

    assert len(level.queue_set.queues) == 1

    level.queue_set.reconfigure(queues(1), 2)
    wide = level.admit(WorkEstimate(2))
    level.queue_set.reconfigure(queues(2), 2)
    level.queue_set.finish(blocker)

    assert level.dispatched == [wide]


def test_reprs() -> None:
    level = Level(ONE_QUEUE, limit=1)
    ticket = level.admit()
    level.admit()
    queue = level.queue_set.queues[0]

    assert "<Queue 0: 1 waiting, 1 executing, next_dispatch_r 300000>" == repr(queue)
    assert repr(ticket).endswith(" executing>")
    assert repr(level.queue_set).startswith("<QueueSet level: 1 waiting, 1 executing")
