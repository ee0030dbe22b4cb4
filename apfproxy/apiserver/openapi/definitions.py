"""Structs as JSON schemas, with Kubernetes' extensions.

The two versions of OpenAPI differ in three points: where a reference may have siblings, in types
that allow several JSON types, and in defaults, which only version 3 has.

Sources: OpenAPI 2.0 and 3.0; Kubernetes documentation, "Server-Side Apply", "Merge strategy"; the
published documents of Kubernetes for names and extensions.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from apfproxy.apiserver.schema.reading import zero_of
from apfproxy.apiserver.schema.shared_structs import META
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.apiserver.schema.types import Type
    from apfproxy.objects.types import Object

GroupVersionKind = tuple[str, str, str]
"""Group, version and kind."""


class Style(enum.Enum):
    """A version of OpenAPI; the value is what references to definitions begin with."""

    V2 = "#/definitions/"
    V3 = "#/components/schemas/"


STRING: Object = {"type": "string"}
PLAIN: dict[Scalar, Object] = {
    Scalar.STRING: STRING,
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.INT32: {"type": "integer", "format": "int32"},
    Scalar.INT64: {"type": "integer", "format": "int64"},
    Scalar.BASE64: {"type": "string", "format": "byte"},
}
"""Scalars that are described where they are used."""
NAMED = {
    Scalar.QUANTITY: "io.k8s.apimachinery.pkg.api.resource.Quantity",
    Scalar.INT_OR_STRING: "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    Scalar.TIME: f"{META}.Time",
    Scalar.MICRO_TIME: f"{META}.MicroTime",
    Scalar.ANY: "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
"""Scalars that have their own definition."""
FIELDS = f"{META}.FieldsV1"
DESCRIPTIONS = {
    NAMED[Scalar.QUANTITY]: "A number with an optional suffix, such as 100m, 1.5, 2k or 4Gi.",
    NAMED[Scalar.INT_OR_STRING]: "An integer, or a string such as a percentage.",
    NAMED[Scalar.TIME]: "A time as RFC 3339 writes it, in whole seconds.",
    NAMED[Scalar.MICRO_TIME]: "A time as RFC 3339 writes it, with microseconds.",
    NAMED[Scalar.ANY]: "An object of any kind.",
    FIELDS: "A set of fields as a tree: keys are f: with a field's name, k: with the keys of an "
    "item, v: with a value, i: with an index, or a dot for the parent itself.",
}
TIME = {"format": "date-time", **STRING}
FORMAT = {"format": "int-or-string"}
TYPES: dict[str, tuple[Object, Object]] = {
    NAMED[Scalar.QUANTITY]: (
        PLAIN[Scalar.STRING],
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    NAMED[Scalar.INT_OR_STRING]: (
        {**FORMAT, **STRING},
        {"oneOf": [{"type": "integer"}, STRING], **FORMAT},
    ),
    NAMED[Scalar.TIME]: (TIME, TIME),
    NAMED[Scalar.MICRO_TIME]: (TIME, TIME),
}
"""Their types in versions 2 and 3, of which the first cannot express several JSON types."""
ANY_OBJECT: Object = {"type": "object"}


def full_name(struct: Struct) -> str:
    """The name of a struct's definition, such as `io.k8s.api.policy.v1.PodDisruptionBudget`."""
    return f"{struct.package}.{struct.name}" if struct.package else struct.name


def kind_entry(kind: GroupVersionKind) -> dict[str, str]:
    """A kind as extensions name it."""
    group, version, name = kind
    return {"group": group, "kind": name, "version": version}


