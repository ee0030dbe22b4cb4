"""The built-in objects, and the status of FlowSchemas."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers.flow_control import AUTO_UPDATE, Bootstrap, Dangling
from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from tests.apiserver.controllers.scene import NOW, Driver, Scene

LEVELS = PRIORITY_LEVEL_CONFIGURATION


async def started() -> tuple[Scene, Driver]:
    scene = Scene()
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()
    return scene, Driver(bootstrap, scene)


def metadata(scene: Scene, name: str, value: str | None) -> dict[str, Any]:
    found: dict[str, Any] = dict(scene.registry.get(LEVELS, "", name)["metadata"])
    found["annotations"] = {AUTO_UPDATE: value} if value else {"a": "b"}
    return found


def shares(scene: Scene, name: str) -> int:
    found: int = scene.registry.get(LEVELS, "", name)["spec"]["limited"]["nominalConcurrencyShares"]
    return found


async def share(scene: Scene, name: str, number: int) -> None:
    spec = scene.registry.get(LEVELS, "", name)["spec"]
    limited = {**spec["limited"], "nominalConcurrencyShares": number}
    await scene.change(LEVELS, name, {"spec": {**spec, "limited": limited}})


async def test_right_objects_are_left_alone() -> None:
    scene, driver = await started()
    version = scene.store.resource_version

    await Bootstrap(scene.registry).ensure_all()
    await driver.settle()

    assert version == scene.store.resource_version


async def test_deleted_objects_come_back() -> None:
    scene, driver = await started()
    await scene.delete(LEVELS, "exempt")
    await scene.delete(FLOW_SCHEMA, "probes")

    await driver.settle()

    assert "exempt" in scene.names(LEVELS)
    assert "probes" in scene.names(FLOW_SCHEMA)


async def test_namespaces_come_back() -> None:
    scene = Scene()
    bootstrap = Bootstrap(scene.registry)
    driver = Driver(bootstrap, scene)
    await bootstrap.ensure_all()
    obj = scene.registry.get(NAMESPACE, "", "kube-node-lease")
    scene.store.delete(NAMESPACE.resource, obj, {})
    await driver.settle()

    assert "kube-node-lease" in scene.names(NAMESPACE)


@pytest.mark.parametrize(
    ("annotation", "kept", "text"),
    [
        ("true", 100, "true"),
        ("T", 100, "T"),
        ("false", 7, "false"),
        (None, 7, "false"),
        ("maybe", 7, "false"),
    ],
)
async def test_suggested_objects_may_be_taken_over(
    annotation: str | None, kept: int, text: str
) -> None:
    """The annotation decides; without one, an object that was changed belongs to its changer."""
    scene, driver = await started()
    await scene.change(LEVELS, "workload-low", {"metadata": metadata(scene, "workload-low", "0")})
    await share(scene, "workload-low", 7)
    await scene.change(
        LEVELS, "workload-low", {"metadata": metadata(scene, "workload-low", annotation)}
    )

    await driver.settle()

    annotations = scene.registry.get(LEVELS, "", "workload-low")["metadata"]["annotations"]
    assert (kept, text) == (shares(scene, "workload-low"), annotations[AUTO_UPDATE])


async def test_unchanged_objects_are_kept_equal() -> None:
    scene, driver = await started()
    await scene.change(LEVELS, "workload-low", {"metadata": metadata(scene, "workload-low", None)})

    await driver.settle()

    annotations = scene.registry.get(LEVELS, "", "workload-low")["metadata"]["annotations"]
    assert {"a": "b", AUTO_UPDATE: "true"} == annotations


async def test_mandatory_objects_are_kept_equal() -> None:
    """Whatever their annotation says; but the seats of level `exempt` may be changed."""
    scene, driver = await started()
    spec = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 9, "lendablePercent": 5}}
    changed = metadata(scene, "exempt", "false")
    await scene.change(LEVELS, "exempt", {"metadata": changed, "spec": spec})

    await driver.settle()

    level = scene.registry.get(LEVELS, "", "exempt")
    assert spec == level["spec"]
    assert "true" == level["metadata"]["annotations"][AUTO_UPDATE]


async def test_mandatory_objects_are_restored() -> None:
    scene = Scene()
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()
    level = scene.registry.get(LEVELS, "", "catch-all")
    level["spec"]["limited"]["nominalConcurrencyShares"] = 7
    scene.store.put(LEVELS.resource, level, {})
    await bootstrap.ensure_all()

    assert shares(scene, "catch-all") == 5


@pytest.mark.parametrize(("annotation", "is_there"), [("true", False), ("false", True)])
async def test_former_objects_go(annotation: str, *, is_there: bool) -> None:
    """What the annotation calls built in, and is not, is removed; nothing else is."""
    scene, driver = await started()
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    for name, noted in (("former", {AUTO_UPDATE: annotation}), ("mine", {})):
        made = {"name": name, "annotations": noted}
        await scene.create(LEVELS, {"metadata": made, "spec": spec})
    await driver.settle()

    assert is_there is ("former" in scene.names(LEVELS))
    assert "mine" in scene.names(LEVELS)
    await driver.look(LEVELS.plural, "gone")


async def test_only_what_is_served() -> None:
    scene = Scene(FLOW_CONTROL_KINDS)
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()

    assert 8 == len(scene.names(LEVELS))


LEVEL = {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}


def schema(name: str, level: str) -> dict[str, Any]:
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": "g"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": level}, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


def dangling(scene: Scene, name: str) -> dict[str, Any]:
    (condition,) = scene.registry.get(FLOW_SCHEMA, "", name)["status"]["conditions"]
    found: dict[str, Any] = condition
    return found


async def test_levels_come_and_go() -> None:
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


async def test_right_statuses_are_left_alone() -> None:
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    await Driver(Dangling(scene.registry), scene).settle()
    version = scene.store.resource_version

    await Driver(Dangling(scene.registry), scene).settle()

    assert version == scene.store.resource_version


async def test_schemas_may_be_gone() -> None:
    scene = Scene()
    await scene.create(FLOW_SCHEMA, schema("s", "l"))
    controller = Dangling(scene.registry)
    driver = Driver(controller, scene)
    await scene.delete(FLOW_SCHEMA, "s")

    await controller.look(("s",))
    await driver.settle()

    assert [] == scene.names(FLOW_SCHEMA)


async def test_levels_may_change() -> None:
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


async def test_levels_are_shared() -> None:
    scene = Scene()
    for name in ("s", "t"):
        await scene.create(FLOW_SCHEMA, schema(name, "l"))
    driver = Driver(Dangling(scene.registry), scene)
    await driver.settle()
    await scene.delete(FLOW_SCHEMA, "s")
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, {"metadata": {"name": "l"}, **LEVEL})
    await driver.settle()

    assert "Found" == dangling(scene, "t")["reason"]
