"""Tests of `apfproxy.apiserver.bodies`, beside the recorded requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.apiserver.bodies import MOST_OBJECTS, check_number, decode, expected_of
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.responses import PROTOBUF, WARNINGS
from tests.apiserver.schema.protobuf_writer import block, document

GROUP = "flowcontrol.apiserver.k8s.io"
EXPECTED = expected_of(FLOW_SCHEMA, FLOW_SCHEMA.storage)


def sent(data: bytes, validation: str = "Warn", content_type: str = "") -> dict[str, Any]:
    """What comes of a body."""
    WARNINGS.set([])
    return decode((EXPECTED,), content_type, data, validation)


@pytest.mark.parametrize("api_version", [EXPECTED.api_version, ""])
@pytest.mark.parametrize("kind", [EXPECTED.kind, ""])
def test_protobuf_objects(api_version: str, kind: str) -> None:
    """A body may be protobuf, which need not say what it is."""
    obj = {"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "p"}}}
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
            b"k8s\x00",
            "the object provided is unrecognized (must be of type FlowSchema): empty body"
            " (6b387300)",
            id="empty-envelope",
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
            'FlowSchema in version "v1" cannot be handled as a FlowSchema: unexpected EOF',
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
    ("data", "message"),
    [
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "couldn't get version/kind", id="deep"),
        pytest.param(
            b'{"metadata":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001,
            "couldn't get version/kind",
            id="deep-object",
        ),
        pytest.param(
            b'{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1"}',
            "unknown conversion$",
            id="review",
        ),
        pytest.param(
            b'{"kind": "FlowSchemaList", "apiVersion": "%b/v1"}' % GROUP.encode(),
            "unknown conversion$",
            id="list",
        ),
    ],
)
def test_bad_bodies(data: bytes, message: str) -> None:
    """400, in Kubernetes' words."""
    with pytest.raises(StatusError, match=message) as error:
        sent(data)

    assert (400, "BadRequest") == (error.value.code, error.value.reason)
    assert len(error.value.message) < 1000


@pytest.mark.parametrize("piece", [b"{},", b"null,"])
def test_too_many_objects(piece: bytes) -> None:
    """413 for more objects in a body than can be worked through at once."""
    check_number(piece * MOST_OBJECTS)
    with pytest.raises(StatusError) as caught:
        check_number(piece * (MOST_OBJECTS + 1))

    assert (413, "RequestEntityTooLarge") == (caught.value.code, caught.value.reason)
