"""Tests of apfproxy.flowcontrol.queue_set: limits and configurations that change at work."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason, Ticket, WorkEstimate
from tests.flowcontrol.level import EXEMPT, MS, ONE_QUEUE, REJECT, Level, queues


def test_a_larger_limit_dispatches_what_fits() -> None:
    """Limits may change at any time; seats over a smaller limit come back by themselves."""
    level = Level(ONE_QUEUE, limit=1)
    level.admit()
    tickets = [level.admit() for _ in range(3)]
    level.queue_set.set_concurrency_limit(3)

    assert level.dispatched == tickets[:2]

    level.queue_set.set_concurrency_limit(1)
    level.queue_set.finish(tickets[0])

    assert level.dispatched == tickets[:2]
    assert level.queue_set.seats_in_use == 2


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


def test_more_queues_are_there_at_once() -> None:
    """A hand of the new dealer may have new queues."""
    level = Level(queues(2), limit=1)
    flow = level.flow(5)
    level.queue_set.admit(flow, ONE_SEAT, level.dispatched.append)
    level.queue_set.reconfigure(queues(6), 1)
    ticket = level.queue_set.admit(flow, ONE_SEAT, level.dispatched.append)

    assert isinstance(ticket, Ticket)
    assert ticket.queue is level.queue_set.queues[5]


def test_surplus_queues_drain_then_go() -> None:
    """What waits in them is served; each goes when its last seats come back."""
    level = Level(queues(3), limit=1)
    first = level.admit(queue=2)
    second = level.admit(queue=2)
    level.queue_set.reconfigure(queues(1), 1)
    level.queue_set.finish(first)

    assert level.dispatched == [second]
    assert [queue.index for queue in level.queue_set.queues] == [0, 1, 2]

    level.queue_set.finish(second)

    assert [queue.index for queue in level.queue_set.queues] == [0, 1]


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


def test_a_level_that_stops_queuing_serves_what_waits() -> None:
    """Its queues go one by one until none is left."""
    level = Level(ONE_QUEUE, limit=1)
    first, second = level.admit(), level.admit()
    level.queue_set.reconfigure(REJECT, 1)

    assert level.reject() is RejectReason.CONCURRENCY_LIMIT

    level.queue_set.finish(first)
    level.queue_set.finish(second)

    assert level.queue_set.queues == []
    assert level.admit().queue is None


def test_a_level_that_becomes_exempt_lets_all_go() -> None:
    """What waits is dispatched at once."""
    level = Level(ONE_QUEUE, limit=0)
    tickets = [level.admit() for _ in range(3)]
    level.queue_set.reconfigure(EXEMPT, 0)

    assert level.dispatched == tickets
