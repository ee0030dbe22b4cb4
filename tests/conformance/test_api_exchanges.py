"""Creations of FlowSchemas and PriorityLevelConfigurations, as kube-apiserver answers them.

Run directly on the objects: the recorded requests that create one of the two kinds with nothing but
`dryRun=All`, and whose answer depends on the object alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from apfproxy.api.documents import split_documents
from apfproxy.api.field_errors import Reason
from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.api.flowcontrol.types import GROUP
from apfproxy.api.flowcontrol.wire import from_wire, to_wire, with_type
from apfproxy.api.meta import SystemFields
from apfproxy.api.schema.reading import read
from tests.conformance import vectors

CREATION = re.compile(
    r"/apis/flowcontrol\.apiserver\.k8s\.io/(?P<version>[^/?]+)"
    r"/(?P<resource>flowschemas|prioritylevelconfigurations)\?dryRun=All"
)
KINDS = {
    "flowschemas": "FlowSchema",
    "prioritylevelconfigurations": "PriorityLevelConfiguration",
}
STORED_KINDS = {kind.plural: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}
VOLATILE = {
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "resourceVersion",
    "selfLink",
    "startTime",
    "time",
    "timeAdded",
    "uid",
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CREATED = SystemFields(
    uid="9b1c2f7e-4d3a-4e0b-8f65-0a1b2c3d4e5f",
    creation_timestamp="2024-02-29T12:00:00Z",
    name_suffix="x7b2q",
)


def creations() -> list[Any]:
    """The recorded steps that create one of the two kinds and are answered with 201 or 422."""
    return [
        pytest.param(step, id=step["id"])
        for step in vectors.load("api_exchanges")
        if step["method"] == "POST"
        and CREATION.fullmatch(step["path"])
        and step["expect"]["status"] in (201, 422)
    ]


def normal(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """The value with volatile parts replaced and `managedFields` left out."""
    if isinstance(value, dict):
        return {
            key: f"<{key}>" if key in VOLATILE and isinstance(each, str) and each else normal(each)
            for key, each in value.items()
            if key != "managedFields"
        }
    if isinstance(value, list):
        return [normal(each) for each in value]
    if isinstance(value, str):
        return UUID.sub("<uid>", TIME.sub("<time>", value))
    return value


def body_of(step: dict[str, Any]) -> object:
    """The object that the step sends."""
    data = json.dumps(step["body"]) if "body" in step else step["raw"]
    documents, problem = split_documents(data.encode(), unique_keys=False)
    assert problem is None
    return documents[0].content


@pytest.mark.parametrize("step", creations())
def test_creation(step: dict[str, Any]) -> None:
    """Creating the object gives the recorded object, or the recorded causes of its refusal."""
    expected = step["expect"]["body"]
    creation = CREATION.fullmatch(step["path"])
    assert creation is not None

    api_version = f"{GROUP}/{creation['version']}"
    body = with_type(body_of(step), KINDS[creation["resource"]], api_version)

    found = from_wire(body, created=CREATED)

    if step["expect"]["status"] == 201:
        assert not isinstance(found, list), found
        assert normal(expected) == normal(to_wire(found, creation["version"]))
    else:
        assert isinstance(found, list)
        assert Reason.TYPE_INVALID not in {error.reason for error in found}
        assert {(cause["field"], cause["reason"]) for cause in expected["details"]["causes"]} == {
            (error.field, error.reason) for error in found
        }


@pytest.mark.parametrize("step", creations())
def test_creation_of_a_stored_object(step: dict[str, Any]) -> None:
    """Reading the object by its schema gives the recorded object, or the recorded causes."""
    expected = step["expect"]["body"]
    creation = CREATION.fullmatch(step["path"])
    assert creation is not None
    kind = STORED_KINDS[creation["resource"]]
    version = kind.version(creation["version"])
    assert version is not None

    obj = read(version.schema, body_of(step)).obj
    version.set_defaults(obj)
    obj = version.to_storage(obj)
    kind.rules.prepare_create(obj)
    errors = kind.rules.validate(obj)

    if step["expect"]["status"] == 201:
        assert [] == errors
        assert (expected["spec"], expected["status"]) == (obj["spec"], obj["status"])
    else:
        assert {(cause["field"], cause["reason"]) for cause in expected["details"]["causes"]} == {
            (error.field, error.reason) for error in errors
        }
