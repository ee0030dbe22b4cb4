"""Objects as decoded JSON."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.field_errors import Reason
from apfproxy.api.flowcontrol.wire import from_wire, kind_of, to_wire, with_type
from apfproxy.api.meta import SystemFields
from tests.api.flowcontrol.objects import RESOURCE_RULE, V1, flow_schema, priority_level, rules

CREATED = SystemFields(uid="u-1", creation_timestamp="2024-01-01T00:00:00Z", name_suffix="abcde")


def errors_of(wire: object, *, strict: bool = False) -> set[tuple[str, Reason]]:
    """Field and reason of all that is wrong."""
    found = from_wire(wire, created=CREATED, strict=strict)
    assert isinstance(found, list)
    return {(error.field, error.reason) for error in found}


def written(wire: dict[str, Any], created: SystemFields | None = None) -> dict[str, Any]:
    """The valid object of the JSON, written again."""
    found = from_wire(wire, created=created)
    assert not isinstance(found, list), found
    assert wire["kind"] == kind_of(found)
    return to_wire(found)


@pytest.mark.parametrize("wire", [flow_schema(), priority_level()], ids=["schema", "level"])
def test_written_as_read(wire: dict[str, Any]) -> None:
    """An object that says everything comes out as it went in, with an empty status."""
    assert {**wire, "status": {}} == written(wire)


def test_no_namespaces_are_null() -> None:
    """A rule without namespaces shows null, as a server does, and reads it."""
    rule = {key: value for key, value in RESOURCE_RULE.items() if key != "namespaces"}
    wire = rules(resource={**rule, "clusterScope": True})

    found = written(wire)

    assert found["spec"]["rules"][0]["resourceRules"][0]["namespaces"] is None
    assert found == written(found)


def test_creation_sets_the_fields_of_a_server() -> None:
    """What a client put into them does not count; what a server ignores is gone."""
    wire = flow_schema()
    wire["metadata"].update(
        uid="mine",
        creationTimestamp=None,
        generation=9,
        namespace="default",
        selfLink="/x",
        managedFields=[{}],
        labels={"a": None},
        finalizers=["example.com/hold"],
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}] * 2,
    )
    wire["status"] = {"conditions": [{}]}

    found = written(wire, CREATED)

    assert found["status"] == {}
    assert found["metadata"] == {
        "name": "one",
        "uid": "u-1",
        "generation": 1,
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "labels": {"a": ""},
        "finalizers": ["example.com/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}],
    }


def test_reading_keeps_the_fields_of_a_server() -> None:
    """An object that a server has shown keeps its uid and versions."""
    wire = flow_schema()
    wire["metadata"].update(uid="u-7", generation=3, resourceVersion="12")

    assert wire["metadata"] == written(wire)["metadata"]


def test_generated_name() -> None:
    """A server appends to generateName, cut to the length of a label; a file gets no name."""
    wire = flow_schema()
    wire["metadata"] = {"generateName": "a" * 70}

    assert written(wire, CREATED)["metadata"]["name"] == "a" * 58 + "abcde"
    found = from_wire(wire)
    assert isinstance(found, list)
    assert [error.field for error in found] == ["metadata.name"]


@pytest.mark.parametrize(
    ("wire", "fields"),
    [
        pytest.param(None, {"kind", "apiVersion"}, id="null"),
        pytest.param([], {"kind", "apiVersion"}, id="list"),
        pytest.param({"kind": 1, "apiVersion": 2}, {"kind", "apiVersion"}, id="numbers"),
        pytest.param({"kind": "\ud800", "apiVersion": V1}, {"kind"}, id="surrogate"),
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

    assert {**flow_schema(), "status": {}} == written(wire)
    assert {("spec.matchingPrecedense", Reason.UNKNOWN)} == errors_of(wire, strict=True)


def test_unknown_fields_do_not_hide_what_else_is_wrong() -> None:
    """A strict reader hears of a misspelt field and of the rules broken without it."""
    wire = flow_schema(matchingPrecedence=-1, bogus=3)

    assert {
        ("spec.matchingPrecedence", Reason.INVALID),
        ("spec.bogus", Reason.UNKNOWN),
    } == errors_of(wire, strict=True)


def test_unknown_version() -> None:
    """Asking for another version says which there are."""
    obj = from_wire(flow_schema())
    assert not isinstance(obj, list)

    with pytest.raises(ValueError, match="use one of v1, v1beta3"):
        to_wire(obj, "v2")
