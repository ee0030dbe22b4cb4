"""Tests of `apfproxy.apiserver.registry`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.apps.kinds import REPLICATION_CONTROLLER
from apfproxy.apiserver.core.kinds import NAMESPACE, POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.ownership.conflicts import OwnershipConflicts
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions, Registry, WriteOptions, Written
from tests.apiserver.controllers.scene import NOW, Scene
from tests.apiserver.site import budget, flow_schema, pod

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.collection import Watcher
    from apfproxy.objects.types import Object

DRY = WriteOptions("tester", is_dry_run=True)
TESTER = WriteOptions("tester")
HELD: dict[str, Any] = {"finalizers": ["example.com/hold"]}


def watcher(scene: Scene, kind: Kind) -> Watcher:
    """Follow a kind from now on."""
    return scene.store.collection(kind.resource).watch(scene.store.resource_version)


def seen(watcher: Watcher) -> list[str]:
    """The types of the changes since the last look."""
    return [change.type.value for change in watcher.read(100)]


async def update(scene: Scene, **metadata: Any) -> Written:  # noqa: ANN401  JSON
    """Change the metadata of the FlowSchema `f`; None takes a field away."""

    def change(obj: Object) -> Object:
        for name, value in metadata.items():
            if value is None:
                obj["metadata"].pop(name, None)
            else:
                obj["metadata"][name] = value
        return obj

    return await scene.registry.update(FLOW_SCHEMA, "", "f", change, TESTER)


async def delete(scene: Scene, kind: Kind = FLOW_SCHEMA, **options: Any) -> Written:  # noqa: ANN401  of DeleteOptions
    """Delete the FlowSchema `f`, the pod `p`, or the namespace `n`."""
    namespace, name = {"FlowSchema": ("", "f"), "Pod": ("default", "p")}.get(kind.name, ("", "n"))
    return await scene.registry.delete(kind, namespace, name, DeleteOptions(**options))


async def refusal(scene: Scene, kind: Kind, raw: Object, namespace: str = "") -> StatusError:
    """Why an object cannot be created."""
    with pytest.raises(StatusError) as error:
        await scene.create(kind, raw, namespace)
    return error.value


async def test_get() -> None:
    """What is not there is not found; what is there has its kind and version."""
    scene = Scene()
    with pytest.raises(StatusError, match="not found"):
        scene.registry.get(FLOW_SCHEMA, "", "f")
    await scene.create(FLOW_SCHEMA, flow_schema())

    found = scene.registry.get(FLOW_SCHEMA, "", "f")
    assert ("FlowSchema", "f") == (found["kind"], found["metadata"]["name"])
    assert [found] == scene.registry.objects(FLOW_SCHEMA)


async def test_new_objects_have_what_the_server_sets() -> None:
    """Uid, time, generation and version; nothing of it can be chosen."""
    scene = Scene()
    chosen: dict[str, Any] = {
        "uid": "mine",
        "creationTimestamp": "1999-01-01T00:00:00Z",
        "deletionTimestamp": "1999-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
        "generation": 9,
        "selfLink": "/x",
        "namespace": "n",
    }
    metadata = (await scene.create(FLOW_SCHEMA, flow_schema(**chosen)))["metadata"]

    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert (NOW, 1, "2") == (
        metadata["creationTimestamp"],
        metadata["generation"],
        metadata["resourceVersion"],
    )
    left = {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "namespace"}
    assert set() == left & metadata.keys()


async def test_names_are_generated() -> None:
    """A prefix gets five characters; a name counts more than a prefix."""
    scene = Scene()
    raw = flow_schema()
    raw["metadata"] = {"generateName": "g-"}
    made = await scene.create(FLOW_SCHEMA, raw)
    named = await scene.create(FLOW_SCHEMA, flow_schema("n", generateName="g-"))

    assert re.fullmatch("g-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert "n" == named["metadata"]["name"]


class Unlucky:
    """Draws the same always."""

    def getrandbits(self, bits: int) -> int:
        """As many ones."""
        return (1 << bits) - 1

    def choices(self, letters: str, k: int) -> list[str]:
        """The first letter."""
        return [letters[0]] * k


async def test_no_name_is_left() -> None:
    """The client is told to try again."""
    scene = Scene()
    unlucky: Any = Unlucky()
    scene.registry = Registry((FLOW_SCHEMA,), scene.store, lambda: scene.now_s, unlucky)
    raw = flow_schema()
    raw["metadata"] = {"generateName": "g-"}
    await scene.create(FLOW_SCHEMA, raw)
    error = await refusal(scene, FLOW_SCHEMA, raw)

    assert (409, "AlreadyExists", 1) == (error.code, error.reason, error.retry_after_s)
    assert "g-bbbbb" == error.status()["details"]["name"]


async def test_taken_names() -> None:
    """One object of a name; nothing is stored of the second."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    follower = watcher(scene, FLOW_SCHEMA)
    error = await refusal(scene, FLOW_SCHEMA, flow_schema())

    assert (409, "AlreadyExists") == (error.code, error.reason)
    assert [] == seen(follower)


