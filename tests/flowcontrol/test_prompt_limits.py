"""Tests of the adjustment of limits as soon as a request waits for seats that others have idle."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.limits import ADJUSTMENT_PERIOD_S
from apfproxy.flowcontrol.prompt_limits import (
    LOOK_NS,
    MARK_NS,
    PromptLimits,
    adjustment_for_waiting,
)
from tests.flowcontrol import scene as scenes
from tests.flowcontrol.scene import GET_POD, S, level_object, schema_object, user
from tests.support.clocks import VirtualClock
from tests.support.objects import bootstrap_objects

if TYPE_CHECKING:
    from apfproxy.flowcontrol.ticket import Ticket
    from apfproxy.objects.types import FlowControlObject

PERIOD_NS = ADJUSTMENT_PERIOD_S * S
Scene = partial(scenes.Scene, is_prompt=True)


def levels_of(
    names: str = "ab",
    lendable: int = 50,
    shares: int = 5,
    borrowing: int | None = None,
    queues: int = 4,
) -> list[FlowControlObject]:
    levels = [level_object(name, shares, queues, lendable, borrowing, 50) for name in names]
    return [*levels, *(schema_object(name, name, name, None) for name in names)]


def is_looking(scene: scenes.Scene) -> bool:
    limits = scene.controller._prompt_limits  # noqa: SLF001  nothing else tells
    return limits is not None and limits._timer is not None  # noqa: SLF001  as above


@pytest.mark.parametrize(("is_prompt", "executing"), [(True, 1), (False, 0)])
def test_a_level_that_has_lent_all(executing: int, *, is_prompt: bool) -> None:
    scene = Scene(*bootstrap_objects(), seats=8, is_prompt=is_prompt)
    level = scene.controller.levels["global-default"]
    level.queue_set.set_concurrency_limit(0)
    level.current_limit = level.upper_limit = 0

    tickets = scene.arrive("somebody")

    assert executing == scene.executing(tickets)
    level.upper_limit = 1
    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()
    assert 1 == scene.executing(tickets)


def test_an_idle_proxy_has_its_nominal_limits() -> None:
    """Kubernetes divides them in proportion to what levels never lend, which may be none."""
    scenes = [Scene(*levels_of(lendable=100), is_prompt=is_prompt) for is_prompt in (True, False)]
    assert [(10, 10, 10), (0, 0, 30)] == [
        tuple(map(scene.limit, ("a", "b", "catch-all"))) for scene in scenes
    ]


def test_one_request_at_a_time_whatever_the_limit() -> None:
    scene = Scene(*levels_of(lendable=100, shares=100), seats=1)
    a, b = scene.level("a"), scene.level("b")
    for level in (a, b):
        level.queue_set.set_concurrency_limit(0)
        level.current_limit = level.upper_limit = 0
    first, second = scene.arrive("a", 2)

    assert (True, False) == (first.is_executing, second.is_executing)
    a.queue_set.finish(first)
    assert second.is_executing


def test_idle_seats_are_lent_at_once() -> None:
    scene = Scene(*levels_of())
    before = scene.limit("a")
    tickets = scene.arrive("a", 40)
    scene.wait(LOOK_NS)
    assert before < scene.limit("a") == scene.executing(tickets)
    assert scene.level("b").lower_limit <= scene.limit("b") < before


def test_idle_seats_are_lent_once_that_is_wanted() -> None:
    scene = Scene(*levels_of(), is_prompt=False)
    tickets = scene.arrive("a", 40)
    limit = scene.limit("a")
    before = scene.executing(tickets)
    for _ in range(2):  # twice is once
        scene.controller.adjust_promptly(is_prompt=True)
    lent = scene.limit("a")
    executing = scene.executing(tickets)
    scene.controller.adjust_promptly(is_prompt=False)
    others = scene.arrive("b", scene.limit("b") + 1)
    scene.wait(2 * LOOK_NS)

    assert limit == before
    assert limit < lent == executing == scene.limit("a")
    assert len(others) - 1 == scene.executing(others)
    assert scene.controller.foreseen_seat_limit(scene.level("b"), 1) == len(others) - 1


def test_what_is_left_over_is_divided_among_who_is_short() -> None:
    scene = Scene(*levels_of("abcd", lendable=100), seats=50)
    scene.arrive("c", 2)
    scene.wait(LOOK_NS)
    levels = [scene.controller.levels[name] for name in "abcd"]
    assert [10, 10, 10, 10] == [level.nominal_limit for level in levels]
    for level, demand in zip(levels, (6, 12, 2, 0), strict=True):
        level.demand.update(scene.clock.now_ns(), demand)
        level.current_limit = 5 if demand > 5 else 10

    adjustment = adjustment_for_waiting(levels, {"a": 3, "b": 6}, 50)

    # 40 seats, of which 27 + 2 are wanted; the other 11 go to `a` and `b`, 1 : 2.
    assert adjustment is not None
    assert (13, 25, 2, 0) == adjustment.current


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_level_without_queues_borrows_before_it_rejects(*, is_prompt: bool) -> None:
    scene = Scene(*levels_of(queues=0), is_prompt=is_prompt)
    level = scene.level("a")
    before = level.current_limit

    taken = scene.take("a", 40)

    assert len(taken) == level.current_limit
    assert is_prompt == (before < level.current_limit)
    assert 40 - len(taken) == level.queue_set.rejected_total
    assert not is_looking(scene)


def test_rejections_are_looked_at_ten_times_a_second() -> None:
    """Another level's first rejection right after a look brings nothing; a later one does."""
    scene = Scene(*levels_of(lendable=100, queues=0))
    scene.take("a", 40)
    assert 0 == scene.limit("b")

    assert 1 == len(scene.take("b", 2))  # one request wider than the limit may be alone
    scene.wait(LOOK_NS - 1)
    assert 0 == len(scene.take("b"))
    scene.wait(1)
    assert 1 == len(scene.take("b"))


