"""Tests of writes where recorded requests do not see: watchers, clock, chance, races, bounds."""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from apfproxy.apiserver.apps import REPLICATION_CONTROLLER
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.outcomes import LARGE_BYTES, CollectorPause, Write, compute
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions, Registry, WriteOptions, Written, completed
from apfproxy.apiserver.store.store import Store
from tests.apiserver.controllers.scene import NOW, TESTER, Scene
from tests.apiserver.site import (
    APPLY,
    JSON_PATCH,
    MERGE,
    SCHEMAS,
    STRATEGIC,
    budget,
    flow_schema,
    pod,
)
from tests.apiserver.store.test_store_machine import GatedBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

DRY = WriteOptions("tester", is_dry_run=True)
LARGE = WriteOptions("tester", sent_bytes=LARGE_BYTES)
HELD: dict[str, Any] = {"finalizers": ["example.com/hold"]}


class Follower:
    """Sees the changes of a kind from now on."""

    def __init__(self, scene: Scene, kind: Kind = FLOW_SCHEMA) -> None:
        self.watcher = scene.store.collection(kind.resource).watch(scene.store.resource_version)

    def seen(self) -> list[str]:
        """The types of the changes since the last look."""
        return [change.type.value for change in self.watcher.read(100)]


async def update(scene: Scene, options: WriteOptions = TESTER, **metadata: Any) -> Written:  # noqa: ANN401  JSON
    """Change the metadata of the FlowSchema `f`; None takes a field away."""

    def change(obj: Object) -> Object:
        new = {**obj["metadata"], **metadata}
        return {**obj, "metadata": {name: new[name] for name in new if new[name] is not None}}

    return await scene.registry.update(FLOW_SCHEMA, "", "f", change, options)


async def delete(scene: Scene, kind: Kind = FLOW_SCHEMA, **options: Any) -> Written:  # noqa: ANN401  of DeleteOptions
    """Delete the FlowSchema `f`, or the pod `p`."""
    namespace, name = ("default", "p") if kind is POD else ("", "f")
    return await scene.registry.delete(kind, namespace, name, DeleteOptions(**options))


async def refusal(writing: Coroutine[Any, Any, object]) -> StatusError:
    with pytest.raises(StatusError) as error:
        await writing
    return error.value


async def test_names_are_generated_until_none_is_left() -> None:
    """A prefix gets five characters; a client hears that it may try again for another name."""
    scene = Scene((FLOW_SCHEMA,))
    raw = flow_schema()
    raw["metadata"] = {"generateName": "g-"}
    first = await scene.create(FLOW_SCHEMA, copy.deepcopy(raw))
    drawn = first["metadata"]["name"].removeprefix("g-")

    class Unlucky:
        """Draws eight times what is taken, then another."""

        def __init__(self, left: int) -> None:
            self.left = left

        def getrandbits(self, bits: int) -> int:
            return bits

        def choices(self, _letters: str, k: int) -> list[str]:
            self.left -= 1
            return list(drawn if self.left >= 0 else "z" * k)

    unlucky: Any = Unlucky(7)
    scene.registry = Registry((FLOW_SCHEMA,), scene.store, lambda: scene.now_s, unlucky)
    lucky = await scene.create(FLOW_SCHEMA, copy.deepcopy(raw))
    unlucky.left = 8
    error = await refusal(scene.create(FLOW_SCHEMA, copy.deepcopy(raw)))

    assert (5, "g-zzzzz") == (len(drawn), lucky["metadata"]["name"])
    assert (409, "AlreadyExists", 1) == (error.code, error.reason, error.retry_after_s)
    assert (error.details or {})["name"] == first["metadata"]["name"]


async def test_new_objects_have_no_version() -> None:
    """A resource version that could be one is refused, but only where nothing else is wrong."""
    scene = Scene()
    versioned = await refusal(scene.create(FLOW_SCHEMA, flow_schema(resourceVersion="7")))
    invalid = await refusal(scene.create(FLOW_SCHEMA, flow_schema("-", resourceVersion="7")))
    for version in ("0", "x"):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{version}", resourceVersion=version))

    text = "resourceVersion should not be set on objects to be created"
    assert (500, "", text) == (versioned.code, versioned.reason, versioned.message)
    assert 422 == invalid.code
    assert ["f0", "fx"] == scene.names(FLOW_SCHEMA)