async def test_new_objects_have_no_version() -> None:
    """A resource version that could be one is refused, but only where nothing else is wrong."""
    scene = Scene()
    versioned = await refusal(scene, FLOW_SCHEMA, flow_schema(resourceVersion="7"))
    invalid = await refusal(scene, FLOW_SCHEMA, flow_schema(precedence=-1, resourceVersion="7"))
    for version in ("0", "x"):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{version}", resourceVersion=version))

    assert (500, "") == (versioned.code, versioned.reason)
    assert 422 == invalid.code
    assert ["f0", "fx"] == scene.names(FLOW_SCHEMA)


async def test_namespaces_have_to_be_there() -> None:
    """Objects need a namespace that is there and is to stay."""
    scene = Scene()
    missing = await refusal(scene, POD_DISRUPTION_BUDGET, budget(), "n")
    await scene.namespace("n")
    await scene.create(POD_DISRUPTION_BUDGET, budget(), "n")
    await scene.delete(NAMESPACE, "n")
    ending = await refusal(scene, POD_DISRUPTION_BUDGET, budget("c"), "n")

    assert (404, {"name": "n", "kind": "namespaces"}) == (missing.code, missing.details)
    assert (403, "Forbidden") == (ending.code, ending.reason)
    assert ["NamespaceTerminating"] == [
        cause["reason"] for cause in (ending.details or {})["causes"]
    ]


async def test_without_kind_of_namespaces() -> None:
    """A server without namespaces does not ask for them."""
    scene = Scene((POD_DISRUPTION_BUDGET,))
    await scene.create(POD_DISRUPTION_BUDGET, budget(), "n")

    assert ["b"] == scene.names(POD_DISRUPTION_BUDGET, "n")


async def test_namespace_of_the_request() -> None:
    """An object is not put where it does not want to be."""
    scene = Scene()
    await scene.namespace()
    error = await refusal(scene, POD_DISRUPTION_BUDGET, budget(namespace="m"), "default")

    assert 400 == error.code


async def test_dry_runs_of_creation() -> None:
    """The answer is what it would be, but for the version; nobody hears of it."""
    scene = Scene()
    follower = watcher(scene, FLOW_SCHEMA)
    obj = {**flow_schema(), "status": {}}
    written = await scene.registry.create(FLOW_SCHEMA, "", obj, DRY)

    assert written.is_created
    assert "resourceVersion" not in written.obj["metadata"]
    assert ([], []) == (scene.names(FLOW_SCHEMA), seen(follower))


