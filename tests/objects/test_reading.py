"""Reading of flow control objects."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import kind_of
from apfproxy.objects.validation import PRESERVE_ZERO
from tests.support.objects import (
    LIMITED,
    RESOURCE_RULE,
    V1BETA3,
    as_written,
    flow_schema,
    priority_level,
    rules,
)


def errors_of(wire: object, *, strict: bool = False) -> set[tuple[str, Reason]]:
    """Field and reason of all that is wrong."""
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
    """An unknown field comes with the name that is most like it, or with all known ones."""
    wire = flow_schema()
    (wire[path.rstrip(".")] if path else wire)[name] = 1
    found = read_object(wire, strict=True)
    assert isinstance(found, list)
    assert [f"{path}{name}: Unknown field: {hint}"] == [str(error) for error in found]


def test_wrong_types() -> None:
    """Every value of a wrong type is reported, and nothing else is while there are any."""
    wire = flow_schema(matchingPrecedence="x", rules=[{"subjects": {}}])
    fields = ("spec.matchingPrecedence", "spec.rules[0].subjects")
    assert {(field, Reason.TYPE_INVALID) for field in fields} == errors_of(wire)


def test_unknown_fields() -> None:
    """An unknown field is dropped, but an error to a strict reader, beside all others."""
    unknown = ("spec.matchingPrecedense", Reason.UNKNOWN)
    assert flow_schema() == written(flow_schema(matchingPrecedense=3))
    assert {unknown, ("spec.matchingPrecedence", Reason.INVALID)} == errors_of(
        flow_schema(matchingPrecedence=-1, matchingPrecedense=3), strict=True
    )
