"""Tests of the summary of levels, of those that can be reached, and of objects by UID."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.level_summary import (
    FLOW_SCHEMA,
    PRIORITY_LEVEL,
    LevelSummary,
    Sums,
    kept_for_nobody,
    named_objects,
    reachable_levels,
    shortfalls,
    summarize_levels,
    with_uid,
)
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.objects.decode import bootstrap_objects, suggested_objects
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    ObjectMeta,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationReference,
    QueuingConfiguration,
    ServiceAccountSubject,
    Subject,
    stable_uid,
)
from loadtest.objects import (
    EVERY_RESOURCE,
    EVERY_URL,
    flow_schema,
    group_subject,
    priority_level,
    user_subject,
)
from tests.observe.scene import Scene
from tests.virtual_clock import VirtualClock

SMALL = "global-default, leader-election, system"
ALL_SMALL = "global-default, leader-election, node-high, system, workload-high, workload-low"
ALL_LENT = "global-default, workload-high, workload-low"
LENT = "by rounding all may be lent, so that the limit is 0 while the level is idle"
ROUNDED = "the shares buy less than one seat, which is rounded up; 25 are enough"
BY_SHARES = "workload-low, node-high, workload-high, system, global-default, leader-election"
SMALLER = "system, global-default, leader-election"
OF_TWO_SEATS = (
    "their shares differ, and each has 2 seats; 25 are enough, or give them an apfproxy.io/priority"
)
ALIKE = (
    "their shares differ, and each has 1 seat; 25 are enough, or give them an apfproxy.io/priority"
)
QUEUING = QueuingConfiguration(queues=4, hand_size=2, queue_length_limit=5)


def test_levels_and_sums() -> None:
    """Each level has its shares and bounds, in the order of names; the sums are over all."""
    controller = Controller(VirtualClock(), 100, 0)
    limited = priority_level(
        "b", shares=15, queuing=QUEUING, lendable_percent=50, borrowing_limit_percent=20
    )
    controller.commit(
        controller.digest([limited, priority_level("a", shares=20, borrowing_limit_percent=None)])
    )
    summary = summarize_levels(controller)

    assert ["a", "b", "catch-all", "exempt"] == [level.name for level in summary.levels]
    first, second, _, exempt = summary.levels
    assert (50, 0, 100, 150) == (first.nominal, first.lendable, first.borrowing, first.maximum)
    expected = LevelSummary(
        name="b",
        type="Limited",
        is_quiescing=False,
        shares=15,
        lendable_percent=50,
        borrowing_limit_percent=20,
        nominal=38,
        lendable=19,
        borrowing=8,
        minimum=19,
        maximum=46,
        current=controller.levels["b"].current_limit,
        seats_in_use=0,
        is_reachable=False,
    )
    assert expected == second
    assert ("Exempt", None, None) == (exempt.type, exempt.borrowing, exempt.maximum)
    current = sum(level.current_limit for level in controller.levels.values())
    assert summary.sums == Sums(
        shares=40, nominal=101, lendable=19, minimum=82, current=current, seats_in_use=0
    )
    assert summary.server_concurrency_limit == 100


@pytest.mark.parametrize(
    ("seats", "expected"),
    [
        pytest.param(
            1,
            [
                f"1 seat is too few for {ALL_LENT}: {LENT}; 13 are enough",
                f"1 seat is too few for {ALL_SMALL}: {ROUNDED}",
                f"1 seat is too few to tell {BY_SHARES} apart: {ALIKE}",
            ],
            id="one",
        ),
        pytest.param(
            8,
            [
                f"8 seats are too few for global-default, workload-low: {LENT}; 13 are enough",
                f"8 seats are too few for {SMALL}: {ROUNDED}",
                f"8 seats are too few to tell {SMALLER} apart: {ALIKE}",
            ],
            id="far-too-few",
        ),
        pytest.param(
            13,
            [
                f"13 seats are too few for leader-election: {ROUNDED}",
                f"13 seats are too few to tell system, global-default apart: {OF_TWO_SEATS}",
            ],
            id="too-few-for-small-levels",
        ),
        pytest.param(25, [], id="enough"),
    ],
)
def test_shortfalls(seats: int, expected: list[str]) -> None:
    """Which levels have too little is told, and how many seats would do."""
    controller = Controller(VirtualClock(), seats, 0)
    controller.commit(controller.digest(bootstrap_objects()))

    assert expected == shortfalls(summarize_levels(controller))


def test_levels_with_a_priority_are_not_alike() -> None:
    """What is less than a seat they have in turns, and in order."""
    controller = Controller(VirtualClock(), 4, 0)
    controller.commit(controller.digest(HTTP.objects()))
    summary = summarize_levels(controller)

    assert {"interactive": 300, "default": 200, "batch": 100, "background": 50} == {
        level.name: level.priority for level in summary.levels if level.priority is not None
    }
    assert [f"4 seats are too few for health: {ROUNDED.replace('25', '20')}"] == shortfalls(summary)


@pytest.mark.parametrize(
    ("seats", "knows_users", "expected"),
    [
        (20, True, None),
        (
            20,
            False,
            "leader-election, node-high, system, workload-high, workload-low keep 9 of the",
        ),
    ],
)
def test_kept_for_nobody(seats: int, expected: str | None, *, knows_users: bool) -> None:
    """What levels that no request can come to do not lend is told, and what to do."""
    controller = Controller(VirtualClock(), seats, 0)
    controller.commit(controller.digest(bootstrap_objects()))

    found = kept_for_nobody(summarize_levels(controller, knows_users=knows_users))

    assert (found is None) is (expected is None)
    assert (found or "").startswith(expected or "")


def test_one_level_keeps_seats_for_nobody() -> None:
    """In the singular; one that lends all keeps none."""
    controller = Controller(VirtualClock(), 20, 0)
    levels = [
        priority_level("kept", shares=5),
        priority_level("lent", shares=5, lendable_percent=100),
    ]
    controller.commit(controller.digest(levels))

    found = kept_for_nobody(summarize_levels(controller))

    assert found is not None
    assert found.startswith("kept keeps 7 of the server's 20 seats, ")


ACCOUNT = Subject(
    kind="ServiceAccount", service_account=ServiceAccountSubject(namespace="a", name="b")
)


def reached(subject: Subject, *, knows_users: bool) -> bool:
    """Whether a FlowSchema for a subject can match."""
    rule = PolicyRulesWithSubjects(
        subjects=(subject,), resource_rules=(), non_resource_rules=(EVERY_URL,)
    )
    level = PriorityLevelConfigurationReference(name="level")
    schema = FlowSchema(spec=FlowSchemaSpec(priority_level_configuration=level, rules=(rule,)))
    found = reachable_levels([schema], knows_users=knows_users, is_plain=True)
    return found == {"level"}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (user_subject("*"), True),
        (user_subject("system:anonymous"), True),
        (user_subject("header:a"), True),
        (user_subject("address:192.0.2.1"), True),
        (user_subject("alice"), False),
        (group_subject("*"), True),
        (group_subject("system:unauthenticated"), True),
        (group_subject("system:authenticated"), False),
        (ACCOUNT, False),
    ],
)
def test_clients_that_nobody_verifies(subject: Subject, *, expected: bool) -> None:
    """They have few names, and one group; verified ones may have any."""
    assert expected == reached(subject, knows_users=False)
    assert reached(subject, knows_users=True)


def test_built_in_objects() -> None:
    """Of Kubernetes' levels a proxy that knows nobody uses two."""
    schemas = [each for each in suggested_objects() if isinstance(each, FlowSchema)]

    assert {"exempt", "global-default"} == reachable_levels(
        schemas, knows_users=False, is_plain=False
    )
    plain = [each for each in HTTP.suggested_objects() if isinstance(each, FlowSchema)]
    assert {"health", "default", "batch", "background"} == reachable_levels(
        plain, knows_users=False, is_plain=True
    )


