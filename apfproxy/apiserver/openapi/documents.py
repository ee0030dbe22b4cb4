"""The OpenAPI documents of a server, each made at the first request for it, and cached.

A document is tens to hundreds of kilobytes of JSON that never change while the server runs, so it
is cached as bytes, compressed too.  There is one of version 2 (Swagger), and one of version 3 for
each version of a group.

In version 2, parameters stand where they are used, not in a section of their own: kubectl before
1.27 looks for `dryRun` there, and takes a server that has it elsewhere for one that cannot do dry
runs.  kubectl reads version 2 in the protobuf form of gnostic only; `encode` writes what occurs
here, and is no general encoder of OpenAPI.

Sources: OpenAPI 2.0 and 3.0; Kubernetes documentation, "OpenAPI V3"; gnostic-models,
`openapiv2/OpenAPIv2.proto`, for the numbers of fields; Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import enum
import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.discovery import MAJOR, MINOR
from apfproxy.apiserver.openapi.operations import JSON, catalog, full_name, rows
from apfproxy.apiserver.schema.reading import zero_of
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.schema.types import List, Map, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.openapi.operations import Catalog, GroupVersionKind, Operation
    from apfproxy.apiserver.schema.types import Field, Type, Union
    from apfproxy.objects.types import Object

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Content type of the protobuf form; clients also write an `@` in place of the dot before `v1.0`,
which is no valid content type."""
INFO = {"title": "Kubernetes", "version": f"{MAJOR}.{MINOR}"}
STATUSES = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


class Style(enum.Enum):
    """A version of OpenAPI; the value is what references to definitions begin with."""

    V2 = "#/definitions/"
    V3 = "#/components/schemas/"


STRING: Object = {"type": "string"}
OBJECT: Object = {"type": "object"}
TIME = {"format": "date-time", **STRING}
FORMAT = {"format": "int-or-string"}
PLAIN: dict[Scalar, Object] = {
    Scalar.STRING: STRING,
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.INT32: {"type": "integer", "format": "int32"},
    Scalar.INT64: {"type": "integer", "format": "int64"},
    Scalar.BASE64: {**STRING, "format": "byte"},
}
DEFINED = """
quantity  api.resource.Quantity  A number with an optional suffix, such as 100m, 1.5, 2k or 4Gi.
intOrString  util.intstr.IntOrString  An integer, or a string such as a percentage.
time  apis.meta.v1.Time  A time as RFC 3339 writes it, in whole seconds.
microtime  apis.meta.v1.MicroTime  A time as RFC 3339 writes it, with microseconds.
any  runtime.RawExtension  An object of any kind.
fieldsV1  apis.meta.v1.FieldsV1  A set of fields as a tree: keys are f: with a field's name, k: with
        the keys of an item, v: with a value, i: with an index, or a dot for the parent itself.
"""
NAMED = {type_: (f"io.k8s.apimachinery.pkg.{name}", text) for type_, name, text in rows(DEFINED)}
FORMS: dict[str, tuple[Object, Object]] = {
    "quantity": (STRING, {"oneOf": [STRING, {"type": "number"}]}),
    "intOrString": ({**FORMAT, **STRING}, {"oneOf": [{"type": "integer"}, STRING], **FORMAT}),
    **dict.fromkeys(("time", "microtime"), (TIME, TIME)),
    **dict.fromkeys(("any", "fieldsV1"), (OBJECT, OBJECT)),
}
"""Their types in versions 2 and 3, of which the first cannot express several JSON types."""


