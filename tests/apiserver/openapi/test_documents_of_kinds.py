"""Tests of the documents about the kinds that are really served."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.openapi.definitions import full_name
from apfproxy.apiserver.openapi.documents import OpenAPI
from apfproxy.apiserver.openapi.paths import catalog
from apfproxy.apiserver.schema.types import List, Map, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.schema.types import Type
    from apfproxy.objects.types import Object

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/{}"
RESOURCE = "/apis/resource.k8s.io/{}"
BUDGETS = "namespaces/{namespace}/poddisruptionbudgets"
ONE = ("delete", "get", "patch", "put")
ALL = ("delete", "get", "post")
STATUS = ("get", "patch", "put")


def cluster_paths(prefix: str, plural: str, *, has_status: bool) -> dict[str, tuple[str, ...]]:
    """Path to methods, of a resource that is in no namespace."""
    paths = {
        f"{prefix}/{plural}": ALL,
        f"{prefix}/{plural}/{{name}}": ONE,
        f"{prefix}/watch/{plural}": ("get",),
        f"{prefix}/watch/{plural}/{{name}}": ("get",),
    }
    return {**paths, f"{prefix}/{plural}/{{name}}/status": STATUS} if has_status else paths


REFERENCES: dict[str, tuple[str, ...]] = {
    **cluster_paths(FLOW_CONTROL.format("v1"), "flowschemas", has_status=True),
    **cluster_paths(FLOW_CONTROL.format("v1"), "prioritylevelconfigurations", has_status=True),
    **cluster_paths(FLOW_CONTROL.format("v1beta3"), "flowschemas", has_status=True),
    **cluster_paths(FLOW_CONTROL.format("v1beta3"), "prioritylevelconfigurations", has_status=True),
    **cluster_paths(RESOURCE.format("v1"), "resourceslices", has_status=False),
    **cluster_paths(RESOURCE.format("v1beta1"), "resourceslices", has_status=False),
    "/apis/policy/v1/poddisruptionbudgets": ("get",),
    f"/apis/policy/v1/{BUDGETS}": ALL,
    f"/apis/policy/v1/{BUDGETS}/{{name}}": ONE,
    f"/apis/policy/v1/{BUDGETS}/{{name}}/status": STATUS,
    "/apis/policy/v1/watch/poddisruptionbudgets": ("get",),
    f"/apis/policy/v1/watch/{BUDGETS}": ("get",),
    f"/apis/policy/v1/watch/{BUDGETS}/{{name}}": ("get",),
    "/api/v1/namespaces/{namespace}/pods/{name}/eviction": ("post",),
}
"""Path to methods, as the references of the resources have them."""


@pytest.fixture(scope="module")
def openapi() -> OpenAPI:
    """Of all kinds that are served."""
    return OpenAPI(KINDS)


@pytest.fixture(scope="module")
def swagger(openapi: OpenAPI) -> Object:
    """The version 2 document."""
    document: Object = json.loads(openapi.v2_json.data)
    return document


def test_every_operation_of_the_references(swagger: Object) -> None:
    """Each path of the references has the methods that they name."""
    found = {path: tuple(sorted(item)) for path, item in swagger["paths"].items()}

    assert REFERENCES == {path: found.get(path, ()) for path in REFERENCES}


def test_nothing_else_in_the_groups(swagger: Object) -> None:
    """Neither the groups' versions nor their resources are more than the references have."""
    groups = {"/".join(path.split("/")[:3]) for path in REFERENCES if path.startswith("/apis/")}
    found = {
        path
        for path in swagger["paths"]
        if "/".join(path.split("/")[:3]) in groups and path[-1] != "/"
    }

    assert {path for path in REFERENCES if path.startswith("/apis/")} == found


@pytest.mark.parametrize(
    ("name", "field", "extensions"),
    [
        (
            "io.k8s.api.flowcontrol.v1.FlowSchemaStatus",
            "conditions",
            {
                "x-kubernetes-list-map-keys": ["type"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "type",
                "x-kubernetes-patch-strategy": "merge",
            },
        ),
        (
            "io.k8s.api.policy.v1.PodDisruptionBudgetStatus",
            "conditions",
            {
                "x-kubernetes-list-map-keys": ["type"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "type",
                "x-kubernetes-patch-strategy": "merge",
            },
        ),
        (
            "io.k8s.api.resource.v1.ResourceSliceSpec",
            "devices",
            {"x-kubernetes-list-type": "atomic"},
        ),
    ],
)
def test_extensions(swagger: Object, name: str, field: str, extensions: Object) -> None:
    """Lists are merged as the references say."""
    found = swagger["definitions"][name]["properties"][field]

    assert extensions == {key: value for key, value in found.items() if key.startswith("x-")}


def test_kinds(swagger: Object) -> None:
    """Every kind, and every list of it, in every version, has one definition that names it."""
    named = [
        (kind["group"], kind["version"], kind["kind"])
        for definition in swagger["definitions"].values()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
    ]
    expected = {
        (kind.group, version.name, f"{kind.name}{suffix}")
        for kind in KINDS
        for version in kind.versions
        for suffix in ("", "List")
    }

    assert set() == expected - set(named)
    assert len(set(named)) == len(named)


def test_descriptions(swagger: Object) -> None:
    """`kubectl explain` has something to say of every struct and every field."""
    silent = [
        f"{name}.{field}"
        for name, definition in swagger["definitions"].items()
        for field, described in definition.get("properties", {}).items()
        if not described.get("description")
    ]

    assert [] == silent
    assert [] == [
        name
        for name, definition in swagger["definitions"].items()
        if not definition.get("description")
    ]


def test_every_document_is_there(openapi: OpenAPI) -> None:
    """Each version of a group has its own version 3 document."""
    assert {
        "api",
        "api/v1",
        "apis",
        "apis/apps",
        "apis/apps/v1",
        "apis/coordination.k8s.io",
        "apis/coordination.k8s.io/v1",
        "apis/events.k8s.io",
        "apis/events.k8s.io/v1",
        "apis/flowcontrol.apiserver.k8s.io",
        "apis/flowcontrol.apiserver.k8s.io/v1",
        "apis/flowcontrol.apiserver.k8s.io/v1beta3",
        "apis/policy",
        "apis/policy/v1",
        "apis/resource.k8s.io",
        "apis/resource.k8s.io/v1",
        "apis/resource.k8s.io/v1beta1",
        "version",
    } == openapi.v3_documents.keys()


def test_size(openapi: OpenAPI) -> None:
    """The largest document is small where it is compressed."""
    assert 100_000 > len(openapi.v2_json.gzipped)


def structs_of(type_: Type) -> Iterator[Struct]:
    """A struct and all that it holds."""
    match type_:
        case Struct():
            yield type_
            for field in type_.fields:
                if field.type is not type_:
                    yield from structs_of(field.type)
        case List():
            yield from structs_of(type_.item)
        case Map():
            yield from structs_of(type_.value)


def test_names_of_structs() -> None:
    """Two structs of one name have the same fields: else one would be described wrongly."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for operation in catalog(KINDS).operations:
        for type_ in (*operation.answers.values(), *filter(None, (operation.body,))):
            for struct in structs_of(type_):
                names = tuple(field.name for field in struct.fields)
                found.setdefault(full_name(struct), set()).add(names)

    assert [] == [name for name, fields in found.items() if len(fields) > 1]