async def test_namespaces_have_to_be_there() -> None:
    """Objects need a namespace that is there and is to stay, if the server has namespaces."""
    scene = Scene()
    missing = await refusal(scene.create(POD_DISRUPTION_BUDGET, budget(), "n"))
    await scene.namespace("n")
    await scene.create(POD_DISRUPTION_BUDGET, budget(), "n")
    await scene.delete(NAMESPACE, "n")
    ending = await refusal(scene.create(POD_DISRUPTION_BUDGET, budget("c"), "n"))
    without = Scene((POD_DISRUPTION_BUDGET,))
    await without.create(POD_DISRUPTION_BUDGET, budget(), "n")

    assert (404, {"name": "n", "kind": "namespaces"}) == (missing.code, missing.details)
    assert (403, "Forbidden") == (ending.code, ending.reason)
    assert "because it is being terminated" in ending.message
    assert "NamespaceTerminating" == (ending.details or {})["causes"][0]["reason"]
    assert ["b"] == without.names(POD_DISRUPTION_BUDGET, "n")


async def test_nobody_hears_of_dry_runs_or_of_no_change() -> None:
    """The response is what it would be, but for the version."""
    scene = Scene()
    follower = Follower(scene)
    obj = completed(FLOW_SCHEMA, flow_schema())
    created = await scene.registry.create(FLOW_SCHEMA, "", obj, DRY)
    assert created.is_created
    assert "resourceVersion" not in created.obj["metadata"]
    patch = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", **flow_schema()}
    applied = await scene.registry.apply(FLOW_SCHEMA, "", "f", patch, DRY)
    assert applied.is_created
    assert ([], []) == (scene.names(FLOW_SCHEMA), follower.seen())
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    labelled = await update(scene, DRY, labels={"a": "b"})
    ending = await delete(scene, is_dry_run=True)
    same = await update(scene)
    assert {"a": "b"} == labelled.obj["metadata"]["labels"]
    assert NOW == ending.obj["metadata"]["deletionTimestamp"]
    assert scene.registry.get(FLOW_SCHEMA, "", "f") == same.obj
    assert ["ADDED"] == follower.seen()
    await delete(scene)
    assert ["MODIFIED"] == follower.seen()
    released = await update(scene, DRY, finalizers=None)
    assert released.is_gone
    assert (["f"], []) == (scene.names(FLOW_SCHEMA), follower.seen())


async def test_watchers_see_held_objects_go_as_they_were_stored_last() -> None:
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    follower = Follower(scene)
    marked = await delete(scene)
    again = await delete(scene)
    assert ["MODIFIED"] == follower.seen()
    released = await update(scene, finalizers=None)
    (change,) = follower.watcher.read(10)

    metadata = marked.obj["metadata"]
    assert marked == again
    assert (NOW, 0, 2) == (
        metadata["deletionTimestamp"],
        metadata["deletionGracePeriodSeconds"],
        metadata["generation"],
    )
    assert released.is_gone
    assert metadata["resourceVersion"] == released.obj["metadata"]["resourceVersion"]
    assert "DELETED" == change.type
    assert b"example.com/hold" in change.entry.data


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize(
    ("before", "propagation", "expected"),
    [
        pytest.param([], "Orphan", ["orphan"], id="orphan"),
        pytest.param([], "Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param(["orphan"], "Foreground", ["foregroundDeletion"], id="instead"),
        pytest.param(["a.b/c"], "Orphan", ["a.b/c", "orphan"], id="beside"),
        pytest.param(["orphan"], "", ["orphan"], id="as-it-is"),
        pytest.param(["orphan"], "Background", [], id="background"),
        pytest.param([], "Background", [], id="nothing"),
    ],
)
async def test_propagation(
    before: list[str], propagation: str, expected: list[str], *, is_marked: bool
) -> None:
    """What becomes of dependents is a finalizer, which counts even once the deletion began."""
    scene = Scene()
    other = ["x.y/z"] if is_marked else []
    await scene.create(FLOW_SCHEMA, flow_schema(finalizers=[*before, *other]))
    if is_marked:
        await delete(scene)
    written = await delete(scene, propagation=propagation)

    assert written.is_gone == (not expected and not other)
    if not written.is_gone:
        assert sorted([*expected, *other]) == sorted(written.obj["metadata"]["finalizers"])


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


async def test_grace() -> None:
    """A pod gets time to end, sooner if someone wants it so, never later."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p")
    follower = Follower(scene, POD)
    dry = await delete(scene, POD, is_dry_run=True, grace_period_s=0)
    assert (True, []) == (dry.is_gone, follower.seen())
    marked = await delete(scene, POD)
    scene.now_s += 5
    later = await delete(scene, POD, grace_period_s=60)
    same = await delete(scene, POD)
    assert ["MODIFIED"] == follower.seen()
    sooner = await delete(scene, POD, grace_period_s=10)
    assert ["MODIFIED"] == follower.seen()
    gone = await delete(scene, POD, grace_period_s=0)

    assert "2001-09-09T01:47:10Z" == marked.obj["metadata"]["deletionTimestamp"]
    assert 30 == marked.obj["metadata"]["deletionGracePeriodSeconds"]
    assert marked == later == same
    assert "2001-09-09T01:46:50Z" == sooner.obj["metadata"]["deletionTimestamp"]
    assert (True, 0) == (gone.is_gone, gone.obj["metadata"]["deletionGracePeriodSeconds"])
    assert ["MODIFIED", "DELETED"] == follower.seen()


async def test_grace_of_held_pods() -> None:
    """A pod whose time is cut short stays for its finalizers, until now at the latest."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", **HELD)
    await delete(scene, POD)
    held = await delete(scene, POD, grace_period_s=0)
    again = await delete(scene, POD, grace_period_s=0)

    assert held == again
    assert (False, NOW, 2) == (
        held.is_gone,
        held.obj["metadata"]["deletionTimestamp"],
        held.obj["metadata"]["generation"],
    )


