"""OpenAPI against itself, the references of Kubernetes and the schemas; lists of resources."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from apfproxy.apiserver.discovery import Discovery, stability
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.openapi.documents import Definitions, OpenAPI, Style, encode
from apfproxy.apiserver.openapi.operations import catalog, tag_of
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct
from tests.apiserver import kinds as small
from tests.apiserver.kinds import WIDGET
from tests.apiserver.schema.protobuf_writer import block, number

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


OPENAPI = OpenAPI(KINDS)
V2 = json.loads(OPENAPI.v2_json.data)
V3 = {path: json.loads(document.data) for path, document in OPENAPI.v3_documents.items()}
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SELECTOR = {"$ref": f"#/definitions/{META}.Selector"}
ATOMIC = {"x-kubernetes-list-type": "atomic"}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("field", "v2", "default"),
    [
        (Field("f", Scalar.STRING, is_required=True, is_always_written=True), TEXT, ""),
        (
            Field("f", Scalar.INT32, "Text.", is_required=True, is_pointer=True),
            {"type": "integer", "format": "int32", "description": "Text."},
            None,
        ),
        (Field("f", Scalar.INT64, default=7), {"type": "integer", "format": "int64"}, 7),
        (
            Field("f", Scalar.STRING, is_replaced=True, enum=("A", "B")),
            {**TEXT, "enum": ["A", "B"], "x-kubernetes-patch-strategy": "replace"},
            None,
        ),
        (Field("f", small.SELECTOR), SELECTOR, {}),
        (
            Field("f", small.SELECTOR, "Text.", is_pointer=True),
            {**SELECTOR, "description": "Text."},
            None,
        ),
        (
            Field("f", List(Scalar.STRING), enum=("a",)),
            {"type": "array", "items": {**TEXT, "enum": ["a"]}, **ATOMIC},
            None,
        ),
        (
            small.STATUS.fields[0],
            {
                "type": "array",
                "items": {"$ref": "#/definitions/io.k8s.api.widgets.v1.WidgetCondition"},
                "description": "What is the case.",
                "x-kubernetes-list-map-keys": ["type"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "type",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
            },
            None,
        ),
        (
            Field("f", Map(Map(Scalar.STRING), is_atomic=True)),
            {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": TEXT},
                "x-kubernetes-map-type": "atomic",
            },
            None,
        ),
        (
            Field("fieldsV1", Scalar.ANY, is_pointer=True),
            {"$ref": f"#/definitions/{META}.FieldsV1"},
            None,
        ),
    ],
)
def test_property(field: Field, v2: Object, default: object) -> None:
    found = {}
    for style in Style:
        definitions = Definitions(style, {})
        definitions.reference(Struct("Holder", (field,), "x"))
        found[style] = definitions.schemas["x.Holder"]["properties"][field.name]
    described = found[Style.V3]
    assert (v2, v2, default) == (found[Style.V2], in_v2(described), described.get("default"))
    assert "$ref" not in described or len(described) == 1


def in_v2(value: Any) -> Any:  # noqa: ANN401  any part of a document
    if isinstance(value, list):
        return [in_v2(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("allOf"):
        (reference,) = value["allOf"]
        value = {**reference, **{key: own for key, own in value.items() if key != "allOf"}}
    if "oneOf" in value:
        value = {**value, **TEXT}
    return {
        key: own.replace(Style.V3.value, Style.V2.value) if key == "$ref" else in_v2(own)
        for key, own in value.items()
        if key != "oneOf" and (key != "default" or references(own))
    }


def test_versions_say_the_same() -> None:
    paths: dict[str, Object] = {}
    for document in json.loads(json.dumps(V3)).values():
        paths |= document["paths"]
        for definition, schema in document["components"]["schemas"].items():
            assert V2["definitions"][definition] == in_v2(schema)
    assert V2["paths"].keys() == paths.keys()
    for path, item in V2["paths"].items():
        shared = paths[path].pop("parameters", [])
        assert item.keys() == paths[path].keys()
        for method, v2 in item.items():
            v3 = paths[path][method]
            members = ("description", "operationId", "tags", "x-kubernetes-action")
            assert [v2.get(each) for each in members] == [v3.get(each) for each in members]
            parameters = {each["name"]: each for each in v2.get("parameters", ())}
            if body := parameters.pop("body", None):
                assert v2["consumes"] == list(v3["requestBody"]["content"])
                assert body.get("required") == v3["requestBody"].get("required")
            own = [{**each, **each["schema"]} for each in v3.get("parameters", []) + shared]
            assert parameters == {
                each["name"]: {key: value for key, value in each.items() if key != "schema"}
                for each in own
            }
            assert v2["produces"] == list(v3["responses"]["200"]["content"])
            assert v2["responses"].keys() == v3["responses"].keys()
            assert references(v2) == references(v3)


def references(value: Any) -> set[str]:  # noqa: ANN401  any part of a document
    if isinstance(value, list):
        return set[str]().union(*map(references, value))
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set()


@pytest.mark.parametrize("name", V3)
def test_a_document_has_the_definitions_that_it_needs(name: str) -> None:
    assert references(V3[name]) == V3[name]["components"]["schemas"].keys()


def f(own: int, *contents: str | bytes) -> bytes:
    return block(own, b"".join(c.encode() if isinstance(c, str) else c for c in contents))


REF, LINK = {"$ref": "#/d"}, f(1, "#/d")
BODY = {"in": "body", "name": "b", "required": True, "schema": REF}
PLACE = {"description": "D", "name": "n", "type": "t", "uniqueItems": True}
METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
TEXTS = """
    document.swagger=1 operation.tags=1 operation.description=3 operation.operationId=5
    operation.produces=6 operation.consumes=7 operation.schemes=10 schema.$ref=1 schema.format=2
    schema.description=4 schema.required=19
