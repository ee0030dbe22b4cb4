"""Creations of FlowSchemas and PriorityLevelConfigurations, as kube-apiserver answers them.

Run directly on the objects: the recorded requests that create one of the two kinds with nothing but
`dryRun=All`, and whose answer depends on the object alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.schema.body import parse_yaml
from apfproxy.apiserver.schema.reading import read
from tests.conformance import vectors

CREATION = re.compile(
    r"/apis/flowcontrol\.apiserver\.k8s\.io/(?P<version>[^/?]+)"
    r"/(?P<resource>flowschemas|prioritylevelconfigurations)\?dryRun=All"
)
KINDS = {kind.plural: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}


def creations() -> list[Any]:
    """The recorded steps that create one of the two kinds and are answered with 201 or 422."""
    return [
        pytest.param(step, id=step["id"])
        for step in vectors.load("api_exchanges")
        if step["method"] == "POST"
        and CREATION.fullmatch(step["path"])
        and step["expect"]["status"] in (201, 422)
    ]


def body_of(step: dict[str, Any]) -> object:
    """The object that the step sends."""
    data = json.dumps(step["body"]) if "body" in step else step["raw"]
    return parse_yaml(data.encode()).raw


@pytest.mark.parametrize("step", creations())
def test_creation(step: dict[str, Any]) -> None:
    """Reading the object by its schema gives the recorded object, or the recorded causes."""
    expected = step["expect"]["body"]
    creation = CREATION.fullmatch(step["path"])
    assert creation is not None
    kind = KINDS[creation["resource"]]
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
