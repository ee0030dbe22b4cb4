"""Tests of structs as JSON schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.openapi.definitions import Definitions, Style, full_name
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    pointer,
    required,
)
from tests.apiserver.kinds import CONDITION, SELECTOR, STATUS, WIDGET_V1

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

V1 = "io.k8s.api.widgets.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
ATOMIC = {"x-kubernetes-list-type": "atomic"}


def described(field: Field, style: Style) -> Object:
    """The schema of a field of some struct."""
    definitions = Definitions(style, {})
    definitions.reference(Struct("Holder", (field,), "x"))
    property_: Object = definitions.schemas["x.Holder"]["properties"][field.name]
    return property_


@pytest.mark.parametrize(
    ("field", "v2", "v3"),
    [
        pytest.param(
            Field("f", Scalar.STRING, "Some text."),
            {"type": "string", "description": "Some text."},
            {"type": "string", "description": "Some text."},
            id="string",
        ),
        pytest.param(
            required("f", Scalar.STRING),
            {"type": "string"},
            {"type": "string", "default": ""},
            id="required-string",
        ),
        pytest.param(
            Field("f", Scalar.INT32, is_required=True, is_pointer=True),
            {"type": "integer", "format": "int32"},
            {"type": "integer", "format": "int32"},
            id="required-pointer",
        ),
        pytest.param(
            Field("f", Scalar.INT64, default=7),
            {"type": "integer", "format": "int64"},
            {"type": "integer", "format": "int64", "default": 7},
            id="default",
        ),
        pytest.param(
            Field("f", Scalar.STRING, enum=("A", "B")),
            {"type": "string", "enum": ["A", "B"]},
            {"type": "string", "enum": ["A", "B"]},
            id="enum",
        ),
        pytest.param(
            Field("f", Scalar.STRING, is_required=True, enum=("A", "B")),
            {"type": "string", "enum": ["A", "B"]},
            {"type": "string", "enum": ["A", "B"]},
            id="required-enum",
        ),
        pytest.param(
            pointer("f", Scalar.TIME, "When."),
            {"$ref": f"#/definitions/{META}.Time", "description": "When."},
            {"allOf": [{"$ref": f"#/components/schemas/{META}.Time"}], "description": "When."},
            id="reference-with-description",
        ),
        pytest.param(
            pointer("f", Scalar.TIME),
            {"$ref": f"#/definitions/{META}.Time"},
            {"$ref": f"#/components/schemas/{META}.Time"},
            id="reference-alone",
        ),
        pytest.param(
            Field("f", SELECTOR),
            {"$ref": f"#/definitions/{META}.Selector"},
            {"allOf": [{"$ref": f"#/components/schemas/{META}.Selector"}], "default": {}},
            id="struct-that-may-be-empty",
        ),
        pytest.param(
            pointer("f", SELECTOR),
            {"$ref": f"#/definitions/{META}.Selector"},
            {"$ref": f"#/components/schemas/{META}.Selector"},
            id="struct-that-may-be-absent",
        ),
        pytest.param(
            Field("f", CONDITION),
            {"$ref": f"#/definitions/{V1}.WidgetCondition"},
            {"allOf": [{"$ref": f"#/components/schemas/{V1}.WidgetCondition"}], "default": {}},
            id="struct-that-must-not-be-empty",
        ),
        pytest.param(
            Field("f", List(SELECTOR)),
            {
                "type": "array",
                "items": {"$ref": f"#/definitions/{META}.Selector"},
                **ATOMIC,
            },
            {
                "type": "array",
                "items": {"$ref": f"#/components/schemas/{META}.Selector"},
                **ATOMIC,
            },
            id="list-of-structs",
        ),
        pytest.param(
            Field("f", List(Scalar.STRING, ListType.SET, is_merged=True)),
            {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            id="set",
        ),
        pytest.param(
            Field("f", List(Scalar.STRING), enum=("a",)),
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, **ATOMIC},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, **ATOMIC},
            id="list-of-choices",
        ),
        pytest.param(
            Field("f", Map(Scalar.STRING, is_atomic=True)),
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            id="atomic-map",
        ),
        pytest.param(
            Field("f", Map(Map(Scalar.BOOLEAN))),
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": {"type": "boolean"},
                },
            },
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": {"type": "boolean"},
                },
            },
            id="map-of-maps",
        ),
        pytest.param(
            Field("f", Scalar.INT_OR_STRING, is_replaced=True),
            {
                "$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                "x-kubernetes-patch-strategy": "replace",
            },
            {
                "allOf": [
                    {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
                ],
                "x-kubernetes-patch-strategy": "replace",
            },
            id="replaced-reference",
        ),
        pytest.param(
            Field("f", Scalar.STRING, is_replaced=True),
            {"type": "string", "x-kubernetes-patch-strategy": "replace"},
            {"type": "string", "x-kubernetes-patch-strategy": "replace"},
            id="is-replaced",
        ),
    ],
)
def test_property(field: Field, v2: Object, v3: Object) -> None:
    """Each sort of field is described as its version of OpenAPI can."""
    assert v2 == described(field, Style.V2)
    assert v3 == described(field, Style.V3)


def test_list_that_is_merged_by_key() -> None:
    """A list whose items have a key says so for both ways of merging."""
    assert {
        "type": "array",
        "items": {"$ref": f"#/definitions/{V1}.WidgetCondition"},
        "description": "What is the case.",
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "type",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    } == described(STATUS.fields[0], Style.V2)


def test_definition_of_a_kind() -> None:
    """A kind's definition names the kind; what is required is listed."""
    definitions = Definitions(Style.V2, {f"{V1}.Widget": [("widgets.example.com", "v1", "Widget")]})
    expected = {"$ref": f"#/definitions/{V1}.Widget"}

    assert expected == definitions.reference(WIDGET_V1)
    schema = definitions.schemas[f"{V1}.Widget"]
    assert [{"group": "widgets.example.com", "kind": "Widget", "version": "v1"}] == schema[
        "x-kubernetes-group-version-kind"
    ]
    assert ["spec"] == schema["required"]
    assert "Something with a use." == schema["description"]
    assert "object" == schema["type"]


