"""Tests of `apfproxy.apiserver.bodies`, beside the recorded requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.apiserver.bodies import check_number, decode, expected_of
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.options import (
    asked_version,
    delete_options,
    manager_of,
)
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.apiserver.responses import PROTOBUF, WARNINGS
from apfproxy.apiserver.schema.body import MOST_OBJECTS
from apfproxy.request.attributes import parse_query
from tests.apiserver.schema.protobuf_writer import block, document

GROUP = "flowcontrol.apiserver.k8s.io"
EXPECTED = expected_of(FLOW_SCHEMA, FLOW_SCHEMA.storage)


def sent(data: bytes, validation: str = "Warn", content_type: str = "") -> dict[str, Any]:
    WARNINGS.set([])
    return decode((EXPECTED,), content_type, data, validation)


@pytest.mark.parametrize("api_version", [EXPECTED.api_version, ""])
@pytest.mark.parametrize("kind", [EXPECTED.kind, ""])
def test_protobuf_objects(api_version: str, kind: str) -> None:
    obj = {"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "p"}}}
    body = document(EXPECTED.schema, api_version, kind, obj)

    assert sent(json.dumps(obj).encode()) == sent(body, "Strict", f"{PROTOBUF}; charset=utf-8")


UNKNOWN = "the object provided is unrecognized (must be of type FlowSchema): "
CUT = 'FlowSchema in version "v1" cannot be handled as a FlowSchema: unexpected EOF'
DEEP = b'{"metadata":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
BAD = {
    "empty": (PROTOBUF, b"", f"{UNKNOWN}empty data (<empty>)"),
    "empty-envelope": (PROTOBUF, b"k8s\x00", f"{UNKNOWN}empty body (6b387300)"),
    "no-protobuf": (
        PROTOBUF, b"{" * 31,
        f"{UNKNOWN}provided data does not appear to be a protobuf message, expected prefix [107",
    ),
    "cut": (PROTOBUF, document(EXPECTED.schema, "", "", {}) + b"\x12\x01\x0a", CUT),
    "cut-and-nameless": (PROTOBUF, b"k8s\x00" + block(2, b"\x0a"), CUT),
    "other-kind": (
        PROTOBUF, document(EXPECTED.schema, "v1", "Pod", {}),
        'Pod in version "v1" cannot be handled as a FlowSchema: converting (v1.Pod) to (flowcontro',
    ),
    "other-version": (
        PROTOBUF, document(EXPECTED.schema, f"{GROUP}/v1beta3", "FlowSchema", {}),
        f"the API version in the data ({GROUP}/v1beta3) does not match the expected API version (",
    ),
    "deep": ("", b"[" * 100_000 + b"]" * 100_000, f"{UNKNOWN}couldn't get version/kind"),
    "deep-object": ("", DEEP, f"{UNKNOWN}couldn't get version/kind"),
}  # fmt: skip


@pytest.mark.parametrize(("content_type", "data", "message"), BAD.values(), ids=BAD)
def test_bad_bodies(content_type: str, data: bytes, message: str) -> None:
    """400; what is no text is shown as hexadecimal digits."""
    with pytest.raises(StatusError) as error:
        sent(data, "Warn", content_type)

    assert (400, "BadRequest") == (error.value.code, error.value.reason)
    assert error.value.message.startswith(message)
    assert len(error.value.message) < 1000


@pytest.mark.parametrize("piece", [b"{},", b"null,"])
def test_too_many_objects(piece: bytes) -> None:
    check_number(piece * MOST_OBJECTS)
    with pytest.raises(StatusError) as caught:
        check_number(piece * (MOST_OBJECTS + 1))

    assert (413, "RequestEntityTooLarge") == (caught.value.code, caught.value.reason)


AGENT = "kubectl/v1.36.0 (linux/amd64)"


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        (AGENT, "kubectl"),
        ("", "unknown"),
        ("/1", "unknown"),
        ("a\tb\u00ad c/1", "ab c"),
        (200 * "a", 128 * "a"),
        (127 * "a" + "\u00e4" + "b", 127 * "a"),
    ],
)
def test_manager_of(user_agent: str, manager: str) -> None:
    """The manager is what comes before the slash, as far as it can be shown, in 128 bytes."""
    assert manager == manager_of(user_agent)


@pytest.mark.parametrize("query", [b"export", b"export=1"])
def test_exports_are_refused(query: bytes) -> None:
    with pytest.raises(StatusError, match="export") as caught:
        asked_version(parse_query(query))

    assert 400 == caught.value.code


@pytest.mark.parametrize(
    ("query", "raw", "options"),
    [
        (b"dryRun=All", {}, {}),
        (b"gracePeriodSeconds=-5", None, {"grace_period_s": 1}),
        (b"uid=a", None, {"uid": "a"}),
        (
            b"",
            {"preconditions": {"uid": "", "resourceVersion": ""}},
            {"uid": "", "resource_version": ""},
        ),
    ],
)
def test_delete_options(query: bytes, raw: object, options: dict[str, Any]) -> None:
    """The body counts; the parameters count where there is none."""
    expected = DeleteOptions(**options)

    assert expected == delete_options(parse_query(query), raw)
