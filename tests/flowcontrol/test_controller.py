"""Tests of reconfiguration, classification and the adjustment of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apfproxy.flowcontrol import controller as controller_module
from apfproxy.flowcontrol.controller import Checked, Classification, Controller, Route
from apfproxy.flowcontrol.limits import ADJUSTMENT_PERIOD_S
from apfproxy.flowcontrol.queue_set import ONE_SEAT, RejectReason, Ticket, WorkEstimate
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    FlowControlObject,
    FlowSchema,
    ObjectMeta,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    stable_uid,
)
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from loadtest.objects import flow_schema, priority_level, user_subject
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from apfproxy.flowcontrol.meters import FlowSchemaCounters

PERIOD_NS = ADJUSTMENT_PERIOD_S * 1_000_000_000
GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")


def user(name: str) -> User:
    return User(name, (AUTHENTICATED_GROUP,))


def level_object(
    name: str, shares: int = 10, queues: int = 4, lendable: int = 0, borrowing: int | None = None
) -> PriorityLevelConfiguration:
    """A limited level; one without queues rejects."""
    queuing = QueuingConfiguration(queues=queues, hand_size=1, queue_length_limit=3)
    return priority_level(
        name,
        shares=shares,
        queuing=queuing if queues else None,
        lendable_percent=lendable,
        borrowing_limit_percent=borrowing,
    )


def schema_object(
    name: str, level: str, method: str | None = "ByUser", user_name: str = "*", uid: str = ""
) -> FlowSchema:
    """A FlowSchema that matches all that one user asks."""
    return flow_schema(
        name, level, user_subject(user_name), uid=uid, precedence=500, distinguish_by=method
    )


def controller_of(*objects: FlowControlObject, server_limit: int = 30) -> Controller:
    """A controller at virtual time zero with those objects and the mandatory ones."""
    controller = Controller(VirtualClock(), server_limit, 0)
    controller.commit(controller.digest(objects))
    return controller


def admit(
    controller: Controller, found: Classification, dispatched: list[Ticket] | None = None
) -> Ticket:
    """Admit a request of one seat; it must not be rejected."""
    told: list[Ticket] = [] if dispatched is None else dispatched
    ticket = found.level.queue_set.admit(found.flow, ONE_SEAT, told.append)
    assert isinstance(ticket, Ticket), controller
    return ticket


def test_digest_touches_nothing() -> None:
    controller = controller_of(level_object("a"), schema_object("s", "a"))
    before = controller.classify(user("u"), GET_POD)

    digest = controller.digest([level_object("b"), schema_object("s", "b")])

    assert {"exempt", "catch-all", "a"} == controller.levels.keys()
    assert before is controller.classify(user("u"), GET_POD)
    controller.commit(digest)
    assert {"exempt", "catch-all", "b"} == controller.levels.keys()
    assert "b" == controller.classify(user("u"), GET_POD).level.name
    assert before.generation + 1 == controller.generation


def test_dangling_flow_schemas_are_reported_and_not_used() -> None:
    """A schema of a level that does not exist does not match; it does when the level comes."""
    controller = Controller(VirtualClock(), 30, 0)
    schema = schema_object("lost", "nowhere")

    digest = controller.digest([schema])
    controller.commit(digest)

    expected = (
        "FlowSchema 'lost': spec.priorityLevelConfiguration.name: there is no usable"
        " PriorityLevelConfiguration 'nowhere'; the FlowSchema is not used"
    )
    assert (expected,) == digest.problems
    assert {"lost": "nowhere"} == controller.in_force.dangling
    assert "catch-all" == controller.classify(user("u"), GET_POD).level.name
    controller.commit(controller.digest([schema, level_object("nowhere")]))
    assert {} == controller.in_force.dangling
    assert "nowhere" == controller.classify(user("u"), GET_POD).level.name


def test_a_second_object_of_a_name_is_reported() -> None:
    controller = Controller(VirtualClock(), 30, 0)

    digest = controller.digest([level_object("good"), level_object("good", shares=99)])
    controller.commit(digest)

    start = "PriorityLevelConfiguration 'good': metadata.name: there are several of this name;"
    assert [True] == [line.startswith(start) for line in digest.problems]
    assert (20, 10) == (
        controller.levels["good"].nominal_limit,
        controller.levels["catch-all"].nominal_limit,
    )


def test_the_exempt_level_may_have_shares() -> None:
    """All that an administrator can set of the mandatory objects is what exempt gets and lends."""
    exempt = PriorityLevelConfiguration(
        metadata=ObjectMeta(name="exempt", uid="mine"),
        spec=PriorityLevelConfigurationSpec(
            type="Exempt",
            exempt=ExemptPriorityLevelConfiguration(
                nominal_concurrency_shares=5, lendable_percent=40
            ),
        ),
    )

    level = controller_of(exempt).levels["exempt"]

    assert (15, 9, 45, "mine") == (
        level.nominal_limit,
        level.lower_limit,
        level.upper_limit,
        stable_uid(level.configuration),
    )


def test_a_level_that_stays_keeps_its_requests() -> None:
    controller = controller_of(level_object("a", shares=1), schema_object("s", "a"))
    level = controller.levels["a"]
    found = controller.classify(user("u"), GET_POD)
    dispatched: list[Ticket] = []
    tickets = [admit(controller, found, dispatched) for _ in range(level.current_limit + 2)]
    assert 2 == level.queue_set.requests_waiting

    controller.commit(controller.digest([level_object("a", 100, 8), schema_object("s", "a")]))

    assert level is controller.levels["a"]
    assert tickets[-2:] == dispatched
    assert (0, len(tickets), 8) == (
        level.queue_set.requests_waiting,
        level.queue_set.seats_in_use,
        level.queue_set.config.queues,
    )


def test_a_level_that_goes_drains_first() -> None:
    """Quiescing, it serves who waits and takes no one; idle, it disappears."""
    controller = controller_of(level_object("a", shares=1), schema_object("s", "a"))
    level = controller.levels["a"]
    found = controller.classify(user("u"), GET_POD)
    dispatched: list[Ticket] = []
    tickets = [admit(controller, found, dispatched) for _ in range(level.current_limit + 1)]

    controller.commit(controller.digest(()))

    assert level.is_quiescing
    assert level is controller.levels["a"]
    assert 1 <= level.nominal_limit
    assert "catch-all" == controller.classify(user("u"), GET_POD).level.name
    for ticket in tickets:
        level.queue_set.finish(ticket)
    assert tickets[-1:] == dispatched
    controller.adjust_limits()
    assert {"exempt", "catch-all"} == controller.levels.keys()
    assert 30 == controller.levels["catch-all"].nominal_limit


def test_a_level_that_comes_back_revives() -> None:
    objects = level_object("a"), schema_object("s", "a")
    controller = controller_of(*objects)
    level = controller.levels["a"]
    ticket = admit(controller, controller.classify(user("u"), GET_POD))
    controller.commit(controller.digest(()))

    controller.commit(controller.digest(objects))

    assert level is controller.levels["a"]
    assert not level.is_quiescing
    assert level is controller.classify(user("u"), GET_POD).level
    level.queue_set.finish(ticket)
    assert level.queue_set.is_idle


def test_another_number_of_seats() -> None:
    """Requests go on: those that wait get new seats, and those that execute lose none."""
    controller = controller_of(
        level_object("a", shares=95), schema_object("s", "a"), server_limit=2
    )
    level = controller.levels["a"]
    found = controller.classify(user("alice"), GET_POD)
    tickets = [admit(controller, found) for _ in range(4)]
    before = [ticket.is_executing for ticket in tickets]
    controller.resize(4)

    assert [True, True, False, False] == before
    assert [True] * 4 == [ticket.is_executing for ticket in tickets]
    assert (4, 4) == (controller.server_concurrency_limit, level.nominal_limit)

    controller.resize(1)
    assert (1, 4) == (level.nominal_limit, level.queue_set.seats_in_use)


def test_adjust_limits_follows_demand() -> None:
    busy = level_object("busy", 5, lendable=50)
    quiet = level_object("quiet", 5, lendable=50)
    controller = controller_of(busy, quiet, schema_object("s", "busy"))
    clock = controller_clock(controller)
    level = controller.levels["busy"]
    assert (10, 5, 8) == (level.nominal_limit, level.lower_limit, level.current_limit)
    found = controller.classify(user("u"), GET_POD)
    dispatched: list[Ticket] = []
    tickets = [admit(controller, found, dispatched) for _ in range(10)]

    clock.run_until(PERIOD_NS)
    controller.adjust_limits()

    assert tickets[-2:] == dispatched
    assert (10.0, 12, 6) == (
        level.target,
        level.current_limit,
        controller.levels["quiet"].current_limit,
    )
    assert pytest.approx(30 / 25) == controller.seat_fair_frac


def controller_clock(controller: Controller) -> VirtualClock:
    """The clock of a controller made by `controller_of`."""
    clock = controller._clock  # noqa: SLF001  the test's own clock
    assert isinstance(clock, VirtualClock)
    return clock


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        (None, b"/api/v1/namespaces/n/pods", ""),
        ("ByUser", b"/api/v1/namespaces/n/pods", "u"),
        ("ByUser", b"/healthz", "u"),
        ("ByNamespace", b"/api/v1/namespaces/n/pods", "n"),
        ("ByNamespace", b"/api/v1/pods", ""),
        ("ByNamespace", b"/healthz", ""),
    ],
)
def test_distinguisher(method: str | None, target: bytes, expected: str) -> None:
    """Flows are told apart by user or namespace, or not at all."""
    controller = controller_of(level_object("a"), schema_object("s", "a", method))

    found = controller.classify(user("u"), parse_attributes("GET", target))

    assert ("s", expected) == (found.flow_schema.metadata.name, found.flow.distinguisher)


def test_classification_names_uids() -> None:
    """An object's own uid, or one made from its name."""
    schema = schema_object("s", "a", uid="schema-uid")
    controller = controller_of(level_object("a"), schema)

    found = controller.classify(user("u"), GET_POD)

    assert "schema-uid" == found.flow_schema_uid
    assert (
        stable_uid(PriorityLevelConfiguration(metadata=ObjectMeta(name="a")))
        == found.priority_level_uid
    )
    assert schema == found.flow_schema