def test_all_that_is_referred_to_is_there() -> None:
    """Every reference leads somewhere, and no definition is left empty."""
    definitions = Definitions(Style.V3, {})
    definitions.reference(WIDGET_V1)

    def references(value: Any) -> set[str]:  # noqa: ANN401  any part of a document
        if isinstance(value, list):
            return set[str]().union(*map(references, value))
        if isinstance(value, dict):
            own = {value["$ref"].removeprefix(Style.V3.value)} if "$ref" in value else set()
            return own.union(*map(references, value.values()))
        return set()

    assert references(definitions.schemas) == definitions.schemas.keys() - {f"{V1}.Widget"}
    assert [] == [name for name, schema in definitions.schemas.items() if not schema]


def test_scalars_of_several_types() -> None:
    """Only version 3 can say that an amount may also be a number."""
    names = (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    )
    found = {}
    for style in Style:
        definitions = Definitions(style, {})
        definitions.reference(WIDGET_V1)
        found[style] = [
            {key: value for key, value in definitions.schemas[name].items() if key != "description"}
            for name in names
        ]

    assert {
        Style.V2: [{"type": "string"}, {"type": "string", "format": "int-or-string"}],
        Style.V3: [
            {"oneOf": [{"type": "string"}, {"type": "number"}]},
            {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
        ],
    } == found


def test_atomic_struct() -> None:
    """A struct that is owned as one says so."""
    definitions = Definitions(Style.V2, {})
    definitions.reference(SELECTOR)

    assert "atomic" == definitions.schemas[f"{META}.Selector"]["x-kubernetes-map-type"]


def test_open_struct() -> None:
    """A struct that keeps unknown fields says so."""
    definitions = Definitions(Style.V3, {})
    definitions.reference(Struct("Open", (), keeps_unknown=True))

    assert {
        "Open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    } == definitions.schemas


def test_fields_that_are_owned() -> None:
    """The set of fields in `managedFields` has a definition of its own."""
    expected = {"$ref": f"#/definitions/{META}.FieldsV1"}

    assert expected == described(pointer("fieldsV1", Scalar.ANY), Style.V2)


def test_struct_without_fields() -> None:
    """It is any object."""
    definitions = Definitions(Style.V2, {})
    definitions.reference(Struct("Patch", ()))

    assert {"Patch": {"type": "object"}} == definitions.schemas


def test_struct_that_holds_itself() -> None:
    """A struct may contain itself."""
    inner: list[Field] = []
    struct = Struct("Node", (), "x")
    inner.append(Field("children", List(struct)))
    object.__setattr__(struct, "fields", tuple(inner))
    definitions = Definitions(Style.V2, {})
    definitions.reference(struct)

    children = definitions.schemas["x.Node"]["properties"]["children"]
    assert {"$ref": "#/definitions/x.Node"} == children["items"]


def test_equal_structs_of_one_name() -> None:
    """Two descriptions of the same are one definition."""
    definitions = Definitions(Style.V2, {})
    for _ in range(2):
        inner = Struct("Inner", (), "x")
        fields = (Field("a", List(inner)), Field("b", inner), Field("c", Map(Scalar.STRING)))
        definitions.reference(Struct("Outer", fields, "x"))

    assert {"x.Inner", "x.Outer"} == definitions.schemas.keys()


def test_full_name() -> None:
    """A struct of no package has its name alone."""
    assert "Thing" == full_name(Struct("Thing", ()))
    assert "x.Thing" == full_name(Struct("Thing", (), "x"))
