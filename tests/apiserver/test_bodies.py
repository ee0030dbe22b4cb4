"""Tests of `apfproxy.apiserver.bodies`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.bodies import (
    MOST_OBJECTS,
    any_version,
    check_media_type,
    check_number,
    decode,
    expected_of,
    media_type,
    parse,
    too_large,
    versions,
)
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.policy.kinds import EVICTIONS
from apfproxy.apiserver.responses import PROTOBUF
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from tests.apiserver.schema.protobuf_writer import block, document

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct

GROUP = "flowcontrol.apiserver.k8s.io"
EXPECTED = expected_of(FLOW_SCHEMA, FLOW_SCHEMA.storage)
SCHEMAS = versions("FlowSchema", {EXPECTED.api_version: EXPECTED.schema})
SPEC: dict[str, Any] = {"priorityLevelConfiguration": {"name": "p"}}


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param("", "application/json", id="none"),
        pytest.param("application/yaml", "application/yaml", id="plain"),
        pytest.param("Application/JSON; charset=utf-8", "application/json", id="parameters"),
    ],
)
def test_media_type(content_type: str, expected: str) -> None:
    """Case and parameters make no difference; none means JSON."""
    assert expected == media_type(content_type)


def test_unknown_media_types() -> None:
    """415, with what can be read."""
    check_media_type("application/yaml")
    with pytest.raises(StatusError, match="application/json, application/yaml") as error:
        parse("application/cbor", b"{}", "FlowSchema", SCHEMAS)

    assert (415, "UnsupportedMediaType") == (error.value.code, error.value.reason)


def sent(
    data: bytes, validation: str = "Warn", content_type: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What comes of a body."""
    return decode(EXPECTED, parse(content_type, data, "FlowSchema", SCHEMAS), validation)


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
def test_objects(content_type: str) -> None:
    """They get their kind, if need be, and their defaults."""
    obj, warnings = sent(
        json.dumps({"metadata": {"name": "f"}, "spec": SPEC}).encode(), "", content_type
    )

    assert ("FlowSchema", f"{GROUP}/v1") == (obj["kind"], obj["apiVersion"])
    assert 1000 == obj["spec"]["matchingPrecedence"]
    assert () == warnings


def test_yaml_objects() -> None:
    """A body may be YAML."""
    obj, warnings = sent(
        b"kind: FlowSchema\nmetadata: {name: f}\nbogus: 1", "Warn", "application/yaml"
    )

    assert "f" == obj["metadata"]["name"]
    assert ('unknown field "bogus"',) == warnings


@pytest.mark.parametrize("api_version", [EXPECTED.api_version, ""])
@pytest.mark.parametrize("kind", [EXPECTED.kind, ""])
def test_protobuf_objects(api_version: str, kind: str) -> None:
    """A body may be protobuf, which need not say what it is."""
    obj = {"metadata": {"name": "f"}, "spec": SPEC}
    body = document(EXPECTED.schema, api_version, kind, obj)

    assert sent(json.dumps(obj).encode()) == sent(body, "Strict", f"{PROTOBUF}; charset=utf-8")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            b"",
            "the object provided is unrecognized (must be of type FlowSchema): empty data"
            " (<empty>)",
            id="empty",
        ),
        pytest.param(
            b"{" * 31,
            "the object provided is unrecognized (must be of type FlowSchema): provided data does"
            " not appear to be a protobuf message, expected prefix [107 56 115 0]"
            f" ({'{' * 30} ...)",
            id="no-protobuf",
        ),
        pytest.param(
            document(EXPECTED.schema, EXPECTED.api_version, "FlowSchema", {}) + b"\x12\x01\x0a",
            'FlowSchema in version "v1" cannot be handled as a FlowSchema: unexpected EOF',
            id="cut",
        ),
        pytest.param(
            b"k8s\x00" + block(2, b"\x0a"),
            'FlowSchema in version "" cannot be handled as a FlowSchema: unexpected EOF',
            id="cut-and-nameless",
        ),
        pytest.param(
            document(EXPECTED.schema, "v1", "Pod", {}),
            'Pod in version "v1" cannot be handled as a FlowSchema: converting (v1.Pod) to'
            " (flowcontrol.FlowSchema): unknown conversion",
            id="other-kind",
        ),
        pytest.param(
            document(EXPECTED.schema, f"{GROUP}/v1beta3", "FlowSchema", {}),
            f"the API version in the data ({GROUP}/v1beta3) does not match the expected API"
            f" version ({GROUP}/v1)",
            id="other-version",
        ),
    ],
)
def test_bad_protobuf(data: bytes, message: str) -> None:
    """400; what is no text is shown as hexadecimal digits."""
    with pytest.raises(StatusError) as error:
        sent(data, "Warn", PROTOBUF)

    assert (400, message) == (error.value.code, error.value.message)


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("", "", EVICTIONS["policy/v1"]),
        ("policy/v1beta1", "Eviction", EVICTIONS["policy/v1beta1"]),
        ("policy/v2", "Eviction", None),
        ("policy/v1", "Pod", None),
    ],
)
def test_versions(api_version: str, kind: str, expected: Struct | None) -> None:
    """A body that says nothing is of the first version."""
    assert expected is versions("Eviction", EVICTIONS)(api_version, kind)


