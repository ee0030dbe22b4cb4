"""Tests of what a proxy reports to its fleet: demand by level, with what it rejects."""

from __future__ import annotations

from apfproxy.fleet.demand import MemberDemand
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from loadtest.objects import flow_schema, priority_level, user_subject
from tests.support.clocks import VirtualClock

QUEUING = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=10)
GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")


class Scene:
    def __init__(self, seats: int = 4, *, queues: bool = True) -> None:
        self.controller = Controller(VirtualClock(), seats, 0)
        level = priority_level("a", shares=95, queuing=QUEUING if queues else None)
        schema = flow_schema("s", "a", user_subject("*"))
        self.controller.commit(self.controller.digest([level, schema]))
        self.demand = MemberDemand(self.controller)
        self.tickets: list[Ticket] = []

    def admit(self, count: int) -> None:
        found = self.controller.classify(User("alice", ()), GET_POD)
        for _ in range(count):
            ticket = found.level.queue_set.admit(found.flow, ONE_SEAT, lambda _: None)
            if isinstance(ticket, Ticket):
                self.tickets.append(ticket)

    def end(self) -> None:
        queue_set = self.controller.levels["a"].queue_set
        for ticket in reversed(self.tickets):
            queue_set.withdraw(ticket, None)
        self.tickets.clear()


def test_what_is_there() -> None:
    """Requests that run and those that wait are wanted; exempt levels want nothing."""
    scene = Scene()
    scene.admit(7)

    demand = scene.demand.peak()
    found = scene.demand.report(9, demand)

    assert {"a": 7, "catch-all": 0} == demand
    assert (9, 4, demand) == (found.limit, found.used, found.demand)
    assert {"a", "catch-all", "exempt"} == set(found.levels)
    assert (95, 0, 0, False) == (
        found.levels["a"].shares,
        found.levels["a"].lendable_percent,
        found.levels["a"].borrowing_percent,
        found.levels["a"].is_exempt,
    )


def test_the_most_since_the_last_sample() -> None:
    """What came and went in between counts; to see the peak begins no sample."""
    scene = Scene()
    scene.admit(4)
    scene.end()
    scene.admit(1)

    assert [4, 4] == [each["a"] for each in (scene.demand.peak(), scene.demand.sample())]
    assert [1, 1] == [each["a"] for each in (scene.demand.peak(), scene.demand.sample())]


def test_what_is_rejected() -> None:
    """It counts until it was reported, up to as much as is used, and as one at least."""
    scene = Scene(queues=False)
    scene.demand.on_rejection("a", 3)
    scene.demand.on_rejection("", 0)
    assert 1 == scene.demand.sample()["a"]

    scene.admit(2)
    assert 4 == scene.demand.sample()["a"]

    scene.demand.forget_rejections()
    assert 2 == scene.demand.peak()["a"]


def test_the_digest_of_a_configuration() -> None:
    """It is the same for the same levels, whatever else differs, and another one for others."""
    one, other = Scene(), Scene(seats=9)
    before = one.demand.report(9, {}).configuration
    assert before == other.demand.report(4, {}).configuration

    one.controller.commit(one.controller.digest([priority_level("a", shares=7)]))

    assert before != one.demand.report(9, {}).configuration