async def test_updates() -> None:
    """A change of the specification counts; one of nothing is not even stored."""
    scene = Scene()
    created = await scene.create(FLOW_SCHEMA, flow_schema())
    follower = watcher(scene, FLOW_SCHEMA)
    same = await update(scene)
    labelled = await update(scene, labels={"a": "b"})
    changed = await scene.change(
        FLOW_SCHEMA, "f", {"spec": {**created["spec"], "matchingPrecedence": 7}}
    )

    assert created == same.obj
    assert 1 == labelled.obj["metadata"]["generation"]
    assert 2 == changed["metadata"]["generation"]
    assert ["MODIFIED", "MODIFIED"] == seen(follower)


async def test_updates_of_what_is_not_there() -> None:
    """404, also where the client says which one he means."""
    scene = Scene()
    for uid in ("", "u"):
        with pytest.raises(StatusError) as error:
            await scene.registry.update(FLOW_SCHEMA, "", "f", dict, TESTER, uid=uid)
        assert 404 == error.value.code


async def test_uids_stay() -> None:
    """Another uid than it has is wrong for an object, whoever says so by a patch."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    with pytest.raises(StatusError) as error:
        await update(scene, uid="u")

    assert 422 == error.value.code
    assert ["metadata.uid"] == [each["field"] for each in (error.value.details or {})["causes"]]


@pytest.mark.parametrize(("version", "code"), [("1", 409), ("x", 500)])
async def test_stale_updates(version: str, code: int) -> None:
    """Who saw another state than the newest does not replace it."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    with pytest.raises(StatusError) as error:
        await update(scene, resourceVersion=version)

    assert code == error.value.code


async def test_dry_runs_of_updates() -> None:
    """Nothing changes."""
    scene = Scene()
    before = await scene.create(FLOW_SCHEMA, flow_schema())
    follower = watcher(scene, FLOW_SCHEMA)

    def change(obj: Object) -> Object:
        obj["spec"]["matchingPrecedence"] = 7
        return obj

    written = await scene.registry.update(FLOW_SCHEMA, "", "f", change, DRY)
    assert 7 == written.obj["spec"]["matchingPrecedence"]
    assert before == scene.registry.get(FLOW_SCHEMA, "", "f")
    assert [] == seen(follower)


