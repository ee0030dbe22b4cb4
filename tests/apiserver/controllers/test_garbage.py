"""Tests of `apfproxy.apiserver.controllers.garbage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.controllers import garbage
from apfproxy.apiserver.controllers.garbage import GarbageCollector
from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

BUDGETS = POD_DISRUPTION_BUDGET
HOLDER = "a.b/c"


async def started() -> tuple[Scene, Driver]:
    """A scene with a namespace, and the controller."""
    scene = Scene()
    await scene.namespace("n")
    return scene, Driver(GarbageCollector(scene.registry), scene)


def owner(obj: Object, **more: Any) -> Object:  # noqa: ANN401  JSON
    """A reference to an owner."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **more,
    }


async def budget(scene: Scene, name: str, *owners: Object, **metadata: Any) -> Object:  # noqa: ANN401  JSON
    """Create a budget that names these owners."""
    raw = {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}}
    return await scene.create(BUDGETS, raw, "n")


async def delete(
    scene: Scene, name: str, propagation: str, kind: Kind = BUDGETS, namespace: str = "n"
) -> None:
    """Delete an object as a client would, with a policy for its dependents."""
    await scene.registry.delete(kind, namespace, name, DeleteOptions(propagation=propagation))


def metadata_of(scene: Scene, name: str) -> Object:
    """The metadata of a budget."""
    metadata: Object = scene.registry.get(BUDGETS, "n", name)["metadata"]
    return metadata


async def release(scene: Scene, name: str) -> None:
    """Take the test's finalizer away."""
    metadata = dict(metadata_of(scene, name))
    metadata["finalizers"] = [each for each in metadata["finalizers"] if each != HOLDER]
    await scene.change(BUDGETS, name, {"metadata": metadata}, "n")


async def test_dependents_follow() -> None:
    """Those of a deleted object go, and those of theirs; others stay."""
    scene, driver = await started()
    top = await budget(scene, "top")
    middle = await budget(scene, "middle", owner(top))
    await budget(scene, "low", owner(middle))
    other = await budget(scene, "other")
    await budget(scene, "kept", owner(other))
    await driver.settle()
    assert ["kept", "low", "middle", "other", "top"] == scene.names(BUDGETS)

    await delete(scene, "top", "Background")
    await driver.settle()
    assert ["kept", "other"] == scene.names(BUDGETS)
    assert "<GarbageCollector, 1 dependents, 0 waiting>" == repr(driver.controller)


async def test_objects_without_owners_are_not_looked_at() -> None:
    """Nothing is known of them, and nothing done."""
    scene, driver = await started()
    for name in ("a", "b"):
        await budget(scene, name)
    await delete(scene, "a", "")
    await driver.settle()
    assert 0 == driver.looks


async def test_dependents_that_are_there_at_the_start() -> None:
    """What lost its owner while no controller ran goes."""
    scene = Scene()
    await scene.namespace("n")
    top = await budget(scene, "top")
    await budget(scene, "low", owner(top))
    await delete(scene, "top", "")
    driver = Driver(GarbageCollector(scene.registry), scene)
    await driver.settle()
    assert [] == scene.names(BUDGETS)


async def test_owners_of_the_same_name() -> None:
    """An owner is the object of that uid, not a later one of that name."""
    scene, driver = await started()
    top = await budget(scene, "top")
    await delete(scene, "top", "")
    await budget(scene, "top")
    await budget(scene, "low", owner(top))
    await driver.settle()
    assert ["top"] == scene.names(BUDGETS)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_one_owner_is_enough(propagation: str) -> None:
    """A dependent with another owner stays, and forgets the one that goes."""
    scene, driver = await started()
    first, second = await budget(scene, "first"), await budget(scene, "second")
    low = await budget(scene, "low", owner(first, blockOwnerDeletion=True), owner(second))
    await driver.settle()
    await delete(scene, "first", propagation)
    await driver.settle()
    assert ["low", "second"] == scene.names(BUDGETS)
    if propagation == "Foreground":
        assert [owner(second)] == metadata_of(scene, "low")["ownerReferences"]

    await budget(scene, "late", *low["metadata"]["ownerReferences"])
    await driver.settle()
    assert [owner(second)] == metadata_of(scene, "late")["ownerReferences"]


async def test_foreground() -> None:
    """The owner stays until the dependents are gone that block it."""
    scene, driver = await started()
    top = await budget(scene, "top")
    await budget(scene, "blocking", owner(top, blockOwnerDeletion=True), finalizers=[HOLDER])
    await budget(scene, "held", owner(top), finalizers=[HOLDER])
    await budget(scene, "free", owner(top))
    await delete(scene, "top", "Foreground")
    await driver.settle()
    assert ["blocking", "held", "top"] == scene.names(BUDGETS)
    assert "deletionTimestamp" in metadata_of(scene, "held")
    assert "<GarbageCollector, 2 dependents, 1 waiting>" == repr(driver.controller)

    await release(scene, "blocking")
    await driver.settle()
    assert ["held"] == scene.names(BUDGETS)


async def test_foreground_without_dependents() -> None:
    """Such an owner goes at once, but for what else holds it."""
    scene, driver = await started()
    await budget(scene, "top", finalizers=[HOLDER])
    await delete(scene, "top", "Foreground")
    await driver.settle()
    assert [HOLDER] == metadata_of(scene, "top")["finalizers"]

    await release(scene, "top")
    await driver.settle()
    assert [] == scene.names(BUDGETS)


