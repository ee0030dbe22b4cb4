"""Refused values: at which field and for which reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    ObjectMeta,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    ResourcePolicyRule,
)
from apfproxy.objects.validation import PRESERVE_ZERO, internal, validate
from tests.support.objects import (
    LIMITED,
    RESOURCE_RULE,
    URL_RULE,
    flow_schema,
    priority_level,
    queuing,
    rules,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "schema": ("spec", lambda fields: flow_schema(**fields)),
    "subject": ("spec.rules[0].subjects[0]", lambda fields: rules(subject=fields)),
    "resource": (
        "spec.rules[0].resourceRules[0]",
        lambda fields: rules(resource=RESOURCE_RULE | fields),
    ),
    "url": ("spec.rules[0].nonResourceRules[0]", lambda fields: rules(url=URL_RULE | fields)),
    "level": ("spec", lambda fields: priority_level(**fields)),
    "limited": ("spec.limited", lambda fields: priority_level(limited=LIMITED | fields)),
    "response": (
        "spec.limited.limitResponse",
        lambda fields: priority_level(limited={**LIMITED, "limitResponse": fields}),
    ),
    "queuing": ("spec.limited.limitResponse.queuing", lambda fields: queuing(**fields)),
}
"""By name, the path of a part of an object, and an object with these fields in that part."""

TABLE = """
schema {}
schema {matchingPrecedence: 10000}
schema {matchingPrecedence: -1} > invalid matchingPrecedence
schema {matchingPrecedence: 10001} > invalid matchingPrecedence
schema {matchingPrecedence: 1} > invalid matchingPrecedence
schema {distinguisherMethod: {type: ByNamespace}}
schema {distinguisherMethod: {}} > not_supported distinguisherMethod.type
schema {priorityLevelConfiguration: {}} > required priorityLevelConfiguration.name
schema {priorityLevelConfiguration: {name: No_Level}} > invalid priorityLevelConfiguration.name
schema {rules: []}
schema {rules: [{}]} > required rules[0] rules[0].subjects
schema {rules: [{subjects: [{kind: User, user: {name: a}}]}]} > required rules[0]
subject {kind: User, user: {name: '*'}}
subject {kind: Group, group: {name: g g}}
subject {kind: ServiceAccount, serviceAccount: {name: default, namespace: a}}
subject {kind: ''} > not_supported kind
subject {kind: Robot, user: {}, group: {}} > not_supported kind
subject {kind: User, user: {}} > required user.name
subject {kind: Group, group: {}} > required group.name
subject {kind: ServiceAccount} > required serviceAccount
subject {kind: Group, user: {name: u}, serviceAccount: {}} > required group; forbidden user serviceAccount
subject {kind: ServiceAccount, serviceAccount: {}} > required serviceAccount.name serviceAccount.namespace
subject {kind: ServiceAccount, serviceAccount: {name: a_b, namespace: a.b}} > invalid serviceAccount.name serviceAccount.namespace
resource {verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}
resource {namespaces: [], clusterScope: true}
resource {verbs: [], apiGroups: [], resources: [], namespaces: []} > required verbs apiGroups resources namespaces
resource {verbs: [bogus, '*'], apiGroups: ['*', '']} > invalid verbs apiGroups
resource {resources: [pods, '*'], namespaces: ['*', NOT CHECKED]} > invalid resources namespaces
resource {verbs: [get, GET]} > not_supported verbs
resource {namespaces: [a, '', a.b]} > invalid namespaces[1] namespaces[2]
url {verbs: ['*'], nonResourceURLs: ['*']}
url {nonResourceURLs: [/, '/*', '/a/*', /a/b]}
url {verbs: [], nonResourceURLs: []} > required verbs nonResourceURLs
url {nonResourceURLs: ['*', '']} > invalid nonResourceURLs
url {nonResourceURLs: ['', a, /a b, /a//b, //]} > invalid nonResourceURLs[0] nonResourceURLs[1] nonResourceURLs[2] nonResourceURLs[3] nonResourceURLs[4]
url {nonResourceURLs: ['/a*', '/*/*', '/a/*/b', '**', ' /a']} > invalid nonResourceURLs[0] nonResourceURLs[1] nonResourceURLs[2] nonResourceURLs[3] nonResourceURLs[4]
level {}
level {type: ''} > not_supported type
level {type: Some, limited: {}, exempt: {lendablePercent: -1}} > not_supported type
level {limited: ~} > required limited
level {exempt: {}} > forbidden exempt
level {type: Exempt, limited: ~, exempt: {}} > invalid type
level {type: Exempt, exempt: {nominalConcurrencyShares: -1, lendablePercent: 101}} > invalid type exempt.nominalConcurrencyShares exempt.lendablePercent; forbidden limited
limited {lendablePercent: 100, borrowingLimitPercent: 0, nominalConcurrencyShares: 0}
limited {nominalConcurrencyShares: -1, lendablePercent: -1, borrowingLimitPercent: -1} > invalid nominalConcurrencyShares lendablePercent borrowingLimitPercent
limited {lendablePercent: 101} > invalid lendablePercent
response {} > not_supported type
response {type: Drop, queuing: {queues: -1}} > not_supported type
response {type: Queue} > required queuing
response {type: Reject}
response {type: Reject, queuing: {queues: 16, handSize: 4, queueLengthLimit: 10}} > forbidden queuing
queuing {queues: 1024, handSize: 6}
queuing {queues: 10000000, handSize: 2}
queuing {queues: 10000001, handSize: 2} > invalid queues
queuing {queues: 2147483647, handSize: 3} > invalid queues handSize
queuing {queues: 1025, handSize: 6} > invalid handSize
queuing {queues: 7, handSize: 8} > invalid handSize
queuing {queues: 1, handSize: 1, queueLengthLimit: 1}
queuing {queues: -1, handSize: -1, queueLengthLimit: -1} > invalid queues handSize queueLengthLimit
"""  # noqa: E501  a case a line
"""A part and some of its fields, and behind `>` the fields that are refused by their reason."""


def errors_of(wire: dict[str, Any]) -> set[tuple[str, Reason]]:
    """Field and reason of all that is wrong."""
    found = read_object(wire)
    return {(error.field, error.reason) for error in found} if isinstance(found, list) else set()


def expected_of(text: str, at: str) -> set[tuple[str, Reason]]:
    return {
        (f"{at}.{field}", Reason[reason.upper()])
        for reason, fields in re.findall(r"(\w+) ([^;]+)", text)
        for field in fields.split()
    }


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_fields(row: str) -> None:
    given, _, expected = row.partition(" > ")
    kind, _, fields = given.partition(" ")
    at, make = KINDS[kind]
    assert expected_of(expected, at) == errors_of(make(yaml.safe_load(fields)))


MANDATORY: list[tuple[dict[str, Any], str]] = [
    (flow_schema("exempt"), "invalid spec"),
    (flow_schema("exempt", matchingPrecedence=1), "invalid spec"),
    (flow_schema("catch-all"), "invalid spec"),
    (priority_level("catch-all"), "invalid spec"),
    (priority_level("exempt"), "invalid spec spec.type"),
    (priority_level("exempt", type="Exempt"), "invalid spec; forbidden spec.limited"),
    (priority_level("exempt", type="Exempt", limited=None), ""),
    (
        priority_level(
            "exempt", type="Exempt", limited=None, exempt={"nominalConcurrencyShares": 7}
        ),
        "",
    ),
    (
        priority_level(
            "catch-all",
            limited=LIMITED | {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
        ),
        "",
    ),
]


@pytest.mark.parametrize(("wire", "expected"), MANDATORY)
def test_mandatory_objects_are_fixed(wire: dict[str, Any], expected: str) -> None:
    assert {(field[1:], why) for field, why in expected_of(expected, "")} == errors_of(wire)


def test_annotation_of_v1beta3_is_forbidden() -> None:
    wire = priority_level()
    wire["metadata"]["annotations"] = {PRESERVE_ZERO: ""}
    assert {("metadata.annotations", Reason.FORBIDDEN)} == errors_of(wire)


def test_fixed_values_are_told_as_go_has_them() -> None:
    level = PriorityLevelConfigurationSpec(
        type="Limited", exempt=ExemptPriorityLevelConfiguration(lendable_percent=3)
    )
    named = PriorityLevelConfiguration(metadata=ObjectMeta(name="exempt"), spec=level)
    rule = ResourcePolicyRule(verbs=("get",), api_groups=("a",))

    assert {
        "Type": "Limited",
        "Limited": None,
        "Exempt": {"NominalConcurrencyShares": None, "LendablePercent": 3},
    } == [error.value for error in validate(named)][-1]
    shown = {"Verbs": ["get"], "APIGroups": ["a"], "Resources": None, "Namespaces": None}
    assert {**shown, "ClusterScope": False} == internal(rule)