def test_the_first_adjustments_come_sooner() -> None:
    prompt, as_kubernetes = (
        list(itertools.accumulate(itertools.islice(scene.controller.adjustment_pauses_s(), 7)))
        for scene in (Scene(), Scene(is_prompt=False))
    )
    assert [0.5, 1, 2, 5, 10, 20, 30] == prompt
    assert [10, 20, 30, 40, 50, 60, 70] == as_kubernetes


def test_looks_end_with_the_wait() -> None:
    scene = Scene(*levels_of())
    tickets = scene.arrive("a", 60)
    assert is_looking(scene)
    scene.finish("a", tickets)
    scene.wait(LOOK_NS)
    assert not is_looking(scene)

    held = scene.arrive("b", scene.limit("b"))
    scene.clock.run()

    assert len(held) == scene.executing(held)


def test_nothing_to_lend_arms_a_timer_at_most_for_one_look() -> None:
    scene = Scene(*levels_of(borrowing=0))
    scene.arrive("a", scene.level("a").upper_limit + 1)
    scene.wait(LOOK_NS)
    scene.arrive("a")
    scene.arrive("a")
    scene.clock.run()

    assert not is_looking(scene)


def test_seats_used_lately_are_kept() -> None:
    scene = Scene(*levels_of(lendable=100))
    tickets: list[Ticket] = []
    for _ in range(30):
        scene.finish("b", scene.arrive("b", 10))
        scene.wait(LOOK_NS)
        tickets += scene.arrive("a")
    assert (10, 10) == (scene.limit("b"), scene.executing(tickets))

    scene.wait(2 * MARK_NS + 2 * LOOK_NS)

    assert (0, 20) == (scene.limit("b"), scene.executing(tickets))