class Definitions:
    """The definitions that one document needs, by name; `kinds` are what each describes."""

    def __init__(self, style: Style, kinds: Mapping[str, Sequence[GroupVersionKind]]) -> None:
        self.style = style
        self.kinds = kinds
        self.schemas: dict[str, Object] = {}

    def reference(self, struct: Struct) -> Object:
        """A reference to a struct's definition, which is added with all that it needs."""
        name = full_name(struct)
        if name not in self.schemas:
            self.schemas[name] = {}  # Ends the recursion of structs that contain themselves.
            self.schemas[name] = self.definition(struct, name)
        return {"$ref": self.style.value + name}

    def definition(self, struct: Struct, name: str) -> Object:
        """The schema of a struct."""
        return _present(
            {
                "description": struct.description,
                "properties": {field.name: self.property(field) for field in struct.fields},
                "required": [field.name for field in struct.fields if field.is_required],
                "type": "object",
                "x-kubernetes-group-version-kind": list(map(kind_entry, self.kinds.get(name, ()))),
                "x-kubernetes-preserve-unknown-fields": struct.keeps_unknown,
                "x-kubernetes-map-type": "atomic" * struct.is_atomic,
                "x-kubernetes-unions": [_union_entry(struct.union)] if struct.union else [],
            }
        )

    def property(self, field: Field) -> Object:
        """The schema of a field."""
        type_ = field.type
        schema = self.named(FIELDS) if field.name == "fieldsV1" else self.type_schema(type_)
        values = {"enum": list(field.enum)} if field.enum else {}
        extra = _present({"description": field.description})
        if isinstance(type_, List):
            schema["items"].update(values)
            extra |= _list_extensions(type_)
        else:
            extra |= values
        default = _default_of(field)
        if default is not None and self.style is Style.V3:
            extra["default"] = default
        if isinstance(type_, Map) and type_.is_atomic:
            extra["x-kubernetes-map-type"] = "atomic"
        if field.is_replaced:
            extra["x-kubernetes-patch-strategy"] = "replace"
        if extra and "$ref" in schema and self.style is Style.V3:
            return {"allOf": [schema], **extra}  # version 3 forbids siblings of references
        return {**schema, **extra}

    def type_schema(self, type_: Type) -> Object:
        """The schema of a type."""
        if isinstance(type_, Struct):
            return self.reference(type_)
        if isinstance(type_, List):
            return {"type": "array", "items": self.type_schema(type_.item)}
        if isinstance(type_, Map):
            return {"type": "object", "additionalProperties": self.type_schema(type_.value)}
        if type_ in NAMED:
            return self.named(NAMED[type_])
        return dict(PLAIN[type_])

    def named(self, name: str) -> Object:
        """A reference to a scalar's definition, which is added."""
        v2, v3 = TYPES.get(name, (ANY_OBJECT, ANY_OBJECT))
        type_ = v2 if self.style is Style.V2 else v3
        self.schemas[name] = {"description": DESCRIPTIONS[name], **type_}
        return {"$ref": self.style.value + name}


def _default_of(field: Field) -> object:
    """The default of a field, which is what Go has in the place of an absent one; None for none.

    An empty object is named even where it is none that the struct takes, as Kubernetes does.
    """
    if field.default is not None:
        return field.default
    if field.is_pointer:
        return None
    if isinstance(field.type, Struct):
        return {}
    return zero_of(field.type) if field.is_always_written and field.type in PLAIN else None


def _union_entry(union: Union) -> Object:
    """Fields of which only one has a value, each with its name in Go."""
    fields = {name: name[0].upper() + name[1:] for name in union.fields}
    discriminator = {"discriminator": union.discriminator} if union.discriminator else {}
    return {**discriminator, "fields-to-discriminateBy": fields}


def _list_extensions(list_: List) -> Object:
    strategies = ["merge"] * list_.is_merged + ["retainKeys"] * list_.retains_keys
    return _present(
        {
            "x-kubernetes-list-map-keys": list(list_.list_keys),
            "x-kubernetes-list-type": list_.list_type and list_.list_type.value,
            "x-kubernetes-patch-merge-key": list_.merge_key,
            "x-kubernetes-patch-strategy": ",".join(strategies),
        }
    )


def _present(members: Object) -> Object:
    return {name: value for name, value in members.items() if value}
