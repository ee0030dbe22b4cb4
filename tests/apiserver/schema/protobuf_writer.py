"""Writes Kubernetes' protobuf in the plainest way, to compare what reads it with.

What stands in an embedded struct is written as one message a field, which a reader has to merge.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.schema.types import List, Map, Scalar, Struct
from apfproxy.objects.go_text import parse_time

if TYPE_CHECKING:
    import random

    from apfproxy.apiserver.schema.types import Type

VARINT, LENGTH = 0, 2
NUMBERS_OF_64_BITS = 1 << 64

TEXTS = ("", "a", "ä€😀", "x" * 127, "y" * 128, "z" * 300)
INTEGERS = (1, -1, 127, 128, 2**31 - 1, -(2**31))
SAMPLES: dict[Scalar, tuple[object, ...]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOLEAN: (True, False),
    Scalar.INT32: (0, *INTEGERS),
    Scalar.INT64: (0, *INTEGERS, 2**63 - 1, -(2**63)),
    Scalar.QUANTITY: ("0", "100m", "1Gi", "-1500m"),
    Scalar.TIME: ("2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    Scalar.MICRO_TIME: ("2026-01-02T03:04:05.000006Z", "1969-12-31T23:59:59.999999Z"),
    Scalar.BASE64: ("", "AQI=", "/+8="),
    Scalar.INT_OR_STRING: (0, 8080, -1, "", "50%"),
    Scalar.ANY: ({"f:metadata": {"f:labels": {".": {}}}}, {}),
}
"""Values of each type, in the form that objects have them."""


def varint(value: int) -> bytes:
    """A number of 64 bits; what is negative as its complement."""
    value %= NUMBERS_OF_64_BITS
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def block(field: int, value: bytes) -> bytes:
    return varint(field << 3 | LENGTH) + varint(len(value)) + value


def message(struct: Struct, obj: dict[str, Any]) -> bytes:
    fields = [(struct.by_name[name], value) for name, value in obj.items()]
    return b"".join(field_of(field.number, field.type, value) for field, value in fields)


def field_of(own: int, kind: Type, value: Any) -> bytes:  # noqa: ANN401  any JSON value
    """A field, as often as it has values."""
    if isinstance(kind, List):
        return b"".join(field_of(own, kind.item, each) for each in value)
    if isinstance(kind, Map):
        values = {key: field_of(2, kind.value, each) for key, each in value.items()}
        if isinstance(kind.value, List):
            values = {key: block(2, field_of(1, kind.value, each)) for key, each in value.items()}
        return b"".join(block(own, block(1, key.encode()) + each) for key, each in values.items())
    if isinstance(kind, Struct):
        return block(own, message(kind, value))
    if kind in {Scalar.BOOLEAN, Scalar.INT32, Scalar.INT64}:
        return number(own, int(value))
    return block(own, scalar(kind, value))


def scalar(kind: Scalar, value: Any) -> bytes:  # noqa: ANN401  any JSON value
    if kind is Scalar.STRING:
        return bytes(value.encode())
    if kind is Scalar.BASE64:
        return b64decode(value)
    if kind is Scalar.QUANTITY:
        return block(1, value.encode())
    if kind is Scalar.ANY:
        return block(1, json.dumps(value).encode())
    if kind is Scalar.INT_OR_STRING:
        if isinstance(value, str):
            return number(1, 1) + number(2, 0) + block(3, value.encode())
        return number(1, 0) + number(2, value) + block(3, b"")
    seconds, nanoseconds = divmod(round(parse_time(value) * 1_000_000), 1_000_000)
    return number(1, seconds) + number(2, nanoseconds * 1_000)


def document(struct: Struct, api_version: str, kind: str, obj: dict[str, Any]) -> bytes:
    meta = block(1, api_version.encode()) + block(2, kind.encode())
    return b"k8s\x00" + block(1, meta) + block(2, message(struct, obj))


def some_object(struct: Struct, chance: random.Random, share: float) -> dict[str, Any]:
    return {
        field.name: some_value(field.type, chance, share)
        for field in struct.fields
        if field.number and chance.random() < share
    }


def some_value(kind: Type, chance: random.Random, share: float) -> Any:  # noqa: ANN401  JSON
    """A value of a type; lists and maps have an item at least, as others are as good as none."""
    if isinstance(kind, Struct):
        return some_object(kind, chance, share)
    if isinstance(kind, List):
        return [some_value(kind.item, chance, share) for _ in range(chance.randint(1, 3))]
    if isinstance(kind, Map):
        keys = chance.sample(TEXTS, chance.randint(1, 3))
        return {key: some_value(kind.value, chance, share) for key in keys}
    return chance.choice(SAMPLES[kind])