"""
PLACED = f(3, "D") + f(4, "n")


@pytest.mark.parametrize(
    ("message", "member", "value", "expected"),
    [
        *(
            (*member.split("."), ["a", "b"], f(int(own), "a") + f(int(own), "b"))
            for member, _, own in (each.partition("=") for each in TEXTS.split())
        ),
        ("document", "info", {"version": "1", "title": "T"}, f(2, f(1, "T"), f(2, "1"))),
        ("document", "paths", {"/p": {}}, f(8, f(2, f(1, "/p"), f(2)))),
        ("document", "definitions", {"d": REF}, f(9, f(1, f(1, "d"), f(2, LINK)))),
        *(("path", name, {}, f(own)) for name, own in METHODS.items()),
        ("operation", "x-k", {"b": [1]}, f(13, f(1, "x-k"), f(2, f(2, '{"b":[1]}')))),
        (
            "operation",
            "responses",
            {"200": {"schema": REF, "description": "OK"}},
            f(9, f(1, f(1, "200"), f(2, f(1, f(1, "OK"), f(2, f(1, LINK)))))),
        ),
        (
            "operation",
            "parameters",
            [BODY, {**PLACE, "in": "path", "required": True}, {**PLACE, "in": "query"}],
            f(8, f(1, f(1, f(2, "b"), f(3, "body"), number(4, 1), f(5, LINK))))
            + f(8, f(1, f(2, f(4, number(1, 1), f(2, "path"), PLACED, f(5, "t"), number(19, 1)))))
            + f(8, f(1, f(2, f(3, f(2, "query"), PLACED, f(6, "t"), number(20, 1))))),
        ),
        ("schema", "enum", ["A"], f(20, f(2, '"A"'))),
        ("schema", "type", "t", f(22, f(1, "t"))),
        ("schema", "items", REF, f(23, f(1, LINK))),
        ("schema", "additionalProperties", REF, f(21, f(1, LINK))),
        ("schema", "properties", {"p": REF}, f(25, f(1, f(1, "p"), f(2, LINK)))),
        ("schema", "x-k", False, f(31, f(1, "x-k"), f(2, f(2, "false")))),
    ],
)
def test_protobuf(message: str, member: str, value: object, expected: bytes) -> None:
    assert expected == encode({member: value}, message)


def test_protobuf_of_all() -> None:
    type_ = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert (type_, encode(V2)) == (OPENAPI.v2_protobuf.content_type, OPENAPI.v2_protobuf.data)
    with pytest.raises(AssertionError):
        encode({"host": "h"})


OPERATIONS = """
    deletecollection NS/pods deleteCoreV1CollectionNamespacedPod
    list             NS/pods listCoreV1NamespacedPod
    post             NS/pods createCoreV1NamespacedPod
    list             pods listCoreV1PodForAllNamespaces
    delete           NS/pods/{name} deleteCoreV1NamespacedPod
    get              NS/pods/{name} readCoreV1NamespacedPod
    patch            NS/pods/{name} patchCoreV1NamespacedPod
    put              NS/pods/{name} replaceCoreV1NamespacedPod
    get              NS/pods/{name}/status readCoreV1NamespacedPodStatus
    patch            NS/pods/{name}/status patchCoreV1NamespacedPodStatus
    put              NS/pods/{name}/status replaceCoreV1NamespacedPodStatus
    post             NS/pods/{name}/eviction createCoreV1NamespacedPodEviction
    watch            watch/NS/pods/{name} watchCoreV1NamespacedPod
    watchlist        watch/NS/pods watchCoreV1NamespacedPodList
    watchlist        watch/pods watchCoreV1PodListForAllNamespaces
