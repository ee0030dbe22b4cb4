"""Tests of a queue set, beside those against the plain one and its machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import MAX_STATES, FlowSchemaCounters
from apfproxy.flowcontrol.ticket import DONE, ONE_SEAT, WAITING, Flow, Queue, Ticket, WorkEstimate
from apfproxy.flowcontrol.tournament import NEVER, RoundRobin, Tournament
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


keys_and_start = st.lists(st.sampled_from([1, 2, 3, NEVER]), min_size=1, max_size=20).flatmap(
    lambda keys: st.tuples(st.just(keys), st.integers(-1, len(keys) - 1))
)


@given(keys_and_start)
def test_first_after_takes_turns(case: tuple[list[int], int]) -> None:
    keys, start = case
    visited = [(start + 1 + step) % len(keys) for step in range(len(keys))]
    assert min(visited, key=lambda index: keys[index]) == Tournament(keys).first_after(start)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 9))),
)
def test_set_keeps_every_node(keys: list[int], changes: list[tuple[int, int]]) -> None:
    tournament = Tournament(keys)
    for index, key in changes:
        tournament.set(index % len(keys), key)
        keys[index % len(keys)] = key
    assert Tournament(keys).nodes == tournament.nodes
    assert keys == tournament.keys()


# Turns that histories against the plain queue set hardly ever come to.


FLOW = Flow(1, "alice", FlowSchemaCounters("level", "schema"))


def robin_of(number: int) -> RoundRobin:
    robin = RoundRobin()
    robin.grow(number)
    for queue in robin.queues:
        enqueue(robin, queue)
    return robin


def enqueue(robin: RoundRobin, queue: Queue, arrival_r: int = 0) -> None:
    queue.append(Ticket(FLOW, ONE_SEAT, None, 0, queue, WAITING, -1, arrival_r))
    robin.oldest_changed(queue)


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
    robin = robin_of(4)
    robin.last_index = last_index
    queue = robin.queues[dropped]
    robin.drop(queue)

    assert queue.is_removed
    assert [other.index for other in robin.queues] == [0, 1, 2]
    assert robin.next() is robin.queues[next_index]


@pytest.mark.parametrize(("last_index", "expected"), [(-1, 2), (0, 0), (2, 2)])
def test_going_around(last_index: int, expected: int) -> None:
    robin = robin_of(3)
    robin.last_index = last_index
    robin.went_around()
    assert expected == robin.last_index
