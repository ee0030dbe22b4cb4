"""Tests of reconfiguration, classification and the adjustment of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apfproxy.flowcontrol import controller as controller_module
from apfproxy.flowcontrol.controller import Checked, Controller, Route
from apfproxy.flowcontrol.limits import ADJUSTMENT_PERIOD_S, LevelLimits
from apfproxy.flowcontrol.ticket import RejectReason, Ticket, WorkEstimate
from apfproxy.request.attributes import parse_attributes
from tests.flowcontrol.scene import GET_POD, S, Scene, level_object, schema_object, user
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.objects.types import FlowControlObject, FlowSchema, PriorityLevelConfiguration


PERIOD_NS = ADJUSTMENT_PERIOD_S * S
A, S_TO_A = level_object("a"), schema_object("s", "a")


def test_digest_touches_nothing() -> None:
    scene = Scene(A, S_TO_A)
    before = scene.classify()

    digest = scene.controller.digest([level_object("b"), schema_object("s", "b")])

    assert {"exempt", "catch-all", "a"} == scene.controller.levels.keys()
    assert before is scene.classify()
    scene.controller.commit(digest)
    assert {"exempt", "catch-all", "b"} == scene.controller.levels.keys()
    assert "b" == scene.classify().level.name
    assert before.generation + 1 == scene.controller.generation


def test_dangling_flow_schemas_are_reported_and_not_used() -> None:
    schema = schema_object("lost", "nowhere")
    scene = Scene()

    digest = scene.commit(schema)

    expected = (
        "FlowSchema 'lost': spec.priorityLevelConfiguration.name: there is no usable"
        " PriorityLevelConfiguration 'nowhere'; the FlowSchema is not used"
    )
    assert (expected,) == digest.problems
    assert {"lost": "nowhere"} == scene.controller.in_force.dangling
    assert "catch-all" == scene.classify().level.name
    scene.commit(schema, level_object("nowhere"))
    assert {} == scene.controller.in_force.dangling
    assert "nowhere" == scene.classify().level.name


def test_a_second_object_of_a_name_is_reported() -> None:
    scene = Scene()
    digest = scene.commit(level_object("good"), level_object("good", shares=99))
    start = "PriorityLevelConfiguration 'good': metadata.name: there are several of this name;"
    assert [True] == [line.startswith(start) for line in digest.problems]
    assert 20 == scene.level("good").nominal_limit


def test_a_level_that_stays_keeps_its_requests() -> None:
    scene = Scene(level_object("a", shares=1), S_TO_A)
    level = scene.level("a")
    tickets = scene.arrive(count=level.current_limit + 2)
    assert 2 == level.queue_set.requests_waiting

    scene.commit(level_object("a", 100, 8), S_TO_A)

    assert level is scene.level("a")
    assert tickets[-2:] == scene.told
    assert (len(tickets), 8) == (level.queue_set.seats_in_use, level.queue_set.config.queues)


def test_a_level_that_goes_drains_first() -> None:
    scene = Scene(level_object("a", shares=1), S_TO_A)
    level = scene.level("a")
    tickets = scene.arrive(count=level.current_limit + 1)

    scene.commit()

    assert level.is_quiescing
    assert level is scene.level("a")
    assert 1 <= level.nominal_limit
    assert "catch-all" == scene.classify().level.name
    scene.finish("a", tickets[:1])
    assert tickets[-1:] == scene.told
    scene.finish("a", tickets[1:])
    scene.controller.adjust_limits()
    assert {"exempt", "catch-all"} == scene.controller.levels.keys()
    assert 30 == scene.level("catch-all").nominal_limit


def test_another_number_of_seats() -> None:
    scene = Scene(level_object("a", shares=95), S_TO_A, seats=2)
    tickets = scene.arrive(count=4)
    assert 2 == scene.executing(tickets)

    scene.controller.resize(4)
    assert 4 == scene.executing(tickets) == scene.level("a").nominal_limit
    scene.controller.resize(1)
    assert (1, (4,)) == (scene.level("a").nominal_limit, scene.in_use("a"))


@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_limit_that_is_followed(is_prompt: bool) -> None:
    """Levels keep what they used lately, and the next adjustment has the demand of all the time."""
    busy, quiet = (level_object(name, 5, lendable=50) for name in ("busy", "quiet"))
    scene = Scene(busy, quiet, schema_object("s", "busy"), is_prompt=is_prompt)
    tickets = scene.arrive(count=10)
    scene.controller.adjust_limits()
    scene.wait(5 * S)
    for seats in (31, 33, 30):
        scene.controller.follow(seats)
        assert seats == scene.controller.server_concurrency_limit
        assert scene.limit("busy") >= 10
        assert scene.executing(tickets) == 10

    scene.finish("busy", tickets[1:])
    scene.controller.follow(60)
    assert 60 <= sum(each.nominal_limit for each in scene.controller.levels.values()) <= 64
    scene.controller.follow(4)
    assert scene.limit("busy") >= 1
    assert scene.controller.levels["busy"].demand.peak == 10


def test_adjust_limits_follows_demand() -> None:
    busy, quiet = (level_object(name, 5, lendable=50) for name in ("busy", "quiet"))
    scene = Scene(busy, quiet, schema_object("s", "busy"))
    tickets = scene.arrive(count=10)
    assert (8, 8) == (scene.limit("busy"), scene.executing(tickets))

    scene.wait(PERIOD_NS)
    scene.controller.adjust_limits()

    assert tickets[-2:] == scene.told
    assert (10.0, 12, 6) == (scene.level("busy").target, scene.limit("busy"), scene.limit("quiet"))
    assert pytest.approx(30 / 25) == scene.controller.seat_fair_frac


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        (None, b"/api/v1/namespaces/n/pods", ""),
        ("ByUser", b"/healthz", "u"),
        ("ByNamespace", b"/api/v1/namespaces/n/pods", "n"),
        ("ByNamespace", b"/api/v1/pods", ""),
        ("ByNamespace", b"/healthz", ""),
    ],
)
def test_distinguisher(method: str | None, target: bytes, expected: str) -> None:
    scene = Scene(A, schema_object("s", "a", method=method))
    found = scene.classify("u", parse_attributes("GET", target))
    assert ("s", expected) == (found.flow_schema.metadata.name, found.flow.distinguisher)


def test_a_flow_keeps_counters_and_hand_while_its_schema_keeps_its_level() -> None:
    levels = A, level_object("b")
    scene = Scene(*levels, S_TO_A)
    before = scene.classify()

    scene.commit(*levels, schema_object("s", "a", uid="new"))
    same = scene.classify()
    scene.commit(*levels, schema_object("s", "b"))
    moved = scene.classify()

    assert before.flow is same.flow
    assert ("new", before.priority_level_uid) == (same.flow_schema_uid, scene.level("a").uid)
    assert before.flow is not moved.flow
    assert before.flow.hash == moved.flow.hash
    assert ("b", "s") == (moved.flow.counters.priority_level, moved.flow.counters.flow_schema)


def test_sums_over_levels() -> None:
    scene = Scene(level_object("a", queues=2, length=3), level_object("b", queues=0))
    levels = scene.controller.levels.values()
    assert sum(each.nominal_limit for each in levels) == scene.controller.executing_limit
    assert 2 * 3 == scene.controller.waiting_limit


def test_use_of_limited_levels() -> None:
    scene = Scene(level_object("a"), S_TO_A)
    limit = scene.level("a").current_limit
    exempt = scene.controller.classify(user("admin", "system:masters"), GET_POD)
    exempt.level.queue_set.admit(exempt.flow, WorkEstimate(1), scene.told.append)
    scene.arrive(count=limit)
    assert (1, limit) == scene.in_use("exempt", "a")
    assert (limit, False) == scene.controller.limited_use()
    scene.arrive()
    assert (limit, True) == scene.controller.limited_use()


def test_hashes_depend_on_the_seed() -> None:
    hashes = {
        Controller(VirtualClock(), 30, seed).classify(user("u"), GET_POD).flow.hash
        for seed in range(8)
    }
    assert 8 == len(hashes)
    controller = Controller(VirtualClock(), 30, 0)
    found = controller.classify(user("u"), GET_POD).flow
    assert controller.flow_hash("catch-all", "") == found.hash  # without queues all are one flow


def test_the_older_half_of_many_flows_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "MAX_KEPT_CLASSIFICATIONS", 4)
    scene = Scene(A, S_TO_A)
    found = [scene.classify(str(index)) for index in range(5)]
    assert all(scene.classify(str(index)) is found[index] for index in (2, 3, 4))
    assert found[0] is not scene.classify("0")
    assert found[0].flow.hash == scene.classify("0").flow.hash


def test_counters_begin_with_the_first_request_and_stay_when_objects_go() -> None:
    objects = A, S_TO_A, schema_object("t", "a")
    scene = Scene(*objects)
    assert [] == list(scene.controller.flow_schema_counters())
    counters = scene.classify().flow.counters
    assert counters is scene.classify("v").flow.counters
    scene.finish("a", scene.arrive())

    scene.commit()

    assert [counters] == list(scene.controller.flow_schema_counters())
    scene.commit(*objects)
    assert counters is scene.classify().flow.counters
    assert ("a", "s", 1) == (counters.priority_level, counters.flow_schema, counters.dispatched)


class Reconfiguration(RuleBasedStateMachine):
    @initialize(is_prompt=st.booleans())
    def start(self, is_prompt: bool) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, 12, 0, is_prompt=is_prompt)
        self.tickets: list[tuple[Classification, Ticket]] = []
        self.dispatched: list[Ticket] = []

    @rule(
        levels=st.lists(
            st.builds(
                level_object,
                st.sampled_from("abc"),
                st.integers(0, 30),
                st.sampled_from((0, 1, 3)),
                st.integers(0, 100),
                st.sampled_from((None, 0, 50, 200)),
            ),
            max_size=4,
        ),
        schemas=st.lists(
            st.builds(
                schema_object,
                st.sampled_from("xyz"),
                st.sampled_from("abcd"),
                st.sampled_from("uv*"),
                st.sampled_from((None, "ByUser", "ByNamespace")),
            ),
            max_size=4,
        ),
    )
    def reconfigure(
        self, levels: list[PriorityLevelConfiguration], schemas: list[FlowSchema]
    ) -> None:
        self.controller.commit(self.controller.digest([*levels, *schemas]))

    @rule(
        name=st.sampled_from("uvw"),
        estimate=st.builds(
            WorkEstimate, st.integers(1, 4), st.integers(0, 4), st.sampled_from((0, 5_000_000))
        ),
    )
    def arrive(self, name: str, estimate: WorkEstimate) -> None:
        found = self.controller.classify(user(name), GET_POD)
        result = found.level.queue_set.admit(found.flow, estimate, self.dispatched.append)
        if isinstance(result, Ticket):
            self.tickets.append((found, result))

    @rule(is_prompt=st.booleans())
    def adjust_promptly(self, is_prompt: bool) -> None:
        self.controller.adjust_promptly(is_prompt=is_prompt)

    @rule(index=st.integers(0, 50), is_leaving=st.booleans())
    def end(self, index: int, is_leaving: bool) -> None:
        if self.tickets:
            found, ticket = self.tickets.pop(index % len(self.tickets))
            if is_leaving or not ticket.is_executing:
                found.level.queue_set.withdraw(ticket, RejectReason.TIME_OUT)
            else:
                found.level.queue_set.finish(ticket)

    @rule(duration_ns=st.integers(0, PERIOD_NS))
    def wait(self, duration_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ns)

    @rule()
    def adjust(self) -> None:
        self.controller.adjust_limits()

    @invariant()
    def every_request_is_somewhere(self) -> None:
        levels = self.controller.levels.values()
        known = {id(level) for level in levels}
        assert all(id(found.level) in known for found, _ in self.tickets)
        executing = sum(ticket.is_executing for _, ticket in self.tickets)
        assert executing == sum(level.queue_set.requests_executing for level in levels)
        waiting = len(self.tickets) - executing
        assert waiting == sum(level.queue_set.requests_waiting for level in levels)

    @invariant()
    def limits_are_in_bounds(self) -> None:
        assert self.controller.server_concurrency_limit <= self.controller.executing_limit
        for level in self.controller.levels.values():
            assert level.current_limit == level.queue_set.concurrency_limit
            assert level.lower_limit <= level.current_limit
            assert level.is_exempt or level.current_limit <= level.upper_limit
        assert {"exempt", "catch-all"} <= self.controller.levels.keys()

    def teardown(self) -> None:
        for found, ticket in self.tickets:
            found.level.queue_set.withdraw(ticket, None)
        self.clock.run()
        for level in self.controller.levels.values():
            assert (0, 0) == (level.queue_set.seats_in_use, level.queue_set.seats_waiting)
        self.controller.commit(self.controller.digest(()))
        assert {"exempt", "catch-all"} == self.controller.levels.keys()


TestReconfiguration = Reconfiguration.TestCase
TestReconfiguration.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_utilisation_is_a_part_of_the_current_limit() -> None:
    """A level without seats is measured against a tenth of the server's, as in Kubernetes."""
    scene = Scene(seats=600)
    assert {"exempt": 60, "catch-all": scene.limit("catch-all")} == {
        name: level.queue_set.meter.seats_in_use.denominator
        for name, level in scene.controller.levels.items()
    }