async def test_foreground_goes_down() -> None:
    """Dependents of dependents go first, and of those in a circle some one."""
    scene, driver = await started()
    top = await budget(scene, "top")
    middle = await budget(scene, "middle", owner(top, blockOwnerDeletion=True))
    await budget(scene, "low", owner(middle, blockOwnerDeletion=True), finalizers=[HOLDER])
    await delete(scene, "top", "Foreground")
    await driver.settle()
    assert ["low", "middle", "top"] == scene.names(BUDGETS)
    assert ["foregroundDeletion"] == metadata_of(scene, "middle")["finalizers"]

    await release(scene, "low")
    await driver.settle()
    assert [] == scene.names(BUDGETS)


async def test_circles() -> None:
    """Two objects that own and block each other do not wait for ever."""
    scene, driver = await started()
    first = await budget(scene, "first")
    second = await budget(scene, "second", owner(first, blockOwnerDeletion=True))
    metadata = {
        **metadata_of(scene, "first"),
        "ownerReferences": [owner(second, blockOwnerDeletion=True)],
    }
    await scene.change(BUDGETS, "first", {"metadata": metadata}, "n")
    await driver.settle()
    await delete(scene, "first", "Foreground")
    await driver.settle()
    assert [] == scene.names(BUDGETS)


@pytest.mark.parametrize(
    ("finalizer", "is_left"), [("orphan", True), ("foregroundDeletion", False)]
)
async def test_finalizers_of_dependents(finalizer: str, *, is_left: bool) -> None:
    """A dependent says by its finalizers what becomes of its own dependents."""
    scene, driver = await started()
    top = await budget(scene, "top")
    middle = await budget(scene, "middle", owner(top), finalizers=[finalizer])
    await budget(scene, "low", owner(middle))
    await delete(scene, "top", "Background")
    await driver.settle()
    assert (["low"] if is_left else []) == scene.names(BUDGETS)


async def test_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dependents stay, and name the owner no more."""
    monkeypatch.setattr(garbage, "WRITES_IN_A_ROW", 1)
    scene, driver = await started()
    top, other = await budget(scene, "top"), await budget(scene, "other")
    await budget(scene, "a", owner(top))
    await budget(scene, "b", owner(top), owner(other))
    await driver.settle()
    await delete(scene, "top", "Orphan")
    await delete(scene, "other", "Orphan")
    assert ["a", "b", "other", "top"] == scene.names(BUDGETS)
    await driver.settle()
    assert ["a", "b"] == scene.names(BUDGETS)
    assert "ownerReferences" not in metadata_of(scene, "a")
    assert "<GarbageCollector, 0 dependents, 0 waiting>" == repr(driver.controller)


async def test_owners_of_unknown_kinds() -> None:
    """They may be somewhere else: their dependents stay, as do objects that nothing can own."""
    scene, driver = await started()
    top = await budget(scene, "top")
    await budget(scene, "low", owner(top, kind="Job", apiVersion="batch/v1"))
    limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}
    raw = {
        "metadata": {"name": "level", "ownerReferences": [owner(top)]},
        "spec": {"type": "Limited", "limited": limited},
    }
    await scene.create(PRIORITY_LEVEL_CONFIGURATION, raw)
    await delete(scene, "top", "Background")
    await driver.settle()
    assert ["low"] == scene.names(BUDGETS)
    assert ["level"] == scene.names(PRIORITY_LEVEL_CONFIGURATION)


async def test_owners_without_namespace() -> None:
    """They may own what is in a namespace."""
    scene, driver = await started()
    await scene.namespace("top")
    top = scene.registry.get(NAMESPACE, "", "top")
    await budget(scene, "low", owner(top))
    await driver.settle()
    assert ["low"] == scene.names(BUDGETS)
    metadata = {**metadata_of(scene, "low"), "ownerReferences": [owner(top, uid="other")]}
    await scene.change(BUDGETS, "low", {"metadata": metadata}, "n")
    await driver.settle()
    assert [] == scene.names(BUDGETS)


async def test_losing_owners() -> None:
    """An object that names no owner any more is forgotten."""
    scene, driver = await started()
    top = await budget(scene, "top")
    low = await budget(scene, "low", owner(top))
    await driver.settle()
    metadata = dict(low["metadata"])
    del metadata["ownerReferences"]
    await scene.change(BUDGETS, "low", {"metadata": metadata}, "n")
    await driver.settle()
    assert "<GarbageCollector, 0 dependents, 0 waiting>" == repr(driver.controller)


async def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be done is reported, to be tried again; what is gone is no matter."""
    scene, driver = await started()
    low = await budget(scene, "low", owner(await budget(scene, "top")))
    key = (BUDGETS.resource, "n", "low")
    await delete(scene, "top", "")
    await driver.look(BUDGETS.resource, "n", "nobody")
    with monkeypatch.context() as patch:
        patch.setattr(scene.registry, "delete", refuse)
        with pytest.raises(StatusError, match="not today"):
            await driver.look(*key)
    await budget(scene, "solid")
    solid = scene.registry.get(BUDGETS, "n", "solid")
    references = [*low["metadata"]["ownerReferences"], owner(solid)]
    metadata = {**metadata_of(scene, "low"), "ownerReferences": references}
    await scene.change(BUDGETS, "low", {"metadata": metadata}, "n")
    with monkeypatch.context() as patch:
        patch.setattr(scene.registry, "update", refuse)
        with pytest.raises(StatusError, match="not today"):
            await driver.look(*key)
    await driver.look(*key)
    assert [owner(solid)] == metadata_of(scene, "low")["ownerReferences"]
