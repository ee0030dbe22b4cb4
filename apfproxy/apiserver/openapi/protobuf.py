"""The Swagger 2.0 document in the protobuf form of gnostic, which kubectl asks for.

kubectl reads `/openapi/v2` in this form only.  What is encoded is what `v2.document` makes, and no
more: this is no general encoder of OpenAPI.

Sources: gnostic-models, `openapiv2/OpenAPIv2.proto`, for the numbers of fields; Protocol Buffers
documentation, "Encoding".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.api.kind import Object

BYTES = 2
"""The wire type of strings and messages; that of numbers is 0."""

SEVEN_BITS = 0x7F
MORE_FOLLOWS = 0x80

METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
"""Of `PathItem`."""

OPERATION_TEXTS = {"description": 3, "operationId": 5}
OPERATION_LISTS = {"tags": 1, "produces": 6, "consumes": 7, "schemes": 10}
OPERATION_EXTENSION = 13

QUERY_PARAMETER = 3
PATH_PARAMETER = 4
"""Of `NonBodyParameter`."""

PARAMETER_TEXTS = {"in": 2, "description": 3, "name": 4}
TYPE_AND_UNIQUE = {QUERY_PARAMETER: (6, 20), PATH_PARAMETER: (5, 19)}
"""Where parameters of the query and of the path differ: their `type` and `uniqueItems`."""

SCHEMA_TEXTS = {"$ref": 1, "format": 2, "description": 4}
SCHEMA_EXTENSION = 31


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


def truth(number: int, *, value: bool) -> bytes:
    """A field that holds a boolean, absent where it is false."""
    return varint(number << 3) + b"\x01" if value else b""


def named(number: int, name: str, content: bytes) -> bytes:
    """An entry of a map: a message of a name and a message."""
    return message(number, text(1, name) + message(2, content))


def any_value(value: object) -> bytes:
    """An `Any`: YAML, of which JSON is a part."""
    return text(2, json.dumps(value, separators=(",", ":")))


def extensions(number: int, described: Object) -> bytes:
    """The entries whose names begin with `x-`."""
    return b"".join(
        named(number, name, any_value(value))
        for name, value in described.items()
        if name.startswith("x-")
    )


def chosen_texts(numbers: dict[str, int], described: Object) -> bytes:
    """Those entries that are strings, as far as they are there."""
    return b"".join(
        text(number, described[name]) for name, number in numbers.items() if name in described
    )


def encode(document: Object) -> bytes:
    """A whole document, as `v2.document` makes it."""
    info = document["info"]
    paths = b"".join(named(2, path, path_item(item)) for path, item in document["paths"].items())
    return b"".join(
        (
            text(1, document["swagger"]),
            message(2, text(1, info["title"]) + text(2, info["version"])),
            message(8, paths),
            message(9, schemas(document["definitions"])),
        )
    )


def path_item(item: Object) -> bytes:
    """A `PathItem`."""
    return b"".join(message(METHODS[method], operation(found)) for method, found in item.items())


def operation(described: Object) -> bytes:
    """An `Operation`."""
    found = [chosen_texts(OPERATION_TEXTS, described)]
    found += [texts(number, described[name]) for name, number in OPERATION_LISTS.items()]
    found += [message(8, message(1, parameter(one))) for one in described.get("parameters", ())]
    responses = b"".join(
        named(1, code, message(1, response(one))) for code, one in described["responses"].items()
    )
    found += [message(9, responses), extensions(OPERATION_EXTENSION, described)]
    return b"".join(found)


def parameter(described: Object) -> bytes:
    """A `Parameter`."""
    if described["in"] == "body":
        is_required = truth(4, value=described.get("required", False))
        named_body = text(2, described["name"]) + text(3, described["in"])
        return message(1, named_body + is_required + message(5, schema(described["schema"])))
    where = PATH_PARAMETER if described["in"] == "path" else QUERY_PARAMETER
    type_, unique = TYPE_AND_UNIQUE[where]
    content = (
        truth(1, value=described.get("required", False))
        + chosen_texts(PARAMETER_TEXTS, described)
        + text(type_, described["type"])
        + truth(unique, value=described["uniqueItems"])
    )
    return message(2, message(where, content))


def response(described: Object) -> bytes:
    """A `Response`."""
    encoded = text(1, described["description"])
    if "schema" in described:
        encoded += message(2, message(1, schema(described["schema"])))
    return encoded


def schemas(described: Object) -> bytes:
    """Schemas with names: `Definitions` and `Properties`."""
    return b"".join(named(1, name, schema(one)) for name, one in described.items())


def schema(described: Object) -> bytes:
    """A `Schema`."""
    found = [chosen_texts(SCHEMA_TEXTS, described)]
    if "required" in described:
        found.append(texts(19, described["required"]))
    found += [message(20, any_value(value)) for value in described.get("enum", ())]
    if "additionalProperties" in described:
        found.append(message(21, message(1, schema(described["additionalProperties"]))))
    if "type" in described:
        found.append(message(22, text(1, described["type"])))
    if "items" in described:
        found.append(message(23, message(1, schema(described["items"]))))
    if "properties" in described:
        found.append(message(25, schemas(described["properties"])))
    found.append(extensions(SCHEMA_EXTENSION, described))
    return b"".join(found)
