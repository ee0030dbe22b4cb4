"""Tests of `apfproxy.apiserver.controllers.bootstrap`."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers.bootstrap import AUTO_UPDATE, Bootstrap
from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.errors import StatusError, forbidden
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from tests.apiserver.controllers.scene import Driver, Scene

LEVELS = PRIORITY_LEVEL_CONFIGURATION


async def started() -> tuple[Scene, Driver]:
    """A scene where everything is in place."""
    scene = Scene()
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()
    return scene, Driver(bootstrap, scene)


def metadata(scene: Scene, name: str, value: str | None) -> dict[str, Any]:
    """A level's metadata with another annotation, or without."""
    found: dict[str, Any] = dict(scene.registry.get(LEVELS, "", name)["metadata"])
    found["annotations"] = {AUTO_UPDATE: value} if value else {"a": "b"}
    return found


def shares(scene: Scene, name: str) -> int:
    """A level's share of the seats."""
    found: int = scene.registry.get(LEVELS, "", name)["spec"]["limited"]["nominalConcurrencyShares"]
    return found


async def share(scene: Scene, name: str, number: int) -> None:
    """Give a level another share of the seats."""
    spec = scene.registry.get(LEVELS, "", name)["spec"]
    limited = {**spec["limited"], "nominalConcurrencyShares": number}
    await scene.change(LEVELS, name, {"spec": {**spec, "limited": limited}})


async def test_objects_are_created() -> None:
    """Those of Kubernetes, in the name of the managers that it has."""
    scene, _ = await started()

    assert ["default", "kube-node-lease", "kube-public", "kube-system"] == scene.names(NAMESPACE)
    assert {"exempt", "catch-all", "workload-low"} < set(scene.names(LEVELS))
    assert {"exempt", "catch-all", "service-accounts"} < set(scene.names(FLOW_SCHEMA))
    (managed,) = scene.registry.get(LEVELS, "", "exempt")["metadata"]["managedFields"]
    assert "api-priority-and-fairness-config-producer-v1" == managed["manager"]
    (managed,) = scene.registry.get(NAMESPACE, "", "default")["metadata"]["managedFields"]
    assert "kube-apiserver" == managed["manager"]


async def test_right_objects_are_left_alone() -> None:
    """Nothing is written at a second start."""
    scene, driver = await started()
    version = scene.store.resource_version

    await Bootstrap(scene.registry).ensure_all()
    await driver.settle()

    assert version == scene.store.resource_version


async def test_deleted_objects_come_back() -> None:
    """At once."""
    scene, driver = await started()
    await scene.delete(LEVELS, "exempt")
    await scene.delete(FLOW_SCHEMA, "probes")

    await driver.settle()

    assert "exempt" in scene.names(LEVELS)
    assert "probes" in scene.names(FLOW_SCHEMA)


async def test_namespaces_come_back() -> None:
    """Such as one that was removed while the server was down."""
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
    """A lost annotation is put back where nothing else was changed."""
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
    """Even a change that a server let through once."""
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
    """Without namespaces there are none to keep."""
    scene = Scene(FLOW_CONTROL_KINDS)
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()

    assert 8 == len(scene.names(LEVELS))


async def test_failures_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot have its objects does not start."""
    scene = Scene()

    def refuse(*_args: object) -> None:
        raise forbidden("", "namespaces", "default", "not today")

    monkeypatch.setattr(scene.registry, "get", refuse)
    with pytest.raises(StatusError, match="not today"):
        await Bootstrap(scene.registry).ensure_all()