@pytest.mark.interpreted
def test_only_what_changed_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [schema_object(f"s-{number}", "a", f"u-{number}") for number in range(1000)]
    scene = Scene(A, *objects)
    checked: list[str] = []
    routed: list[str] = []

    def check(given: FlowControlObject) -> Checked:
        checked.append(given.metadata.name)
        return Checked(given)

    def route(flow_schema: FlowSchema, *others: Any) -> Route:  # noqa: ANN401 - as Route has them
        routed.append(flow_schema.metadata.name)
        return Route(flow_schema, *others)

    monkeypatch.setattr(controller_module, "Checked", check)
    monkeypatch.setattr(controller_module, "Route", route)
    objects[:500] = [schema_object(f"s-{number}", "a", f"u-{number}") for number in range(500)]
    objects[7] = schema_object("s-7", "a", "other")
    scene.commit(level_object("a"), *objects)

    assert ["s-7"] == checked == routed
    assert ["s-7", "s-8"] == [
        scene.classify(name).flow_schema.metadata.name for name in ("other", "u-8")
    ]


def test_a_digest_makes_new_levels_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    digest = scene.controller.digest([A, S_TO_A])
    made = digest.new_levels["a"]

    with monkeypatch.context() as patch:
        patch.setattr(controller_module, "QueueSet", None)
        scene.controller.commit(digest)
    assert made is scene.level("a")
    scene.commit()
    scene.controller.commit(digest)

    assert made is not scene.level("a")
    assert "a" == scene.classify().level.name


