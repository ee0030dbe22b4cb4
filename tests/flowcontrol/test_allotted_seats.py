"""Tests of a controller whose seats are of a limit that others share: nothing exceeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from apfproxy.flowcontrol.limits import LevelLimits
from tests.flowcontrol.scene import Scene, level_object, schema_object

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import Ticket


def test_seats_are_divided_as_the_fleet_says() -> None:
    asked: list[tuple[str, int]] = []
    scene = Scene(
        level_object("a"),
        schema_object("s", "a"),
        is_prompt=True,
        on_short=lambda *of: asked.append(of),
    )
    level = scene.level("a")

    scene.controller.allot(2, {"a": LevelLimits(2, 1, 5)})
    tickets = scene.arrive(count=3)

    assert [True, True, False] == [ticket.is_executing for ticket in tickets]
    assert (2, 1, 5) == (level.nominal_limit, level.lower_limit, level.upper_limit)
    assert (2, 2) == (level.current_limit, scene.controller.server_concurrency_limit)
    assert [("", 0)] == asked
    # A level that is left out has none, and is not let go on as it would be alone.
    assert 0 == scene.level("catch-all").queue_set.seat_limit

    scene.controller.allot(3, {"a": LevelLimits(3, 1, 5)})

    assert tickets[2].is_executing
    scene.controller.allot(0, {})
    assert 0 == level.queue_set.seat_limit


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_level_without_queues_says_what_it_rejects(*, is_prompt: bool) -> None:
    asked: list[tuple[str, int]] = []
    scene = Scene(
        level_object("a", queues=0),
        schema_object("s", "a"),
        is_prompt=is_prompt,
        on_short=lambda *of: asked.append(of),
    )
    scene.controller.allot(1, {"a": LevelLimits(1, 0, 1)})

    assert 1 == len(scene.take(count=2))
    assert [("a", 1)] == asked


class AllottedMachine(RuleBasedStateMachine):
    """Requests come and end at three levels while their seats change in any way."""

    def __init__(self) -> None:
        super().__init__()
        names = "abc"
        self.scene = Scene(
            *(level_object(name, lendable=50) for name in names),
            *(schema_object(name, name, name) for name in names),
            is_prompt=True,
        )
        self.levels = [self.scene.level(name) for name in names]
        self.tickets: list[tuple[str, Ticket]] = []
        self.seats = 0
        self.used = 0
        self.allot([3, 3, 3], 5)

    @rule(nominal=st.lists(st.integers(0, 9), min_size=3, max_size=3), borrowing=st.integers(0, 9))
    def allot(self, nominal: list[int], borrowing: int) -> None:
        self.seats = sum(nominal)
        self.scene.controller.allot(
            self.seats,
            {
                level.name: LevelLimits(own, own // 2, own + borrowing)
                for level, own in zip(self.levels, nominal, strict=True)
            },
        )

    @rule(name=st.sampled_from("abc"), seats=st.integers(1, 2))
    def arrive(self, name: str, seats: int) -> None:
        self.tickets += [(name, ticket) for ticket in self.scene.take(name, 1, seats)]

    @rule(which=st.integers(0, 99))
    def end(self, which: int) -> None:
        if self.tickets:
            name, ticket = self.tickets.pop(which % len(self.tickets))
            self.scene.finish(name, [ticket])

    @rule(ms=st.integers(1, 11_000))
    def wait(self, ms: int) -> None:
        self.scene.wait(ms * 1_000_000)

    @rule()
    def adjust(self) -> None:
        self.scene.controller.adjust_limits()

    @invariant()
    def uses_no_more(self) -> None:
        """More are in use than are allotted only if they were before, but for one wide request."""
        used = sum(level.queue_set.seats_in_use for level in self.levels)
        assert used <= max(self.seats + len(self.levels), self.used)
        self.used = used


TestAllotted = AllottedMachine.TestCase
TestAllotted.settings = settings(deadline=None, stateful_step_count=40, max_examples=60)
