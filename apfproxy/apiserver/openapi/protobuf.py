"""The Swagger 2.0 document in the protobuf form of gnostic, which kubectl asks for.

kubectl reads `/openapi/v2` in this form only.  It encodes what `v2.document` makes; this is no
general encoder of OpenAPI.

Sources: gnostic-models, `openapiv2/OpenAPIv2.proto`, for the numbers of fields; Protocol Buffers
documentation, "Encoding".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import Object

Encode = Callable[[Any], bytes]
"""Makes the content of a message."""
Write = Callable[[int, Any], bytes]
"""Makes a field of a number."""

BYTES = 2
"""The wire type of strings and messages; that of numbers is 0."""
SEVEN_BITS = 0x7F
MORE_FOLLOWS = 0x80

METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
"""Of `PathItem`."""
SCHEMA_TEXTS = {"$ref": 1, "format": 2, "description": 4}
SCHEMA_EXTENSION = 31
OPERATION_EXTENSION = 13
QUERY_PARAMETER = 3
PATH_PARAMETER = 4
"""Of `NonBodyParameter`."""


def varint(number: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first."""
    encoded = bytearray()
    while number > SEVEN_BITS:
        encoded.append(number & SEVEN_BITS | MORE_FOLLOWS)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def message(number: int, content: bytes) -> bytes:
    """A field that holds a message, or anything else with a length."""
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    """A field that holds a string."""
    return message(number, value.encode())


def texts(number: int, values: Iterable[str]) -> bytes:
    """A repeated field of strings."""
    return b"".join(text(number, value) for value in values)


def truth(number: int, value: object) -> bytes:
    """A field that holds a boolean, absent where it is false."""
    return varint(number << 3) + b"\x01" if value else b""


def within(encode: Encode, *numbers: int) -> Write:
    """Writes a field that holds a message, in messages that hold nothing else, outermost first."""

    def write(number: int, value: object) -> bytes:
        content = encode(value)
        for each in reversed(numbers):
            content = message(each, content)
        return message(number, content)

    return write


def each_of(write: Write) -> Write:
    """Writes a repeated field."""
    return lambda number, values: b"".join(write(number, value) for value in values)


def entries(write: Write) -> Write:
    """Writes a map: a repeated field of messages of a name and a value."""

    def write_entries(number: int, values: Object) -> bytes:
        return b"".join(
            message(number, text(1, name) + write(2, value)) for name, value in values.items()
        )

    return write_entries


def any_value(value: object) -> bytes:
    """An `Any`: YAML, of which JSON is a part."""
    return text(2, json.dumps(value, separators=(",", ":")))


def extensions(number: int, described: Object) -> bytes:
    """The members whose names begin with `x-`."""
    found = {name: value for name, value in described.items() if name.startswith("x-")}
    return entries(within(any_value))(number, found)


def members(fields: dict[str, tuple[int, Write]], described: Object) -> bytes:
    """Those members of an object that are there, in the order of the fields."""
    return b"".join(
        write(number, described[name])
        for name, (number, write) in fields.items()
        if name in described
    )


def schema(described: Object) -> bytes:
    """A `Schema`."""
    return members(SCHEMA, described) + extensions(SCHEMA_EXTENSION, described)


def schemas(described: Object) -> bytes:
    """Schemas with names: `Definitions` and `Properties`."""
    return entries(within(schema))(1, described)


def parameter(described: Object) -> bytes:
    """A `Parameter`."""
    if described["in"] == "body":
        return message(1, members(BODY_PARAMETER, described))
    if described["in"] == "path":
        return message(2, message(PATH_PARAMETER, members(IN_PATH, described)))
    return message(2, message(QUERY_PARAMETER, members(IN_QUERY, described)))


def response(described: Object) -> bytes:
    """A `Response`."""
    return members({"description": (1, text), "schema": (2, within(schema, 1))}, described)


def operation(described: Object) -> bytes:
    """An `Operation`."""
    return members(OPERATION, described) + extensions(OPERATION_EXTENSION, described)


def path_item(item: Object) -> bytes:
    """A `PathItem`."""
    return b"".join(message(METHODS[method], operation(found)) for method, found in item.items())


def encode(document: Object) -> bytes:
    """A whole document, as `v2.document` makes it."""
    return members(DOCUMENT, document)


SCHEMA: dict[str, tuple[int, Write]] = {
    **{name: (number, text) for name, number in SCHEMA_TEXTS.items()},
    "required": (19, texts),
    "enum": (20, each_of(within(any_value))),
    "additionalProperties": (21, within(schema, 1)),
    "type": (22, lambda number, value: message(number, text(1, value))),
    "items": (23, within(schema, 1)),
    "properties": (25, within(schemas)),
}
BODY_PARAMETER: dict[str, tuple[int, Write]] = {
    "name": (2, text),
    "in": (3, text),
    "required": (4, truth),
    "schema": (5, within(schema)),
}
PARAMETER: dict[str, tuple[int, Write]] = {
    "required": (1, truth),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
}
IN_QUERY = {**PARAMETER, "type": (6, text), "uniqueItems": (20, truth)}
IN_PATH = {**PARAMETER, "type": (5, text), "uniqueItems": (19, truth)}
OPERATION: dict[str, tuple[int, Write]] = {
    "description": (3, text),
    "operationId": (5, text),
    "tags": (1, texts),
    "produces": (6, texts),
    "consumes": (7, texts),
    "schemes": (10, texts),
    "parameters": (8, each_of(within(parameter, 1))),
    "responses": (9, within(lambda found: entries(within(response, 1))(1, found))),
}
DOCUMENT: dict[str, tuple[int, Write]] = {
    "swagger": (1, text),
    "info": (2, within(lambda info: text(1, info["title"]) + text(2, info["version"]))),
    "paths": (8, within(lambda found: entries(within(path_item))(2, found))),
    "definitions": (9, within(schemas)),
}
