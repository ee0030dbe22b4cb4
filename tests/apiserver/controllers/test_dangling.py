"""Tests of `apfproxy.apiserver.controllers.dangling`."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers.dangling import Dangling
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from tests.apiserver.controllers.scene import NOW, Driver, Scene, refuse

LEVEL = {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}


def schema(name: str, level: str) -> dict[str, Any]:
    """A schema that matches nothing much."""
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": "g"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": level}, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


def dangling(scene: Scene, name: str) -> dict[str, Any]:
    """The only condition of a schema."""
    (condition,) = scene.registry.get(FLOW_SCHEMA, "", name)["status"]["conditions"]
    found: dict[str, Any] = condition
    return found


async def test_levels_come_and_go() -> None:
    """A schema's condition follows the level that it names."""
    scene = Scene()
    driver = Driver(Dangling(scene.registry), scene)
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    await driver.settle()

    told = 'This FlowSchema references the PriorityLevelConfiguration object named "l"'
    missing = {
        "type": "Dangling",
        "status": "True",
        "lastTransitionTime": NOW,
        "reason": "NotFound",
        "message": f"{told} but there is no such object",
    }
    assert missing == dangling(scene, "s")

    scene.now_s += 60
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, {"metadata": {"name": "l"}, **LEVEL})
    await driver.settle()
    assert {
        **missing,
        "status": "False",
        "lastTransitionTime": "2001-09-09T01:47:40Z",
        "reason": "Found",
        "message": f"{told} and it exists",
    } == dangling(scene, "s")

    await scene.delete(PRIORITY_LEVEL_CONFIGURATION, "l")
    await driver.settle()
    assert dangling(scene, "s")["reason"] == "NotFound"


async def test_schemas_turn_to_other_levels() -> None:
    """The time stays while the status does; the level that was left does not matter."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    driver = Driver(Dangling(scene.registry), scene)
    await driver.settle()
    scene.now_s += 60
    await scene.change(
        FLOW_SCHEMA, "s", {"spec": {**schema("s", "m")["spec"], "matchingPrecedence": 1000}}
    )
    await driver.settle()

    assert NOW == dangling(scene, "s")["lastTransitionTime"]
    assert '"m"' in dangling(scene, "s")["message"]
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, {"metadata": {"name": "l"}, **LEVEL})
    await driver.settle()
    assert dangling(scene, "s")["status"] == "True"


async def test_fields_are_applied() -> None:
    """The fields are owned as Kubernetes owns them."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    driver = Driver(Dangling(scene.registry), scene)
    await driver.settle()

    managed = scene.registry.get(FLOW_SCHEMA, "", "s")["metadata"]["managedFields"]
    assert ("api-priority-and-fairness-config-consumer-v1", "Apply", "status") == tuple(
        managed[0][name] for name in ("manager", "operation", "subresource")
    )


async def test_right_statuses_are_left_alone() -> None:
    """What was written before is not written again, also after a start."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    await Driver(Dangling(scene.registry), scene).settle()
    version = scene.store.resource_version

    await Driver(Dangling(scene.registry), scene).settle()

    assert version == scene.store.resource_version


async def test_schemas_may_be_gone() -> None:
    """A schema that was deleted meanwhile needs nothing."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    controller = Dangling(scene.registry)
    driver = Driver(controller, scene)
    await scene.delete(FLOW_SCHEMA, "s")

    await controller.look(("s",))
    await driver.settle()

    assert "<Dangling of 0 schemas, 0 levels>" == repr(controller)


async def test_levels_may_change() -> None:
    """A level that was there before concerns no schema."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, {"metadata": {"name": "l"}, **LEVEL})
    driver = Driver(Dangling(scene.registry), scene)
    await driver.settle()
    looks = driver.looks

    metadata = scene.registry.get(PRIORITY_LEVEL_CONFIGURATION, "", "l")["metadata"]
    labelled = {"metadata": {**metadata, "labels": {"a": "b"}}}
    await scene.change(PRIORITY_LEVEL_CONFIGURATION, "l", labelled)
    await driver.settle()

    assert looks == driver.looks


async def test_failures_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for the runner, which tries again."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    driver = Driver(Dangling(scene.registry), scene)
    monkeypatch.setattr(scene.registry, "apply", refuse)

    with pytest.raises(StatusError, match="not today"):
        await driver.settle()


async def test_levels_are_shared() -> None:
    """A level that several schemas name concerns all that are left."""
    scene = Scene()
    for name in ("s", "t"):
        await scene.create(FLOW_SCHEMA, schema(name, "l"))
    driver = Driver(Dangling(scene.registry), scene)
    await driver.settle()
    await scene.delete(FLOW_SCHEMA, "s")
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, {"metadata": {"name": "l"}, **LEVEL})
    await driver.settle()

    assert "Found" == dangling(scene, "t")["reason"]
