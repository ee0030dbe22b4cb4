"""Tests of apfproxy.flowcontrol.tournament."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.queue_set import ONE_SEAT, WAITING, Flow, Ticket
from apfproxy.flowcontrol.tournament import NEVER, Queue, RoundRobin, Tournament

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


@pytest.mark.parametrize(("length", "size"), [(0, 1), (1, 1), (2, 2), (3, 4), (512, 512)])
def test_size_is_a_power_of_two(length: int, size: int) -> None:
    assert size == Tournament([5] * length).size


# Turns that histories against the plain queue set hardly ever come to.


FLOW = Flow(1, "alice", FlowSchemaCounters("level", "schema"))


def robin_of(number: int) -> RoundRobin:
    """A round robin of that many queues, in each of which a request waits."""
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
