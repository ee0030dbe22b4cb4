"""Tests of the structure of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.flowcontrol.schema import (
    FLOW_SCHEMA_V1,
    FLOW_SCHEMA_V1BETA3,
    PRIORITY_LEVEL_V1,
    PRIORITY_LEVEL_V1BETA3,
)
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read
from apfproxy.apiserver.schema.types import List, ListType, Struct
from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import GROUP
from tests.objects.objects import flow_schema, queuing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.schema.types import Type

VERSIONS = [FLOW_SCHEMA_V1, FLOW_SCHEMA_V1BETA3, PRIORITY_LEVEL_V1, PRIORITY_LEVEL_V1BETA3]


def structs(kind: Type) -> Iterator[Struct]:
    """The structs of a type that belong to its group."""
    if isinstance(kind, List):
        yield from structs(kind.item)
    elif isinstance(kind, Struct) and ".flowcontrol." in kind.package:
        yield kind
        for field in kind.fields:
            yield from structs(field.type)


@pytest.mark.parametrize("schema", VERSIONS)
def test_package(schema: Struct) -> None:
    """All structs of a version belong to its package, each under one name."""
    found = list(structs(schema))

    assert {schema.package} == {each.package for each in found}
    assert len({id(each) for each in found}) == len({each.name for each in found})


@pytest.mark.parametrize("schema", VERSIONS)
def test_conditions(schema: Struct) -> None:
    """Conditions are identified by their type."""
    status = schema.by_name["status"].type
    assert isinstance(status, Struct)
    conditions = status.by_name["conditions"].type
    assert isinstance(conditions, List)

    assert (ListType.MAP, ("type",), "type", True) == (
        conditions.list_type,
        conditions.list_keys,
        conditions.merge_key,
        conditions.is_merged,
    )


@pytest.mark.parametrize("schema", VERSIONS)
def test_conditions_without_time(schema: Struct) -> None:
    """Go writes a time that is a struct although there is none."""
    read = canonical(schema, {"status": {"conditions": [{"type": "A"}]}})

    assert {"conditions": [{"type": "A", "lastTransitionTime": None}]} == read["status"]


VALUES: st.SearchStrategy[object] = st.sampled_from(
    [None, 0, 7, 2**31, 1.0, True, "", "x", [], {}, [None], ["a", None], [1], {"a": None}, [{}]]
)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
METADATA = {
    "name": "one",
    "generation": 1,
    "labels": {"a": "b"},
    "ownerReferences": [OWNER],
    "finalizers": ["a/b"],
}


def places(content: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  any JSON value
    """All dictionaries and lists with each key and index that they have."""
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield content, key
            yield from places(content[key])


@given(data=st.data(), is_schema=st.booleans(), version=st.sampled_from(["v1", "v1beta3"]))
@settings(max_examples=300)
def test_proxy_and_server_read_the_same(data: st.DataObject, is_schema: bool, version: str) -> None:
    """What a proxy makes of any object is what it would read after it went through the server."""
    wire = {**(flow_schema() if is_schema else queuing()), "metadata": copy.deepcopy(METADATA)}
    wire["apiVersion"] = f"{GROUP}/{version}"
    body = {"metadata": wire["metadata"], "spec": wire["spec"]}
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(list(places(body))))
        container[key] = data.draw(VALUES)
    wire.update(body)
    schema = next(
        each for each in VERSIONS if each.name == wire["kind"] and each.package.endswith(version)
    )
    mine = read_object(wire)

    try:
        server = read(schema, wire).obj
    except MismatchError:
        assert isinstance(mine, list)
        assert {Reason.TYPE_INVALID} == {error.reason for error in mine}
        return
    assert mine == read_object(server)
