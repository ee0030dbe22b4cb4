"""The ends of namespaces and pods, and of what deleted objects own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.controllers import endings, runner
from apfproxy.apiserver.controllers.endings import (
    GarbageCollector,
    Namespaces,
    PodTermination,
    metadata_of,
)
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, unknown_error
from apfproxy.apiserver.flowcontrol import PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse

if TYPE_CHECKING:
    from apfproxy.apiserver.controllers.endings import Metadata
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Written
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object


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
    await scene.delete(NAMESPACE, "n")
    await driver.settle()
    return wrong(scene) if scene.names(NAMESPACE) else {}


async def release(scene: Scene, name: str) -> None:
    metadata = dict(scene.registry.get(BUDGETS, "n", name)["metadata"])
    del metadata["finalizers"]
    await scene.change(BUDGETS, name, {"metadata": metadata}, "n")


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


BUDGETS = POD_DISRUPTION_BUDGET
HOLDER = "a.b/c"

CASES = {
    "dependents-follow": """
        top; middle < top; low < middle; other; kept < other
        = kept<other low<middle middle<top other top
        - top Background
        = kept<other other
        1 dependents, 0 waiting
    """,
    "an-owner-of-the-same-name": "top; - top Background; low < top; again top; = top",
    "one-owner-is-enough": """
        first; second; low < first! second; settle; - first Background
        = low<second second
        late < first! second
        = late<second low<second second
    """,
    "one-owner-is-enough-in-the-foreground": """
        first; second; low < first! second; settle; - first Foreground
        = low<second second
    """,
    "the-foreground-waits-for-those-that-block": f"""
        top; blocking {HOLDER} < top!; held {HOLDER} < top; free < top; - top Foreground
        = blocking+{HOLDER}<top held+{HOLDER}<top top+foregroundDeletion
        2 dependents, 1 waiting
        free blocking
        = held+{HOLDER}<top
    """,
    "the-foreground-without-dependents": f"""
        top {HOLDER}; - top Foreground
        = top+{HOLDER}
        free top
        =
    """,
    "the-foreground-goes-down": f"""
        top; middle < top!; low {HOLDER} < middle!; - top Foreground
        = low+{HOLDER}<middle middle+foregroundDeletion<top top+foregroundDeletion
        free low
        =
    """,
    "circles-do-not-wait-for-ever": """
        first; second < first!; ~ first < second!; settle; - first Foreground
        =
    """,
    "a-dependent-that-orphans": "top; middle orphan < top; low < middle; - top Background; = low",
    "a-dependent-in-the-foreground": """
        top; middle foregroundDeletion < top; low < middle; - top Background
        =
    """,
    "orphans-name-the-owner-no-more": """
        top; other; a < top; b < top other; settle; - top Orphan; - other Orphan
        = a b
        0 dependents, 0 waiting
    """,
    "objects-without-owners-are-not-looked-at": "a; - a Background; looks 0",
    "dependents-that-are-there-at-the-start": """
        top; low < top; - top Background; restart
        =
    """,
    "an-object-that-loses-its-owners": """
        top; low < top; settle; ~ low
        = low top
        0 dependents, 0 waiting
    """,
}
"""`NAME [FINALIZER] [< OWNER...]` makes a budget, `!` after an owner blocks it; `- NAME POLICY`
deletes one, `~ NAME < OWNER...` gives it other owners, `free NAME` takes the test's finalizer away,
`settle` lets the collector work, `restart` makes a new one; `= NAME...` is what is there then, each
with its finalizers and, after `<`, the owners that it names."""


class Play:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.owners: dict[str, Object] = {}
        self.restart()

    def restart(self) -> None:
        self.driver = Driver(GarbageCollector(self.scene.registry), self.scene)

    def reference(self, name: str) -> Object:
        reference = {**self.owners[name.rstrip("!")]}
        if name.endswith("!"):
            reference["blockOwnerDeletion"] = True
        return reference

    async def make(self, name: str, *owners: Object, finalizers: tuple[str, ...] = ()) -> Object:
        metadata = {"name": name, "ownerReferences": [*owners], "finalizers": [*finalizers]}
        made = await self.scene.create(BUDGETS, {"metadata": metadata}, "n")
        reference = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": name}
        self.owners.setdefault(name, {**reference, "uid": made["metadata"]["uid"]})
        return made

    async def delete(self, name: str, propagation: str) -> None:
        options = DeleteOptions(propagation=propagation)
        await self.scene.registry.delete(BUDGETS, "n", name, options)

    async def set(self, name: str, **fields: object) -> None:
        metadata = {**self.scene.registry.get(BUDGETS, "n", name)["metadata"], **fields}
        await self.scene.change(BUDGETS, name, {"metadata": metadata}, "n")

    async def act(self, step: str) -> None:
        words, _, named = step.partition("<")
        owners = [self.reference(name) for name in named.split()]
        match words.split():
            case ["settle"]:
                await self.driver.settle()
            case ["restart"]:
                self.restart()
            case ["-", name, policy]:
                await self.delete(name, policy)
            case ["~", name]:
                await self.set(name, ownerReferences=owners)
            case ["free", name] if not owners and name in self.owners:
                found = self.scene.registry.get(BUDGETS, "n", name)["metadata"]["finalizers"]
                await self.set(name, finalizers=[each for each in found if each != HOLDER])
            case ["again", name] | [name]:
                await self.make(name, *owners)
            case [name, finalizer]:
                await self.make(name, *owners, finalizers=(finalizer,))

    def left(self) -> list[str]:
        found = []
        for each in self.scene.registry.objects(BUDGETS):
            metadata = each["metadata"]
            text = "+".join([metadata["name"], *metadata.get("finalizers", ())])
            owners = [owner["name"] for owner in metadata.get("ownerReferences", ())]
            found.append(f"{text}<{','.join(owners)}" if owners else text)
        return found


@pytest.fixture
async def play() -> Play:
    scene = Scene()
    await scene.namespace("n")
    return Play(scene)


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
async def test_dependents(play: Play, steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IN_A_ROW", 1)
    for step in map(str.strip, steps.strip().replace("\n", ";").split(";")):
        if step.startswith("="):
            await play.driver.settle()
            assert step[1:].split() == play.left(), step
        elif step.endswith("waiting"):
            assert f"<GarbageCollector, {step}>" == repr(play.driver.controller)
        elif step.startswith("looks"):
            await play.driver.settle()
            assert step == f"looks {play.driver.looks}"
        else:
            await play.act(step)


async def test_owners_of_unknown_kinds(play: Play) -> None:
    """They may be elsewhere, or not stored: dependents stay, as do objects that nothing can own."""
    await play.make("top")
    owner = play.reference("top")
    await play.make("low", {**owner, "kind": "Job", "apiVersion": "batch/v1"})
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    await play.make("reviewed", {**owner, **review})
    limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}
    raw = {
        "metadata": {"name": "level", "ownerReferences": [play.reference("top")]},
        "spec": {"type": "Limited", "limited": limited},
    }
    await play.scene.create(PRIORITY_LEVEL_CONFIGURATION, raw)
    await play.delete("top", "Background")
    await play.driver.settle()

    assert ["low<top", "reviewed<top"] == play.left()
    assert ["level"] == play.scene.names(PRIORITY_LEVEL_CONFIGURATION)


async def test_refusals(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("top", "solid"):
        await play.make(name)
    await play.make("low", play.reference("top"))
    await play.delete("top", "")
    await play.driver.look(BUDGETS.resource, "n", "nobody")
    for method in ("delete", "update"):
        with monkeypatch.context() as patch:
            patch.setattr(play.scene.registry, method, refuse)
            with pytest.raises(StatusError, match="not today"):
                await play.driver.look(BUDGETS.resource, "n", "low")
        owners = [play.reference("top"), play.reference("solid")]
        await play.set("low", ownerReferences=owners)
    await play.driver.look(BUDGETS.resource, "n", "low")

    assert ["low<solid", "solid"] == play.left()


async def test_another_object_of_the_name(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the place of the dependent during a look: the look fails, to be tried again."""
    for name in ("top", "solid"):
        await play.make(name)
    owners = [play.reference("top"), play.reference("solid")]
    await play.make("low", *owners)
    await play.delete("top", "")
    update = play.scene.registry.update

    async def replaced(*args: Any) -> object:  # noqa: ANN401  whatever it takes
        await play.delete("low", "")
        await play.make("low", *owners)
        return await update(*args)

    monkeypatch.setattr(play.scene.registry, "update", replaced)
    with pytest.raises(StatusError, match="field is immutable"):
        await play.driver.look(BUDGETS.resource, "n", "low")

    assert ["low<top,solid", "solid"] == play.left()
