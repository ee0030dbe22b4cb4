"""Dependents of deleted objects: they follow, block, or are orphaned.

Steps of a case: `NAME [FINALIZER] [< OWNER...]` makes a budget, `!` after an owner blocks it;
`- NAME POLICY` deletes one, `~ NAME < OWNER...` gives it other owners, `free NAME` takes the test's
finalizer away, `settle` lets the collector work, `restart` makes a new one; `= NAME...` is what is
there then, each with its finalizers and, after `<`, the owners that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.controllers import runner
from apfproxy.apiserver.controllers.endings import GarbageCollector
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Driver, Scene, refuse

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

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
async def test_cases(play: Play, steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_owners_without_namespace(play: Play) -> None:
    uid = play.scene.registry.get(NAMESPACE, "", "n")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": uid}
    await play.make("low", reference)
    await play.driver.settle()
    assert ["low<n"] == play.left()

    await play.set("low", ownerReferences=[{**reference, "uid": "other"}])
    await play.driver.settle()
    assert [] == play.left()


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