@pytest.mark.parametrize(
    ("queues", "distinguisher"),
    [pytest.param(0, "", id="none"), pytest.param(1, "", id="one"), pytest.param(2, "u", id="two")],
)
def test_flows_need_queues(queues: int, distinguisher: str) -> None:
    """One queue is every flow's; kubernetes/apiserver pkg/util/flowcontrol/apf_controller.go."""
    controller = controller_of(level_object("a", queues=queues), schema_object("s", "a"))

    found = controller.classify(user("u"), GET_POD)

    assert distinguisher == found.flow.distinguisher


def test_a_flow_outlives_reconfiguration() -> None:
    """It keeps its counters and its hand as long as its schema keeps its level."""
    objects = level_object("a"), level_object("b")
    controller = controller_of(*objects, schema_object("s", "a"))
    before = controller.classify(user("u"), GET_POD)

    controller.commit(controller.digest([*objects, schema_object("s", "a", uid="new")]))
    same = controller.classify(user("u"), GET_POD)
    controller.commit(controller.digest([*objects, schema_object("s", "b")]))
    moved = controller.classify(user("u"), GET_POD)

    assert before.flow is same.flow
    assert "new" == same.flow_schema_uid
    assert before.flow is not moved.flow
    assert before.flow.hash == moved.flow.hash
    assert ("b", "s") == (moved.flow.counters.priority_level, moved.flow.counters.flow_schema)


