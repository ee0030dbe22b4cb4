"""Tests of which levels requests can come to."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.level_summary import reachable_levels
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.objects.bootstrap import suggested_objects
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationReference,
    ServiceAccountSubject,
    Subject,
)
from loadtest.objects import EVERY_RESOURCE, EVERY_URL, group_subject, user_subject

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
