"""Reading bodies in Kubernetes' protobuf."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema.body import (
    MAGIC,
    BodyError,
    MessageError,
    Parsed,
    parse_protobuf,
)
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct

from .protobuf_writer import block, document, number, some_object, varint

TYPED = [
    (version.schema, kind.api_version(version.name), kind.name)
    for kind in KINDS
    for version in kind.versions
]
OTHERS = [
    *((schema, api_version, "Eviction") for api_version, schema in EVICTIONS.items()),
    (DELETE_OPTIONS, "v1", "DeleteOptions"),
]
FORMS = TYPED + OTHERS
SCHEMAS = {(api_version, kind): schema for schema, api_version, kind in FORMS}
POD = SCHEMAS["v1", "Pod"]

"""The body that `kubectl create namespace x` sends."""


def schema_for(api_version: str, kind: str) -> Struct | None:
    return SCHEMAS.get((api_version, kind))


def enveloped(message: bytes) -> bytes:
    return MAGIC + block(1, block(1, b"v1") + block(2, b"Pod")) + block(2, message)


def read_pod(message: bytes) -> object:
    raw = parse_protobuf(enveloped(message), schema_for).raw
    assert ("v1", "Pod") == (raw.pop("apiVersion"), raw.pop("kind"))
    return raw


@pytest.mark.parametrize(("schema", "api_version", "kind"), FORMS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_objects(schema: Struct, api_version: str, kind: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  no secret
    obj = some_object(schema, chance, 0.2)
    expected = {**obj, "apiVersion": api_version, "kind": kind}
    body = document(schema, api_version, kind, obj)

    assert Parsed(expected) == parse_protobuf(body, schema_for)
    place = chance.randrange(len(body))
    changed = body[:place] + bytes([chance.randrange(256)]) + body[place + 1 :]
    for damaged in (changed, body[:place]):
        with suppress(BodyError):
            assert isinstance(parse_protobuf(damaged, schema_for).raw, dict)


@given(data=st.binary(max_size=60))
@example(b"\x13\x14")
@settings(max_examples=200)
def test_any_bytes_give_an_object_or_our_error(data: bytes) -> None:
    for body in (data, MAGIC + data, enveloped(data), enveloped(block(2, data))):
        with suppress(BodyError):
            assert isinstance(parse_protobuf(body, schema_for).raw, dict)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (block(1, block(1, b"a") + block(1, b"b")), {"metadata": {"name": "b"}}),
        (
            block(1, block(1, b"a")) + block(1, block(3, b"n")),
            {"metadata": {"name": "a", "namespace": "n"}},
        ),
        (block(1, block(1, b"\xff")), {"metadata": {"name": "\ufffd"}}),
        (
            block(1, block(11, number(9, 1) + block(2, b"v") + block(1, b"k"))),
            {"metadata": {"labels": {"k": "v"}}},
        ),
        (
            block(2, block(2, block(8, block(1, block(1, b"cpu"))))),
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "0"}}}]}},
        ),
        (
            block(2, number(25, 2**32 + 5) + number(4, 2**64 - 1) + number(11, 7) + number(12, 0)),
            {"spec": {"priority": 5, "terminationGracePeriodSeconds": -1, "hostNetwork": True}},
        ),
        (
            block(1, block(17, block(7, b"")) + block(17, block(7, block(1, b"[1]")))),
            {"metadata": {"managedFields": [{"fieldsV1": None}, {"fieldsV1": [1]}]}},
        ),
        (
            number(99, 1)
            + block(2000, b"x" * 200)
            + varint(99 << 3 | 1)
            + b"12345678"
            + varint(99 << 3 | 5)
            + b"1234"
            + b"\x9b\x06\x9b\x06\x08\x01\x9c\x06\x9c\x06"
            + block(1, b""),
            {"metadata": {}},
        ),
        (b"\x8a\x80\x80\x80\x00\x00", {"metadata": {}}),
        (b"\x0a\x82\x00\x0a\x00", {"metadata": {"name": ""}}),
    ],
)
def test_unusual_messages(message: bytes, expected: object) -> None:
    assert expected == read_pod(message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\x0a\x01", "unexpected EOF"),
        (b"\x0a\x80", "unexpected EOF"),
        (b"\x9d\x06123", "unexpected EOF"),
        (b"\x9b\x06", "unexpected EOF"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"\xff" * 11, "proto: integer overflow"),
        (b"\x02\x00", "proto: Pod: illegal tag 0 (wire type 2)"),
        (varint(1 << 34 | 2), "proto: Pod: illegal tag -2147483648 (wire type 2)"),
        (b"\x0c", "proto: Pod: wiretype end group for non-group"),
        (b"\x9e\x06", "proto: illegal wireType 6"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field Metadata"),
        (block(2, block(4, b"")),
         "proto: wrong wireType = 2 for field TerminationGracePeriodSeconds"),
        (block(1, block(9, number(1, 1 << 40))),
         "Time.MarshalJSON: year outside of range [0,9999]"),
        (block(1, block(17, block(7, block(1, b"[" * 1000 + b"]" * 1000)))), "exceeded max depth"),
    ],
)  # fmt: skip
def test_bad_messages(message: bytes, expected: str) -> None:
    with pytest.raises(MessageError) as raised:
        read_pod(message)
    error = raised.value
    assert (expected, "v1", "Pod") == (str(error), error.api_version, error.kind)


def test_odd_structs() -> None:
    fields = (
        Field("port", Scalar.INT_OR_STRING, number=2),
        Field("byName", Map(Scalar.INT64), number=3),
        Field("many", List(Scalar.TIME), number=4),
        Field("numbers", List(Scalar.INT64), number=5),
    )
    struct = Struct("Other", fields, "io.odd")
    numbers = block(5, varint(1) + varint(2**64 - 1)) + number(5, 3)
    message = block(2, b"") + block(3, block(1, b"a")) + block(4, b"") + numbers

    found = parse_protobuf(MAGIC + block(2, message), lambda *_: struct)

    assert {"port": 0, "byName": {"a": 0}, "many": [None], "numbers": [1, -1, 3]} == found.raw
    with pytest.raises(MessageError, match=r"impossible IntOrString\.Type 2"):
        parse_protobuf(MAGIC + block(2, block(2, number(1, 2))), lambda *_: struct)
