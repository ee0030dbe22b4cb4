"""The ends of namespaces and pods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.controllers import endings
from apfproxy.apiserver.controllers.endings import Namespaces, PodTermination, metadata_of
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, unknown_error
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse

if TYPE_CHECKING:
    from apfproxy.apiserver.controllers.endings import Metadata
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Written
    from apfproxy.apiserver.store.entries import Entry

BUDGETS = POD_DISRUPTION_BUDGET
FINE = {
    "NamespaceDeletionDiscoveryFailure": "All resources successfully discovered",
    "NamespaceDeletionGroupVersionParsingFailure": "All legacy kube types successfully parsed",
    "NamespaceDeletionContentFailure": (
        "All content successfully deleted, may be waiting on finalization"
    ),
    "NamespaceContentRemaining": "All content successfully removed",
    "NamespaceFinalizersRemaining": "All content-preserving finalizers finished",
}
REMAINING = "Some resources are remaining: {} has 1 resource instances"


async def started(*budgets: str, **metadata: Any) -> tuple[Scene, Driver]:  # noqa: ANN401  JSON
    scene = Scene()
    await scene.namespace("n")
    for name in budgets:
        await scene.create(BUDGETS, {"metadata": {"name": name, **metadata}}, "n")
    return scene, Driver(Namespaces(scene.registry), scene)


def wrong(scene: Scene) -> dict[str, str]:
    """The conditions of the namespace that are true; the others say that all is fine."""
    conditions = scene.registry.get(NAMESPACE, "", "n")["status"]["conditions"]
    told = {each["type"]: (each["status"], each["message"]) for each in conditions}
    found = {name: text for name, (status, text) in told.items() if status == "True"}
    fine = {name: ("False", text) for name, text in FINE.items() if name not in found}
    assert fine.items() <= told.items()
    assert told.keys() == FINE.keys()
    return found


async def end(scene: Scene, driver: Driver) -> dict[str, str]:
    """Delete the namespace; what is `wrong` then, if it is still there."""
    await scene.delete(NAMESPACE, "n")
    await driver.settle()
    return wrong(scene) if scene.names(NAMESPACE) else {}


async def release(scene: Scene, name: str) -> None:
    """Take the finalizers off a budget."""
    metadata = dict(scene.registry.get(BUDGETS, "n", name)["metadata"])
    del metadata["finalizers"]
    await scene.change(BUDGETS, name, {"metadata": metadata}, "n")


async def test_contents_go_first() -> None:
    scene, driver = await started("a", "b")
    await driver.settle()
    await driver.look("other")
    await driver.look("n")
    assert [["a", "b"], ["n"]] == [scene.names(BUDGETS), scene.names(NAMESPACE)]
    await end(scene, driver)
    assert [[], []] == [scene.names(BUDGETS), scene.names(NAMESPACE)]


async def test_finalizers_hold_namespaces() -> None:
    scene, driver = await started("a", finalizers=["a.b/c"])
    assert {
        "NamespaceContentRemaining": REMAINING.format("poddisruptionbudgets.policy"),
        "NamespaceFinalizersRemaining": (
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances"
        ),
    } == await end(scene, driver)

    await release(scene, "a")
    await driver.settle()
    assert [] == scene.names(NAMESPACE)


async def test_looks_pause_until_the_last_object_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing finalizers one by one costs linear time, and the namespace ends at once."""
    names = [f"a{number:02}" for number in range(60)]
    seen: list[str] = []

    def seen_metadata(entry: Entry) -> Metadata:
        seen.append(entry.name)
        return metadata_of(entry)

    scene, driver = await started(*names, finalizers=["a.b/c"])
    monkeypatch.setattr(endings, "metadata_of", seen_metadata)
    await end(scene, driver)
    for name in names[:-1]:
        await release(scene, name)
        scene.now_s += 0.001
        await driver.settle()
    assert len(names) == len(seen)

    scene.now_s += endings.PAUSE_S
    await driver.settle()
    told = REMAINING.format("poddisruptionbudgets.policy")
    assert told == wrong(scene)["NamespaceContentRemaining"]
    assert [*names, names[-1]] == seen

    await release(scene, names[-1])
    await driver.settle()
    assert [] == scene.names(NAMESPACE)


async def test_pauses_grow_with_what_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "BYTES_PER_S", 1000)
    scene, driver = await started("a", finalizers=["a.b/c"])
    await scene.delete(NAMESPACE, "n")
    entries = [scene.store.head(NAMESPACE.resource, "", "n"), *scene.store.heads(BUDGETS.resource)]
    namespace_bytes, budget_bytes = (len(each.data) for each in entries if each is not None)
    await driver.look("n")

    seen_bytes = endings.OBJECT_BYTES + endings.DELETION_BYTES + budget_bytes
    seen_bytes += endings.STATUS_WEIGHT * namespace_bytes
    assert seen_bytes / 1000 == pytest.approx(driver.controller.due_s(("n",)) - scene.now_s)
    scene.now_s -= 3600  # the clock is set back
    assert 0 == driver.controller.due_s(("n",))
    scene.now_s += 3600
    await scene.namespace("other")
    await release(scene, "a")
    await driver.settle()
    assert 0 == driver.controller.due_s(("n",))