"""


def test_operations() -> None:
    found = catalog((small.POD,)).operations

    assert OPERATIONS.replace("NS", "namespaces/{namespace}").split() == [
        part
        for each in found
        if each.kind
        for part in (each.action.name, each.path.removeprefix("/api/v1/"), each.id)
    ]
    assert "readFlowcontrolApiserverV1FlowSchema" in {each.id for each in catalog(KINDS).operations}
    assert "flowcontrolApiserver_v1" == tag_of("flowcontrol.apiserver.k8s.io", "v1")
    assert "core" == tag_of("")


def test_operations_for_clients() -> None:
    names = [each["operationId"] for item in V2["paths"].values() for each in item.values()]
    item = V2["paths"]["/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"]

    assert sorted(set(names)) == sorted(names)
    parameters = [each["name"] for each in item["patch"]["parameters"]]
    assert ["namespace", "name", "dryRun"] == parameters[:3]
    options = {"$ref": f"#/definitions/{META}.DeleteOptions"}
    assert {"name": "body", "in": "body", "schema": options} == item["delete"]["parameters"][-1]
    assert ["application/json", "application/yaml"] == item["delete"]["produces"]
    patches = ("apply-patch+yaml", "json-patch+json", "merge-patch+json")
    expected = [f"application/{each}" for each in (*patches, "strategic-merge-patch+json")]
    assert expected == item["patch"]["consumes"]
    described = {code: each["description"] for code, each in item["patch"]["responses"].items()}
    assert {"200": "OK", "201": "Created", "401": "Unauthorized"} == described


def test_every_kind_has_one_definition() -> None:
    named = [
        (kind["group"], kind["version"], kind["kind"])
        for definition in V2["definitions"].values()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
    ]
    expected = {
        (kind.group, version.name, f"{kind.name}{suffix}")
        for kind in KINDS
        for version in kind.versions
        for suffix in ("", "List")[: 1 if kind.review else 2]
    }
    assert set() == expected - set(named)
    assert len(set(named)) == len(named)


def test_documents() -> None:
    links = json.loads(OPENAPI.v3_index.data)["paths"]
    again = OpenAPI(KINDS)
    document = OPENAPI.v2_json

    assert document.data == gzip.decompress(document.gzipped)
    assert 100_000 > len(document.gzipped)
    assert {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}
        for path, document in again.v3_documents.items()
    } == links
    paths = {path[1:] for path in Discovery(KINDS).root_paths() if "openapi" not in path}
    assert paths == links.keys()


DISCOVERY = Discovery(small.KINDS)


def test_versions_and_groups_that_are_none() -> None:
    for group, version in (("widgets.example.com", "v2"), ("", "v2"), ("gadgets", "v1")):
        assert DISCOVERY.api_resource_list(group, version) is None
    assert [None, None] == [DISCOVERY.api_group(name) for name in ("", "gadgets.example.com")]


def test_versions_have_the_kinds_that_they_have() -> None:
    gadget = msgspec.structs.replace(WIDGET, name="Gadget", versions=WIDGET.versions[:1])
    discovery = Discovery((WIDGET, gadget))
    listed = [discovery.api_resource_list(WIDGET.group, name) or {} for name in ("v1", "v1beta3")]

    assert [4, 2] == [len(each["resources"]) for each in listed]
    (group,) = discovery.aggregated(is_core=False)["items"]
    assert {"name": "widgets.example.com"} == group["metadata"]
    assert [("v1", "Current", 2), ("v1beta3", "Current", 1)] == [
        (each["version"], each["freshness"], len(each["resources"])) for each in group["versions"]
    ]


def test_stability() -> None:
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "x1"]
    assert expected == sorted(sorted(expected), key=stability, reverse=True)
