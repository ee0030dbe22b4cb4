"""Tests of the structure of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.objects.flowcontrol_schema import (
    FLOW_SCHEMA_V1,
    FLOW_SCHEMA_V1BETA3,
    PRIORITY_LEVEL_V1,
    PRIORITY_LEVEL_V1BETA3,
)
from apfproxy.objects.schema.reading import canonical
from apfproxy.objects.schema.types import List, ListType, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.objects.schema.types import Type

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