async def test_status() -> None:
    """Writes to the status change nothing else, and others do not change it."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    condition = {"type": "Dangling", "status": "True"}
    both = {"status": {"conditions": [condition]}, "spec": flow_schema(precedence=9)["spec"]}
    status = await scene.change(FLOW_SCHEMA, "f", both, subresource="status")
    spec = await scene.change(FLOW_SCHEMA, "f", {**both, "status": {}})

    assert (1000, 1) == (status["spec"]["matchingPrecedence"], status["metadata"]["generation"])
    assert "True" == status["status"]["conditions"][0]["status"]
    assert (9, status["status"]) == (spec["spec"]["matchingPrecedence"], spec["status"])


async def test_repeated_owners() -> None:
    """The same owner twice is one owner, and a warning."""
    scene = Scene()
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"}
    raw = {**flow_schema(ownerReferences=[owner, dict(owner)]), "status": {}}
    warnings: list[str] = []
    options = WriteOptions(TESTER.manager, warn=warnings.extend)
    created = await scene.registry.create(FLOW_SCHEMA, "", raw, options)
    updated = await update(scene, ownerReferences=[owner, dict(owner)])

    for written in (created, updated):
        assert [owner] == written.obj["metadata"]["ownerReferences"]
    assert ["duplicate UID(s) observed: u"] == [text.rpartition("; ")[2] for text in warnings]


async def apply(scene: Scene, patch: Object, manager: str = "m1", **how: Any) -> Written:  # noqa: ANN401  flags
    """Apply a configuration to the FlowSchema `f`."""
    subresource = how.pop("subresource", "")
    options = WriteOptions(manager, how.pop("is_dry_run", False), subresource=subresource)
    how.setdefault("force", False)
    return await scene.registry.apply(FLOW_SCHEMA, "", "f", patch, options, **how)


async def test_apply() -> None:
    """A configuration makes an object, changes nothing again, and meets with other owners."""
    scene = Scene()
    created = await apply(scene, flow_schema())
    follower = watcher(scene, FLOW_SCHEMA)
    again = await apply(scene, flow_schema())
    with pytest.raises(OwnershipConflicts):
        await apply(scene, flow_schema(precedence=7), "m2")
    assert [] == seen(follower)
    forced = await apply(scene, flow_schema(precedence=7), "m2", force=True)

    assert created.is_created
    assert not again.is_created
    assert created.obj == again.obj
    assert 7 == forced.obj["spec"]["matchingPrecedence"]
    assert ["MODIFIED"] == seen(follower)


async def test_apply_in_dry_run() -> None:
    """Nothing is made."""
    scene = Scene()

    assert (await apply(scene, flow_schema(), is_dry_run=True)).is_created
    assert [] == scene.names(FLOW_SCHEMA)


@pytest.mark.parametrize(
    ("patch", "how", "code"),
    [
        pytest.param(flow_schema(uid="u"), {}, 409, id="uid-of-nothing"),
        pytest.param(flow_schema(), {"subresource": "status"}, 404, id="status-of-nothing"),
        pytest.param(flow_schema("g"), {}, 400, id="other-name"),
        pytest.param({**flow_schema(), "spec": {"bogus": 1}}, {}, 500, id="unknown-field"),
        pytest.param({**flow_schema(), "spec": {"matchingPrecedence": "x"}}, {}, 500, id="type"),
        pytest.param(flow_schema(managedFields=[{}]), {}, 400, id="managed-fields"),
    ],
)
async def test_apply_refused(patch: Object, how: dict[str, Any], code: int) -> None:
    """A configuration is of the object of the path, and of its kind."""
    scene = Scene()
    with pytest.raises(StatusError) as error:
        await apply(scene, patch, **how)

    assert code == error.value.code
    assert [] == scene.names(FLOW_SCHEMA)


async def test_delete() -> None:
    """What nothing holds is gone at once, as it was."""
    scene = Scene()
    created = await scene.create(FLOW_SCHEMA, flow_schema())
    follower = watcher(scene, FLOW_SCHEMA)
    dry = await delete(scene, is_dry_run=True)
    assert (created, []) == (dry.obj, seen(follower))
    written = await delete(scene)

    assert dry.is_gone
    assert written.is_gone
    assert "deletionTimestamp" not in written.obj["metadata"]
    assert ([], ["DELETED"]) == (scene.names(FLOW_SCHEMA), seen(follower))


async def test_held_objects() -> None:
    """What a finalizer holds goes with it; watchers see it go as it was stored last."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    follower = watcher(scene, FLOW_SCHEMA)
    marked = await delete(scene)
    assert ["MODIFIED"] == seen(follower)
    again = await delete(scene)
    assert (marked.obj, []) == (again.obj, seen(follower))
    released = await update(scene, finalizers=None)
    (change,) = follower.read(10)

    metadata = marked.obj["metadata"]
    assert not marked.is_gone
    assert (NOW, 0, 2) == (
        metadata["deletionTimestamp"],
        metadata["deletionGracePeriodSeconds"],
        metadata["generation"],
    )
    assert released.is_gone
    assert metadata["resourceVersion"] == released.obj["metadata"]["resourceVersion"]
    assert "DELETED" == change.type
    assert b"example.com/hold" in change.entry.data


