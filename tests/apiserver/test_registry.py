"""Tests of `apfproxy.apiserver.registry`."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.errors import StatusError
from tests.apiserver.controllers.scene import Scene


async def test_get() -> None:
    """What is not there is not found; what is there has its kind and version."""
    scene = Scene()
    with pytest.raises(StatusError, match="not found"):
        scene.registry.get(FLOW_SCHEMA, "", "f")
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 2}
    await scene.create(FLOW_SCHEMA, {"metadata": {"name": "f"}, "spec": spec})

    found = scene.registry.get(FLOW_SCHEMA, "", "f")
    assert ("FlowSchema", "f") == (found["kind"], found["metadata"]["name"])
