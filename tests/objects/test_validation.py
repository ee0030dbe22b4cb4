"""What is refused, at which field and for which reason."""

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
    entropy_bits,
    internal,
    validate,
)
from tests.objects.objects import (
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
RESPONSE = "spec.limited.limitResponse"


def errors_of(wire: dict[str, Any]) -> Errors:
    """Field and reason of all that is wrong."""
    found = read_object(wire)
    return {(error.field, error.reason) for error in found} if isinstance(found, list) else set()


def resource(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A FlowSchema with one resource rule, some of whose fields are set."""
    return rules(resource={**RESOURCE_RULE, **fields})


def url(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A FlowSchema with one rule about URLs, some of whose fields are set."""
    return rules(url={**URL_RULE, **fields})


def account(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A FlowSchema about one service account."""
    return rules(subject={"kind": "ServiceAccount", "serviceAccount": fields})


def case(name: str, wire: dict[str, Any], *errors: tuple[str, Reason]) -> Any:  # noqa: ANN401  pytest's type is private
    """One row of a table."""
    return pytest.param(wire, set(errors), id=name)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("valid", flow_schema()),
        case("least-precedence", flow_schema(matchingPrecedence=2)),
        case("largest-precedence", flow_schema(matchingPrecedence=10000)),
        case(
            "negative-precedence",
            flow_schema(matchingPrecedence=-1),
            ("spec.matchingPrecedence", Reason.INVALID),
        ),
        case(
            "precedence-too-large",
            flow_schema(matchingPrecedence=10001),
            ("spec.matchingPrecedence", Reason.INVALID),
        ),
        case(
            "reserved-precedence",
            flow_schema(matchingPrecedence=1),
            ("spec.matchingPrecedence", Reason.INVALID),
        ),
        case("by-namespace", flow_schema(distinguisherMethod={"type": "ByNamespace"})),
        case(
            "distinguisher-without-type",
            flow_schema(distinguisherMethod={}),
            ("spec.distinguisherMethod.type", Reason.NOT_SUPPORTED),
        ),
        case(
            "no-level",
            flow_schema(priorityLevelConfiguration={}),
            ("spec.priorityLevelConfiguration.name", Reason.REQUIRED),
        ),
        case(
            "level-name",
            flow_schema(priorityLevelConfiguration={"name": "No_Level"}),
            ("spec.priorityLevelConfiguration.name", Reason.INVALID),
        ),
        case("no-rules", flow_schema(rules=[])),
        case(
            "empty-rule",
            flow_schema(rules=[{}]),
            (f"{RULE}.subjects", Reason.REQUIRED),
            (RULE, Reason.REQUIRED),
        ),
        case(
            "second-rule",
            flow_schema(
                rules=[*flow_schema()["spec"]["rules"], {"nonResourceRules": [URL_RULE]}],
            ),
            ("spec.rules[1].subjects", Reason.REQUIRED),
        ),
    ],
)
def test_flow_schema(wire: dict[str, Any], expected: Errors) -> None:
    """Precedence, distinguisher, level and presence of rules are checked."""
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("user", rules(subject={"kind": "User", "user": {"name": "*"}})),
        case("group", rules(subject={"kind": "Group", "group": {"name": "g g"}})),
        case("account", account(name="default", namespace="a")),
        case("any-account", account(name="*", namespace="a")),
        case("no-kind", rules(subject={"kind": ""}), (f"{SUBJECT}.kind", Reason.NOT_SUPPORTED)),
        case(
            "unknown-kind-alone-counts",
            rules(subject={"kind": "Robot", "user": {}, "group": {}}),
            (f"{SUBJECT}.kind", Reason.NOT_SUPPORTED),
        ),
        case(
            "user-without-name",
            rules(subject={"kind": "User", "user": {}}),
            (f"{SUBJECT}.user.name", Reason.REQUIRED),
        ),
        case(
            "group-without-name",
            rules(subject={"kind": "Group", "group": {}}),
            (f"{SUBJECT}.group.name", Reason.REQUIRED),
        ),
        case(
            "member-missing",
            rules(subject={"kind": "ServiceAccount"}),
            (f"{SUBJECT}.serviceAccount", Reason.REQUIRED),
        ),
        case(
            "other-members",
            rules(subject={"kind": "Group", "user": {"name": "u"}, "serviceAccount": {}}),
            (f"{SUBJECT}.group", Reason.REQUIRED),
            (f"{SUBJECT}.user", Reason.FORBIDDEN),
            (f"{SUBJECT}.serviceAccount", Reason.FORBIDDEN),
        ),
        case(
            "empty-account",
            account(),
            (f"{SUBJECT}.serviceAccount.name", Reason.REQUIRED),
            (f"{SUBJECT}.serviceAccount.namespace", Reason.REQUIRED),
        ),
        case(
            "bad-account",
            account(name="a_b", namespace="a.b"),
            (f"{SUBJECT}.serviceAccount.name", Reason.INVALID),
            (f"{SUBJECT}.serviceAccount.namespace", Reason.INVALID),
        ),
    ],
)
def test_subject(wire: dict[str, Any], expected: Errors) -> None:
    """A subject has exactly the member that its kind names, complete."""
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("all", resource(verbs=["*"], apiGroups=["*"], resources=["*"], namespaces=["*"])),
        case("repeated", resource(verbs=["get", "get"], resources=["pods", "pods"])),
        case("cluster-scope", resource(namespaces=[], clusterScope=True)),
        case("cluster-scope-and-namespace", resource(clusterScope=True)),
        case(
            "empty",
            rules(resource={}),
            (f"{RESOURCE}.verbs", Reason.REQUIRED),
            (f"{RESOURCE}.apiGroups", Reason.REQUIRED),
            (f"{RESOURCE}.resources", Reason.REQUIRED),
            (f"{RESOURCE}.namespaces", Reason.REQUIRED),
        ),
        case(
            "wildcard-not-alone",
            resource(
                verbs=["bogus", "*"],
                apiGroups=["*", ""],
                resources=["pods", "*"],
                namespaces=["*", "NOT CHECKED"],
            ),
            (f"{RESOURCE}.verbs", Reason.INVALID),
            (f"{RESOURCE}.apiGroups", Reason.INVALID),
            (f"{RESOURCE}.resources", Reason.INVALID),
            (f"{RESOURCE}.namespaces", Reason.INVALID),
        ),
        case(
            "verb-in-capitals",
            resource(verbs=["get", "GET"]),
            (f"{RESOURCE}.verbs", Reason.NOT_SUPPORTED),
        ),
        case(
            "namespace-names",
            resource(namespaces=["a", "", "a.b", "a" * 64]),
            (f"{RESOURCE}.namespaces[1]", Reason.INVALID),
            (f"{RESOURCE}.namespaces[2]", Reason.INVALID),
            (f"{RESOURCE}.namespaces[3]", Reason.INVALID),
        ),
    ],
)
def test_resource_rule(wire: dict[str, Any], expected: Errors) -> None:
    """A resource rule needs all of its lists, and a wildcard stands alone."""
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("all", url(verbs=["*"], nonResourceURLs=["*"])),
        case("paths", url(nonResourceURLs=["/", "/*", "/a/*", "/a/b"])),
        case(
            "empty",
            rules(url={}),
            (f"{URL}.verbs", Reason.REQUIRED),
            (f"{URL}.nonResourceURLs", Reason.REQUIRED),
        ),
        case(
            "wildcard-not-alone",
            url(nonResourceURLs=["*", ""]),
            (f"{URL}.nonResourceURLs", Reason.INVALID),
        ),
        *(
            case(
                repr(path),
                url(nonResourceURLs=[path]),
                (f"{URL}.nonResourceURLs[0]", Reason.INVALID),
            )
            for path in ("", "a", "/a b", "/a//b", "//", "/a*", "/*/*", "/a/*/b", "**", " /a")
        ),
    ],
)
def test_non_resource_rule(wire: dict[str, Any], expected: Errors) -> None:
    """A path begins with a slash and may end in a slash and a wildcard."""
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("valid", priority_level()),
        case("no-spec", priority_level(type=""), ("spec.type", Reason.NOT_SUPPORTED)),
        case(
            "unknown-type-hides-the-rest",
            priority_level(type="Some", limited={}, exempt={"lendablePercent": -1}),
            ("spec.type", Reason.NOT_SUPPORTED),
        ),
        case("no-limits", priority_level(limited=None), ("spec.limited", Reason.REQUIRED)),
        case("both", priority_level(exempt={}), ("spec.exempt", Reason.FORBIDDEN)),
        case(
            "exempt-by-another-name",
            priority_level(type="Exempt", limited=None, exempt={}),
            ("spec.type", Reason.INVALID),
        ),
        case(
            "exempt-with-limits-and-bad-shares",
            priority_level(
                type="Exempt", exempt={"nominalConcurrencyShares": -1, "lendablePercent": 101}
            ),
            ("spec.type", Reason.INVALID),
            ("spec.limited", Reason.FORBIDDEN),
            ("spec.exempt.nominalConcurrencyShares", Reason.INVALID),
            ("spec.exempt.lendablePercent", Reason.INVALID),
        ),
        case("edges", limited(lendablePercent=100, borrowingLimitPercent=0)),
        case(
            "shares",
            limited(nominalConcurrencyShares=-1, lendablePercent=-1, borrowingLimitPercent=-1),
            ("spec.limited.nominalConcurrencyShares", Reason.INVALID),
            ("spec.limited.lendablePercent", Reason.INVALID),
            ("spec.limited.borrowingLimitPercent", Reason.INVALID),
        ),
        case("no-response", limited(limitResponse={}), (f"{RESPONSE}.type", Reason.NOT_SUPPORTED)),
        case(
            "unknown-response-hides-the-rest",
            limited(limitResponse={"type": "Drop", "queuing": {"queues": -1}}),
            (f"{RESPONSE}.type", Reason.NOT_SUPPORTED),
        ),
        case(
            "queue-without-queuing",
            limited(limitResponse={"type": "Queue"}),
            (f"{RESPONSE}.queuing", Reason.REQUIRED),
        ),
        case("reject", limited(limitResponse={"type": "Reject"})),
        case(
            "reject-with-queuing",
            limited(limitResponse={"type": "Reject", "queuing": QUEUING}),
            (f"{RESPONSE}.queuing", Reason.FORBIDDEN),
        ),
        case("largest-hand", queuing(queues=1024, handSize=6)),
        case("most-queues", queuing(queues=10_000_000, handSize=2)),
        case(
            "too-many-queues-and-bits",
            queuing(queues=2**31 - 1, handSize=3),
            (f"{RESPONSE}.queuing.queues", Reason.INVALID),
            (f"{RESPONSE}.queuing.handSize", Reason.INVALID),
        ),
        case(
            "too-many-bits",
            queuing(queues=1025, handSize=6),
            (f"{RESPONSE}.queuing.handSize", Reason.INVALID),
        ),
        case(
            "hand-larger-than-deck",
            queuing(queues=7, handSize=8),
            (f"{RESPONSE}.queuing.handSize", Reason.INVALID),
        ),
        case(
            "negative",
            queuing(queues=-1, handSize=-1, queueLengthLimit=-1),
            (f"{RESPONSE}.queuing.queues", Reason.INVALID),
            (f"{RESPONSE}.queuing.handSize", Reason.INVALID),
            (f"{RESPONSE}.queuing.queueLengthLimit", Reason.INVALID),
        ),
    ],
)
def test_priority_level(wire: dict[str, Any], expected: Errors) -> None:
    """Types, shares, percentages, responses and queuing are checked."""
    assert expected == errors_of(wire)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        case("schema", flow_schema("exempt"), ("spec", Reason.INVALID)),
        case(
            "schema-may-have-precedence-1",
            flow_schema("exempt", matchingPrecedence=1),
            ("spec", Reason.INVALID),
        ),
        case("catch-all-schema", flow_schema("catch-all"), ("spec", Reason.INVALID)),
        case("catch-all-level", priority_level("catch-all"), ("spec", Reason.INVALID)),
        case(
            "limited-exempt",
            priority_level("exempt"),
            ("spec", Reason.INVALID),
            ("spec.type", Reason.INVALID),
        ),
        case(
            "exempt-with-limits",
            priority_level("exempt", type="Exempt"),
            ("spec", Reason.INVALID),
            ("spec.limited", Reason.FORBIDDEN),
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
    """An object with a mandatory name must have its specification."""
    assert expected == errors_of(wire)


def test_annotation_of_v1beta3_is_forbidden() -> None:
    """The annotation that keeps zero shares in v1beta3 means nothing in v1."""
    wire = priority_level()
    wire["metadata"]["annotations"] = {PRESERVE_ZERO: ""}

    assert {("metadata.annotations", Reason.FORBIDDEN)} == errors_of(wire)


@pytest.mark.parametrize(
    ("deck_size", "hand_size", "bits"),
    [(1, 1, 0), (64, 8, 48), (1024, 6, 60), (512, 9, 81), (3, 2, 4)],
)
def test_entropy_bits(deck_size: int, hand_size: int, bits: int) -> None:
    """Each card takes as many bits as there are choices, rounded up together."""
    assert bits == entropy_bits(deck_size, hand_size)


def test_fixed_values_are_told_as_go_has_them() -> None:
    """A specification that may not be changed is shown with all its fields, as Go names them."""
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