async def test_admission_may_refuse() -> None:
    """A creation that it objects to is forbidden; without a name its prefix is told."""
    scene = Scene()
    await scene.namespace()
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "mine"}
    for metadata, name in (({"generateName": "p-"}, "p-"), ({}, "Unknown")):
        error = await refusal(scene.create(POD, {"metadata": metadata, "spec": spec}, "default"))
        text = f'pods "{name}" is forbidden: no PriorityClass with name mine was found'
        assert (403, "Forbidden", text) == (error.code, error.reason, error.message)


async def test_objects_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """They fail as they do with etcd."""
    monkeypatch.setattr("apfproxy.apiserver.store.store.LARGEST_OBJECT_BYTES", 1000)
    large = flow_schema(annotations={"a": "x" * 1000})
    error = await refusal(Scene().create(FLOW_SCHEMA, large))

    text = "etcdserver: request is too large"
    assert (500, "", text) == (error.code, error.reason, error.message)


async def test_writes_wait_for_the_disk(tmp_path: Path) -> None:
    """Whoever writes hears of it when it is kept, and what it is kept as."""
    scene = Scene()
    backend = GatedBackend(tmp_path / "store.db")
    scene.store = scene.registry.store = Store(backend=backend)
    for write in (
        lambda: scene.create(FLOW_SCHEMA, flow_schema(**HELD)),
        lambda: update(scene, labels={"a": "b"}),
        lambda: delete(scene),
        lambda: update(scene, finalizers=None),
        lambda: scene.create(FLOW_SCHEMA, flow_schema()),
        lambda: delete(scene),
    ):
        task = asyncio.create_task(write())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        backend.gate.set()
        await task
        assert 0 == scene.store.pending
        backend.gate.clear()
    backend.gate.set()
    await scene.store.close()