def test_averages_are_not_disturbed() -> None:
    scenes = [Scene(*levels_of(), is_prompt=is_prompt) for is_prompt in (True, False)]
    for scene in scenes:
        scene.arrive("a", 40)
        for _ in range(20):
            scene.wait(PERIOD_NS // 20)
            scene.finish("b", scene.arrive("b", 3))
        scene.controller.adjust_limits()

    first, second = ([scene.controller.levels[name].demand for name in "ab"] for scene in scenes)

    assert [each.stats for each in second] == [each.stats for each in first]
    assert [each.smoothed for each in second] == [each.smoothed for each in first]


@given(
    before=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 12)), max_size=5),
    pause_ns=st.sampled_from((0, LOOK_NS // 2, LOOK_NS, 2 * MARK_NS)),
    name=st.sampled_from("ab"),
    seats=st.integers(1, 3),
    lendable=st.sampled_from((0, 50, 100)),
    queues=st.sampled_from((0, 4)),
)
def test_explained_as_it_happens(
    before: list[tuple[str, int]],
    pause_ns: int,
    name: str,
    seats: int,
    lendable: int,
    queues: int,
) -> None:
    scene = Scene(*levels_of(lendable=lendable, queues=queues))
    for other, count in before:
        scene.take(other, count)
    scene.wait(pause_ns)
    costs = LearnedCosts(scene.clock.now_ns)

    explained = explain(scene.controller, costs, user(name), GET_POD)
    tickets = scene.take(name)

    assert (explained.outcome.decision == "reject") == (not tickets)
    assert scene.executing(tickets) == (explained.outcome.decision == "execute")
    limit = scene.controller.foreseen_seat_limit(scene.controller.levels[name], seats)
    assert limit >= scene.limit(name)


def test_many_levels_are_looked_at_less_often() -> None:
    clock = VirtualClock()
    scene = Scene(*levels_of())
    level = scene.level("a")
    scene.arrive("a", 60)
    looks: list[int] = []

    def levels() -> list[object]:
        looks.append(clock.now_ns())
        return [level] * 300

    prompt = PromptLimits(clock, levels, lambda: 30, lambda *_: None)  # type: ignore[arg-type]  # enough
    prompt.on_wait()
    clock.run_until(1_000_000_000)

    assert [0, 300_000_000, 600_000_000, 900_000_000] == looks


def test_nothing_is_imposed_where_nobody_gets_more() -> None:
    scene = Scene(*levels_of("abcd"))
    levels = scene.controller.levels
    for name in "abc":
        scene.arrive(name, 40)
    scene.wait(10 * LOOK_NS)
    levels["d"].current_limit += 1
    limits = [scene.limit(name) for name in "abcd"]
    assert 3 == levels["d"].lower_limit < limits[-1]
    scene.wait(LOOK_NS)

    assert limits == [scene.limit(name) for name in "abcd"]


def test_a_busy_past_does_not_count() -> None:
    scene = Scene(*levels_of())
    tickets = scene.arrive("b", 40)
    waiting = scene.arrive("a", 40)
    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()
    scene.finish("b", tickets)
    scene.wait(2 * MARK_NS + 2 * LOOK_NS)

    assert (15, 5) == (scene.executing(waiting), scene.limit("b"))


def test_an_error_of_a_look_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    scene = Scene(*levels_of())
    queue_set = scene.level("a").queue_set
    tickets = scene.arrive("a", 40)
    scene.wait(LOOK_NS)
    waiting = queue_set.requests_waiting
    scene.finish("a", [ticket for ticket in tickets if not ticket.is_executing])
    scene.wait(2 * LOOK_NS)
    monkeypatch.setattr("apfproxy.flowcontrol.prompt_limits.adjustment_for_waiting", fail)
    levels = scene.controller.levels.values()
    for level in levels:
        level.upper_limit = 100

    with pytest.raises(ZeroDivisionError):
        scene.arrive("a")
    assert waiting > 0 == queue_set.requests_waiting
    scene.finish("a", tickets)
    assert queue_set.is_idle