ALICE, BOB = user("alice", "team-a"), user("bob", "team-a")


def level(**additions: str) -> PriorityLevelConfiguration:
    return level_object("a", **additions)  # type: ignore[arg-type]  # which are no numbers


def schema(**additions: str) -> FlowSchema:
    return schema_object("s", "a", **additions)


BANNED = level_object("a", 0, 0, ban="true"), schema()


def test_wrong_additions_do_not_count() -> None:
    scene = Scene()
    digest = scene.commit(
        level(wait_limit="soon"), schema(request_rate="0", long_running_limit="3")
    )

    assert (
        (
            "PriorityLevelConfiguration 'a': metadata.annotations[apfproxy.io/wait-limit]: Invalid"
            ' value: "soon": write a duration such as 500ms, 5s or 1m, longer than 0s and at most'
            " 10m; the addition does not count"
        ),
        (
            "FlowSchema 's': metadata.annotations[apfproxy.io/request-rate]: Invalid value:"
            ' "0": write requests per second, such as 20 or 0.5, from 0.001 to 1000000;'
            " the addition does not count"
        ),
    ) == digest.problems
    assert 2 == digest.unused_additions == scene.controller.unused_additions
    found = scene.classify()
    assert 60 * S == found.level.longest_wait_ns(1 << 62)
    assert found.limits is not None
    assert (None, 3) == (found.limits.rate, found.limits.long_running.limit)
    scene.commit(level(), schema())
    assert 0 == scene.controller.unused_additions


