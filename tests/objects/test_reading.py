"""Tests of reading flow control objects."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object, with_type
from apfproxy.objects.types import kind_of
from apfproxy.objects.versions import PRESERVE_ZERO
from tests.objects.objects import (
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
    """The valid object of the JSON, written again."""
    found = read_object(wire)
    assert not isinstance(found, list), found
    assert wire["kind"] == kind_of(found)
    return as_written(found)


@pytest.mark.parametrize("wire", [flow_schema(), priority_level()], ids=["schema", "level"])
def test_written_as_read(wire: dict[str, Any]) -> None:
    """An object that says everything comes out as it went in."""
    assert wire == written(wire)


def test_no_namespaces() -> None:
    """A rule without namespaces shows null, as a server does."""
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


def test_no_metadata() -> None:
    """Nothing and null are the same: there is no name."""
    wire = {**flow_schema(), "metadata": None}

    assert {("metadata.name", Reason.REQUIRED)} == errors_of(wire)


def test_names_are_not_generated() -> None:
    """Only a server makes up a name."""
    wire = flow_schema()
    wire["metadata"] = {"generateName": "a"}

    assert {("metadata.name", Reason.REQUIRED)} == errors_of(wire)


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        pytest.param("!" * 253, set(), id="right"),
        *(
            pytest.param(uid, {("metadata.uid", Reason.INVALID)}, id=name)
            for name, uid in {
                "with-a-line-break": "u\r\nX-Evil: 1",
                "with-a-space": "u 1",
                "with-a-letter-that-is-not-ascii": "\u00fc",
                "too-long": "u" * 254,
            }.items()
        ),
    ],
)
def test_uids(uid: str, expected: set[tuple[str, Reason]]) -> None:
    """A uid becomes a header field of answers, so it has to be one."""
    wire = flow_schema()
    wire["metadata"]["uid"] = uid
    found = read_object(wire)

    assert expected == (errors_of(wire) if isinstance(found, list) else set())


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(("shares", "kept"), [(None, 0), (0, 0), (7, 7)])
def test_shares_of_v1beta3(shares: int | None, kept: int, annotated: bool) -> None:
    """Zero and absent shares mean the default, or zero where the annotation says so."""
    wire = priority_level(version=V1BETA3, limited={**LIMITED, "nominalConcurrencyShares": shares})
    wire["metadata"]["annotations"] = {"a": "b", **({PRESERVE_ZERO: ""} if annotated else {})}

    found = written(wire)

    assert (kept if annotated or kept else 30) == found["spec"]["limited"][
        "nominalConcurrencyShares"
    ]
    assert found["metadata"]["annotations"] == {"a": "b"}


def test_flow_schemas_of_v1beta3() -> None:
    """They say the same as those of v1."""
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
    """Only the two kinds in the two versions are read."""
    assert {(field, Reason.NOT_SUPPORTED) for field in fields} == errors_of(wire)


@pytest.mark.parametrize("own", [{}, {"kind": "FlowSchema"}, {"apiVersion": V1, "kind": None}])
def test_implied_type(own: dict[str, Any]) -> None:
    """An object may leave its type to its surroundings."""
    wire = {**own, "metadata": {"name": "a"}}

    assert {**wire, "apiVersion": V1, "kind": "FlowSchema"} == with_type(wire, "FlowSchema", V1)
    assert with_type([], "FlowSchema", V1) == []
    assert flow_schema() == with_type(flow_schema(), "Pod", "v1")


def test_wrong_types() -> None:
    """Every value of a wrong type is reported, and nothing else is while there are any."""
    wire = flow_schema(matchingPrecedence="x", rules=[{"subjects": {}}])

    assert {
        ("spec.matchingPrecedence", Reason.TYPE_INVALID),
        ("spec.rules[0].subjects", Reason.TYPE_INVALID),
    } == errors_of(wire)


def test_unknown_fields() -> None:
    """An unknown field is dropped, but an error to a strict reader."""
    wire = flow_schema(matchingPrecedense=3)

    assert flow_schema() == written(wire)
    assert {("spec.matchingPrecedense", Reason.UNKNOWN)} == errors_of(wire, strict=True)


def test_unknown_fields_do_not_hide_what_else_is_wrong() -> None:
    """A strict reader hears of a misspelt field and of the rules broken without it."""
    wire = flow_schema(matchingPrecedence=-1, bogus=3)

    assert {
        ("spec.matchingPrecedence", Reason.INVALID),
        ("spec.bogus", Reason.UNKNOWN),
    } == errors_of(wire, strict=True)