async def test_held_objects_in_dry_run() -> None:
    """Nothing goes, and nothing is marked."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    dry = await delete(scene, is_dry_run=True)
    version = scene.store.resource_version
    assert "deletionTimestamp" in dry.obj["metadata"]
    assert "deletionTimestamp" not in scene.registry.get(FLOW_SCHEMA, "", "f")["metadata"]
    await delete(scene)

    def release(obj: Object) -> Object:
        obj["metadata"].pop("finalizers")
        return obj

    written = await scene.registry.update(FLOW_SCHEMA, "", "f", release, DRY)
    assert written.is_gone
    assert ["f"] == scene.names(FLOW_SCHEMA)
    assert version + 1 == scene.store.resource_version


async def test_no_new_finalizers() -> None:
    """What is going is not held by anything new."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    await delete(scene)
    with pytest.raises(StatusError) as error:
        await update(scene, finalizers=["example.com/hold", "example.com/more"])

    assert 422 == error.value.code


@pytest.mark.parametrize(
    ("before", "propagation", "expected"),
    [
        pytest.param([], "Orphan", ["orphan"], id="orphan"),
        pytest.param([], "Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param(["orphan"], "Foreground", ["foregroundDeletion"], id="instead"),
        pytest.param(["a.b/c"], "Orphan", ["a.b/c", "orphan"], id="beside"),
        pytest.param(["orphan"], "", ["orphan"], id="as-it-is"),
        pytest.param(["orphan"], "Background", None, id="background"),
        pytest.param([], "Background", None, id="nothing"),
    ],
)
async def test_propagation(before: list[str], propagation: str, expected: list[str] | None) -> None:
    """What becomes of dependents is a finalizer, which counts even once the deletion began."""
    for is_marked in (False, True):
        scene = Scene()
        metadata: dict[str, Any] = {"finalizers": [*before, "x.y/z"]} if is_marked else {}
        await scene.create(FLOW_SCHEMA, flow_schema(**(metadata or {"finalizers": before})))
        if is_marked:
            await delete(scene)
        written = await delete(scene, propagation=propagation)

        finalizers = written.obj["metadata"].get("finalizers")
        if is_marked:
            assert sorted([*(expected or []), "x.y/z"]) == sorted(finalizers)
        else:
            assert (expected is None) == written.is_gone
            assert written.is_gone or expected == finalizers


@pytest.mark.parametrize(
    ("before", "expected"),
    [([], ["orphan"]), (["foregroundDeletion"], ["foregroundDeletion"]), (["orphan"], ["orphan"])],
)
async def test_propagation_by_default(before: list[str], expected: list[str]) -> None:
    """A ReplicationController leaves its pods alone unless the client or a finalizer says more."""
    scene = Scene()
    await scene.namespace("n")
    raw = {"metadata": {"name": "r", "finalizers": before}}
    await scene.create(REPLICATION_CONTROLLER, raw, "n")

    written = await scene.registry.delete(REPLICATION_CONTROLLER, "n", "r", DeleteOptions())
    assert expected == written.obj["metadata"]["finalizers"]


async def running_pod(scene: Scene, **metadata: Any) -> None:  # noqa: ANN401  JSON
    """Create a namespace with a pod on a node."""
    await scene.namespace()
    raw = pod(**metadata)
    raw["spec"]["nodeName"] = "n"
    await scene.create(POD, raw, "default")


async def test_grace() -> None:
    """A pod gets time to end, sooner if someone wants it so, never later."""
    scene = Scene()
    await running_pod(scene)
    follower = watcher(scene, POD)
    marked = await delete(scene, POD)
    scene.now_s += 5
    later = await delete(scene, POD, grace_period_s=60)
    same = await delete(scene, POD)
    assert ["MODIFIED"] == seen(follower)
    sooner = await delete(scene, POD, grace_period_s=10)
    assert ["MODIFIED"] == seen(follower)
    gone = await delete(scene, POD, grace_period_s=0)

    assert "2001-09-09T01:47:10Z" == marked.obj["metadata"]["deletionTimestamp"]
    assert 30 == marked.obj["metadata"]["deletionGracePeriodSeconds"]
    assert marked.obj == later.obj == same.obj
    assert "2001-09-09T01:46:50Z" == sooner.obj["metadata"]["deletionTimestamp"]
    assert gone.is_gone
    assert 0 == gone.obj["metadata"]["deletionGracePeriodSeconds"]
    assert ["MODIFIED", "DELETED"] == seen(follower)


async def test_grace_of_held_pods() -> None:
    """A pod whose time is over stays for its finalizers, and goes with them."""
    scene = Scene()
    await running_pod(scene, **HELD)
    held = await delete(scene, POD, grace_period_s=0)
    again = await delete(scene, POD, grace_period_s=0)
    released = await scene.registry.update(
        POD,
        "default",
        "p",
        lambda obj: {
            **obj,
            "metadata": {k: v for k, v in obj["metadata"].items() if k != "finalizers"},
        },
        TESTER,
    )

    assert not held.is_gone
    assert held.obj == again.obj
    assert released.is_gone


async def test_grace_in_dry_run() -> None:
    """Nobody hears of it."""
    scene = Scene()
    await running_pod(scene)
    follower = watcher(scene, POD)
    written = await delete(scene, POD, is_dry_run=True, grace_period_s=0)

    assert written.is_gone
    assert "deletionTimestamp" in written.obj["metadata"]
    assert [] == seen(follower)


async def test_namespaces_end_in_steps() -> None:
    """A namespace shows that it ends, and stays until it is finalized."""
    scene = Scene()
    await scene.namespace("n")
    marked = await delete(scene, NAMESPACE)
    again = await delete(scene, NAMESPACE, propagation="Orphan")
    done = await scene.change(NAMESPACE, "n", {"spec": {}}, subresource="finalize")

    assert "Terminating" == marked.obj["status"]["phase"]
    assert "deletionGracePeriodSeconds" not in marked.obj["metadata"]
    assert marked.obj == again.obj
    assert "finalizers" not in done["spec"]
    assert [] == scene.names(NAMESPACE)


async def test_immortal_namespaces() -> None:
    """Some namespaces stay."""
    scene = Scene()
    await scene.namespace()
    with pytest.raises(StatusError) as error:
        await scene.delete(NAMESPACE, "default")

    assert (403, "Forbidden") == (error.value.code, error.value.reason)


async def test_preconditions() -> None:
    """Only the object that is meant is deleted."""
    scene = Scene()
    created = (await scene.create(FLOW_SCHEMA, flow_schema()))["metadata"]
    wrongs: list[dict[str, Any]] = [{"uid": "u"}, {"resource_version": "1"}]
    for wrong in wrongs:
        with pytest.raises(StatusError) as error:
            await delete(scene, **wrong)
        assert 409 == error.value.code
    with pytest.raises(StatusError, match="not found"):
        await scene.registry.delete(FLOW_SCHEMA, "", "g", DeleteOptions())
    written = await delete(scene, uid=created["uid"], resource_version=created["resourceVersion"])

    assert written.is_gone


async def test_admission_may_refuse() -> None:
    """A creation that it objects to is forbidden; without a name its prefix is told."""
    scene = Scene()
    await scene.namespace()
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "mine"}
    for metadata, name in (
        ({"name": "p"}, "p"),
        ({"generateName": "p-"}, "p-"),
        ({}, "Unknown"),
    ):
        with pytest.raises(StatusError) as caught:
            await scene.create(POD, {"metadata": metadata, "spec": spec}, "default")
        text = f'pods "{name}" is forbidden: no PriorityClass with name mine was found'
        assert (403, "Forbidden", text) == (
            caught.value.code,
            caught.value.reason,
            caught.value.message,
        )


async def test_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large to be stored fails as it does with etcd."""
    monkeypatch.setattr("apfproxy.apiserver.store.store.LARGEST_OBJECT_BYTES", 1000)
    error = await refusal(Scene(), FLOW_SCHEMA, flow_schema(annotations={"a": "x" * 1000}))

    assert (500, "", "etcdserver: request is too large") == (
        error.code,
        error.reason,
        error.message,
    )