async def test_others_run_while_what_is_left_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a{number}" for number in range(9)]
    scene, driver = await started(*names, finalizers=["a.b/c"])
    await end(scene, driver)
    monkeypatch.setattr(endings, "TURN_BYTES", 3 * endings.OBJECT_BYTES)
    turns = 0
    look = asyncio.ensure_future(driver.look("n"))
    while not look.done():
        turns += 1
        await asyncio.sleep(0)

    assert len(names) // 3 <= turns


async def test_messages_are_short() -> None:
    finalizers = [f"a.b/{number:02}" for number in range(endings.MOST_TOLD + 2)]
    scene, driver = await started("a", finalizers=finalizers)
    found = await end(scene, driver)

    told = [f"{name} in 1 resource instances" for name in finalizers[: endings.MOST_TOLD]]
    expected = ", ".join([*told, "and 2 more"])
    assert found["NamespaceFinalizersRemaining"].endswith(f"remaining: {expected}")


@pytest.mark.parametrize("finalizers", [[], ["a.b/c"]], ids=["empty", "held"])
async def test_an_unwritten_status_holds_no_namespace(
    finalizers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, driver = await started("a", finalizers=finalizers)
    real = scene.registry.update

    async def update(kind: Kind, *more: Any) -> Written:  # noqa: ANN401  as update has them
        if kind is NAMESPACE and more[-1].subresource == "status":
            raise unknown_error("etcdserver: request is too large")
        return await real(kind, *more)

    await scene.delete(NAMESPACE, "n")
    monkeypatch.setattr(scene.registry, "update", update)
    with pytest.raises(StatusError, match="too large"):
        await driver.settle()

    assert ["n"] * len(finalizers) == scene.names(NAMESPACE)
    assert bool(finalizers) == (driver.controller.due_s(("n",)) > scene.now_s)


async def test_pods_get_their_grace_period() -> None:
    scene, driver = await started()
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "x"}
    await scene.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "n")
    assert {"NamespaceContentRemaining": REMAINING.format("pods.")} == await end(scene, driver)

    version = scene.store.resource_version
    await driver.look("n")
    assert version == scene.store.resource_version


async def test_other_finalizers_stay() -> None:
    scene = Scene()
    await scene.create(NAMESPACE, {"metadata": {"name": "n"}, "spec": {"finalizers": ["a.b/c"]}})
    await end(scene, Driver(Namespaces(scene.registry), scene))

    assert ["a.b/c"] == scene.registry.get(NAMESPACE, "", "n")["spec"]["finalizers"]


async def test_refused_deletions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started("a")
    await scene.delete(NAMESPACE, "n")
    with monkeypatch.context() as patch:
        patch.setattr(scene.registry, "delete", refuse)
        with pytest.raises(StatusError, match="not today"):
            await driver.settle()
    conditions = scene.registry.get(NAMESPACE, "", "n")["status"]["conditions"]
    told = {each["type"]: each["message"] for each in conditions if each["status"] == "True"}
    failed = told["NamespaceDeletionContentFailure"]

    assert failed.startswith("Failed to delete all resource types, 1 remaining: Operation cannot")
    assert failed.endswith("not today")


async def test_contents_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, driver = await started("a")
    entries = scene.store.heads(BUDGETS.resource, "n")
    await scene.delete(BUDGETS, "a", "n")
    real = scene.store.heads
    monkeypatch.setattr(
        scene.store,
        "heads",
        lambda resource, name: entries if resource == BUDGETS.resource else real(resource, name),
    )
    await end(scene, driver)

    assert [] == scene.names(NAMESPACE)


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "is_left"),
    [(30, [], False), (5, [], False), (30, ["a.b/c"], True)],
    ids=["at-its-time", "sooner", "held"],
)
async def test_pods_end_with_their_grace_period(
    grace_s: int, finalizers: list[str], *, is_left: bool
) -> None:
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", annotations={"deletionTimestamp": "a word"}, finalizers=finalizers)
    driver = Driver(PodTermination(scene.registry), scene)
    await driver.settle()
    assert driver.queue.next_s is None
    for seconds in (30, grace_s):
        options = DeleteOptions(grace_period_s=seconds)
        await scene.registry.delete(POD, "default", "p", options)
        await driver.settle()
    left = []
    for seconds in (grace_s - 1, 1):
        scene.now_s += seconds
        await driver.settle()
        pods = [each["metadata"] for each in scene.registry.objects(POD)]
        left.append([each["deletionGracePeriodSeconds"] for each in pods])

    assert [[grace_s], [0] * is_left] == left