def kind_entry(kind: GroupVersionKind) -> dict[str, str]:
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
        return _present(
            {
                "description": struct.description,
                "properties": {field.name: self.property(field) for field in struct.fields},
                "required": [field.name for field in struct.fields if field.is_required],
                "type": "object",
                "x-kubernetes-group-version-kind": list(map(kind_entry, self.kinds.get(name, ()))),
                "x-kubernetes-preserve-unknown-fields": bool(struct.kept),
                "x-kubernetes-map-type": "atomic" * struct.is_atomic,
                "x-kubernetes-unions": [_union_entry(struct.union)] if struct.union else [],
            }
        )

    def property(self, field: Field) -> Object:
        type_ = field.type
        schema = self.named("fieldsV1") if field.name == "fieldsV1" else self.type_schema(type_)
        values = {"enum": list(field.enum)} if field.enum else {}
        extra = _present({"description": field.description})
        if isinstance(type_, List):
            schema["items"].update(values)
            extra |= _list_extensions(type_)
        else:
            extra |= values
        if self.style is Style.V3 and (default := _default_of(field)) is not None:
            extra["default"] = default
        if isinstance(type_, Map) and type_.is_atomic:
            extra["x-kubernetes-map-type"] = "atomic"
        if field.is_replaced:
            extra["x-kubernetes-patch-strategy"] = "replace"
        if extra and "$ref" in schema and self.style is Style.V3:
            return {"allOf": [schema], **extra}  # version 3 forbids siblings of references
        return {**schema, **extra}

    def type_schema(self, type_: Type) -> Object:
        if isinstance(type_, Struct):
            return self.reference(type_)
        if isinstance(type_, List):
            return {"type": "array", "items": self.type_schema(type_.item)}
        if isinstance(type_, Map):
            return {"type": "object", "additionalProperties": self.type_schema(type_.value)}
        return dict(PLAIN[type_]) if type_ in PLAIN else self.named(type_.value)

    def named(self, type_: str) -> Object:
        name, description = NAMED[type_]
        form = FORMS[type_][self.style is Style.V3]
        self.schemas[name] = {"description": description, **form}
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


@dataclass(frozen=True)
class Document:
    data: bytes
    content_type: str = JSON

    @cached_property
    def gzipped(self) -> bytes:
        return gzip.compress(self.data, compresslevel=6, mtime=0)

    @cached_property
    def hash(self) -> str:
        """In upper-case hexadecimal digits; quoted it is the document's ETag."""
        return hashlib.sha512(self.data).hexdigest().upper()


class OpenAPI:
    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = tuple(kinds)

    @cached_property
    def _catalog(self) -> Catalog:
        return catalog(self._kinds)

    @cached_property
    def _swagger(self) -> Object:
        definitions = Definitions(Style.V2, self._catalog.kinds)
        return {
            "swagger": "2.0",
            "info": INFO,
            "paths": _paths_of(self._catalog.operations, definitions),
            "definitions": dict(sorted(definitions.schemas.items())),
        }

    @cached_property
    def v2_json(self) -> Document:
        return _in_json(self._swagger)

    @cached_property
    def v2_protobuf(self) -> Document:
        return Document(encode(self._swagger), V2_PROTOBUF)

    @cached_property
    def v3_documents(self) -> dict[str, Document]:
        """By path below `/openapi/v3/`, such as `apis/policy/v1`."""
        names = sorted({operation.document for operation in self._catalog.operations})
        return {name: _in_json(_v3_document(name, self._catalog)) for name in names}

    @cached_property
    def v3_index(self) -> Document:
        """The document of `/openapi/v3`; by the hash in a link clients keep what they got."""
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}
            for path, document in self.v3_documents.items()
        }
        return _in_json({"paths": paths})


def _in_json(document: Object) -> Document:
    return Document(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


def _v3_document(name: str, catalog: Catalog) -> Object:
    definitions = Definitions(Style.V3, catalog.kinds)
    operations = (each for each in catalog.operations if each.document == name)
    paths = _paths_of(operations, definitions)
    for item in paths.values():
        _share_parameters(item)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": dict(sorted(definitions.schemas.items()))},
    }


def _paths_of(operations: Iterable[Operation], definitions: Definitions) -> Object:
    """The operations by path and method; the definitions that they need are added."""
    describe = _v2_operation if definitions.style is Style.V2 else _v3_operation
    paths: Object = {}
    for operation in operations:
        described = {
            "description": operation.description,
            "operationId": operation.id,
            "tags": [operation.tag],
            **describe(operation, definitions),
        }
        if operation.action.name:
            described["x-kubernetes-action"] = operation.action.name
        if operation.kind:
            described["x-kubernetes-group-version-kind"] = kind_entry(operation.kind)
        paths.setdefault(operation.path, {})[operation.action.method] = described
    return dict(sorted(paths.items()))


def _must_be_sent(body: Struct) -> dict[str, bool]:
    return {} if body is DELETE_OPTIONS else {"required": True}


def _v2_operation(operation: Operation, definitions: Definitions) -> Object:
    parameters = operation.parameters
    if body := operation.body:
        place = {"name": "body", "in": "body", **_must_be_sent(body)}
        parameters.append({**place, "schema": definitions.reference(body)})
    described = {
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "responses": _responses(operation, schema=definitions.reference(operation.response)),
    }
    return {**described, "parameters": parameters} if parameters else described