@pytest.mark.parametrize(
    ("kind", "expected"), [("", DELETE_OPTIONS), ("DeleteOptions", DELETE_OPTIONS), ("Pod", None)]
)
def test_any_version(kind: str, expected: Struct | None) -> None:
    """The version makes no difference, the kind does."""
    assert expected is any_version("DeleteOptions", DELETE_OPTIONS)("policy/v1", kind)


def test_nothing() -> None:
    """A body of null is an object without anything, as Go reads it."""
    assert {} == sent(b"null")[0]["metadata"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "unexpected end of JSON input", id="empty"),
        pytest.param(b"not json", "couldn't get version/kind", id="no-json"),
        pytest.param(b"[]", "cannot unmarshal array", id="array"),
        pytest.param(b'"x"', "cannot unmarshal string", id="string"),
        pytest.param(b"\xff\xfe", "couldn't get version/kind", id="no-text"),
        pytest.param(b'{"kind": 1}', "json: cannot unmarshal", id="kind-of-no-type"),
        pytest.param(b'{"kind": "Pod"}', 'no kind "Pod" is registered', id="other-kind"),
        pytest.param(
            b'{"apiVersion": "v1"}',
            'no kind "FlowSchema" is registered for version "v1"',
            id="version",
        ),
        pytest.param(b'{"spec": {"rules": 1}}', "cannot be handled as a FlowSchema", id="type"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "couldn't get version/kind", id="deep"),
        pytest.param(
            b'{"metadata":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001,
            "couldn't get version/kind",
            id="deep-object",
        ),
    ],
)
def test_bad_bodies(data: bytes, message: str) -> None:
    """400, in Kubernetes' words."""
    with pytest.raises(StatusError, match=message) as error:
        sent(data)

    assert (400, "BadRequest") == (error.value.code, error.value.reason)
    assert len(error.value.message) < 1000


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_what_is_lost(validation: str) -> None:
    """Repeated and unknown fields are an error, a warning or nothing."""
    data = b'{"spec": {"matchingPrecedence": 1, "matchingPrecedence": 2, "bogus": {}}}'
    lost = ('duplicate field "spec.matchingPrecedence"', 'unknown field "spec.bogus"')
    if validation == "Strict":
        with pytest.raises(StatusError) as error:
            sent(data, validation)
        assert error.value.message.endswith(f"strict decoding error: {', '.join(lost)}")
        return
    obj, warnings = sent(data, validation)

    assert (lost if validation == "Warn" else ()) == warnings
    assert 2 == obj["spec"]["matchingPrecedence"]


def test_too_large() -> None:
    """413 says how large a body may be."""
    assert "limit is 3145728" in too_large().message


@pytest.mark.parametrize("piece", [b"{},", b"null,"])
def test_too_many_objects(piece: bytes) -> None:
    """413 as well for more objects in a body than can be worked through at once."""
    check_number(piece * MOST_OBJECTS)
    with pytest.raises(StatusError) as caught:
        check_number(piece * (MOST_OBJECTS + 1))

    assert (413, "RequestEntityTooLarge") == (caught.value.code, caught.value.reason)


def test_unknown_fields_are_told_once() -> None:
    """What is unknown is not repeated, too."""
    assert ('unknown field "bogus"',) == sent(b'{"bogus": 1, "bogus": 2}')[1]


@pytest.mark.parametrize("kind", ["FlowSchemaList", "PriorityLevelConfiguration"])
def test_other_kinds_are_known(kind: str) -> None:
    """Lists are kinds, too; none of another kind is converted."""
    version = "flowcontrol.apiserver.k8s.io/v1"
    body = json.dumps({"kind": kind, "apiVersion": version}).encode()
    with pytest.raises(StatusError) as error:
        sent(body)

    expected = f"converting (v1.{kind}) to (flowcontrol.FlowSchema): unknown conversion"
    assert error.value.message.endswith(expected)


def test_the_first_wrong_type_is_told() -> None:
    """Of several values of wrong types the first one of the body counts."""
    data = b"""{"kind": "FlowSchema", "status": {"conditions": null},
        "spec": {"rules": [null, {"subjects": []}, 5],
        "matchingPrecedence": "x", "bogus": 1}, "metadata": {"labels": {"a": null, "b": 1}}}"""
    with pytest.raises(StatusError) as first:
        sent(data)
    with pytest.raises(StatusError) as other:
        sent(data.replace(b", 5]", b"]").replace(b'"x"', b"1"))

    assert "number into Go struct field FlowSchemaSpec.spec.rules of" in first.value.message
    assert "number into Go struct field ObjectMeta.metadata.labels of" in other.value.message
