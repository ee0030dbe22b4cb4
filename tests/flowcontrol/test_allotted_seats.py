"""Tests of a controller whose seats are of a limit that others share: nothing exceeds them."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.limits import LevelLimits
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket, WorkEstimate
from tests.flowcontrol.test_controller import (
    GET_POD,
    admit,
    controller_of,
    level_object,
    schema_object,
    user,
)
from tests.virtual_clock import VirtualClock


def test_allotted_seats() -> None:
    """What a fleet allots is divided as it says, and demand of the period goes on."""
    asked: list[tuple[str, int]] = []
    clock = VirtualClock()
    controller = Controller(clock, 30, 0, is_prompt=True, on_short=lambda *of: asked.append(of))
    controller.commit(controller.digest([level_object("a"), schema_object("s", "a")]))
    level = controller.levels["a"]
    found = controller.classify(user("alice"), GET_POD)

    controller.allot(2, {"a": LevelLimits(2, 1, 5)})
    tickets = [admit(controller, found) for _ in range(3)]

    assert [True, True, False] == [ticket.is_executing for ticket in tickets]
    assert (2, 1, 5) == (level.nominal_limit, level.lower_limit, level.upper_limit)
    assert (2, 2) == (level.current_limit, controller.server_concurrency_limit)
    assert [("", 0)] == asked
    # A level that is left out has none, and is not let go on as it would be alone.
    assert 0 == controller.levels["catch-all"].queue_set.seat_limit

    controller.allot(3, {"a": LevelLimits(3, 1, 5)})

    assert tickets[2].is_executing
    controller.allot(0, {})
    assert 0 == level.queue_set.seat_limit


def test_lent_seats_come_back_before_others_use_them() -> None:
    """A level that uses what it lost is waited for: no more are in use than are allotted."""
    controller = controller_of(
        level_object("a"), level_object("b"), schema_object("s", "a"), schema_object("t", "b")
    )
    a, b = controller.levels["a"], controller.levels["b"]
    controller.allot(4, {"a": LevelLimits(4, 0, 4), "b": LevelLimits(0, 0, 4)})
    flow = controller.classify(user("alice"), GET_POD).flow
    used = [a.queue_set.admit(flow, ONE_SEAT, lambda _: None) for _ in range(4)]
    halves = {"a": LevelLimits(2, 0, 4), "b": LevelLimits(2, 0, 4)}
    waiting = [b.queue_set.admit(flow, ONE_SEAT, lambda _: None) for _ in range(2)]

    controller.allot(4, halves)

    assert (4, 0) == (a.queue_set.seats_in_use, b.queue_set.seats_in_use)
    for ticket in used[:2]:
        assert isinstance(ticket, Ticket)
        a.queue_set.finish(ticket)
    controller.allot(4, halves)
    assert (2, 2) == (a.queue_set.seats_in_use, b.queue_set.seats_in_use)
    assert all(isinstance(ticket, Ticket) and ticket.is_executing for ticket in waiting)


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_level_without_queues_says_what_it_rejects(*, is_prompt: bool) -> None:
    """Whoever has the limit learns of it, however limits are adjusted."""
    asked: list[tuple[str, int]] = []
    controller = Controller(
        VirtualClock(), 30, 0, is_prompt=is_prompt, on_short=lambda *of: asked.append(of)
    )
    controller.commit(controller.digest([level_object("a", queues=0)]))
    controller.allot(1, {"a": LevelLimits(1, 0, 1)})
    level, flow = controller.levels["a"], controller.classify(user("alice"), GET_POD).flow

    first = level.queue_set.admit(flow, ONE_SEAT, lambda _: None)
    second = level.queue_set.admit(flow, ONE_SEAT, lambda _: None)

    assert isinstance(first, Ticket)
    assert not isinstance(second, Ticket)
    assert [("a", 1)] == asked


class AllottedMachine(RuleBasedStateMachine):
    """Requests come and end at three levels while their seats change in any way."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, 30, 0, is_prompt=True)
        names = ("a", "b", "c")
        self.controller.commit(
            self.controller.digest([level_object(name, lendable=50) for name in names])
        )
        self.levels = [self.controller.levels[name] for name in names]
        self.flow = self.controller.classify(user("alice"), GET_POD).flow
        self.tickets: list[tuple[int, Ticket]] = []
        self.seats = 0
        self.used = 0
        self.allot([3, 3, 3], 5)

    @rule(nominal=st.lists(st.integers(0, 9), min_size=3, max_size=3), borrowing=st.integers(0, 9))
    def allot(self, nominal: list[int], borrowing: int) -> None:
        self.seats = sum(nominal)
        self.controller.allot(
            self.seats,
            {
                level.name: LevelLimits(own, own // 2, own + borrowing)
                for level, own in zip(self.levels, nominal, strict=True)
            },
        )

    @rule(index=st.integers(0, 2), seats=st.integers(1, 2))
    def arrive(self, index: int, seats: int) -> None:
        """A request comes, which waits or executes or is rejected."""
        queue_set = self.levels[index].queue_set
        ticket = queue_set.admit(self.flow, WorkEstimate(seats), lambda _: None)
        if isinstance(ticket, Ticket):
            self.tickets.append((index, ticket))

    @rule(which=st.integers(0, 99))
    def end(self, which: int) -> None:
        if self.tickets:
            index, ticket = self.tickets.pop(which % len(self.tickets))
            self.levels[index].queue_set.withdraw(ticket, None)

    @rule(ms=st.integers(1, 11_000))
    def wait(self, ms: int) -> None:
        self.clock.run_until(self.clock.now_ns() + ms * 1_000_000)

    @rule()
    def adjust(self) -> None:
        self.controller.adjust_limits()

    @invariant()
    def uses_no_more(self) -> None:
        """More are in use than are allotted only if they were before, but for one wide request."""
        used = sum(level.queue_set.seats_in_use for level in self.levels)
        assert used <= max(self.seats + len(self.levels), self.used)
        self.used = used


TestAllotted = AllottedMachine.TestCase
TestAllotted.settings = settings(deadline=None, stateful_step_count=40, max_examples=60)
