"""Tests of `apfproxy.apiserver.controllers.pods`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.controllers.pods import PodTermination
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse


async def started() -> tuple[Scene, Driver]:
    """A scene with a pod, and the controller."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", annotations={"deletionTimestamp": "a word"})
    return scene, Driver(PodTermination(scene.registry), scene)


async def test_pods_end_with_their_grace_period() -> None:
    """Not before, and not unless they were deleted."""
    scene, driver = await started()
    await driver.settle()
    assert ["p"] == scene.names(POD)

    await scene.delete(POD, "p", "default")
    await driver.settle()
    assert scene.now_s + 30 == driver.queue.next_s
    scene.now_s += 29
    await driver.settle()
    assert ["p"] == scene.names(POD)
    scene.now_s += 1
    await driver.settle()
    assert [] == scene.names(POD)


async def test_pods_may_have_to_end_sooner() -> None:
    """A second deletion can shorten the period."""
    scene, driver = await started()
    await scene.delete(POD, "p", "default")
    await driver.settle()
    await scene.registry.delete(POD, "default", "p", DeleteOptions(grace_period_s=5))
    await driver.settle()
    scene.now_s += 5
    await driver.settle()

    assert [] == scene.names(POD)


async def test_finalizers_hold_pods() -> None:
    """A pod with a finalizer has ended but stays."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", finalizers=["a.b/c"])
    driver = Driver(PodTermination(scene.registry), scene)
    await scene.delete(POD, "p", "default")
    await driver.settle()
    scene.now_s += 30
    await driver.settle()

    metadata = scene.registry.get(POD, "default", "p")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 0


async def test_pods_may_be_gone() -> None:
    """That is fine."""
    _, driver = await started()

    assert await driver.look("default", "other") is None


async def test_failures_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for the runner, which tries again."""
    scene, driver = await started()
    await scene.delete(POD, "p", "default")
    scene.now_s += 30
    monkeypatch.setattr(scene.registry, "delete", refuse)

    with pytest.raises(StatusError, match="not today"):
        await driver.settle()
