"""Tests of the adjustment of limits as soon as a request waits for seats that others have idle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.limits import ADJUSTMENT_PERIOD_S
from apfproxy.flowcontrol.prompt_limits import (
    LOOK_NS,
    MARK_NS,
    PromptLimits,
    adjustment_for_waiting,
)
from apfproxy.flowcontrol.queue_set import Ticket, WorkEstimate
from apfproxy.objects.decode import bootstrap_objects
from apfproxy.objects.types import FlowControlObject, QueuingConfiguration
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from loadtest.objects import flow_schema, priority_level, user_subject
from tests.virtual_clock import VirtualClock

PERIOD_NS = ADJUSTMENT_PERIOD_S * 1_000_000_000
GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")


class Scene:
    """A controller with some levels, and who asks."""

    def __init__(
        self, *objects: FlowControlObject, seats: int = 30, is_prompt: bool = True
    ) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, seats, 0, is_prompt=is_prompt)
        self.controller.commit(self.controller.digest(objects))

    def arrive(self, name: str, count: int = 1, seats: int = 1) -> list[Ticket]:
        """Admit requests of a user, none of which is rejected."""
        tickets = self.take(name, count, seats)
        assert count == len(tickets)
        return tickets

    def take(self, name: str, count: int = 1, seats: int = 1) -> list[Ticket]:
        """Those of a user's requests that are not rejected."""
        found = self.controller.classify(User(name, (AUTHENTICATED_GROUP,)), GET_POD)
        queue_set = found.level.queue_set
        estimate = WorkEstimate(seats)
        tickets = [queue_set.admit(found.flow, estimate, lambda _: None) for _ in range(count)]
        return [ticket for ticket in tickets if isinstance(ticket, Ticket)]

    def finish(self, name: str, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            self.controller.levels[name].queue_set.withdraw(ticket, None)

    def executing(self, tickets: list[Ticket]) -> int:
        return sum(ticket.is_executing for ticket in tickets)

    def limit(self, name: str) -> int:
        return self.controller.levels[name].current_limit

    def wait(self, duration_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ns)


def two_levels(
    lendable: int = 50, shares: int = 5, borrowing: int | None = None, *, is_queuing: bool = True
) -> list[FlowControlObject]:
    return levels_of("ab", lendable, shares, borrowing, is_queuing=is_queuing)


def levels_of(
    names: str,
    lendable: int = 50,
    shares: int = 5,
    borrowing: int | None = None,
    *,
    is_queuing: bool = True,
) -> list[FlowControlObject]:
    """A level for each user, who is named as the level."""
    queuing = None
    if is_queuing:
        queuing = QueuingConfiguration(queues=4, hand_size=1, queue_length_limit=50)
    objects: list[FlowControlObject] = []
    for name in names:
        objects += [
            priority_level(
                name,
                shares=shares,
                queuing=queuing,
                lendable_percent=lendable,
                borrowing_limit_percent=borrowing,
            ),
            flow_schema(name, name, user_subject(name), precedence=500, distinguish_by=None),
        ]
    return objects


@pytest.mark.parametrize(("is_prompt", "executing"), [(True, 1), (False, 0)])
def test_a_level_that_has_lent_all(executing: int, *, is_prompt: bool) -> None:
    """One that has lent its only seat serves a request; Kubernetes has it wait."""
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
    scenes = [Scene(*two_levels(lendable=100), is_prompt=is_prompt) for is_prompt in (True, False)]

    assert [(10, 10, 10), (0, 0, 30)] == [
        tuple(map(scene.limit, ("a", "b", "catch-all"))) for scene in scenes
    ]


def test_one_request_at_a_time_whatever_the_limit() -> None:
    """The next one follows when it has ended, even if nobody has anything to lend."""
    scene = Scene(*two_levels(lendable=100, shares=100), seats=1)
    a, b = scene.controller.levels["a"], scene.controller.levels["b"]
    for level in (a, b):
        level.queue_set.set_concurrency_limit(0)
        level.current_limit = level.upper_limit = 0
    first, second = scene.arrive("a", 2)

    assert (True, False) == (first.is_executing, second.is_executing)
    a.queue_set.finish(first)
    assert second.is_executing


def test_a_level_without_shares_holds_its_requests() -> None:
    """That is what it is for: it has what it may borrow, and nothing else."""
    scene = Scene(*two_levels(shares=0, borrowing=0))

    tickets = scene.arrive("a", 2)
    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()

    assert 0 == scene.executing(tickets)


def test_a_level_without_shares_borrows_at_once() -> None:
    """Where it may, and others have something to lend."""
    lender = priority_level("lender", shares=5, queuing=None, lendable_percent=50)
    scene = Scene(*two_levels(shares=0), lender)

    assert 2 == scene.executing(scene.arrive("a", 2))


def test_idle_seats_are_lent_at_once() -> None:
    """All that others may lend are used by the arrivals that would wait, but no more."""
    scene = Scene(*two_levels())
    before = scene.limit("a")

    tickets = scene.arrive("a", 40)
    scene.wait(LOOK_NS)

    assert before < scene.limit("a") == scene.executing(tickets)
    assert scene.controller.levels["b"].lower_limit <= scene.limit("b") < before


def test_idle_seats_are_lent_once_that_is_wanted() -> None:
    """What waits gets them then; afterwards Kubernetes' way has requests wait again."""
    scene = Scene(*two_levels(), is_prompt=False)
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
    assert scene.controller.foreseen_seat_limit(scene.controller.levels["b"], 1) == len(others) - 1


def test_looks_end_with_the_wish_for_them() -> None:
    """Whether one is due or not; what a level's queues have to keep free changes, too."""
    for count in (1, 40):
        scene = Scene(*two_levels())
        scene.arrive("a", count)
        limits = scene.controller._prompt_limits  # noqa: SLF001  as above
        assert limits is not None
        assert ("looking" if count > 1 else "at rest") in repr(limits)
        scene.controller.adjust_promptly(is_prompt=False)
        assert "at rest" in repr(limits)
        configs = [level.queue_set.config for level in scene.controller.levels.values()]
        assert {0} == {config.least_seats for config in configs}


def test_idle_seats_are_lent_from_the_start() -> None:
    """With 20 seats one client of a level of two has all that others lend, from its first burst."""
    scene = Scene(*bootstrap_objects(), seats=20)
    assert 2 == scene.limit("global-default")

    tickets = scene.arrive("somebody", 150)

    kept = sum(level.lower_limit for level in scene.controller.levels.values())
    own = scene.controller.levels["global-default"].lower_limit
    lent = scene.controller.executing_limit - (kept - own)
    assert lent == scene.limit("global-default") == scene.executing(tickets)


def test_what_is_left_over_is_divided_among_who_is_short() -> None:
    """In proportion to demand; a level that has all it wants keeps that."""
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
    scene = Scene(*two_levels(is_queuing=False), is_prompt=is_prompt)
    level = scene.controller.levels["a"]
    before = level.current_limit

    taken = scene.take("a", 40)

    assert len(taken) == level.current_limit
    assert is_prompt == (before < level.current_limit)
    assert 40 - len(taken) == level.queue_set.rejected_total
    assert is_prompt == ("at rest" in repr(scene.controller._prompt_limits))  # noqa: SLF001  as below


def test_rejections_are_looked_at_ten_times_a_second() -> None:
    """Another level's first rejection right after a look brings nothing; a later one does."""
    scene = Scene(*two_levels(lendable=100, is_queuing=False))
    scene.take("a", 40)
    assert 0 == scene.limit("b")

    assert 1 == len(scene.take("b", 2))  # one request wider than the limit may be alone
    scene.wait(LOOK_NS - 1)
    assert 0 == len(scene.take("b"))
    scene.wait(1)
    assert 1 == len(scene.take("b"))


def test_the_first_adjustments_come_sooner() -> None:
    """At 0.5, 1, 2, 5 and 10 s, then every 10 s; as Kubernetes does it, every 10 s."""
    prompt, as_kubernetes = (
        list(itertools.accumulate(itertools.islice(scene.controller.adjustment_pauses_s(), 7)))
        for scene in (Scene(), Scene(is_prompt=False))
    )

    assert [0.5, 1, 2, 5, 10, 20, 30] == prompt
    assert [10, 20, 30, 40, 50, 60, 70] == as_kubernetes


def test_the_rules_of_kubernetes_know_of_none() -> None:
    """Without it nothing changes before the period is over."""
    scene = Scene(*two_levels(), is_prompt=False)
    before = scene.limit("a")

    tickets = scene.arrive("a", 40)
    scene.wait(PERIOD_NS - 1)

    assert before == scene.limit("a") == scene.executing(tickets)


def test_looks_are_bounded() -> None:
    """Who begins to wait right after a look is looked after when the next one is due."""
    scene = Scene(*two_levels(lendable=100))
    scene.arrive("a", 40)
    limit = scene.limit("b")
    tickets = scene.arrive("b", 5)

    assert 0 == limit == scene.limit("b")
    scene.wait(LOOK_NS - 1)
    assert (0, 1) == (scene.limit("b"), scene.executing(tickets))
    scene.wait(1)
    assert (5, 5) == (scene.limit("b"), scene.executing(tickets))


def test_looks_end_with_the_wait() -> None:
    scene = Scene(*two_levels())
    tickets = scene.arrive("a", 60)
    assert "looking" in repr(scene.controller._prompt_limits)  # noqa: SLF001  nothing else tells
    scene.finish("a", tickets)
    scene.wait(LOOK_NS)
    assert "at rest" in repr(scene.controller._prompt_limits)  # noqa: SLF001  as above

    held = scene.arrive("b", scene.limit("b"))
    scene.clock.run()

    assert len(held) == scene.executing(held)


def test_nothing_to_lend_arms_a_timer_at_most_for_one_look() -> None:
    """A level at its upper limit has nothing to wait for but its own requests."""
    scene = Scene(*two_levels(borrowing=0))
    scene.arrive("a", scene.controller.levels["a"].upper_limit + 1)
    scene.wait(LOOK_NS)
    scene.arrive("a")
    scene.arrive("a")
    scene.clock.run()

    assert "at rest" in repr(scene.controller._prompt_limits)  # noqa: SLF001  as above


def test_seats_used_lately_are_kept() -> None:
    """A level whose requests come and go keeps its own seats until it has gone quiet."""
    scene = Scene(*two_levels(lendable=100))
    tickets: list[Ticket] = []
    for _ in range(30):
        scene.finish("b", scene.arrive("b", 10))
        scene.wait(LOOK_NS)
        tickets += scene.arrive("a")
    assert (10, 10) == (scene.limit("b"), scene.executing(tickets))

    scene.wait(2 * MARK_NS + 2 * LOOK_NS)

    assert (0, 20) == (scene.limit("b"), scene.executing(tickets))


def test_averages_are_not_disturbed() -> None:
    scenes = [Scene(*two_levels(), is_prompt=is_prompt) for is_prompt in (True, False)]
    for scene in scenes:
        scene.arrive("a", 40)
        for _ in range(20):
            scene.wait(PERIOD_NS // 20)
            scene.finish("b", scene.arrive("b", 3))
        scene.controller.adjust_limits()

    first, second = ([scene.controller.levels[name].demand for name in "ab"] for scene in scenes)

    assert [each.stats for each in second] == [each.stats for each in first]
    assert [each.smoothed for each in second] == [each.smoothed for each in first]


def test_seats_come_back() -> None:
    scene = Scene(*two_levels(lendable=100))
    borrowed = scene.arrive("a", 40)
    scene.wait(LOOK_NS)
    own = scene.arrive("b", 5)
    scene.wait(LOOK_NS)

    assert 5 == scene.limit("b") == scene.executing(own)
    scene.finish("a", borrowed)


@given(
    before=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 12)), max_size=5),
    pause_ns=st.sampled_from((0, LOOK_NS // 2, LOOK_NS, 2 * MARK_NS)),
    name=st.sampled_from("ab"),
    seats=st.integers(1, 3),
    lendable=st.sampled_from((0, 50, 100)),
    is_queuing=st.booleans(),
)
def test_explained_as_it_happens(
    before: list[tuple[str, int]],
    pause_ns: int,
    name: str,
    seats: int,
    lendable: int,
    *,
    is_queuing: bool,
) -> None:
    scene = Scene(*two_levels(lendable=lendable, is_queuing=is_queuing))
    for other, count in before:
        scene.take(other, count)
    scene.wait(pause_ns)
    asker = User(name, (AUTHENTICATED_GROUP,))

    explained = explain(scene.controller, LearnedCosts(scene.clock.now_ns), asker, GET_POD)
    tickets = scene.take(name)

    assert (explained.outcome.decision == "reject") == (not tickets)
    assert scene.executing(tickets) == (explained.outcome.decision == "execute")
    limit = scene.controller.foreseen_seat_limit(scene.controller.levels[name], seats)
    assert limit >= scene.limit(name)


def test_many_levels_are_looked_at_less_often() -> None:
    """A look costs as much more as there are levels."""
    clock = VirtualClock()
    scene = Scene(*two_levels())
    level = scene.controller.levels["a"]
    scene.arrive("a", 60)
    looks: list[int] = []

    def levels() -> list[object]:
        looks.append(clock.now_ns())
        return [level] * 300

    prompt = PromptLimits(clock, levels, lambda: 30, lambda *_: None)  # type: ignore[arg-type]  # enough
    prompt.on_wait()
    clock.run_until(1_000_000_000)

    assert [0, 300_000_000, 600_000_000, 900_000_000] == looks


@pytest.mark.parametrize("borrowing", [0, None])
def test_nothing_is_foreseen_where_nothing_is_lent(borrowing: int | None) -> None:
    scene = Scene(*two_levels(lendable=0, borrowing=borrowing))
    level = scene.controller.levels["a"]
    held = scene.arrive("a", level.current_limit)

    assert level.current_limit == scene.controller.foreseen_seat_limit(level, 1)
    assert len(held) == scene.executing(held)
    (last,) = scene.arrive("a")
    assert not last.is_executing
    assert level.current_limit == scene.controller.foreseen_seat_limit(level, 1)


def test_nothing_is_imposed_where_nobody_gets_more() -> None:
    """Of one idle seat three levels that wait would have a third each, which is none."""
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
    """A level that was busy for long has idle seats as soon as it is quiet."""
    scene = Scene(*two_levels())
    tickets = scene.arrive("b", 40)
    waiting = scene.arrive("a", 40)
    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()
    scene.finish("b", tickets)
    scene.wait(2 * MARK_NS + 2 * LOOK_NS)

    assert (15, 5) == (scene.executing(waiting), scene.limit("b"))


def test_what_waits_when_a_period_ends() -> None:
    """It waits for no further arrival to get seats that smoothed demand gave to an idle level."""
    scene = Scene(*two_levels(lendable=100, borrowing=100))
    past = scene.arrive("a", 10)
    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()
    scene.finish("a", past)
    scene.wait(2 * MARK_NS)
    most = scene.controller.levels["b"].upper_limit
    tickets = scene.arrive("b", most + 5)
    scene.wait(PERIOD_NS)
    assert most == scene.executing(tickets)

    scene.controller.adjust_limits()
    scene.finish("b", tickets[:5])
    scene.wait(2 * MARK_NS)

    assert most == scene.executing(tickets[5:])


def test_an_error_of_a_look_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrival that had to wait is told of it, and nobody has its place in the queue."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    scene = Scene(*two_levels())
    queue_set = scene.controller.levels["a"].queue_set
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
