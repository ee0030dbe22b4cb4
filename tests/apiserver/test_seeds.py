"""Objects to begin with."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE
from apfproxy.apiserver.seeds import SeedCounts, Seeder
from tests.apiserver.controllers.scene import Scene

COUNTS = SeedCounts(slices=5, pods=210, budgets=7)


async def seeded(counts: SeedCounts = COUNTS, scene: Scene | None = None) -> tuple[Scene, int]:
    scene = scene or Scene()
    made = await Seeder(scene.registry, random.Random(3)).seed(counts)  # noqa: S311  seeds of tests
    return scene, made


def stored(scene: Scene, resource: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(each.data) for each in scene.store.collection(resource).snapshot()]


async def test_numbers() -> None:
    scene, made = await seeded()

    kinds = (RESOURCE_SLICE.resource, "pods", POD_DISRUPTION_BUDGET.resource, "namespaces")
    assert [5, 210, 7, 3] == [len(stored(scene, each)) for each in kinds]
    assert 5 + 210 + 7 + 3 + 3 == made
    assert {node["metadata"]["name"] for node in stored(scene, "nodes")} == {
        pod["spec"]["nodeName"] for pod in stored(scene, "pods")
    }
    assert 3 == (await seeded(SeedCounts(slices=8, pods=210, budgets=7), scene))[1]
    for obj in stored(scene, RESOURCE_SLICE.resource):
        obj["metadata"].pop("managedFields")
        assert 700 < len(msgspec.json.encode(obj)) < 1500


async def test_budgets_select_pods() -> None:
    """Each budget selects pods of its namespace, most of which are ready."""
    scene, _ = await seeded()

    pods = stored(scene, "pods")
    shown = Counter(POD.cells(pod, 0)[1:3] for pod in pods)
    assert {("1/1", "Running"), ("0/1", "Pending")} == shown.keys()
    assert 0.8 * len(pods) < shown["1/1", "Running"]
    for budget in stored(scene, POD_DISRUPTION_BUDGET.resource):
        app = budget["spec"]["selector"]["matchLabels"]["app"]
        selected = [
            pod
            for pod in pods
            if pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
            and pod["metadata"]["labels"]["app"] == app
        ]
        assert len(selected) > budget["spec"]["minAvailable"] > 0
