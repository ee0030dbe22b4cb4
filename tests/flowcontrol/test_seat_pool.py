"""Tests of the pool of seats that levels with a priority have together."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.limits import LevelLimits
from apfproxy.flowcontrol.queue_set import Ticket, WorkEstimate
from apfproxy.objects.additions import PRIORITY
from apfproxy.objects.decode import mandatory_objects
from apfproxy.objects.types import FlowControlObject, QueuingConfiguration
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from loadtest.objects import flow_schema, priority_level, user_subject
from tests.virtual_clock import VirtualClock

GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")
S = 1_000_000_000
QUEUING = QueuingConfiguration(queues=4, hand_size=1, queue_length_limit=100)


def level(
    name: str,
    priority: int | None,
    shares: int = 10,
    *,
    lendable: int = 100,
    borrowing: int | None = None,
    is_queuing: bool = True,
) -> list[FlowControlObject]:
    """A level with a priority, and its only user."""
    made = priority_level(
        name,
        shares=shares,
        queuing=QUEUING if is_queuing else None,
        lendable_percent=lendable,
        borrowing_limit_percent=borrowing,
    )
    if priority is not None:
        annotations = {PRIORITY: str(priority)}
        made = replace(made, metadata=replace(made.metadata, annotations=annotations))
    return [made, flow_schema(name, name, user_subject(name), precedence=500, distinguish_by=None)]


class Scene:
    """A controller with levels of priorities, without the seat of `catch-all`."""

    def __init__(
        self, *levels: list[FlowControlObject], seats: int = 4, is_prompt: bool = True
    ) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, seats, 0, is_prompt=is_prompt)
        self.commit(*levels)
        self.told: list[str] = []
        self.executing: deque[tuple[str, Ticket]] = deque()

    def commit(self, *levels: list[FlowControlObject]) -> None:
        self.controller.commit(self.controller.digest([one for each in levels for one in each]))

    def ask(self, name: str, count: int = 1, seats: int = 1) -> list[Ticket]:
        tickets = []
        for _ in range(count):
            found = self.controller.classify(User(name, (AUTHENTICATED_GROUP,)), GET_POD)
            ticket = found.level.queue_set.admit(
                found.flow, WorkEstimate(seats), lambda ticket: self._on_dispatch(name, ticket)
            )
            assert isinstance(ticket, Ticket)
            if ticket.is_executing:
                self.executing.append((name, ticket))
            tickets.append(ticket)
        return tickets

    def _on_dispatch(self, name: str, ticket: Ticket) -> None:
        self.told.append(name)
        self.executing.append((name, ticket))

    def end(self, name: str, count: int = 1) -> str:
        """End the oldest requests of a level; who is told of a dispatch."""
        self.told.clear()
        for _ in range(count):
            ticket = next(ticket for of, ticket in self.executing if of == name)
            self.executing.remove((name, ticket))
            self.controller.levels[name].queue_set.finish(ticket)
        return "".join(self.told)

    def in_use(self, *names: str) -> tuple[int, ...]:
        return tuple(self.controller.levels[name].queue_set.seats_in_use for name in names)

    def limits(self, *names: str) -> tuple[int, ...]:
        return tuple(self.controller.levels[name].current_limit for name in names)


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
    """They come before the priority, and among them the greatest comes first."""
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
    """Of one seat a level with a tenth has every tenth dispatch, wherever it starts."""
    scene = Scene(level("a", 2, 90), level("b", 1, 10), seats=1)
    scene.ask("a", 90)
    scene.ask("b", 20)
    order = "".join(scene.end(scene.executing[0][0]) for _ in range(60))

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


def test_idle_seats_are_taken_wherever_they_are() -> None:
    scene = Scene(level("a", 2, 50), level("b", 1, 50))
    for name in ("a", "b", "a"):
        tickets = scene.ask(name, 5)
        assert [True] * 4 + [False] == [ticket.is_executing for ticket in tickets]
        scene.end(name, 5)
    assert (4, 0) == scene.limits("a", "b")


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


def test_a_request_that_is_wider_than_the_pool_is_alone() -> None:
    """Its final seats are cut, as in a level by itself."""
    scene = Scene(level("a", 3, 98), level("c", 1, 1))
    scene.ask("c", 4)
    (wide,) = scene.ask("a", 1, seats=7)
    assert "a" == scene.end("c", 4)
    assert (7, 0) == scene.in_use("a", "c")
    scene.ask("c", 1)
    assert not wide.queue or "c" == scene.end("a")


def test_a_smaller_pool_waits_for_what_executes() -> None:
    """The greatest priority keeps its seats longest; no seat is free before enough have ended."""
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
    """Who leaves the pool dispatches by itself again, at once; who joins goes by its priority."""
    scene = Scene(level("a", 2, 98), level("b", 1, 1), seats=4)
    scene.ask("b", 9)
    scene.ask("a", 3)
    scene.commit(level("a", None, 98), level("b", 1, 1))
    assert ["a", "a", "a"] == scene.told
    scene.commit(level("a", None, 98), level("b", None, 1))
    assert [] == scene.controller.pool.members
    scene.commit(level("a", 1, 98), level("b", 2, 1))
    scene.ask("a", 9)
    assert "" == scene.end("a", 2)
    scene.commit(level("a", 2, 98), level("b", 1, 1, is_queuing=False))
    assert ["a"] == [member.queue_set.name for member in scene.controller.pool.members]
    assert scene.controller.unused_additions == 1


def test_whoever_is_told_may_come_back() -> None:
    """A request that ends at once while another is ended has its seat given on, once."""
    scene = Scene(level("a", 2, 50), level("b", 1, 50), seats=1)
    controller = scene.controller
    seen: list[tuple[str, int]] = []

    def ask(name: str) -> None:
        found = controller.classify(User(name, (AUTHENTICATED_GROUP,)), GET_POD)
        queue_set = found.level.queue_set

        def on_dispatch(ticket: Ticket) -> None:
            seen.append((name, sum(scene.in_use("a", "b"))))
            queue_set.finish(ticket)

        queue_set.admit(found.flow, WorkEstimate(1), on_dispatch)

    scene.ask("b")
    for _ in range(50):
        ask("a")
        ask("b")
    assert [] == seen
    scene.end("b")

    assert 100 == len(seen)
    assert {1} == {used for _, used in seen}
    assert (0, 0) == scene.in_use("a", "b")


def test_time_outs_leave_nothing_behind() -> None:
    """What was saved up for one that left goes to the others with the next seat."""
    scene = Scene(level("a", 2, 98), level("b", 1, 1))
    scene.ask("b", 6)
    (wide,) = scene.ask("a", 1, seats=3)
    scene.end("b", 2)
    assert (0, 2) == scene.in_use("a", "b")
    scene.controller.levels["a"].queue_set.withdraw(wide, None)

    assert "bb" == scene.end("b")


@pytest.mark.parametrize("is_prompt", [True, False])
def test_with_others_that_have_no_priority(*, is_prompt: bool) -> None:
    """The pool has what levels with a priority have together; one without keeps its own seats."""
    scene = Scene(level("a", 2, 10), level("b", 1, 10), level("x", None, 20), is_prompt=is_prompt)
    x = scene.ask("x", 9)
    scene.ask("b", 9)
    scene.ask("a", 9)
    scene.clock.run_until(S)
    for _ in range(3):
        scene.controller.adjust_limits()
        scene.clock.run_until(scene.clock.now_ns() + S)

    held = sum(ticket.is_executing for ticket in x)
    while scene.in_use("x")[0] > 2:
        scene.end("x")
    assert held >= 2
    assert 2 <= scene.controller.pool.size <= 3
    scene.end("b")
    assert 1 == scene.in_use("a")[0]


@pytest.mark.parametrize("name", ["a", "b", "x"])
def test_explained_as_it_happens(name: str) -> None:
    scene = Scene(level("a", 2, 50), level("b", 1, 50), level("x", None, 50), seats=6)
    controller = scene.controller
    asker = User(name, (AUTHENTICATED_GROUP,))
    decisions = []
    for other in ("b", "b", "a", "b", "b", "a", "x", "b", "b"):
        explained = explain(controller, LearnedCosts(scene.clock.now_ns), asker, GET_POD)
        (ticket,) = scene.ask(name)
        assert ticket.is_executing == (explained.outcome.decision == "execute")
        decisions.append(ticket.is_executing)
        controller.levels[name].queue_set.withdraw(ticket, None)
        scene.executing = deque(each for each in scene.executing if each[1] is not ticket)
        scene.clock.run_until(scene.clock.now_ns() + 10 * S)
        scene.ask(other)

    assert decisions[0]
    assert name == "x" or not decisions[-1]


class PoolMachine(RuleBasedStateMachine):
    """Requests come and end at levels with priorities, and the server gets other seats."""

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
        executing = self.scene.executing
        if executing:
            name, ticket = executing[which % len(executing)]
            del executing[which % len(executing)]
            self.scene.controller.levels[name].queue_set.finish(ticket)

    @rule(which=st.integers(0, 50))
    def leave(self, which: int) -> None:
        self.waiting = [each for each in self.waiting if not each[1].is_executing]
        if self.waiting:
            name, ticket = self.waiting.pop(which % len(self.waiting))
            if ticket.state == 0:
                self.scene.controller.levels[name].queue_set.withdraw(ticket, None)

    @rule(seats=st.integers(1, 12))
    def resize(self, seats: int) -> None:
        used = self.used()
        self.scene.controller.resize(seats)
        assert self.used() <= max(used, self.scene.controller.pool.size, 3)

    @rule()
    def wait(self) -> None:
        self.scene.clock.run_until(self.scene.clock.now_ns() + S)

    def used(self) -> int:
        return sum(self.scene.in_use(*"abcd"))

    @invariant()
    def conserves_seats(self) -> None:
        """The limits sum up to the pool, and nobody waits while a seat that it may have is idle."""
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
        assert executing == len(self.scene.executing)


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(deadline=None, stateful_step_count=30)


def test_mandatory_levels_have_none() -> None:
    """Nothing waits there."""
    assert all(PRIORITY not in each.metadata.annotations for each in mandatory_objects())