def test_hashes_depend_on_the_seed() -> None:
    hashes = {
        Controller(VirtualClock(), 30, seed).classify(user("u"), GET_POD).flow.hash
        for seed in range(8)
    }

    assert 8 == len(hashes)


def test_the_older_half_of_many_flows_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "MAX_KEPT_CLASSIFICATIONS", 4)
    controller = controller_of(level_object("a"), schema_object("s", "a"))
    found = [controller.classify(user(str(index)), GET_POD) for index in range(5)]

    kept = [controller.classify(user(str(index)), GET_POD) is found[index] for index in (2, 3, 4)]

    assert [True, True, True] == kept
    assert found[0] is not controller.classify(user("0"), GET_POD)
    assert found[0].flow.hash == controller.classify(user("0"), GET_POD).flow.hash


def test_counters_stay_when_objects_go() -> None:
    """What counted something is kept and used again; what did not goes with its route."""
    objects = level_object("a"), schema_object("s", "a"), schema_object("t", "a")
    controller = controller_of(*objects)
    found = controller.classify(user("u"), GET_POD)
    found.level.queue_set.finish(admit(controller, found))

    controller.commit(controller.digest(()))

    kept = {(counters.priority_level, counters.flow_schema) for counters in counters_of(controller)}
    assert {("a", "s")} == kept
    controller.commit(controller.digest(objects))
    again = controller.classify(user("u"), GET_POD)
    assert found.flow.counters is again.flow.counters
    assert 1 == again.flow.counters.dispatched


