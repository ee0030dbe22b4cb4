"""Tests of `apfproxy.apiserver.registry`."""

from __future__ import annotations

import pytest

from apfproxy.api.core.kinds import POD
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


async def test_admission_may_refuse() -> None:
    """A creation that it objects to is forbidden; without a name its prefix is told."""
    scene = Scene()
    await scene.namespace()
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "mine"}
    for metadata, name in (
        ({"name": "p"}, "p"),
        ({"generateName": "p-"}, "p-"),
        ({}, "Unknown"),
    ):
        with pytest.raises(StatusError) as caught:
            await scene.create(POD, {"metadata": metadata, "spec": spec}, "default")
        text = f'pods "{name}" is forbidden: no PriorityClass with name mine was found'
        assert (403, "Forbidden", text) == (
            caught.value.code,
            caught.value.reason,
            caught.value.message,
        )
