"""Tests of a queue set, beside those against the plain one and its machine."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import MAX_STATES
from apfproxy.flowcontrol.queue_set import DONE, Ticket, WorkEstimate
from tests.flowcontrol.level import EXEMPT, MS, ONE_QUEUE, Level, queues


def test_times_and_lengths_are_counted_by_buckets() -> None:
    level = Level(ONE_QUEUE, limit=2)
    counters = level.counters
    first = level.admit(WorkEstimate(2))
    second = level.admit(WorkEstimate(2))
    level.wait(6 * MS)
    level.queue_set.finish(first)
    level.wait(21 * MS)
    level.queue_set.finish(second, is_watch=True)
    level.queue_set.finish(level.admit())

    assert counters.wait_executed_ns.counts[:3] == [2, 0, 1]
    assert counters.execution_regular_ns.counts[:4] == [1, 0, 1, 0]
    assert counters.execution_watch_ns.counts[:4] == [0, 0, 0, 1]
    assert counters.queue_length_after_enqueue.counts[:2] == [0, 3]
    assert counters.work_estimated_seats.counts[:2] == [1, 2]
    assert counters.no_accommodation == 0  # no seat was free while one waited


def test_what_does_not_fit_though_seats_are_free_is_counted() -> None:
    level = Level(ONE_QUEUE, limit=2)
    level.admit()
    level.admit(WorkEstimate(2))
    level.admit()

    assert level.counters.no_accommodation == 2
    assert repr(level.queue_set).startswith("<QueueSet level: 2 waiting, 1 executing")
    assert repr(level.waiting[0].queue).startswith("<Queue 0: 2 waiting, 1 executing")
    assert repr(level.waiting[0]) == "<Ticket <Flow schema/flow-0 0x0> waiting>"


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
    level = Level(ONE_QUEUE, limit=2)
    wide = level.admit(WorkEstimate(2))
    tickets: list[Ticket] = []
    tickets.append(level.admit(on_dispatch=lambda _: level.queue_set.withdraw(tickets[1], None)))
    tickets.append(level.admit())
    level.queue_set.finish(wide)

    assert tickets[1].state == DONE
    assert level.dispatched == []


def test_a_callback_that_raises_keeps_no_other_from_its_seats() -> None:
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
    level = Level(EXEMPT, limit=10)
    tickets = []
    for _ in range(MAX_STATES + 100):
        tickets.append(level.admit())
        level.wait(1)

    assert len(level.queue_set.meter.time_at) < MAX_STATES

    level.queue_set.sync()

    assert sum(level.queue_set.meter.seats_in_use.counts) == MAX_STATES + 100


def test_an_impossible_configuration_changes_nothing() -> None:
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
