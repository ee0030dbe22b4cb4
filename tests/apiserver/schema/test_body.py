"""Bodies of requests in JSON, YAML and protobuf."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema import body
from apfproxy.apiserver.schema.body import (
    DEEPEST,
    MAGIC,
    BodyError,
    MessageError,
    Parsed,
    parse_json,
    parse_protobuf,
    parse_yaml,
)
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct
from apfproxy.objects.documents import LONGEST_PATHS, MOST_PATHS

from .protobuf_writer import block, document, number, some_object, varint

if TYPE_CHECKING:
    from collections.abc import Callable

JSON_BYTES = st.lists(
    st.sampled_from([*(bytes([each]) for each in b'{}[],: "\\/untrf019.-eE\xff'), b"NaN", b"\\u"])
)


@given(JSON_BYTES)
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(parts: list[bytes]) -> None:
    data = b"".join(parts)
    for parse in (parse_json, parse_yaml):
        with suppress(BodyError):
            parse(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"c": [1, {"d": 1, "d": 2}]}', Parsed({"c": [1, {"d": 2}]}, ("c[1].d",))),
        (b'{"a": {"b": 1}, "a": {"c": 2}}', Parsed({"a": {"b": 1, "c": 2}}, ("a",))),
        (b'["\\ud800", "\xff"]', Parsed(["\ufffd", "\ufffd"])),
        (b"[" + b"{}," * 200 + b"{}]", Parsed([{}] * 201)),
    ],
)
def test_unusual_json(data: bytes, expected: Parsed) -> None:
    assert expected == parse_json(data)


def test_many_duplicates() -> None:
    """Merging a key that occurs often takes time in proportion to the input."""
    count = 20_000
    data = b"{" + b",".join(b'"a":{"%d":1}' % each for each in range(count)) + b"}"
    found = parse_json(data)
    assert (count, ("a",)) == (len(found.raw["a"]), found.duplicates)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@pytest.mark.parametrize(("characters", "named"), [(10, MOST_PATHS), (LONGEST_PATHS // 8, 8)])
def test_paths_of_duplicates_are_bounded(
    parse: Callable[[bytes], Parsed], characters: int, named: int
) -> None:
    """A long key does not have its length again for each key that occurs twice below it."""
    members = b"".join(b"  %d: 1\n  %d: 2\n" % (each, each) for each in range(5_000))
    data = b"? %b\n:\n%b" % (b"k" * characters, members)
    if parse is parse_json:
        members = b",".join(b'"%d":1,"%d":2' % (each, each) for each in range(5_000))
        data = b'{"%b":{%b}}' % (b"k" * characters, members)
    tracemalloc.start()
    found = parse(data)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert named == len(found.duplicates)
    assert found.duplicates[1].endswith("k.1")
    assert most_bytes < 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"nul", "unexpected end of JSON input"),
        (b'[{"\\"}{": "]"} x', "invalid character 'x' after array element"),
        (b'{"\\"}{": "]" x', "invalid character 'x' after object key:value pair"),
        (b'{"a\xff":1\xff', "invalid character '\u00ff' after object key:value pair"),
        ("{é".encode(), "invalid character '\u00c3' looking for beginning of object key string"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b'["}", {}, [1], 1 x', "invalid character 'x' after array element"),
        (b'{"a": 1 x', "invalid character 'x' after object key:value pair"),
        (b'"\x01"', "invalid character '\\x01' in string literal"),
        (b"[NaN]", "invalid character 'N' looking for beginning of value"),
        (b"[-Infinity]", "invalid character 'I' in numeric literal"),
        (b"[1e999]", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        (b"[" + b"9" * 5000 + b"]", "json: cannot unmarshal number into Go value of type float64"),
        (b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2), "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a": 1, "a": ' + b"[" * 900 + b"]" * 900 + b"}", "exceeded max depth"),
    ],
)
def test_bad_json(data: bytes, expected: str) -> None:
    with pytest.raises(BodyError) as raised:
        parse_json(data)
    assert expected == str(raised.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b"a: 1\nb: *x", "line 2: alias *x is not supported: write the value out"),
        (b"@", "found character that cannot start any token"),
        (b"x:\n  a: b: c", "line 2: mapping values are not allowed in this context"),
        (b"a:\n  b: [\n c: d", "line 1: did not find expected ',' or ']'"),
        (b"a: \x01", "unacceptable character #x0001: control characters are not allowed"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "line 1: nested too deeply"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "line 1: nested too deeply"),
    ],
)
def test_bad_yaml(data: bytes, expected: str) -> None:
    with pytest.raises(BodyError) as raised:
        parse_yaml(data)
    assert f"yaml: {expected}" == str(raised.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"- - - 1\n" * 4, "line 4: more than 10 values"),
        (b"[" + b"[]," * 10 + b"]", "line 1: more than 10 values"),
        (b"[" + b"1," * 9 + b"]", None),
        (b"- a:\n  b:\n-\n-\n", "line 3: more than 3 mappings and nulls"),
        (b"- {}\n- {}\n- {}\n- {}", "line 4: more than 3 mappings and nulls"),
        (b"- {a: 1}\n- {b: ''}\n- {}\n", None),
    ],
)
def test_too_much_yaml(monkeypatch: pytest.MonkeyPatch, data: bytes, expected: str | None) -> None:
    monkeypatch.setattr(body, "MOST_NODES", 10)
    monkeypatch.setattr(body, "MOST_OBJECTS", 3)
    if expected is None:
        parse_yaml(data)
        return
    with pytest.raises(BodyError, match=expected):
        parse_yaml(data)


DEVICE = """
  - name: gpu-%d
    attributes: {model: {string: LATEST}, healthy: {bool: true}}
    capacity:
      memory:
        value: 80Gi"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("data:\n  a: " + "QUJD" * 780_000, id="secret"),
        pytest.param("data:\n  a: |\n" + "    - {}, [], null,\n" * 150_000, id="text"),
        pytest.param(
            "spec:\n  devices:" + "".join(DEVICE % i for i in range(20_000)), id="devices"
        ),
    ],
)
def test_large_yaml(text: str) -> None:
    assert 2_500_000 < len(text) < 3 * 1024 * 1024
    assert parse_yaml(text.encode()).raw


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
    for raw in (data, MAGIC + data, enveloped(data), enveloped(block(2, data))):
        with suppress(BodyError):
            assert isinstance(parse_protobuf(raw, schema_for).raw, dict)


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
