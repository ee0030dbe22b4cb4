"""The Swagger 2.0 document in the protobuf form of gnostic, which kubectl asks for.

kubectl reads `/openapi/v2` in this form only.  It encodes the members that `documents` makes; this
is no general encoder of OpenAPI.

Sources: gnostic-models, `openapiv2/OpenAPIv2.proto`, for the numbers of fields; Protocol Buffers
documentation, "Encoding".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.openapi.operations import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

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
    members: Object = {}
    for member, each in value.items():
        if member.startswith("x-"):
            members.setdefault("x-", {})[member] = each
        else:
            members[member] = each
    assert members.keys() <= fields.keys()
    known = (_field(fields[member], members[member]) for member in fields if member in members)
    return b"".join(known)


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
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