async def test_warnings_come_before_a_refusal() -> None:
    """A client hears of what was found until an object was refused."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"}
    warnings: list[str] = []
    options = WriteOptions("tester", warn=warnings.extend)
    bad = update(scene, options, ownerReferences=[owner, owner], labels={"-": ""})

    assert 422 == (await refusal(bad)).code
    assert ["observed: u"] == [text[-11:] for text in warnings]


@pytest.mark.parametrize(("size", "is_here"), [(LARGE_BYTES - 1, True), (LARGE_BYTES, False)])
async def test_large_writes_are_computed_in_a_thread(size: int, *, is_here: bool) -> None:
    """Meanwhile the loop goes on, and the collector rests."""
    done = threading.Event()
    asyncio.get_running_loop().call_later(0, done.set)

    def work() -> tuple[threading.Thread, bool]:
        assert is_here or done.wait(10)
        return threading.current_thread(), gc.isenabled()

    thread, is_enabled = await compute(size, work)
    assert is_here == (threading.current_thread() is thread) == is_enabled
    assert gc.isenabled()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_rests_for_all(*, is_on: bool) -> None:
    """It works again when the last that wants it to rest is through, unless it never worked."""
    pause = CollectorPause()
    try:
        if not is_on:
            gc.disable()
        with pause.hold():
            with pause.hold():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert is_on == gc.isenabled()
    finally:
        gc.enable()


def racing(race: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], None]:
    """Does something on the event loop, once, from the thread that this is called in."""
    loop = asyncio.get_running_loop()
    left = [race]

    def run() -> None:
        if left:
            asyncio.run_coroutine_threadsafe(left.pop()(), loop).result(10)

    return run


async def test_large_writes_take_turns() -> None:
    """A second large one waits; a small one does not, and goes on in the midst of the first."""
    scene = Scene()
    for name in "abc":
        await scene.create(FLOW_SCHEMA, flow_schema(name))
    order: list[str] = []

    async def write(name: str, options: WriteOptions, race: Callable[[], None]) -> None:
        def change(obj: Object) -> Object:
            race()
            order.append(name)
            return obj

        await scene.registry.update(FLOW_SCHEMA, "", name, change, options)

    tasks: list[asyncio.Task[None]] = []

    async def others() -> None:
        tasks.append(asyncio.create_task(write("b", LARGE, lambda: None)))
        await asyncio.sleep(0)
        await write("c", TESTER, lambda: None)

    await write("a", LARGE, racing(others))
    await asyncio.gather(*tasks)
    assert ["c", "a", "b"] == order


@pytest.mark.parametrize(
    ("race", "says_version", "code"),
    [("update", False, 200), ("update", True, 409), ("delete", False, 404)],
)
async def test_a_large_update_of_what_changes(race: str, code: int, *, says_version: bool) -> None:
    """It is made again of what is there then: neither change is lost, unless one is refused."""
    scene = Scene()
    sent = await scene.create(FLOW_SCHEMA, flow_schema())
    labels = {"from": "other"}
    run = racing(lambda: update(scene, labels=labels) if race == "update" else delete(scene))

    def change(obj: Object) -> Object:
        run()
        if says_version:
            return copy.deepcopy(sent)
        obj["metadata"]["annotations"] = {"from": "large"}
        return obj

    writing = scene.registry.update(FLOW_SCHEMA, "", "f", change, LARGE)
    if code == 200:
        metadata = (await writing).obj["metadata"]
        assert (labels, {"from": "large"}) == (metadata["labels"], metadata["annotations"])
    else:
        assert code == (await refusal(writing)).code


async def test_two_large_configurations_of_a_new_object() -> None:
    """The second one waits, and finds the object that the first one made."""
    scene = Scene()
    patch = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", **flow_schema()}
    first, second = await asyncio.gather(
        *(scene.registry.apply(FLOW_SCHEMA, "", "f", patch, LARGE) for _ in range(2))
    )

    assert (True, False) == (first.is_created, second.is_created)
    assert first.obj == second.obj


async def test_a_namespace_that_ends_during_a_large_creation() -> None:
    """What is created while its namespace goes is refused, as if it had come later."""
    scene = Scene()
    await scene.namespace("n")
    race = racing(lambda: scene.delete(NAMESPACE, "n"))

    def prepare(obj: Object) -> None:
        race()
        POD.rules.prepare_create(obj)

    rules = msgspec.structs.replace(POD.rules, prepare_create=prepare)
    kind = msgspec.structs.replace(POD, rules=rules)
    obj = completed(POD, pod("p", namespace="n"))

    assert 403 == (await refusal(scene.registry.create(kind, "n", obj, LARGE))).code
    assert scene.store.head(POD.resource, "n", "p") is None


ANNOTATIONS = {"large": "x" * LARGE_BYTES}
ANNOTATED: Object = {"metadata": {"annotations": ANNOTATIONS}}
NAMED: Object = {"metadata": {"name": "f", "annotations": ANNOTATIONS}}
CONFIGURATION = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", **ANNOTATED}
OPERATIONS = [{"op": "add", "path": "/metadata/annotations", "value": ANNOTATIONS}]


@pytest.mark.parametrize(
    ("method", "content_type", "body", "labels"),
    [
        pytest.param("PUT", "", {**flow_schema(), **NAMED}, None, id="put"),
        pytest.param("PATCH", MERGE, ANNOTATED, {"a": "b"}, id="merge-patch"),
        pytest.param("PATCH", STRATEGIC, ANNOTATED, {"a": "b"}, id="strategic-merge-patch"),
        pytest.param("PATCH", JSON_PATCH, OPERATIONS, {"a": "b"}, id="json-patch"),
        pytest.param("PATCH", APPLY, CONFIGURATION, {"a": "b"}, id="apply"),
    ],
)
async def test_a_large_request_is_tried_again(
    method: str,
    content_type: str,
    body: object,
    labels: object,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The object changes before the hand-over: both writes count, one after the other."""
    await site.send("POST", SCHEMAS, flow_schema())
    race = racing(
        lambda: site.send(
            "PATCH", f"{SCHEMAS}/f", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE
        )
    )
    threads: list[threading.Thread] = []
    for name, made_by in (("updated", Write.updated), ("applied", Write.applied)):

        def raced(*args: Any, work: Any = made_by, **how: Any) -> Any:  # noqa: ANN401
            made = work(*args, **how)
            threads.append(threading.current_thread())
            if len(threads) == 1:
                race()
            return made

        monkeypatch.setattr(Write, name, raced)
    path = f"{SCHEMAS}/f?fieldManager=m"
    response = await site.send(method, path, body, content_type=content_type)
    metadata = response.body["metadata"]

    assert 200 == response.status, response.body
    assert [False, True, False] == [each is threading.current_thread() for each in threads]
    assert ANNOTATIONS == metadata["annotations"]
    assert labels == metadata.get("labels")
