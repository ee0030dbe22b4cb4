"""Tests of apfproxy.flowcontrol.ticket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.ticket import (
    DONE,
    EXECUTING,
    LINGERING,
    ONE_SEAT,
    WAITING,
    Flow,
    Queue,
    Ticket,
    TicketState,
    WorkEstimate,
)

FLOW = Flow(255, "alice", FlowSchemaCounters("level", "schema"))


@pytest.mark.parametrize(
    ("estimate", "max_seats", "work"),
    [
        pytest.param(ONE_SEAT, 1, 300_000, id="one-seat"),
        pytest.param(WorkEstimate(3), 3, 900_000, id="wide"),
        pytest.param(WorkEstimate(1, 4, 5_000_000), 4, 2_300_000, id="final-seats-are-more"),
        pytest.param(WorkEstimate(4, 1, 5_000_000), 4, 1_700_000, id="initial-seats-are-more"),
    ],
)
def test_work_estimate(estimate: WorkEstimate, max_seats: int, work: int) -> None:
    """It holds the larger number of seats; its work is that of both its phases."""
    assert max_seats == estimate.max_seats
    assert work == estimate.work


def test_a_cut_estimate_keeps_its_final_work() -> None:
    """Fewer final seats are held for longer."""
    cut = WorkEstimate(3, 8, 5_000_000).cut(2)

    assert repr(cut) == "WorkEstimate(3, 2, 20000000)"
    assert cut.work == WorkEstimate(3, 8, 5_000_000).work


def test_a_flow_keeps_the_hand_of_its_last_dealer() -> None:
    """Dealing again is for another dealer only."""
    flow = Flow(5, "alice", FlowSchemaCounters("level", "schema"))
    dealer = Dealer(8, 2)
    hand = flow.deal(dealer)

    assert hand == flow.hand == dealer.deal(5)
    assert flow.dealer is dealer


@pytest.mark.parametrize("state", [WAITING, EXECUTING, LINGERING, DONE])
def test_is_executing(state: int) -> None:
    """Only one state says so."""
    ticket = Ticket(FLOW, ONE_SEAT, None, 0, None, state, -1, 0)

    assert (state == EXECUTING) == ticket.is_executing


def test_states_are_those_of_the_enum() -> None:
    """The plain integers and the names agree."""
    assert list(TicketState) == [WAITING, EXECUTING, LINGERING, DONE]


def test_reprs() -> None:
    """A log can tell flows, estimates and tickets apart."""
    ticket = Ticket(FLOW, ONE_SEAT, None, 0, None, WAITING, -1, 0)

    assert repr(FLOW) == "<Flow schema/alice 0xff>"
    assert repr(WorkEstimate(1, 2, 3)) == "WorkEstimate(1, 2, 3)"
    assert repr(ticket) == "<Ticket <Flow schema/alice 0xff> waiting>"


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


def test_repr_of_a_queue() -> None:
    """A log can tell queues apart."""
    queue = Queue(3)

    assert repr(queue) == "<Queue 3: 0 waiting, 0 executing, next_dispatch_r 0>"