def test_additions_count_as_long_as_objects_have_them() -> None:
    scene = Scene(level(wait_limit="5s"), schema())
    assert 5 * S == scene.level("a").longest_wait_ns(1 << 62)
    assert 1 * S == scene.level("a").longest_wait_ns(4 * S)
    assert 5 * S == scene.level("a").longest_wait_ns(4 * S, is_in_all=False)
    scene.commit(*BANNED)
    found = scene.classify()
    assert found.limits is not None
    assert found.limits.is_ban
    assert "" == found.flow.distinguisher
    scene.commit(level(), schema())

    found = scene.classify()
    assert (None, 60 * S) == (found.limits, found.level.longest_wait_ns(1 << 62))


def test_flows_with_long_names_are_not_remembered() -> None:
    """A URL can name any namespace, so what is remembered is bounded in bytes, too."""
    classify = Scene(level(), schema(distinguisher="group")).controller.classify
    long, short = user("alice", "t" * 257), user("alice", "t" * 256)
    assert [False, True] == [classify(u, GET_POD) is classify(u, GET_POD) for u in (long, short)]
    assert classify(long, GET_POD).flow.hash == classify(long, GET_POD).flow.hash


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([level(), schema()], id="without-a-limit"),
        pytest.param([schema(long_running_limit="2")], id="dangling"),
    ],
)
def test_long_running_requests_count_whatever_comes_between(
    between: list[FlowControlObject],
) -> None:
    objects: list[FlowControlObject] = [level(), schema(long_running_limit="2")]
    scene = Scene(*objects)
    limits = scene.classify("alice").limits
    assert limits is not None
    for _ in range(2):
        assert limits.refusal("alice", 0, is_long_running=True) is None
    scene.commit(*between)
    scene.commit(*objects)

    assert limits is scene.classify("alice").limits
    assert limits.refusal("alice", 0, is_long_running=True) is not None


