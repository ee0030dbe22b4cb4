"""The Swagger 2.0 document in the protobuf form of gnostic, which kubectl asks for.

kubectl reads `/openapi/v2` in this form only.  It encodes the members that `documents.swagger`
makes; this is no general encoder of OpenAPI.

Sources: gnostic-models, `openapiv2/OpenAPIv2.proto`, for the numbers of fields; Protocol Buffers
documentation, "Encoding".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

Encode = Callable[[Any], bytes]
"""Makes the content of a message."""
Write = Callable[[int, Any], bytes]
"""Makes a field of a number."""
Fields = dict[str, "int | tuple[int, Write]"]
"""Members of an object to their numbers; `plain` writes those without a writer of their own."""

METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
"""Numbers in a `PathItem`."""


def varint(number: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def block(number: int, content: bytes) -> bytes:
    """A field that has a length, such as a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def plain(number: int, value: str | bool | list[str]) -> bytes:
    """A field of a string, of several ones, or of a boolean, which is absent where it is false."""
    if isinstance(value, bool):
        return varint(number << 3) + b"\x01" if value else b""
    texts = [value] if isinstance(value, str) else value
    return b"".join(block(number, text.encode()) for text in texts)


def within(encode: Encode, *numbers: int) -> Write:
    """Writes a field that holds a message, in messages that hold nothing else, outermost first."""

    def write(number: int, value: object) -> bytes:
        content = encode(value)
        for each in reversed(numbers):
            content = block(each, content)
        return block(number, content)

    return write


def each_of(write: Write) -> Write:
    """Writes a repeated field."""
    return lambda number, values: b"".join(write(number, value) for value in values)


def named(write: Write) -> Write:
    """Writes a map: a repeated field of messages of a name and a value."""

    def write_entries(number: int, values: Object) -> bytes:
        entries = (plain(1, name) + write(2, value) for name, value in values.items())
        return b"".join(block(number, entry) for entry in entries)

    return write_entries


def members(fields: Fields, extension: int = 0) -> Encode:
    """Encodes members in the order of the fields, then those whose names begin with `x-`."""
    writers = {
        name: field if isinstance(field, tuple) else (field, plain)
        for name, field in fields.items()
    }

    def encode_members(described: Object) -> bytes:
        known = (
            write(number, described[name])
            for name, (number, write) in writers.items()
            if name in described
        )
        extensions = {name: value for name, value in described.items() if name.startswith("x-")}
        return b"".join(known) + named(any_value)(extension, extensions)

    return encode_members


def parameter(described: Object) -> bytes:
    """A `Parameter`, which is a body or a `NonBodyParameter` of its place."""
    number, encode_parameter = PARAMETERS[described["in"]]
    content = block(number, encode_parameter(described))
    return content if described["in"] == "body" else block(2, content)


def path_item(item: Object) -> bytes:
    """A `PathItem`."""
    return b"".join(block(METHODS[method], OPERATION(found)) for method, found in item.items())


def schema(described: Object) -> bytes:
    """A `Schema`, which may contain others."""
    return SCHEMA(described)


any_value = within(lambda value: plain(2, json.dumps(value, separators=(",", ":"))))
"""Writes an `Any`: YAML, of which JSON is a part."""
SCHEMAS = within(partial(named(within(schema)), 1))
SCHEMA = members(
    {
        "$ref": 1,
        "format": 2,
        "description": 4,
        "required": 19,
        "enum": (20, each_of(any_value)),
        "additionalProperties": (21, within(schema, 1)),
        "type": (22, within(partial(plain, 1))),
        "items": (23, within(schema, 1)),
        "properties": (25, SCHEMAS),
    },
    extension=31,
)
COMMON: Fields = {"required": 1, "in": 2, "description": 3, "name": 4}
PARAMETERS = {
    "body": (1, members({"name": 2, "in": 3, "required": 4, "schema": (5, within(schema))})),
    "query": (3, members({**COMMON, "type": 6, "uniqueItems": 20})),
    "path": (4, members({**COMMON, "type": 5, "uniqueItems": 19})),
}
RESPONSE = members({"description": 1, "schema": (2, within(schema, 1))})
OPERATION = members(
    {
        "description": 3,
        "operationId": 5,
        "tags": 1,
        "produces": 6,
        "consumes": 7,
        "schemes": 10,
        "parameters": (8, each_of(within(parameter, 1))),
        "responses": (9, within(partial(named(within(RESPONSE, 1)), 1))),
    },
    extension=13,
)
encode = members(
    {
        "swagger": 1,
        "info": (2, within(members({"title": 1, "version": 2}))),
        "paths": (8, within(partial(named(within(path_item)), 2))),
        "definitions": (9, SCHEMAS),
    }
)
"""Encodes a whole document, as `documents.swagger` makes it."""
