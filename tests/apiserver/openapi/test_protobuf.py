"""Tests of the protobuf form, read back by a decoder that knows nothing of OpenAPI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.openapi import protobuf, v2
from apfproxy.apiserver.openapi.paths import catalog
from tests.apiserver.kinds import KINDS

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

Message = dict[int, list[bytes | int]]


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """A number and where it ends."""
    number = shift = 0
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, start


def read(data: bytes | int) -> Message:
    """A message as field numbers and their values."""
    assert isinstance(data, bytes)
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value: bytes | int
        if tag & 7 == protobuf.BYTES:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            assert 0 == tag & 7
            value, at = read_varint(data, at)
        found.setdefault(tag >> 3, []).append(value)
    return found


def entries(data: bytes | int, number: int) -> dict[str, Message]:
    """The entries of a map."""
    found = {}
    for one in read(data).get(number, ()):
        entry = read(one)
        name = entry[1][0]
        assert isinstance(name, bytes)
        found[name.decode()] = read(entry[2][0])
    return found


@pytest.fixture(scope="module")
def document() -> Object:
    """Of all small kinds."""
    return v2.document(catalog(KINDS), "v1.36.0")


@pytest.fixture(scope="module")
def encoded(document: Object) -> Message:
    """The same, encoded, and read as a message."""
    return read(protobuf.encode(document))


def test_head(encoded: Message) -> None:
    """It says what it is and of which server."""
    assert [b"2.0"] == encoded[1]
    assert {1: [b"Kubernetes"], 2: [b"v1.36.0"]} == read(encoded[2][0])
    assert {1, 2, 8, 9} == encoded.keys()


def test_paths(document: Object, encoded: Message) -> None:
    """Every path has its methods, with their names."""
    paths = entries(encoded[8][0], 2)

    assert list(document["paths"]) == list(paths)
    for path, item in document["paths"].items():
        assert {
            protobuf.METHODS[method]: [operation["operationId"].encode()]
            for method, operation in item.items()
        } == {number: read(found[0])[5] for number, found in paths[path].items()}


def test_operation(encoded: Message) -> None:
    """A patch has its parameters, its responses and its kind."""
    item = entries(encoded[8][0], 2)["/apis/widgets.example.com/v1/widgets/{name}"]
    patched = read(item[protobuf.METHODS["patch"]][0])
    parameters = [read(read(one)[1][0]) for one in patched[8]]

    in_path = read(read(parameters[0][2][0])[protobuf.PATH_PARAMETER][0])
    expected = {1: [1], 2: [b"path"], 3: [b"Name of the Widget."], 4: [b"name"]}
    assert {**expected, 5: [b"string"], 19: [1]} == in_path
    in_query = read(read(parameters[1][2][0])[protobuf.QUERY_PARAMETER][0])
    assert {2: [b"query"], 4: [b"dryRun"], 6: [b"string"], 20: [1]} == {
        key: value for key, value in in_query.items() if key != 3
    }
    body = read(parameters[-1][1][0])
    assert {2: [b"body"], 3: [b"body"], 4: [1]} == {
        key: value for key, value in body.items() if key != 5
    }
    assert [b"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"] == read(body[5][0])[1]
    answers = entries(patched[9][0], 1)
    assert ["200", "201", "401"] == list(answers)
    unauthorized = read(answers["401"][1][0])
    assert {1: [b"Unauthorized"]} == unauthorized
    ok = read(read(read(answers["200"][1][0])[2][0])[1][0])
    assert {1: [b"#/definitions/io.k8s.api.widgets.v1.Widget"]} == ok
    extensions = [read(one) for one in patched[13]]
    kind = read(extensions[1][2][0])[2][0]
    assert isinstance(kind, bytes)
    assert b"x-kubernetes-group-version-kind" == extensions[1][1][0]
    assert {"group": "widgets.example.com", "kind": "Widget", "version": "v1"} == json.loads(kind)


def decode_schema(found: Message) -> Object:
    """A schema as JSON has it."""

    def text(value: bytes | int) -> str:
        assert isinstance(value, bytes)
        return value.decode()

    def schema(value: bytes | int) -> Object:
        return decode_schema(read(value))

    decoded: Object = {
        name: text(found[number][0])
        for name, number in protobuf.SCHEMA_TEXTS.items()
        if number in found
    }
    if 19 in found:
        decoded["required"] = [text(one) for one in found[19]]
    if 20 in found:
        decoded["enum"] = [json.loads(text(read(one)[2][0])) for one in found[20]]
    if 21 in found:
        decoded["additionalProperties"] = schema(read(found[21][0])[1][0])
    if 22 in found:
        decoded["type"] = text(read(found[22][0])[1][0])
    if 23 in found:
        decoded["items"] = schema(read(found[23][0])[1][0])
    if 25 in found:
        properties = entries(found[25][0], 1)
        decoded["properties"] = {name: decode_schema(one) for name, one in properties.items()}
    for one in found.get(protobuf.SCHEMA_EXTENSION, ()):
        entry = read(one)
        decoded[text(entry[1][0])] = json.loads(text(read(entry[2][0])[2][0]))
    return decoded


def test_definitions(document: Object, encoded: Message) -> None:
    """Every definition, decoded, is what it was."""
    definitions = entries(encoded[9][0], 1)

    assert document["definitions"] == {
        name: decode_schema(found) for name, found in definitions.items()
    }


@given(number=st.integers(0, 2**64 - 1))
def test_varint(number: int) -> None:
    """A number is read back as it was, whatever its length."""
    data = protobuf.varint(number)

    assert (number, len(data)) == read_varint(data + b"\xff", 0)
