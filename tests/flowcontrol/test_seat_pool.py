"""Tests of the pool of seats that levels with a priority have together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.limits import LevelLimits
from tests.flowcontrol import scene as scenes
from tests.flowcontrol.scene import GET_POD, S, level_object, schema_object, user

if TYPE_CHECKING:
    from apfproxy.flowcontrol.ticket import Ticket
    from apfproxy.objects.types import FlowControlObject


def level(
    name: str,
    priority: int | None,
    shares: int = 10,
    *,
    lendable: int = 100,
    borrowing: int | None = None,
    queues: int = 4,
) -> list[FlowControlObject]:
    additions = {} if priority is None else {"priority": str(priority)}
    made = level_object(name, shares, queues, lendable, borrowing, 100, **additions)
    return [made, schema_object(name, name, name, None)]


class Scene(scenes.Scene):
    def __init__(
        self, *levels: list[FlowControlObject], seats: int = 4, is_prompt: bool = True
    ) -> None:
        self.names: list[str] = []
        self.running: deque[tuple[str, Ticket]] = deque()
        objects = [one for each in levels for one in each]
        super().__init__(*objects, seats=seats, is_prompt=is_prompt)

    def ask(self, name: str, count: int = 1, seats: int = 1) -> list[Ticket]:
        def on_dispatch(ticket: Ticket) -> None:
            self.names.append(name)
            self.running.append((name, ticket))

        tickets = self.take(name, count, seats, on_dispatch)
        assert count == len(tickets)
        self.running += [(name, ticket) for ticket in tickets if ticket.is_executing]
        return tickets

    def end(self, name: str, count: int = 1) -> str:
        self.names.clear()
        for _ in range(count):
            ticket = next(ticket for of, ticket in self.running if of == name)
            self.running.remove((name, ticket))
            self.finish(name, [ticket])
        return "".join(self.names)

    def limits(self, *names: str) -> tuple[int, ...]:
        return tuple(map(self.limit, names))


def test_the_next_seats_go_to_the_greatest_priority() -> None:
    scene = Scene(level("a", 3, 98), level("b", 2, 1), level("c", 1, 1))
    scene.ask("c", 9)
    scene.ask("b", 3)
    scene.ask("a", 2)

    assert (0, 0, 4) == scene.in_use("a", "b", "c")
    assert "aabb" == "".join(scene.end("c") for _ in range(4))
    assert "b" == scene.end("a")
    assert "c" == scene.end("a")
    assert (0, 3, 1) == scene.in_use("a", "b", "c") == scene.limits("a", "b", "c")


def test_whole_seats_of_which_levels_are_sure() -> None:
    scene = Scene(level("a", 3, 200), level("b", 2, 100), level("c", 1, 100))
    scene.ask("a", 9)
    scene.ask("c", 9)
    scene.ask("b", 9)

    assert "b" == scene.end("a")
    assert "c" == scene.end("a")
    assert "a" == scene.end("a")
    assert "c" == scene.end("c")
    assert "b" == scene.end("b")
    assert (2, 1, 1) == scene.in_use("a", "b", "c")


def test_parts_of_a_seat_are_had_in_turns() -> None:
    scene = Scene(level("a", 2, 90), level("b", 1, 10), seats=1)
    scene.ask("a", 90)
    scene.ask("b", 20)
    order = "".join(scene.end(scene.running[0][0]) for _ in range(60))
    assert 5 <= order.count("b") <= 6
    assert {9} == set(map(len, order.strip("a").split("b")[1:-1]))


def test_credit_is_not_saved_up() -> None:
    """A level that others left no turn for long has two of them at once at most."""
    scene = Scene(level("a", 2, 50), level("b", 1, 50, borrowing=0), seats=2)
    scene.ask("b", 20)
    assert (0, 1) == scene.in_use("a", "b")
    scene.ask("a", 90)
    for _ in range(30):
        assert "a" == scene.end("a")
    assert (1, 1) == scene.in_use("a", "b")

    found = [member.credit for member in scene.controller.pool.members]
    assert max(found) <= 2 << 32
    assert min(found) >= -1 << 32


def test_equal_priorities_divide_by_shares() -> None:
    scene = Scene(
        level("a", 5, 80), level("b", 5, 10), level("c", 5, 30), level("d", 5, 0), seats=8
    )
    scene.ask("d", 20)
    scene.ask("b", 20)
    scene.ask("c", 20)
    for _ in range(8):
        scene.end("d")

    assert (0, 2, 6, 0) == scene.in_use("a", "b", "c", "d")


def test_what_a_level_never_lends_stays_there() -> None:
    scene = Scene(level("a", 2, 50, borrowing=50), level("b", 1, 50, lendable=50), seats=4)
    scene.ask("a", 9)
    assert (3, 0) == scene.in_use("a", "b")
    scene.ask("b", 1)
    assert (3, 1) == scene.in_use("a", "b")
    scene.end("b")
    scene.ask("b", 9)
    assert (3, 1) == scene.in_use("a", "b")
    # A wide one has to wait while it would be beyond, and the others go on.
    scene.ask("a", 1, seats=3)
    assert "b" == scene.end("b")


def test_a_wide_request_has_its_seats_saved_up() -> None:
    scene = Scene(level("a", 3, 1), level("b", 2, 1), level("c", 1, 98))
    scene.ask("c", 9)
    scene.ask("b", 1, seats=3)
    # One is saved up; what `c` is sure of, three, it gets all the same.
    assert ["", "c", "c"] == [scene.end("c") for _ in range(3)]
    scene = Scene(level("a", 3, 200), level("b", 2, 100), level("c", 1, 100))
    scene.ask("c", 9)
    scene.ask("b", 1, seats=3)
    assert "" == scene.end("c", 2)
    scene.ask("a", 1)
    assert (1, 0, 2) == scene.in_use("a", "b", "c")
    assert "" == scene.end("c")
    assert "b" == scene.end("a")
    assert (0, 3, 1) == scene.in_use("a", "b", "c")


def test_a_smaller_pool_waits_for_what_executes() -> None:
    scene = Scene(level("a", 2, 50), level("b", 1, 50), seats=8)
    scene.ask("b", 4)
    scene.ask("a", 9)
    assert (4, 4) == scene.in_use("a", "b")

    scene.controller.resize(5)

    assert (4, 1) == scene.limits("a", "b")
    assert "" == scene.end("b", 3)
    assert "a" == scene.end("b")
    scene.controller.resize(8)
    assert (8, 0) == scene.in_use("a", "b")


def test_allotted_seats_are_not_exceeded() -> None:
    scene = Scene(level("a", 2, 50), level("b", 1, 50), level("x", None, 50))
    bounds = {name: LevelLimits(2, 0, 6) for name in ("a", "b", "x")}
    scene.controller.allot(6, bounds)
    scene.ask("b", 9)
    scene.ask("a", 1)
    scene.ask("x", 2)
    assert sum(scene.in_use("a", "b", "x")) <= 6

    scene.controller.allot(3, {name: LevelLimits(1, 0, 3) for name in ("a", "b", "x")})
    for _ in range(4):
        used = sum(scene.in_use("a", "b", "x"))
        scene.end("b" if scene.in_use("b")[0] else "x")
        scene.controller.allot(3, {name: LevelLimits(1, 0, 3) for name in ("a", "b", "x")})
        assert sum(scene.in_use("a", "b", "x")) <= max(3, used - 1)
    scene.controller.allot(0, {})
    assert (0, 0, 0) == scene.limits("a", "b", "x")
    scene.ask("a", 1)
    assert 0 == scene.controller.pool.size


def test_levels_come_and_go() -> None:
    scene = Scene(level("a", 2, 98), level("b", 1, 1), seats=4)
    scene.ask("b", 9)
    scene.ask("a", 3)
    scene.commit(*level("a", None, 98), *level("b", 1, 1))
    assert ["a", "a", "a"] == scene.names
    scene.commit(*level("a", None, 98), *level("b", None, 1))
    assert [] == scene.controller.pool.members
    scene.commit(*level("a", 1, 98), *level("b", 2, 1))
    scene.ask("a", 9)
    assert "" == scene.end("a", 2)
    scene.commit(*level("a", 2, 98), *level("b", 1, 1, queues=0))
    assert ["a"] == [member.queue_set.name for member in scene.controller.pool.members]
    assert 1 == scene.controller.unused_additions


def test_whoever_is_told_may_come_back() -> None:
    """A request that ends at once while another is ended has its seat given on, once."""
    scene = Scene(level("a", 2, 50), level("b", 1, 50), seats=1)
    seen: list[int] = []

    def on_dispatch(ticket: Ticket) -> None:
        seen.append(sum(scene.in_use("a", "b")))
        scene.finish("a", [ticket])

    scene.ask("b")
    for _ in range(50):
        scene.take("a", 1, 1, on_dispatch)
    assert [] == seen
    scene.end("b")

    assert [1] * 50 == seen
    assert (0, 0) == scene.in_use("a", "b")


@pytest.mark.parametrize("name", ["a", "b", "x"])
def test_explained_as_it_happens(name: str) -> None:
    scene = Scene(level("a", 2, 50), level("b", 1, 50), level("x", None, 50), seats=6)
    controller = scene.controller
    asker = user(name)
    decisions = []
    for other in ("b", "b", "a", "b", "b", "a", "x", "b", "b"):
        explained = explain(controller, LearnedCosts(scene.clock.now_ns), asker, GET_POD)
        (ticket,) = scene.ask(name)
        assert ticket.is_executing == (explained.outcome.decision == "execute")
        decisions.append(ticket.is_executing)
        scene.finish(name, [ticket])
        scene.running = deque(each for each in scene.running if each[1] is not ticket)
        scene.wait(10 * S)
        scene.ask(other)

    assert decisions[0]
    assert name == "x" or not decisions[-1]


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(
            level("a", 3, 20, lendable=90),
            level("b", 2, 5),
            level("c", 2, 10, borrowing=50),
            level("d", 1, 1),
            seats=7,
        )
        self.waiting: list[tuple[str, Ticket]] = []
        self.most = 7
        self.lingering = 0

    @rule(name=st.sampled_from("abcd"), seats=st.integers(1, 3), count=st.integers(1, 5))
    def ask(self, name: str, seats: int, count: int) -> None:
        tickets = self.scene.ask(name, count, seats)
        self.waiting += [(name, ticket) for ticket in tickets if not ticket.is_executing]

    @rule(which=st.integers(0, 50))
    def end(self, which: int) -> None:
        executing = self.scene.running
        if executing:
            name, ticket = executing[which % len(executing)]
            del executing[which % len(executing)]
            self.scene.finish(name, [ticket])

    @rule(which=st.integers(0, 50))
    def leave(self, which: int) -> None:
        self.waiting = [each for each in self.waiting if not each[1].is_executing]
        if self.waiting:
            name, ticket = self.waiting.pop(which % len(self.waiting))
            if ticket.state == 0:
                self.scene.finish(name, [ticket])

    @rule(seats=st.integers(1, 12))
    def resize(self, seats: int) -> None:
        used = self.used()
        self.scene.controller.resize(seats)
        assert self.used() <= max(used, self.scene.controller.pool.size, 3)

    @rule()
    def wait(self) -> None:
        self.scene.wait(S)

    def used(self) -> int:
        return sum(self.scene.in_use(*"abcd"))

    @invariant()
    def conserves_seats(self) -> None:
        """The limits sum up to the pool, and no one waits while a seat that it may have is idle."""
        pool = self.scene.controller.pool
        assert pool.size == sum(member.queue_set.seat_limit for member in pool.members)
        idle = sum(
            max(0, member.queue_set.seat_limit - member.queue_set.seats_in_use)
            for member in pool.members
        )
        overdrawn = any(
            member.queue_set.seats_in_use > member.queue_set.seat_limit for member in pool.members
        )
        kept = sum(member.lower for member in pool.members)
        is_narrow = all(ticket.estimate.max_seats == 1 for _, ticket in self.waiting)
        if idle > kept and is_narrow and not overdrawn:
            for member in pool.members:
                at_its_most = member.queue_set.seats_in_use >= member.upper
                assert not member.queue_set.requests_waiting or at_its_most

    @invariant()
    def tells_each_once(self) -> None:
        levels = self.scene.controller.levels
        executing = sum(levels[name].queue_set.requests_executing for name in "abcd")
        assert executing == len(self.scene.running)


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(deadline=None, stateful_step_count=30)
