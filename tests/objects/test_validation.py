"""Refused values: at which field and for which reason."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    ObjectMeta,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    ResourcePolicyRule,
)
from apfproxy.objects.validation import (
    PRESERVE_ZERO,
    internal,
    validate,
)
from tests.support.objects import (
    LIMITED,
    QUEUING,
    RESOURCE_RULE,
    URL_RULE,
    flow_schema,
    limited,
    priority_level,
    queuing,
    rules,
)

Errors = set[tuple[str, Reason]]
RULE = "spec.rules[0]"
RESOURCE = f"{RULE}.resourceRules[0]"
URL = f"{RULE}.nonResourceRules[0]"
SUBJECT = f"{RULE}.subjects[0]"
PRECEDENCE = "spec.matchingPrecedence"
RESPONSE = "spec.limited.limitResponse"


def errors_of(wire: dict[str, Any]) -> Errors:
    """Field and reason of all that is wrong."""
    found = read_object(wire)
    return {(error.field, error.reason) for error in found} if isinstance(found, list) else set()


def resource(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return rules(resource={**RESOURCE_RULE, **fields})


def url(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return rules(url={**URL_RULE, **fields})


def subject(kind: str, **members: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return rules(subject={"kind": kind, **members})


def response(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return limited(limitResponse=fields)


def account(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    return subject("ServiceAccount", serviceAccount=fields)


def case(name: str, wire: dict[str, Any], at: str = "", **fields: str) -> Any:  # noqa: ANN401  pytest's type is private
    """One row of a table: by their reason the fields, below `at`, that are wrong."""
    errors = {
        (f"{at}.{field}" if at else field, Reason[reason.upper()])
        for reason, listed in fields.items()
        for field in listed.split()
    }
    return pytest.param(wire, errors, id=name)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("valid", flow_schema()),
        case("largest-precedence", flow_schema(matchingPrecedence=10000)),
        case("negative-precedence", flow_schema(matchingPrecedence=-1), invalid=PRECEDENCE),
        case("precedence-too-large", flow_schema(matchingPrecedence=10001), invalid=PRECEDENCE),
        case("reserved-precedence", flow_schema(matchingPrecedence=1), invalid=PRECEDENCE),
        case("by-namespace", flow_schema(distinguisherMethod={"type": "ByNamespace"})),
        case(
            "distinguisher-without-type",
            flow_schema(distinguisherMethod={}),
            not_supported="spec.distinguisherMethod.type",
        ),
        case(
            "no-level",
            flow_schema(priorityLevelConfiguration={}),
            required="spec.priorityLevelConfiguration.name",
        ),
        case(
            "level-name",
            flow_schema(priorityLevelConfiguration={"name": "No_Level"}),
            invalid="spec.priorityLevelConfiguration.name",
        ),
        case("no-rules", flow_schema(rules=[])),
        case("empty-rule", flow_schema(rules=[{}]), required=f"{RULE} {RULE}.subjects"),
        case(
            "second-rule",
            flow_schema(rules=[*flow_schema()["spec"]["rules"], {"nonResourceRules": [URL_RULE]}]),
            "spec.rules[1]",
            required="subjects",
        ),
    ],
)
def test_flow_schema(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("user", subject("User", user={"name": "*"})),
        case("group", subject("Group", group={"name": "g g"})),
        case("account", account(name="default", namespace="a")),
        case("no-kind", subject(""), SUBJECT, not_supported="kind"),
        case(
            "unknown-kind-alone-counts",
            subject("Robot", user={}, group={}),
            SUBJECT,
            not_supported="kind",
        ),
        case("user-without-name", subject("User", user={}), SUBJECT, required="user.name"),
        case("group-without-name", subject("Group", group={}), SUBJECT, required="group.name"),
        case("member-missing", subject("ServiceAccount"), SUBJECT, required="serviceAccount"),
        case(
            "other-members",
            subject("Group", user={"name": "u"}, serviceAccount={}),
            SUBJECT,
            required="group",
            forbidden="user serviceAccount",
        ),
        case(
            "empty-account",
            account(),
            SUBJECT,
            required="serviceAccount.name serviceAccount.namespace",
        ),
        case(
            "bad-account",
            account(name="a_b", namespace="a.b"),
            SUBJECT,
            invalid="serviceAccount.name serviceAccount.namespace",
        ),
    ],
)
def test_subject(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("all", resource(verbs=["*"], apiGroups=["*"], resources=["*"], namespaces=["*"])),
        case("cluster-scope", resource(namespaces=[], clusterScope=True)),
        case(
            "empty", rules(resource={}), RESOURCE, required="verbs apiGroups resources namespaces"
        ),
        case(
            "wildcard-not-alone",
            resource(
                verbs=["bogus", "*"],
                apiGroups=["*", ""],
                resources=["pods", "*"],
                namespaces=["*", "NOT CHECKED"],
            ),
            RESOURCE,
            invalid="verbs apiGroups resources namespaces",
        ),
        case("verb-in-capitals", resource(verbs=["get", "GET"]), RESOURCE, not_supported="verbs"),
        case(
            "namespace-names",
            resource(namespaces=["a", "", "a.b", "a" * 64]),
            RESOURCE,
            invalid="namespaces[1] namespaces[2] namespaces[3]",
        ),
    ],
)
def test_resource_rule(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("all", url(verbs=["*"], nonResourceURLs=["*"])),
        case("paths", url(nonResourceURLs=["/", "/*", "/a/*", "/a/b"])),
        case("empty", rules(url={}), URL, required="verbs nonResourceURLs"),
        case("wildcard-not-alone", url(nonResourceURLs=["*", ""]), URL, invalid="nonResourceURLs"),
        *(
            case(repr(path), url(nonResourceURLs=[path]), URL, invalid="nonResourceURLs[0]")
            for path in ("", "a", "/a b", "/a//b", "//", "/a*", "/*/*", "/a/*/b", "**", " /a")
        ),
    ],
)
def test_non_resource_rule(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("valid", priority_level()),
        case("no-spec", priority_level(type=""), "spec", not_supported="type"),
        case(
            "unknown-type-hides-the-rest",
            priority_level(type="Some", limited={}, exempt={"lendablePercent": -1}),
            not_supported="spec.type",
        ),
        case("no-limits", priority_level(limited=None), "spec", required="limited"),
        case("both", priority_level(exempt={}), "spec", forbidden="exempt"),
        case(
            "exempt-by-another-name",
            priority_level(type="Exempt", limited=None, exempt={}),
            invalid="spec.type",
        ),
        case(
            "exempt-with-limits-and-bad-shares",
            priority_level(
                type="Exempt", exempt={"nominalConcurrencyShares": -1, "lendablePercent": 101}
            ),
            "spec",
            invalid="type exempt.nominalConcurrencyShares exempt.lendablePercent",
            forbidden="limited",
        ),
        case("edges", limited(lendablePercent=100, borrowingLimitPercent=0)),
        case(
            "shares",
            limited(nominalConcurrencyShares=-1, lendablePercent=-1, borrowingLimitPercent=-1),
            "spec.limited",
            invalid="nominalConcurrencyShares lendablePercent borrowingLimitPercent",
        ),
        case("no-response", response(), RESPONSE, not_supported="type"),
        case(
            "unknown-response-hides-the-rest",
            response(type="Drop", queuing={"queues": -1}),
            RESPONSE,
            not_supported="type",
        ),
        case("queue-without-queuing", response(type="Queue"), RESPONSE, required="queuing"),
        case("reject", response(type="Reject")),
        case(
            "reject-with-queuing",
            response(type="Reject", queuing=QUEUING),
            RESPONSE,
            forbidden="queuing",
        ),
        case("largest-hand", queuing(queues=1024, handSize=6)),
        case("most-queues", queuing(queues=10_000_000, handSize=2)),
        case(
            "too-many-queues-and-bits",
            queuing(queues=2**31 - 1, handSize=3),
            RESPONSE,
            invalid="queuing.queues queuing.handSize",
        ),
        case(
            "too-many-bits", queuing(queues=1025, handSize=6), RESPONSE, invalid="queuing.handSize"
        ),
        case(
            "hand-larger-than-deck",
            queuing(queues=7, handSize=8),
            RESPONSE,
            invalid="queuing.handSize",
        ),
        case(
            "negative",
            queuing(queues=-1, handSize=-1, queueLengthLimit=-1),
            RESPONSE,
            invalid="queuing.queues queuing.handSize queuing.queueLengthLimit",
        ),
    ],
)
def test_priority_level(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("schema", flow_schema("exempt"), invalid="spec"),
        case(
            "schema-may-have-precedence-1",
            flow_schema("exempt", matchingPrecedence=1),
            invalid="spec",
        ),
        case("catch-all-schema", flow_schema("catch-all"), invalid="spec"),
        case("catch-all-level", priority_level("catch-all"), invalid="spec"),
        case("limited-exempt", priority_level("exempt"), invalid="spec spec.type"),
        case(
            "exempt-with-limits",
            priority_level("exempt", type="Exempt"),
            invalid="spec",
            forbidden="spec.limited",
        ),
        case(
            "exempt-shares-are-free",
            priority_level(
                "exempt", type="Exempt", limited=None, exempt={"nominalConcurrencyShares": 7}
            ),
        ),
        case("exempt-shares-may-be-absent", priority_level("exempt", type="Exempt", limited=None)),
        case(
            "same-catch-all",
            priority_level(
                "catch-all",
                limited={
                    **LIMITED,
                    "nominalConcurrencyShares": 5,
                    "limitResponse": {"type": "Reject"},
                },
            ),
        ),
    ],
)
def test_mandatory_objects_are_fixed(wire: dict[str, Any], expected: Errors) -> None:
    assert expected == errors_of(wire)


def test_annotation_of_v1beta3_is_forbidden() -> None:
    wire = priority_level()
    wire["metadata"]["annotations"] = {PRESERVE_ZERO: ""}

    assert {("metadata.annotations", Reason.FORBIDDEN)} == errors_of(wire)


def test_fixed_values_are_told_as_go_has_them() -> None:
    level = PriorityLevelConfigurationSpec(
        type="Limited", exempt=ExemptPriorityLevelConfiguration(lendable_percent=3)
    )
    named = PriorityLevelConfiguration(metadata=ObjectMeta(name="exempt"), spec=level)
    shown = [error.value for error in validate(named)][-1]
    rule = ResourcePolicyRule(verbs=("get",), api_groups=("a",))

    assert {
        "Type": "Limited",
        "Limited": None,
        "Exempt": {"NominalConcurrencyShares": None, "LendablePercent": 3},
    } == shown
    assert {
        "Verbs": ["get"],
        "APIGroups": ["a"],
        "Resources": None,
        "ClusterScope": False,
        "Namespaces": None,
    } == internal(rule)
