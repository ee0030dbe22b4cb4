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
from apfproxy.objects.decode import suggested_objects
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
from tests.admin.scene import Scene
from tests.support.builders import (
    EVERY_RESOURCE,
    EVERY_URL,
    flow_schema,
    group_subject,
    priority_level,
    user_subject,
)
from tests.support.clocks import VirtualClock
from tests.support.objects import bootstrap_objects

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


def reached(
    rules: PolicyRulesWithSubjects, *, knows_users: bool = True, is_plain: bool = True
) -> bool:
    level = PriorityLevelConfigurationReference(name="level")
    schema = FlowSchema(spec=FlowSchemaSpec(priority_level_configuration=level, rules=(rules,)))
    found = reachable_levels([schema], knows_users=knows_users, is_plain=is_plain)
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
    rules = PolicyRulesWithSubjects(subjects=(subject,), non_resource_rules=(EVERY_URL,))

    assert expected == reached(rules, knows_users=False)
    assert reached(rules, knows_users=True)
    resources = PolicyRulesWithSubjects(subjects=(subject,), resource_rules=(EVERY_RESOURCE,))
    assert reached(resources, is_plain=False)
    assert not reached(resources)  # plain APIs have none
    assert not reached(PolicyRulesWithSubjects(subjects=(subject,)), is_plain=False)


def test_built_in_objects() -> None:
    schemas = [each for each in suggested_objects() if isinstance(each, FlowSchema)]

    assert {"exempt", "global-default"} == reachable_levels(
        schemas, knows_users=False, is_plain=False
    )
    plain = [each for each in HTTP.suggested_objects() if isinstance(each, FlowSchema)]
    assert {"health", "default", "batch", "background"} == reachable_levels(
        plain, knows_users=False, is_plain=True
    )


ROUNDED = "the shares buy less than one seat, which is rounded up; 25 are enough"


def test_shortfalls() -> None:
    lent = (
        "by rounding all may be lent, so that the limit is 0 while the level is idle; 13 are enough"
    )
    apart = "25 are enough, or give them an apfproxy.io/priority"
    few, differ = "8 seats are too few ", "their shares differ, and each"

    assert [
        f"{few}for global-default, workload-low: {lent}",
        f"{few}for global-default, leader-election, system: {ROUNDED}",
        f"{few}to tell system, global-default, leader-election apart: {differ} has 1 seat; {apart}",
    ] == shortfalls(summary_of(*bootstrap_objects(), seats=8))
    assert [
        f"13 seats are too few for leader-election: {ROUNDED}",
        f"13 seats are too few to tell system, global-default apart: {differ} has 2 seats; {apart}",
    ] == shortfalls(summary_of(*bootstrap_objects(), seats=13))
    assert all(
        each.startswith("1 seat is")
        for each in shortfalls(summary_of(*bootstrap_objects(), seats=1))
    )
    assert [] == shortfalls(summary_of(*bootstrap_objects(), seats=25))


def test_levels_with_a_priority_are_not_alike() -> None:
    summary = summary_of(*HTTP.objects(), seats=4)
    assert {"interactive": 300, "default": 200, "batch": 100, "background": 50} == {
        level.name: level.priority for level in summary.levels if level.priority is not None
    }
    assert [f"4 seats are too few for health: {ROUNDED.replace('25', '20')}"] == shortfalls(summary)


def test_named_objects() -> None:
    queuing = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=50)
    queued = priority_level("queued", shares=95, queuing=queuing)
    users = flow_schema("users", "queued", group_subject("users"))
    given = FlowSchema(metadata=ObjectMeta(name="given", uid="u-1"), spec=users.spec)
    lost = flow_schema("lost", "nowhere", group_subject("users"))
    scene = Scene((queued, priority_level("strict", shares=5), users, given, lost), 40)
    precedence = f"matching precedence {users.spec.matching_precedence}, leads to priority level"
    found = list(named_objects(scene.controller))

    assert [
        (PRIORITY_LEVEL, "catch-all", "nominally 2 seats, rejects what does not fit"),
        (PRIORITY_LEVEL, "exempt", "exempt: its requests are never limited"),
        (PRIORITY_LEVEL, "queued", "nominally 37 seats, 8 queues"),
        (PRIORITY_LEVEL, "strict", "nominally 2 seats, rejects what does not fit"),
        (FLOW_SCHEMA, "catch-all", "matching precedence 10000, leads to priority level catch-all"),
        (FLOW_SCHEMA, "exempt", "matching precedence 1, leads to priority level exempt"),
        (FLOW_SCHEMA, "given", f"{precedence} queued"),
        (FLOW_SCHEMA, "lost", "not used: its priority level nowhere does not exist"),
        (FLOW_SCHEMA, "users", f"{precedence} queued"),
    ] == sorted(
        [(each.kind, each.name, each.what) for each in found],
        key=lambda each: each[0] == FLOW_SCHEMA,
    )
    assert ["given"] == [each.name for each in with_uid(found, "u-1")]
    assert ["users"] == [each.name for each in with_uid(found, stable_uid(users))]
    assert [] == with_uid(found, "nobody's")

    level = scene.controller.levels["queued"]
    for _ in range(2):
        scene.ticket("ann", group="users")
    (now,) = with_uid(named_objects(scene.controller), level.uid)
    use = f"now 2 of {level.current_limit} seats in use, requests that wait: 0"
    assert f"nominally 37 seats, 8 queues; {use}" == now.what
    again = type(queued)(metadata=ObjectMeta(name="queued", uid="u-2"), spec=queued.spec)
    scene.controller.commit(scene.controller.digest((again, users)))
    assert level is scene.controller.levels["queued"]
    assert "u-2" == level.uid
    scene.controller.commit(scene.controller.digest(()))
    (gone,) = with_uid(named_objects(scene.controller), "u-2")
    assert ("queued", "its object is gone; it ends its last requests") == (gone.name, gone.what)
