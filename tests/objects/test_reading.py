"""Reading of flow control objects."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object, with_type
from apfproxy.objects.types import kind_of
from apfproxy.objects.validation import PRESERVE_ZERO
from tests.support.objects import (
    LIMITED,
    RESOURCE_RULE,
    V1,
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


@pytest.mark.parametrize("wire", [flow_schema(), priority_level()], ids=["schema", "level"])
def test_written_as_read(wire: dict[str, Any]) -> None:
    assert wire == written(wire)


def test_no_namespaces() -> None:
    rule = {key: value for key, value in RESOURCE_RULE.items() if key != "namespaces"}

    assert written(rules(resource={**rule, "clusterScope": True, "namespaces": None})) == written(
        rules(resource={**rule, "clusterScope": True})
    )


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


@pytest.mark.parametrize("metadata", [None, {"generateName": "a"}])
def test_only_a_server_makes_up_a_name(metadata: object) -> None:
    assert {("metadata.name", Reason.REQUIRED)} == errors_of(
        {**flow_schema(), "metadata": metadata}
    )


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


def test_flow_schemas_of_v1beta3() -> None:
    assert written(flow_schema()) == written({**flow_schema(), "apiVersion": V1BETA3})


@pytest.mark.parametrize(
    ("wire", "fields"),
    [
        pytest.param(None, {"kind", "apiVersion"}, id="null"),
        pytest.param([], {"kind", "apiVersion"}, id="list"),
        pytest.param({"kind": 1, "apiVersion": 2}, {"kind", "apiVersion"}, id="numbers"),
        pytest.param({"kind": "Pod", "apiVersion": V1}, {"kind"}, id="kind"),
        pytest.param({"kind": "FlowSchema", "apiVersion": "v1"}, {"apiVersion"}, id="version"),
    ],
)
def test_other_kinds(wire: object, fields: set[str]) -> None:
    assert {(field, Reason.NOT_SUPPORTED) for field in fields} == errors_of(wire)


@pytest.mark.parametrize("own", [{}, {"kind": "FlowSchema"}, {"apiVersion": V1, "kind": None}])
def test_implied_type(own: dict[str, Any]) -> None:
    wire = {**own, "metadata": {"name": "a"}}

    assert {**wire, "apiVersion": V1, "kind": "FlowSchema"} == with_type(wire, "FlowSchema", V1)
    assert with_type([], "FlowSchema", V1) == []
    assert flow_schema() == with_type(flow_schema(), "Pod", "v1")


INT32 = f"want an integer from {-(2**31)} to {2**31 - 1}"
INT64 = f"want an integer from {-(2**63)} to {2**63 - 1}"
QUOTES = "want a string: put it in quotes"
LIST = "want a list: write it as [...], or each item after a dash"


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ({"spec": []}, 'spec: Invalid value: "a list": want a mapping'),
        ({"metadata": "x"}, 'metadata: Invalid value: "x": want a mapping'),
        (
            flow_schema(matchingPrecedence=2**31),
            f'spec.matchingPrecedence: Invalid value: "2147483648": {INT32}',
        ),
        (
            {"metadata": {"generation": -(2**63) - 1}},
            f'metadata.generation: Invalid value: "{-(2**63) - 1}": {INT64}',
        ),
        (
            flow_schema(matchingPrecedence=10**99),
            f'spec.matchingPrecedence: Invalid value: "1{"0" * 39}": {INT32}',
        ),
        (
            flow_schema(matchingPrecedence=True),
            'spec.matchingPrecedence: Invalid value: "true": want an integer',
        ),
        (
            rules(resource={**RESOURCE_RULE, "clusterScope": "yes"}),
            'spec.rules[0].resourceRules[0].clusterScope: Invalid value: "yes": want true or false',
        ),
        (
            flow_schema(matchingPrecedence="4"),
            'spec.matchingPrecedence: Invalid value: "4": want an integer: leave the quotes out',
        ),
        (
            {"metadata": {"name": True}},
            (
                'metadata.name: Invalid value: "true": want a string, and YAML takes y, yes and on'
                " for true: put it in quotes"
            ),
        ),
        ({"metadata": {"name": 1}}, f'metadata.name: Invalid value: "1": {QUOTES}'),
        ({"metadata": {"name": {}}}, 'metadata.name: Invalid value: "a mapping": want a string'),
        (
            rules(resource={**RESOURCE_RULE, "verbs": "a"}),
            f'spec.rules[0].resourceRules[0].verbs: Invalid value: "a": {LIST}',
        ),
        (
            rules(resource={**RESOURCE_RULE, "verbs": ["a", 2]}),
            f'spec.rules[0].resourceRules[0].verbs[1]: Invalid value: "2": {QUOTES}',
        ),
        ({"metadata": {"labels": []}}, 'metadata.labels: Invalid value: "a list": want a mapping'),
        ({"metadata": {"labels": {"a": 1}}}, f'metadata.labels[a]: Invalid value: "1": {QUOTES}'),
    ],
)
def test_values_of_wrong_types(wire: dict[str, Any], message: str) -> None:
    found = read_object({**flow_schema(), **wire})

    assert isinstance(found, list)
    assert [message] == [str(error) for error in found]


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
