"""The built-in objects, and the status of FlowSchemas."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.controllers.flow_control import AUTO_UPDATE, Bootstrap, Dangling
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.objects.go_text import parse_time
from tests.apiserver.controllers.scene import NOW_S, Driver, Scene

LEVELS = PRIORITY_LEVEL_CONFIGURATION


async def started() -> tuple[Scene, Driver]:
    scene = Scene()
    bootstrap = Bootstrap(scene.registry)
    await bootstrap.ensure_all()
    return scene, Driver(bootstrap, scene)


def level(scene: Scene, name: str) -> dict[str, Any]:
    return scene.registry.get(LEVELS, "", name)


async def annotate(scene: Scene, name: str, value: str | None) -> None:
    annotations = {AUTO_UPDATE: value} if value else {"a": "b"}
    metadata = {**level(scene, name)["metadata"], "annotations": annotations}
    await scene.change(LEVELS, name, {"metadata": metadata})


async def test_deleted_objects_come_back() -> None:
    scene, driver = await started()
    version = scene.store.resource_version
    await Bootstrap(scene.registry).ensure_all()
    await driver.settle()
    assert version == scene.store.resource_version, "right ones are left alone"
    await scene.delete(LEVELS, "exempt")
    await scene.delete(FLOW_SCHEMA, "probes")
    node_lease = scene.registry.get(NAMESPACE, "", "kube-node-lease")
    scene.store.delete(NAMESPACE.resource, node_lease, {})
    await driver.settle()

    assert ["default", "kube-node-lease", "kube-public", "kube-system"] == scene.names(NAMESPACE)
    for kind, name, manager in (
        (NAMESPACE, "kube-node-lease", "kube-apiserver"),
        (LEVELS, "exempt", "api-priority-and-fairness-config-producer-v1"),
        (FLOW_SCHEMA, "probes", "api-priority-and-fairness-config-producer-v1"),
    ):
        managed, *_ = scene.registry.get(kind, "", name)["metadata"]["managedFields"]
        assert manager == managed["manager"]


@pytest.mark.parametrize(
    ("annotation", "is_changed", "kept", "text"),
    [
        ("true", True, 100, "true"), ("T", True, 100, "T"), ("false", True, 7, "false"),
        (None, True, 7, "false"), ("maybe", True, 7, "false"), (None, False, 100, "true"),
    ],
)  # fmt: skip
async def test_suggested_objects_may_be_taken_over(
    annotation: str | None, kept: int, text: str, *, is_changed: bool
) -> None:
    """The annotation decides; without one, an object that was changed belongs to its changer."""
    scene, driver = await started()
    await annotate(scene, "workload-low", "0")
    if is_changed:
        spec = level(scene, "workload-low")["spec"]
        spec["limited"]["nominalConcurrencyShares"] = 7
        await scene.change(LEVELS, "workload-low", {"spec": spec})
    await annotate(scene, "workload-low", annotation)
    await driver.settle()

    found = level(scene, "workload-low")
    annotations = {AUTO_UPDATE: text} if annotation else {"a": "b", AUTO_UPDATE: text}
    assert annotations == found["metadata"]["annotations"]
    assert kept == found["spec"]["limited"]["nominalConcurrencyShares"]


async def test_mandatory_objects_are_kept_equal() -> None:
    scene, driver = await started()
    exempt = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 9, "lendablePercent": 5}}
    await annotate(scene, "exempt", "false")
    await scene.change(LEVELS, "exempt", {"spec": exempt})
    catch_all = level(scene, "catch-all")
    catch_all["spec"]["limited"]["nominalConcurrencyShares"] = 7
    scene.store.put(LEVELS.resource, catch_all, {})
    await driver.settle()

    assert 5 == level(scene, "catch-all")["spec"]["limited"]["nominalConcurrencyShares"]
    assert exempt == level(scene, "exempt")["spec"]
    assert "true" == level(scene, "exempt")["metadata"]["annotations"][AUTO_UPDATE]


@pytest.mark.parametrize("is_at_start", [True, False])
async def test_former_objects_go(*, is_at_start: bool) -> None:
    scene, driver = await started()
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    noted: dict[str, Any] = {
        "former": {AUTO_UPDATE: "true"}, "left": {AUTO_UPDATE: "false"}, "mine": {},
    }  # fmt: skip
    for name, value in noted.items():
        metadata = {"name": name, "annotations": value}
        await scene.create(LEVELS, {"metadata": metadata, "spec": spec})
    if is_at_start:
        await Bootstrap(scene.registry).ensure_all()
    else:
        await driver.settle()

    assert ["left", "mine"] == [name for name in scene.names(LEVELS) if name in noted]
    await driver.look(LEVELS.plural, "gone")


TOLD = 'This FlowSchema references the PriorityLevelConfiguration object named "{}"'
RULE = {
    "subjects": [{"kind": "Group", "group": {"name": "g"}}],
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
}
STEPS = """
    + s l; + t l; = s NotFound l 0 t NotFound l 0; looks 4
    level l; = s Found l 60 t Found l 60; looks 4
    touch l; looks 0
    - t; = s Found l 60; unlevel l; = s NotFound l 180; looks 2
    level m; looks 0
    change s m; = s Found m 300
    unlevel m; level l; change s x; = s NotFound x 360
    change s y; = s NotFound y 360
    restart; looks 1; = s NotFound y 360
    - s; unlevel l; =; looks 0
"""
"""Each line comes a minute after the one before.  `=` is what the schemas say of which level, and
the second since when they do; `looks` is how often one was looked at since the last time."""


async def test_levels_and_schemas_come_and_go() -> None:
    scene = Scene()
    driver = Driver(Dangling(scene.registry), scene)
    limited = {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}

    def spec(name: str) -> dict[str, Any]:
        return {
            "priorityLevelConfiguration": {"name": name}, "rules": [RULE],
            "matchingPrecedence": 1000,
        }  # fmt: skip

    for step in STEPS.strip().replace("\n", "; minute; ").split("; "):
        match step.split():
            case ["minute"]:
                scene.now_s += 60
            case ["+", name, of]:
                await scene.create(FLOW_SCHEMA, {"metadata": {"name": name}, "spec": spec(of)})
            case ["change", name, of]:
                await scene.change(FLOW_SCHEMA, name, {"spec": spec(of)})
            case ["-", name]:
                await scene.delete(FLOW_SCHEMA, name)
            case ["level", name]:
                await scene.create(LEVELS, {"metadata": {"name": name}, **limited})
            case ["touch", name]:
                await annotate(scene, name, None)
            case ["unlevel", name]:
                await scene.delete(LEVELS, name)
            case ["restart"]:
                driver = Driver(Dangling(scene.registry), scene)
            case ["looks", number]:
                await driver.settle()
                assert int(number) == driver.looks, step
                driver.looks = 0
            case ["=", *expected]:
                await driver.settle()
                told = []
                for schema in scene.registry.objects(FLOW_SCHEMA):
                    (condition,) = schema["status"]["conditions"]
                    of = schema["spec"]["priorityLevelConfiguration"]["name"]
                    assert condition["message"].startswith(TOLD.format(of))
                    since_s = parse_time(condition["lastTransitionTime"]) - NOW_S
                    told += [schema["metadata"]["name"], condition["reason"], of, f"{since_s:.0f}"]
                assert expected == told, step
    assert await driver.look("gone") is None
