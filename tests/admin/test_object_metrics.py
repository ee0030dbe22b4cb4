"""The metric of the objects' UIDs."""

from __future__ import annotations

from apfproxy.admin.families import MOST_SAMPLES
from apfproxy.admin.object_metrics import NAME, object_families
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene


def named(scene: Scene) -> list[tuple[str, str, str]]:
    """Kind, name and UID of each series."""
    return [
        (sample.labels["kind"], sample.labels["name"], sample.labels["uid"])
        for metric in object_families(scene.controller)
        for sample in metric.samples
        if sample.name == NAME and sample.value == 1
    ]


def test_levels_and_used_schemas() -> None:
    """All levels are there, and FlowSchemas from their first request on."""
    schema = flow_schema("users", "exempt", group_subject("users"))
    scene = Scene((schema,))
    levels = [
        ("PriorityLevelConfiguration", name, scene.controller.levels[name].uid)
        for name in ("catch-all", "exempt")
    ]
    assert levels == named(scene)
    scene.ticket("ann", group="users")
    uid = scene.controller.in_force.checked["FlowSchema", "users"].uid

    assert [*levels, ("FlowSchema", "users", uid)] == named(scene)


def test_parts() -> None:
    """Many objects come in parts."""
    names = [f"s-{number}" for number in range(MOST_SAMPLES)]
    scene = Scene(tuple(flow_schema(name, "exempt", group_subject(name)) for name in names))
    for name in names:
        scene.ticket("ann", group=name)

    assert [MOST_SAMPLES, 2] == [
        len(metric.samples) for metric in object_families(scene.controller)
    ]
