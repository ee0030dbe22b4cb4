"""Reading of flow control objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import level_to_v1, level_to_v1beta3, read_object
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    ObjectMeta,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    ResourcePolicyRule,
    kind_of,
)
from apfproxy.objects.validation import PRESERVE_ZERO, internal, validate, validate_metadata
from tests.support.objects import (
    LIMITED,
    RESOURCE_RULE,
    URL_RULE,
    V1BETA3,
    as_written,
    flow_schema,
    priority_level,
    queuing,
    rules,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def errors_of(wire: object, *, strict: bool = False) -> set[tuple[str, Reason]]:
    found = read_object(wire, strict=strict)
    assert isinstance(found, list)
    return {(error.field, error.reason) for error in found}


def written(wire: dict[str, Any]) -> dict[str, Any]:
    found = read_object(wire)
    assert not isinstance(found, list), found
    assert wire["kind"] == kind_of(found)
    return as_written(found)


def test_written_as_read() -> None:
    for wire in (flow_schema(), priority_level()):
        assert wire == written(wire)
    assert flow_schema() == written({**flow_schema(), "apiVersion": V1BETA3})
    scoped = rules(resource={**RESOURCE_RULE, "clusterScope": True, "namespaces": None})
    assert "namespaces" not in written(scoped)["spec"]["rules"][0]["resourceRules"][0]


def test_what_only_servers_set() -> None:
    """It may be anything, and so may the namespace and the time of creation, if they are text."""
    wire = flow_schema()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
    wire["metadata"].update(
        uid="u-7",
        annotations={"a": "b"},
        creationTimestamp="once",
        generation=9,
        resourceVersion="12",
        namespace="default",
        selfLink=7,
        managedFields=7,
        deletionTimestamp=7,
        labels={"a": None},
        finalizers=["example.com/hold"],
        ownerReferences=[owner] * 2,
    )
    wire["status"] = 7

    assert {"name": "one", "uid": "u-7", "annotations": {"a": "b"}} == written(wire)["metadata"]
    wire["metadata"]["creationTimestamp"] = 7
    assert {("metadata.creationTimestamp", Reason.TYPE_INVALID)} == errors_of(wire)


def test_a_generation_is_not_negative() -> None:
    found = validate_metadata({"name": "a", "generation": -1}, is_namespaced=False)
    assert [("metadata.generation", Reason.INVALID)] == [(e.field, e.reason) for e in found]


def test_only_a_server_makes_up_a_name() -> None:
    for metadata in (None, {"generateName": "a"}):
        wire = {**flow_schema(), "metadata": metadata}
        assert {("metadata.name", Reason.REQUIRED)} == errors_of(wire)


@pytest.mark.parametrize("uid", ["u\r\nX-Evil: 1", "u 1", "\u00fc", "u" * 254])
def test_uids(uid: str) -> None:
    """A uid becomes a header field of responses, so it has to be one."""
    wire = flow_schema()
    wire["metadata"]["uid"] = "!" * 253
    assert not isinstance(read_object(wire), list)
    wire["metadata"]["uid"] = uid
    assert {("metadata.uid", Reason.INVALID)} == errors_of(wire)


OWNER = {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "b"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"namespace": "a"}, ["metadata.namespace"]),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ["metadata.finalizers"]),
        ({"finalizers": ["orphan"]}, []),
        ({"ownerReferences": [OWNER]}, ["metadata.ownerReferences"]),
        ({"ownerReferences": [OWNER | {"apiVersion": "events.k8s.io/v1"}]}, []),
    ],
)
def test_metadata(metadata: dict[str, Any], expected: list[str]) -> None:
    found = validate_metadata({"name": "a", **metadata}, is_namespaced=False)
    assert expected == [each.field for each in found]


@pytest.mark.parametrize(("shares", "annotations"), [(7, {}), (0, {PRESERVE_ZERO: ""})])
def test_no_shares_have_an_annotation_in_v1beta3(shares: int, annotations: dict[str, str]) -> None:
    for others in ({}, {"a": "b"}):
        level = written(priority_level(limited={**LIMITED, "nominalConcurrencyShares": shares}))
        level["metadata"]["annotations"] = others
        old = level_to_v1beta3(level)

        assert others | annotations == old["metadata"]["annotations"]
        assert others == level_to_v1(old)["metadata"].get("annotations", {})


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(("shares", "kept"), [(None, 0), (0, 0), (7, 7)])
def test_shares_of_v1beta3(shares: int | None, kept: int, annotated: bool) -> None:
    wire = priority_level(version=V1BETA3, limited={**LIMITED, "nominalConcurrencyShares": shares})
    wire["metadata"]["annotations"] = {"a": "b", **({PRESERVE_ZERO: ""} if annotated else {})}
    found = written(wire)
    expected = kept if annotated or kept else 30
    assert expected == found["spec"]["limited"]["nominalConcurrencyShares"]
    assert {"a": "b"} == found["metadata"]["annotations"]


@pytest.mark.parametrize("wire", [None, [], {"kind": 1, "apiVersion": 2}], ids=repr)
def test_other_kinds(wire: object) -> None:
    fields = "kind", "apiVersion"
    assert {(field, Reason.NOT_SUPPORTED) for field in fields} == errors_of(wire)


INT32 = f"want an integer from {-(2**31)} to {2**31 - 1}"
INT64 = f"want an integer from {-(2**63)} to {2**63 - 1}"
QUOTES = "want a string: put it in quotes"


def in_rule(**fields: object) -> dict[str, Any]:
    return rules(resource={**RESOURCE_RULE, **fields})


IN_RULE = "spec.rules[0].resourceRules[0]"
LIST = "want a list: write it as [...], or each item after a dash"
TRUE = "want a string, and YAML takes y, yes and on for true: put it in quotes"
WRONG_TYPES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"spec": []}, "spec", "a list", "want a mapping"),
    ({"metadata": "x"}, "metadata", "x", "want a mapping"),
    (flow_schema(matchingPrecedence=2**31), "spec.matchingPrecedence", "2147483648", INT32),
    (flow_schema(matchingPrecedence=10**99), "spec.matchingPrecedence", f"1{'0' * 39}", INT32),
    (flow_schema(matchingPrecedence=True), "spec.matchingPrecedence", "true", "want an integer"),
    (
        flow_schema(matchingPrecedence="4"),
        *("spec.matchingPrecedence", "4", "want an integer: leave the quotes out"),
    ),
    ({"metadata": {"generation": -(2**63) - 1}}, "metadata.generation", f"{-(2**63) - 1}", INT64),
    (in_rule(clusterScope="yes"), f"{IN_RULE}.clusterScope", "yes", "want true or false"),
    ({"metadata": {"name": True}}, "metadata.name", "true", TRUE),
    ({"metadata": {"name": 1}}, "metadata.name", "1", QUOTES),
    ({"metadata": {"name": {}}}, "metadata.name", "a mapping", "want a string"),
    (in_rule(verbs="a"), f"{IN_RULE}.verbs", "a", LIST),
    (in_rule(verbs=["a", 2]), f"{IN_RULE}.verbs[1]", "2", QUOTES),
    ({"metadata": {"labels": []}}, "metadata.labels", "a list", "want a mapping"),
    ({"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]", "1", QUOTES),
]


@pytest.mark.parametrize(("wire", "field", "value", "why"), WRONG_TYPES)
def test_values_of_wrong_types(wire: dict[str, Any], field: str, value: str, why: str) -> None:
    found = read_object({**flow_schema(), **wire})
    assert isinstance(found, list)
    assert [f'{field}: Invalid value: "{value}": {why}'] == [str(error) for error in found]


@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        ("spec.", "matchingprecedence", 'did you mean "matchingPrecedence"?'),
        ("metadata.", "lables", 'did you mean "labels"?'),
        ("", "spek", 'did you mean "spec"?'),
        ("", "qqqq", "known here are apiVersion, kind, metadata, spec, status"),
    ],
)
def test_hints_at_what_may_be_meant(path: str, name: str, hint: str) -> None:
    wire = flow_schema()
    (wire[path.rstrip(".")] if path else wire)[name] = 1
    found = read_object(wire, strict=True)
    assert isinstance(found, list)
    assert [f"{path}{name}: Unknown field: {hint}"] == [str(error) for error in found]


def test_wrong_types() -> None:
    wire = flow_schema(matchingPrecedence="x", rules=[{"subjects": {}}])
    fields = ("spec.matchingPrecedence", "spec.rules[0].subjects")
    assert {(field, Reason.TYPE_INVALID) for field in fields} == errors_of(wire)


def test_unknown_fields() -> None:
    unknown = ("spec.matchingPrecedense", Reason.UNKNOWN)
    assert flow_schema() == written(flow_schema(matchingPrecedense=3))
    assert {unknown, ("spec.matchingPrecedence", Reason.INVALID)} == errors_of(
        flow_schema(matchingPrecedence=-1, matchingPrecedense=3), strict=True
    )


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


def reasons_of(wire: dict[str, Any]) -> set[tuple[str, Reason]]:
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
    assert expected_of(expected, at) == reasons_of(make(yaml.safe_load(fields)))


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
    assert {(field[1:], why) for field, why in expected_of(expected, "")} == reasons_of(wire)


def test_annotation_of_v1beta3_is_forbidden() -> None:
    wire = priority_level()
    wire["metadata"]["annotations"] = {PRESERVE_ZERO: ""}
    assert {("metadata.annotations", Reason.FORBIDDEN)} == reasons_of(wire)


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