def counters_of(controller: Controller) -> list[FlowSchemaCounters]:
    return list(controller.flow_schema_counters())


def test_work_estimates_are_bounded_where_there_are_queues() -> None:
    """A level that turns from queuing to rejecting takes its bound away."""
    controller = controller_of(level_object("a"))
    assert 3 == controller.levels["a"].max_seats

    controller.commit(controller.digest([level_object("a", queues=0)]))

    assert 0 == controller.levels["a"].max_seats


class Reconfiguration(RuleBasedStateMachine):
    """Requests come and go while objects do; no seat is lost and nothing raises."""

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
                st.sampled_from((None, "ByUser", "ByNamespace")),
                st.sampled_from("uv*"),
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
        """Lend idle seats in the one way or the other."""
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
        """Levels hold exactly the requests that have not ended."""
        levels = self.controller.levels.values()
        known = {id(level) for level in levels}
        assert all(id(found.level) in known for found, _ in self.tickets)
        executing = sum(ticket.is_executing for _, ticket in self.tickets)
        assert executing == sum(level.queue_set.requests_executing for level in levels)
        waiting = len(self.tickets) - executing
        assert waiting == sum(level.queue_set.requests_waiting for level in levels)

    @invariant()
    def limits_are_in_bounds(self) -> None:
        """No seat of the server is lost, and no level leaves its bounds."""
        assert self.controller.server_concurrency_limit <= self.controller.executing_limit
        for level in self.controller.levels.values():
            assert level.current_limit == level.queue_set.concurrency_limit
            assert level.lower_limit <= level.current_limit
            assert level.is_exempt or level.current_limit <= level.upper_limit
        assert {"exempt", "catch-all"} <= self.controller.levels.keys()

    def teardown(self) -> None:
        """When all have ended and lingered, all seats are back."""
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
    controller = Controller(VirtualClock(), 600, 0)

    denominators = {
        name: level.queue_set.meter.seats_in_use.denominator
        for name, level in controller.levels.items()
    }

    assert {"exempt": 60, "catch-all": controller.levels["catch-all"].current_limit} == denominators


def test_what_no_request_used_has_no_counters() -> None:
    controller = controller_of(level_object("a"), schema_object("s", "a"), schema_object("t", "a"))
    assert [] == counters_of(controller)

    found = controller.classify(user("u"), GET_POD)

    assert [found.flow.counters] == counters_of(controller)
    assert ("a", "s") == (found.flow.counters.priority_level, found.flow.counters.flow_schema)
    assert found.flow.counters is controller.classify(user("v"), GET_POD).flow.counters


@pytest.mark.interpreted
def test_only_what_changed_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand objects that come again, equal or the very same, one that changed is checked.

    The same goes for what a commit makes of them.
    """
    objects = [schema_object(f"s-{number}", "a", user_name=f"u-{number}") for number in range(1000)]
    controller = controller_of(level_object("a"), *objects)
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
    objects[:500] = [
        schema_object(f"s-{number}", "a", user_name=f"u-{number}") for number in range(500)
    ]
    objects[7] = schema_object("s-7", "a", user_name="other")
    controller.commit(controller.digest([level_object("a"), *objects]))

    assert ["s-7"] == checked == routed
    assert "s-7" == controller.classify(user("other"), GET_POD).flow_schema.metadata.name
    assert "s-8" == controller.classify(user("u-8"), GET_POD).flow_schema.metadata.name


def test_a_digest_makes_new_levels_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit makes no queues; only one that comes twice, of levels that went since, has to."""
    controller = controller_of()
    digest = controller.digest([level_object("a"), schema_object("s", "a")])
    made = digest.new_levels["a"]

    with monkeypatch.context() as patch:
        patch.setattr(controller_module, "QueueSet", None)
        controller.commit(digest)
    assert made is controller.levels["a"]
    controller.commit(controller.digest(()))
    controller.commit(digest)

    assert made is not controller.levels["a"]
    assert "a" == controller.classify(user("u"), GET_POD).level.name