def _v3_operation(operation: Operation, definitions: Definitions) -> Object:
    described: Object = {}
    for each in operation.parameters:
        each["schema"] = {name: each.pop(name) for name in ("type", "uniqueItems")}
        described.setdefault("parameters", []).append(each)
    if body := operation.body:
        content = {type_: {"schema": definitions.reference(body)} for type_ in operation.consumes}
        described["requestBody"] = {"content": content, **_must_be_sent(body)}
    response = {"schema": definitions.reference(operation.response)}
    content = dict.fromkeys(operation.produces, response)
    return {**described, "responses": _responses(operation, content=content)}


def _responses(operation: Operation, **content: Object) -> Object:
    codes = operation.action.codes.split()
    found: Object = {code: {"description": STATUSES[code], **content} for code in codes}
    return {**found, "401": {"description": STATUSES["401"]}}


def _share_parameters(item: Object) -> None:
    """Move parameters that all operations of a path share to the path, sorted by name."""
    operations = list(item.values())
    first, *others = (operation.get("parameters", []) for operation in operations)
    shared = [each for each in first if all(each in parameters for parameters in others)]
    for operation, parameters in zip(operations, (first, *others), strict=True):
        if own := [each for each in parameters if each not in shared]:
            operation["parameters"] = own
        else:
            operation.pop("parameters", None)
    if shared:
        item["parameters"] = sorted(shared, key=lambda each: str(each["name"]))


MESSAGES = {
    name: {member: steps for member, *steps in map(str.split, members)}
    for name, *members in rows(
        """
document  swagger 1  info 2 info  paths 8 2 named path  definitions 9 1 named schema
info  title 1  version 2
path  delete 5 operation  get 2 operation  patch 8 operation  post 4 operation  put 3 operation
operation  description 3  operationId 5  tags 1  produces 6  consumes 7  schemes 10
          parameters 8 each 1 parameter  responses 9 1 named 1 response  x- 13 named any
parameter  body 1 body  path 2 4 of-path  query 2 3 of-query
body  name 2  in 3  required 4  schema 5 schema
of-path  required 1  in 2  description 3  name 4  type 5  uniqueItems 19
of-query  required 1  in 2  description 3  name 4  type 6  uniqueItems 20
response  description 1  schema 2 1 schema
schema  $ref 1  format 2  description 4  required 19  enum 20 each any
          additionalProperties 21 1 schema  type 22 1  items 23 1 schema
          properties 25 1 named schema  x- 31 named any
"""
    )
}
"""Members of messages, in the order of writing, to how `field` writes them; `x-` are extensions."""


def encode(value: Any, name: str = "document") -> bytes:  # noqa: ANN401  any JSON value
    """Encode a message, all of whose members `MESSAGES` has."""
    if name == "any":
        return _plain(2, json.dumps(value, separators=(",", ":")))  # YAML has JSON as a part
    fields = MESSAGES[name]
    if name == "parameter":
        return _field(fields[value["in"]], value)
    extensions = {member: each for member, each in value.items() if member.startswith("x-")}
    members = {member: value[member] for member in value if member not in extensions}
    if extensions:
        members["x-"] = extensions
    assert members.keys() <= fields.keys()
    return b"".join(_field(fields[each], members[each]) for each in fields if each in members)


def _field(steps: Sequence[str], value: Any) -> bytes:  # noqa: ANN401  any JSON value
    """Write a field by its number, and by what its content is.

    That is a plain value if nothing follows, a field, or the message that is named; `each` writes
    the field for each item of a list, `named` for each member, as a message of name and value.
    """
    number, *inner = steps
    match inner:
        case []:
            return _plain(int(number), value)
        case ["each", *rest]:
            return b"".join(_field((number, *rest), each) for each in value)
        case ["named", *rest]:
            entries = (_plain(1, name) + _field(("2", *rest), each) for name, each in value.items())
            return b"".join(_block(int(number), entry) for entry in entries)
        case [name] if not name.isdigit():
            return _block(int(number), encode(value, name))
    return _block(int(number), _field(inner, value))


def _plain(number: int, value: str | bool | list[str]) -> bytes:
    """A field of a string, of several ones, or of a boolean, which is absent where it is false."""
    if isinstance(value, bool):
        return varint(number << 3) + b"\x01" if value else b""
    texts = [value] if isinstance(value, str) else value
    return b"".join(_block(number, text.encode()) for text in texts)


def _block(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first."""
    rest, low = divmod(number, 128)
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])
