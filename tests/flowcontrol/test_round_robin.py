"""Tests of apfproxy.flowcontrol.round_robin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.ticket import ONE_SEAT, WAITING, Flow, Ticket
from apfproxy.flowcontrol.tournament import RoundRobin

if TYPE_CHECKING:
    from apfproxy.flowcontrol.ticket import Queue

FLOW = Flow(1, "alice", FlowSchemaCounters("level", "schema"))


def robin_of(number: int) -> RoundRobin:
    """A round robin of that many queues, in each of which a request waits."""
    robin = RoundRobin()
    robin.grow(number)
    for queue in robin.queues:
        enqueue(robin, queue)
    return robin


def enqueue(robin: RoundRobin, queue: Queue, arrival_r: int = 0) -> None:
    """Let a request wait in a queue."""
    queue.append(Ticket(FLOW, ONE_SEAT, None, 0, queue, WAITING, -1, arrival_r))
    robin.oldest_changed(queue)


def test_queues_take_turns() -> None:
    """Of queues that are equally far, the one after the last winner is next."""
    robin = robin_of(3)
    order = []
    for _ in range(5):
        robin.last_index = robin.next().index
        order.append(robin.last_index)

    assert order == [1, 2, 0, 1, 2]


def test_the_earliest_end_is_next() -> None:
    """A queue that is behind the others comes before its turn."""
    robin = robin_of(4)
    for queue in robin.queues:
        queue.next_dispatch_r = 9 if queue.index == 3 else 10
        robin.oldest_changed(queue)

    assert robin.next() is robin.queues[3]


def test_a_start_is_not_before_the_arrival() -> None:
    """The start of a queue moves up to the arrival of what is its oldest request now."""
    robin = RoundRobin()
    robin.grow(1)
    enqueue(robin, robin.queues[0], arrival_r=70)

    assert robin.queues[0].next_dispatch_r == 70


def test_growing_keeps_what_is_there() -> None:
    """Queues are added behind those that are there, and never taken away by that."""
    robin = robin_of(2)
    before = list(robin.queues)
    robin.grow(5)
    robin.grow(3)

    assert robin.queues[:2] == before
    assert [queue.index for queue in robin.queues] == [0, 1, 2, 3, 4]
    assert robin.next() is before[1]


@pytest.mark.parametrize(
    ("last_index", "dropped", "next_index"),
    [
        pytest.param(0, 2, 1, id="after-the-next"),
        pytest.param(0, 1, 1, id="the-next-itself"),
        pytest.param(2, 1, 2, id="before-the-last-winner"),
        pytest.param(0, 0, 0, id="the-first-after-it-won"),
    ],
)
def test_dropping_keeps_the_turn(last_index: int, dropped: int, next_index: int) -> None:
    """Later queues move up, and the one that would have been next still is."""
    robin = robin_of(4)
    robin.last_index = last_index
    queue = robin.queues[dropped]
    robin.drop(queue)

    assert queue.is_removed
    assert [other.index for other in robin.queues] == [0, 1, 2]
    assert robin.next() is robin.queues[next_index]


@pytest.mark.parametrize(("last_index", "expected"), [(-1, 2), (0, 0), (2, 2)])
def test_going_around(last_index: int, expected: int) -> None:
    """Having gone around, before the first queue means at the last."""
    robin = robin_of(3)
    robin.last_index = last_index
    robin.went_around()

    assert expected == robin.last_index


def test_start_bounds() -> None:
    """They span the queues where something waits."""
    robin = RoundRobin()
    robin.grow(3)

    assert robin.start_bounds(0) is None

    enqueue(robin, robin.queues[0], arrival_r=50)
    enqueue(robin, robin.queues[2], arrival_r=70)
    robin.queues[0].seats_in_use = 2

    assert robin.start_bounds(0) == (50, 70)
    assert robin.start_bounds(10) == (30, 70)