@pytest.mark.parametrize(
    ("queues", "additions", "expected"),
    [
        pytest.param(0, {}, "", id="no-queues"),
        pytest.param(1, {}, "", id="one-queue"),
        pytest.param(2, {}, "alice", id="none"),
        pytest.param(4, {"distinguisher": "group"}, "team-a", id="group"),
        pytest.param(1, {"distinguisher": "group"}, "", id="group-without-flows"),
        pytest.param(4, {"distinguisher": "header:X-Tenant"}, "x-tenant!", id="header"),
        pytest.param(4, {"distinguisher": "user-agent"}, "user-agent!", id="user-agent"),
        pytest.param(1, {"request_rate": "5"}, "alice", id="rate-at-one-queue"),
        pytest.param(1, {"long_running_limit": "5"}, "alice", id="cap-at-one-queue"),
        pytest.param(1, {"bytes_per_second": "5k"}, "alice", id="bytes-at-one-queue"),
        pytest.param(0, {"flow_requests_limit": "5"}, "alice", id="cap-without-queues"),
        (1, {"request_rate": "5", "distinguisher": "group"}, "team-a"),
    ],
)
def test_flows_are_told_apart_where_that_makes_a_difference(
    queues: int, additions: dict[str, str], expected: str
) -> None:
    controller = Scene(level_object("a", queues=queues), schema(**additions)).controller
    found = controller.classify(ALICE, GET_POD, lambda name: f"{name}!")
    assert expected == found.flow.distinguisher
    if expected == "team-a":
        assert found.flow is controller.classify(BOB, GET_POD).flow


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
