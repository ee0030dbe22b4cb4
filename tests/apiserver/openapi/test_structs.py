"""Tests of the structs of documents against the documents themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.discovery import Discovery, version_document
from apfproxy.apiserver.openapi import structs
from apfproxy.apiserver.schema.types import List, Struct
from tests.apiserver.kinds import KINDS

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

DISCOVERY = Discovery(KINDS)


@pytest.mark.parametrize(
    ("struct", "document"),
    [
        (structs.VERSION_INFO, version_document()),
        (structs.API_VERSIONS, DISCOVERY.api_versions("x:1")),
        (structs.API_GROUP_LIST, DISCOVERY.api_group_list()),
        (structs.API_GROUP, DISCOVERY.api_group("widgets.example.com")),
        (structs.API_RESOURCE_LIST, DISCOVERY.api_resource_list("", "v1")),
        *(
            (structs.API_RESOURCE, resource)
            for resource in (DISCOVERY.api_resource_list("", "v1") or {})["resources"]
        ),
    ],
)
def test_documents_are_as_described(struct: Struct, document: Object) -> None:
    """A document has what is required, and nothing that is not described."""
    required = {field.name for field in struct.fields if field.is_required}

    assert set() == document.keys() - struct.by_name.keys()
    assert set() == required - document.keys()


def test_list() -> None:
    """A list has metadata of its own and items, which are always there."""
    thing = Struct("Thing", (), "x.v1")

    things = structs.list_struct(thing)

    assert ("ThingList", "x.v1", structs.LIST_META) == (
        things.name,
        things.package,
        things.by_name["metadata"].type,
    )
    assert (List(thing, list_type=None), True) == (
        things.by_name["items"].type,
        things.by_name["items"].is_always_written,
    )