@pytest.mark.parametrize(("is_plain", "expected"), [(True, set()), (False, {"level"})])
def test_resources_of_plain_apis(expected: set[str], *, is_plain: bool) -> None:
    """There are none; and a rule without any rules matches nothing."""
    subjects = (user_subject("*"),)
    rules = (
        PolicyRulesWithSubjects(subjects=subjects),
        PolicyRulesWithSubjects(subjects=subjects, resource_rules=(EVERY_RESOURCE,)),
    )
    level = PriorityLevelConfigurationReference(name="level")
    schema = FlowSchema(spec=FlowSchemaSpec(priority_level_configuration=level, rules=rules))

    assert expected == reachable_levels([schema], knows_users=True, is_plain=is_plain)


SHORT_QUEUES = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=50)
SCHEMA = flow_schema("users", "queued", group_subject("users"))


def scene_of(*schemas: FlowSchema) -> Scene:
    """Two levels, `queued` and `strict`, and the mandatory ones."""
    levels = (
        priority_level("queued", shares=95, queuing=SHORT_QUEUES),
        priority_level("strict", shares=5),
    )
    return Scene((*levels, *schemas), 40)


def test_what_objects_are() -> None:
    scene = scene_of(SCHEMA)
    precedence = SCHEMA.spec.matching_precedence

    assert [
        (PRIORITY_LEVEL, "catch-all", "nominally 2 seats, rejects what does not fit"),
        (PRIORITY_LEVEL, "exempt", "exempt: its requests are never limited"),
        (PRIORITY_LEVEL, "queued", "nominally 37 seats, 8 queues"),
        (PRIORITY_LEVEL, "strict", "nominally 2 seats, rejects what does not fit"),
        (FLOW_SCHEMA, "catch-all", "matching precedence 10000, leads to priority level catch-all"),
        (FLOW_SCHEMA, "exempt", "matching precedence 1, leads to priority level exempt"),
        (FLOW_SCHEMA, "users", f"matching precedence {precedence}, leads to priority level queued"),
    ] == [(each.kind, each.name, each.what) for each in named_objects(scene.controller)]


