"""Flows of different weights: shares on a virtual clock, and how weights come into force."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.costs import LevelCosts
from apfproxy.flowcontrol.explanation import IDLE_WEIGHT, Decision, explain, foresee, hand_of
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.queue_set import QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, Queue, RejectReason, Ticket, WorkEstimate
from tests.flowcontrol.level import MS, Level
from tests.flowcontrol.scene import GET_POD, Scene, level_object, schema_object, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.objects.types import FlowControlObject

S = 1_000_000_000
COSTS = LearnedCosts(lambda: 0)


def weighed(queues: int, hand_size: int = 6, length: int = 100) -> QueueSetConfig:
    return QueueSetConfig(QueueSetKind.QUEUE, queues, hand_size, length, has_weights=True)


class Client:
    """A flow that always has so many requests waiting or executing."""

    def __init__(
        self,
        level: Level,
        number: int,
        weight: int,
        *,
        at_once: int = 40,
        seats: int = 1,
        time_ns: Callable[[], int] = lambda: 40 * MS,
    ) -> None:
        self._level, self._time_ns = level, time_ns
        flow_hash = random.Random(number).getrandbits(64)  # noqa: S311  any hand will do
        self._flow = Flow(flow_hash, str(number), level.counters)
        self._estimate = WorkEstimate(seats, weight=weight)
        self.work_ns = 0
        for _ in range(at_once):
            self._ask()

    def _ask(self) -> None:
        ticket = self._level.queue_set.admit(self._flow, self._estimate, self._begin)
        assert isinstance(ticket, Ticket)
        if ticket.is_executing:
            self._begin(ticket)

    def _begin(self, ticket: Ticket) -> None:
        clock, time_ns = self._level.clock, self._time_ns()

        def end() -> None:
            self.work_ns += ticket.estimate.max_seats * time_ns
            self._level.queue_set.finish(ticket)
            self._ask()

        clock.call_at(clock.now_ns() + time_ns, end)


def shares(level: Level, clients: list[Client], seconds: int) -> list[float]:
    before = [client.work_ns for client in clients]
    level.wait(seconds * S)
    had = [client.work_ns - past for client, past in zip(clients, before, strict=True)]
    return [each / sum(had) for each in had]


def times(kind: str) -> Callable[[], int]:
    drawn = random.Random(3)  # noqa: S311  of a test
    return {
        "short": lambda: MS,
        "same": lambda: 40 * MS,
        "random": lambda: round(drawn.expovariate(25) * S),
        "mixed": lambda: drawn.choice([1, 40, 200]) * MS,
    }[kind]


@pytest.mark.parametrize("kind", ["short", "same", "random", "mixed"])
@pytest.mark.parametrize("at_once", [(40, 40, 40), (20, 60, 9)])
def test_shares_are_as_weights(kind: str, at_once: tuple[int, ...]) -> None:
    """Neither how many requests a flow has at once nor what they take makes a difference."""
    level = Level(weighed(64), limit=8)
    clients = [
        Client(level, weight, weight, at_once=number, time_ns=times(kind))
        for weight, number in zip((1, 2, 5), at_once, strict=True)
    ]
    found = shares(level, clients, 2 if kind == "short" else 40)

    assert [1 / 8, 2 / 8, 5 / 8] == pytest.approx(found, rel=0.04)


def test_wide_requests_are_shared_by_their_seats() -> None:
    """Seats that are idle while they are saved up let the progress meter run a little fast."""
    level = Level(weighed(64), limit=8)
    clients = [Client(level, weight, weight, seats=seats) for weight, seats in ((1, 3), (5, 2))]
    assert [1 / 6, 5 / 6] == pytest.approx(shares(level, clients, 20), rel=0.08)


@pytest.mark.parametrize("weight", [1, 5])
def test_a_newcomer_is_neither_starved_nor_favoured(weight: int) -> None:
    """It has its share from its first second on, of 200 requests, and later, too."""
    level = Level(weighed(64), limit=8)
    clients = [Client(level, each, each) for each in (1, 2, 5)]
    level.wait(20 * S)
    clients.append(Client(level, 9, weight))
    expected = [each / (8 + weight) for each in (1, 2, 5, weight)]
    first = shares(level, clients, 1)
    assert expected == pytest.approx(first, abs=0.05)
    assert expected == pytest.approx(shares(level, clients, 20), rel=0.04)


def test_a_flow_that_comes_now_and_then_is_not_held_up() -> None:
    """One request at a time of a flow of weight 1 waits no longer than for a few others."""
    level = Level(weighed(64), limit=8)
    for weight in (5, 6):
        Client(level, weight, weight)
    flow, waits = Flow(1, "modest", FlowSchemaCounters("level", "schema")), []
    for _ in range(20):
        level.wait(S)
        ticket = level.queue_set.admit(flow, ONE_SEAT, lambda _: None)
        assert isinstance(ticket, Ticket)
        level.wait(200 * MS)
        waits.append(ticket.dispatched_ns - ticket.arrived_ns)
        level.queue_set.finish(ticket)

    assert all(0 <= each <= 80 * MS for each in waits)


def test_flows_that_share_queues_share_requests() -> None:
    """With fewer queues than flows those in one queue have as many requests served as another."""
    level = Level(weighed(2, 1), limit=8)
    clients = [Client(level, number, weight) for number, weight in enumerate((1, 1, 5))]
    # Of the queue with weights 1 and 5, by turns, two requests are charged 1.2.
    alone, shared = (each / (1 + 2 / 1.2) for each in (1, 1 / 1.2))

    assert [shared, shared, alone] == pytest.approx(sorted(shares(level, clients, 20)), rel=0.02)


def test_a_flow_has_a_queue_to_itself() -> None:
    """Its length is that of all of its hand, while others have room."""
    level = Level(weighed(3, 2, 2), limit=0)
    queue_set = level.queue_set

    def indices(number: int) -> list[int | None]:
        found = []
        for _ in range(5):
            hand = hand_of(queue_set, number)
            foreseen = foresee(queue_set, hand, ONE_SEAT, 0)
            result = queue_set.admit(level.flow(number), ONE_SEAT, level.dispatched.append)
            is_rejected = isinstance(result, RejectReason)
            assert is_rejected == (foreseen.decision is Decision.REJECT)
            if isinstance(result, Ticket):
                assert result.queue is not None
                assert foreseen.queue == result.queue.index
            found.append(None if isinstance(result, RejectReason) else foreseen.queue)
        return found

    assert [2, 2, 2, 2, None] == indices(1)
    assert [1, 1, None, None, None] == indices(2)
    assert [0, 0, None, None, None] == indices(3)
    assert [None] * 5 == indices(4)
    for ticket in level.waiting:
        queue_set.withdraw(ticket, None)
    assert {0} == {queue.work_waiting for queue in queue_set.queues}
    assert [2, 2, 2, 2, None] == indices(4)


def test_weights_go_while_requests_wait() -> None:
    level = Level(weighed(4, 1), limit=1)
    queue_set = level.queue_set
    tickets = [level.admit(WorkEstimate(1, weight=5), queue=1) for _ in range(3)]
    queue_set.reconfigure(QueueSetConfig(QueueSetKind.QUEUE, 3, 1, 9), 1)
    for ticket in tickets:
        level.wait(MS)
        queue_set.finish(ticket)
    before = queue_set.current_r
    ticket = level.admit(queue=2)
    level.wait(MS)
    queue_set.finish(ticket)

    assert (3, 100_000) == (len(queue_set.queues), queue_set.current_r - before)
    assert {1} == {queue.weight for queue in queue_set.queues}


def test_queues_that_are_too_many_go() -> None:
    level = Level(weighed(4, 1), limit=9)
    tickets = [level.admit(queue=number) for number in range(4)]
    level.queue_set.reconfigure(weighed(2, 1), 9)
    for ticket in tickets:
        level.queue_set.finish(ticket)
    assert [0, 1] == [queue.index for queue in level.queue_set.queues]
    assert [0, 1] == [(level.admit(queue=number).queue or Queue(9)).index for number in (7, 8)]


def test_estimates_with_weights() -> None:
    estimate = LevelCosts().estimate(WorkEstimate(2, 3, 100), None, lambda _name: "", weight=7)
    assert (7, 600_030 // 7) == (estimate.weight, estimate.work)
    assert 7 == estimate.cut(1).weight
    assert ONE_SEAT is LevelCosts().estimate(ONE_SEAT, None, lambda _name: "")


def weights_of(controller: Controller, *names: str) -> list[int]:
    return [controller.classify(user(name), GET_POD).weight for name in names]


def test_weights_count_where_flows_differ_in_them() -> None:
    def objects(alice: str, bob: str, queues: int = 8) -> list[FlowControlObject]:
        return [
            level_object("a", queues=queues),
            schema_object("alice", "a", "alice", weight=alice),
            schema_object("bob", "a", "bob", weight=bob),
        ]

    scene = Scene(*objects("3", "1"))
    controller, queue_set = scene.controller, scene.level("a").queue_set
    assert ([3, 1], True) == (weights_of(controller, "alice", "bob"), queue_set.config.has_weights)
    before = controller.classify(user("alice"), GET_POD)
    for alice, bob, queues in (("3", "3", 8), ("3", "1", 1), ("3", "1", 0)):
        scene.commit(*objects(alice, bob, queues))
        assert [1, 1] == weights_of(controller, "alice", "bob")
        assert not queue_set.config.has_weights
        assert not controller.classify(user("alice"), GET_POD).has_costs
        assert IDLE_WEIGHT in explain(controller, COSTS, user("alice"), GET_POD).notes
    scene.commit(*objects("1", "4"))
    found = explain(controller, COSTS, user("bob"), GET_POD)
    assert (4, 1, 0) == (found.flow.weight, len(found.flow.hand), len(found.notes))

    assert [1, 4] == weights_of(controller, "alice", "bob")
    assert before.has_costs
