"""Tests of the summary of levels, of those that can be reached, and of objects by UID."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.level_summary import (
    FLOW_SCHEMA,
    PRIORITY_LEVEL,
    LevelsSummary,
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
    FlowControlObject,
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
from tests.admin.scene import Scene
from tests.support.clocks import VirtualClock

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


def summary_of(*objects: FlowControlObject, seats: int, knows_users: bool = True) -> LevelsSummary:
    controller = Controller(VirtualClock(), seats, 0)
    controller.commit(controller.digest(objects))
    return summarize_levels(controller, knows_users=knows_users)


def test_levels_and_sums() -> None:
    limited = priority_level(
        "b", shares=15, queuing=QUEUING, lendable_percent=50, borrowing_limit_percent=20
    )
    other = priority_level("a", shares=20, borrowing_limit_percent=None)
    summary = summary_of(limited, other, seats=100)

    assert ["a", "b", "catch-all", "exempt"] == [level.name for level in summary.levels]
    first, second, _, exempt = summary.levels
    assert (50, 0, 100, 150) == (first.nominal, first.lendable, first.borrowing, first.maximum)
    expected = LevelSummary("b", "Limited", False, 15, 50, 20, 38, 19, 8, 19, 46, 23, 0, False)
    assert expected == second
    assert ("Exempt", None, None) == (exempt.type, exempt.borrowing, exempt.maximum)
    current = sum(level.current for level in summary.levels)
    assert Sums(40, 101, 19, 82, current, 0) == summary.sums
    assert 100 == summary.server_concurrency_limit


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
    assert expected == shortfalls(summary_of(*bootstrap_objects(), seats=seats))


def test_levels_with_a_priority_are_not_alike() -> None:
    summary = summary_of(*HTTP.objects(), seats=4)

    assert {"interactive": 300, "default": 200, "batch": 100, "background": 50} == {
        level.name: level.priority for level in summary.levels if level.priority is not None
    }
    assert [f"4 seats are too few for health: {ROUNDED.replace('25', '20')}"] == shortfalls(summary)


def test_seats_that_levels_keep_for_nobody() -> None:
    assert kept_for_nobody(summary_of(*bootstrap_objects(), seats=20)) is None
    kept, lent = (priority_level(str(part), shares=5, lendable_percent=part) for part in (0, 100))
    for objects, knows_users, start in (
        (
            bootstrap_objects(),
            False,
            "leader-election, node-high, system, workload-high",
        ),
        ((kept, lent), True, "0 keeps 7 of the server's 20 seats, "),
    ):
        found = kept_for_nobody(summary_of(*objects, seats=20, knows_users=knows_users))
        assert found is not None
        assert found.startswith(start)


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


def test_what_becomes_of_objects() -> None:
    scene = scene_of(SCHEMA, flow_schema("lost", "nowhere", group_subject("users")))
    for _ in range(2):
        scene.ticket("ann", group="users")
    limit = scene.controller.levels["queued"].current_limit
    found = {each.name: each.what for each in named_objects(scene.controller)}

    assert "not used: its priority level nowhere does not exist" == found["lost"]
    assert (
        f"nominally 37 seats, 8 queues; now 2 of {limit} seats in use, requests that wait: 0"
        == found["queued"]
    )


def test_quiescing() -> None:
    scene = scene_of(SCHEMA)
    uid = scene.controller.levels["queued"].uid
    scene.ticket("ann", group="users")
    scene.controller.commit(scene.controller.digest(()))

    assert [("queued", "its object is gone; it ends its last requests")] == [
        (each.name, each.what) for each in with_uid(named_objects(scene.controller), uid)
    ]


def test_objects_are_found_by_uid() -> None:
    given = FlowSchema(metadata=ObjectMeta(name="given", uid="u-1"), spec=SCHEMA.spec)
    scene = scene_of(SCHEMA, given)
    found = list(named_objects(scene.controller))

    assert ["given"] == [each.name for each in with_uid(found, "u-1")]
    assert ["users"] == [each.name for each in with_uid(found, stable_uid(SCHEMA))]
    assert [] == with_uid(found, "nobody's")


def test_uid_follows_the_object() -> None:
    scene = scene_of(SCHEMA)
    level = scene.controller.levels["queued"]
    again = priority_level("queued", shares=95, queuing=SHORT_QUEUES)
    again = type(again)(metadata=ObjectMeta(name="queued", uid="u-2"), spec=again.spec)
    scene.controller.commit(scene.controller.digest((again, SCHEMA)))

    assert level is scene.controller.levels["queued"]
    assert "u-2" == level.uid