def test_busy_level() -> None:
    scene = scene_of(SCHEMA)
    for _ in range(2):
        scene.ticket("ann", group="users")
    limit = scene.controller.levels["queued"].current_limit
    found = {(each.kind, each.name): each.what for each in named_objects(scene.controller)}

    assert (
        f"nominally 37 seats, 8 queues; now 2 of {limit} seats are in use, requests that wait: 0"
        == found[PRIORITY_LEVEL, "queued"]
    )


def test_dangling() -> None:
    scene = scene_of(flow_schema("lost", "nowhere", group_subject("users")))
    found = {each.name: each.what for each in named_objects(scene.controller)}

    assert "not used: its priority level nowhere does not exist" == found["lost"]


def test_quiescing() -> None:
    """A level whose object is gone has its UID until its last request has ended."""
    scene = scene_of(SCHEMA)
    uid = scene.controller.levels["queued"].uid
    scene.ticket("ann", group="users")
    scene.controller.commit(scene.controller.digest(()))

    assert [("queued", "its object is gone; it ends its last requests")] == [
        (each.name, each.what) for each in with_uid(named_objects(scene.controller), uid)
    ]


def test_uids_are_those_of_answers() -> None:
    """An object that a server gave a UID has that; any other has one of its kind and name."""
    given = FlowSchema(metadata=ObjectMeta(name="given", uid="u-1"), spec=SCHEMA.spec)
    scene = scene_of(SCHEMA, given)
    found = list(named_objects(scene.controller))
    answered = scene.ticket("ann", group="users")

    assert ["given"] == [each.name for each in with_uid(found, "u-1")]
    assert ["users"] == [each.name for each in with_uid(found, stable_uid(SCHEMA))]
    assert answered.flow.counters.flow_schema in {"users", "given"}
    assert [] == with_uid(found, "nobody's")


def test_uid_follows_the_object() -> None:
    """An object that is created anew has another UID, and its level is the same one."""
    scene = scene_of(SCHEMA)
    level = scene.controller.levels["queued"]
    again = priority_level("queued", shares=95, queuing=SHORT_QUEUES)
    again = type(again)(metadata=ObjectMeta(name="queued", uid="u-2"), spec=again.spec)
    scene.controller.commit(scene.controller.digest((again, SCHEMA)))

    assert level is scene.controller.levels["queued"]
    assert "u-2" == level.uid
