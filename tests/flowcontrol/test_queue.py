"""Tests of apfproxy.flowcontrol.queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.counters import FlowSchemaCounters
from apfproxy.flowcontrol.queue import Queue
from apfproxy.flowcontrol.ticket import WAITING, Flow, Ticket, WorkEstimate

FLOW = Flow(1, "alice", FlowSchemaCounters("level", "schema"))


def ticket_of(name: int) -> Ticket:
    """A ticket to put into a queue, its initial seats as many as its name says."""
    return Ticket(FLOW, WorkEstimate(name, 2, 10_000), name, 0, None, WAITING, -1, 0)


@given(st.lists(st.integers(-5, 9).filter(bool)))
def test_behaves_as_a_list(steps: list[int]) -> None:
    """Whatever is appended (positive) and removed from anywhere (negative), a list agrees."""
    queue = Queue(0)
    model: list[Ticket] = []
    for step in steps:
        if step > 0:
            model.append(ticket_of(step))
            queue.append(model[-1])
        elif model:
            queue.remove(model.pop(step % len(model)))

        assert model == list(queue.tickets())
        assert (model[0] if model else None) is queue.oldest
        assert (model[-1] if model else None) is queue.newest
        assert len(model) == queue.requests_waiting
        assert sum(ticket.details for ticket in model) == queue.initial_seats_waiting
        assert sum(max(ticket.details, 2) for ticket in model) == queue.seats_waiting
        assert sum(ticket.details * 300_000 + 2_000 for ticket in model) == queue.work_waiting
        assert bool(model) == queue.is_active


def test_executing_requests_make_it_active() -> None:
    """A queue shares in the seats while something of it executes."""
    queue = Queue(0)
    queue.requests_executing = 1

    assert queue.is_active


def test_repr() -> None:
    """A log can tell queues apart."""
    queue = Queue(3)

    assert repr(queue) == "<Queue 3: 0 waiting, 0 executing, next_dispatch_r 0>"
