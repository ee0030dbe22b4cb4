"""Tests of writes where recorded requests do not see: watchers, clock, chance, races, bounds."""

from __future__ import annotations

import asyncio
import copy
import gc
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.events import EVENT_OF_CORE
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.outcomes import LARGE_BYTES, CollectorPause, WriteOptions, compute
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions, Registry, Written, completed
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
from tests.apiserver.store.test_store import GatedBackend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

    Races = list[Callable[[], Awaitable[object]]]

DRY = WriteOptions("tester", is_dry_run=True)
LARGE = WriteOptions("tester", sent_bytes=LARGE_BYTES)
HELD: dict[str, Any] = {"finalizers": ["example.com/hold"]}


class Follower:
    def __init__(self, scene: Scene, kind: Kind = FLOW_SCHEMA) -> None:
        self.watcher = scene.store.collection(kind.resource).watch(scene.store.resource_version)

    def seen(self) -> list[str]:
        return [change.type.value for change in self.watcher.read(100)]


async def update(scene: Scene, options: WriteOptions = TESTER, **metadata: Any) -> Written:  # noqa: ANN401  JSON
    def change(obj: Object) -> Object:
        new = {**obj["metadata"], **metadata}
        return {**obj, "metadata": {name: new[name] for name in new if new[name] is not None}}

    return await scene.registry.update(FLOW_SCHEMA, "", "f", change, options)


async def delete(scene: Scene, kind: Kind = FLOW_SCHEMA, **options: Any) -> Written:  # noqa: ANN401  of DeleteOptions
    namespace, name = ("default", "p") if kind is POD else ("", "f")
    return await scene.registry.delete(kind, namespace, name, DeleteOptions(**options))


async def refusal(writing: Coroutine[Any, Any, object]) -> StatusError:
    with pytest.raises(StatusError) as error:
        await writing
    return error.value


async def test_names_are_generated_until_none_is_left() -> None:
    """A client hears that it may try again for another name when eight were taken."""
    draws = iter([*["zzzzz"] * 8, "yyyyy", *["zzzzz"] * 8])

    class Chance(random.Random):
        def choices(self, *_: object, k: int = 1) -> list[str]:  # type: ignore[override]
            assert k == 5
            return list(next(draws))

    scene = Scene((FLOW_SCHEMA,))
    scene.registry = Registry((FLOW_SCHEMA,), scene.store, lambda: scene.now_s, Chance(1))
    raw = {**flow_schema(), "metadata": {"generateName": "g-"}}
    for name in ("g-zzzzz", "g-yyyyy"):
        assert name == (await scene.create(FLOW_SCHEMA, copy.deepcopy(raw)))["metadata"]["name"]
    error = await refusal(scene.create(FLOW_SCHEMA, raw))

    assert (409, "AlreadyExists", 1) == (error.code, error.reason, error.retry_after_s)
    assert (error.details or {})["name"] == "g-zzzzz"


async def test_namespaces_have_to_be_there() -> None:
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


async def test_watchers_hear_not_of_dry_runs_or_of_no_change() -> None:
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
    assert marked == await delete(scene)
    assert ["MODIFIED"] == follower.seen()
    released = await update(scene, finalizers=None)
    (change,) = follower.watcher.read(10)

    assert released.is_gone
    assert marked.obj["metadata"]["resourceVersion"] == released.obj["metadata"]["resourceVersion"]
    assert "DELETED" == change.type
    assert b"example.com/hold" in change.entry.data


async def test_events_have_no_dependents() -> None:
    scene = Scene((EVENT_OF_CORE,))
    raw = {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"}}
    await scene.create(EVENT_OF_CORE, raw, "n")
    options = DeleteOptions(propagation="Orphan")

    assert (await scene.registry.delete(EVENT_OF_CORE, "n", "e", options)).is_gone


async def test_creation_over_what_ends() -> None:
    """It says so; an update that creates may name the version of what is gone."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema(**HELD))
    await delete(scene)
    error = await refusal(scene.create(FLOW_SCHEMA, flow_schema()))
    new = completed(FLOW_SCHEMA, flow_schema("g", resourceVersion="7"))

    assert error.message.startswith("object is being deleted: flowschemas.")
    assert (await scene.registry.create(FLOW_SCHEMA, "", new, TESTER, is_update=True)).is_created


async def test_grace() -> None:
    scene = Scene()
    await scene.namespace()
    await scene.pod("p")
    follower = Follower(scene, POD)
    assert (await delete(scene, POD, is_dry_run=True, grace_period_s=0)).is_gone
    assert [] == follower.seen()
    marked = await delete(scene, POD)
    scene.now_s += 5
    assert marked == await delete(scene, POD, grace_period_s=60) == await delete(scene, POD)
    assert ["MODIFIED"] == follower.seen()
    sooner = await delete(scene, POD, grace_period_s=10)
    assert ["MODIFIED"] == follower.seen()
    gone = await delete(scene, POD, grace_period_s=0)
    assert ["MODIFIED", "DELETED"] == follower.seen()

    assert [("2001-09-09T01:47:10Z", 30), ("2001-09-09T01:46:50Z", 10)] == [
        (each["deletionTimestamp"], each["deletionGracePeriodSeconds"])
        for each in (marked.obj["metadata"], sooner.obj["metadata"])
    ]
    assert (True, 0) == (gone.is_gone, gone.obj["metadata"]["deletionGracePeriodSeconds"])


@pytest.mark.parametrize(
    ("grace_s", "end"),
    [
        (9_223_372_036, "2293-12-19T"),
        (400_000_000_000, "1816-12-30T"),
        (2**63 - 1, "2001-09-09T01:46:39Z"),
    ],
)
async def test_grace_of_centuries(grace_s: int, end: str) -> None:
    """It ends where Go's durations take it, which overflow; a shorter one begins where it did."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p")
    marked = (await delete(scene, POD, grace_period_s=grace_s)).obj["metadata"]
    sooner = (await delete(scene, POD, grace_period_s=10)).obj["metadata"]
    assert marked["deletionTimestamp"].startswith(end)
    assert grace_s == marked["deletionGracePeriodSeconds"]
    assert "2001-09-09T01:46:50Z" == sooner["deletionTimestamp"]


async def test_grace_of_held_pods() -> None:
    """A pod whose time is cut short stays for its finalizers, until now at the latest."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", **HELD)
    await delete(scene, POD)
    held = await delete(scene, POD, grace_period_s=0)

    assert held == await delete(scene, POD, grace_period_s=0)
    assert (False, NOW) == (held.is_gone, held.obj["metadata"]["deletionTimestamp"])
    assert 2 == held.obj["metadata"]["generation"]


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
    monkeypatch.setattr("apfproxy.apiserver.store.store.LARGEST_OBJECT_BYTES", 1000)
    large = flow_schema(annotations={"a": "x" * 1000})
    error = await refusal(Scene().create(FLOW_SCHEMA, large))
    text = "etcdserver: request is too large"
    assert (500, "", text) == (error.code, error.reason, error.message)


async def test_writes_wait_for_the_disk(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("size", "is_here"), [(LARGE_BYTES - 1, True), (LARGE_BYTES, False)])
async def test_large_writes_are_computed_in_a_thread(size: int, *, is_here: bool) -> None:
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


@pytest.fixture
def races(monkeypatch: pytest.MonkeyPatch) -> Races:
    """Happen one after the other, each when something of a large write was computed."""
    left: Races = []

    async def raced(size: int, work: Callable[[], object]) -> object:
        made = await compute(size, work)
        if size >= LARGE_BYTES and left:
            await left.pop(0)()
        return made

    monkeypatch.setattr("apfproxy.apiserver.registry.compute", raced)
    return left


async def test_large_writes_take_turns(races: Races) -> None:
    scene = Scene()
    for name in "abc":
        await scene.create(FLOW_SCHEMA, flow_schema(name))
    order: list[str] = []

    async def write(name: str, options: WriteOptions) -> None:
        await scene.registry.update(FLOW_SCHEMA, "", name, lambda obj: obj, options)
        order.append(name)

    tasks: list[asyncio.Task[None]] = []

    async def others() -> None:
        tasks.append(asyncio.create_task(write("b", LARGE)))
        await asyncio.sleep(0)
        await write("c", TESTER)

    races.append(others)
    await write("a", LARGE)
    await asyncio.gather(*tasks)
    assert ["c", "a", "b"] == order


@pytest.mark.parametrize(("race", "code"), [(update, 409), (delete, 404)])
async def test_a_large_update_of_what_changes(
    race: Callable[..., Awaitable[object]], code: int, races: Races
) -> None:
    scene = Scene()
    sent = await scene.create(FLOW_SCHEMA, flow_schema())
    races.append(lambda: race(scene, **{"labels": {"a": "b"}} if race is update else {}))
    writing = scene.registry.update(FLOW_SCHEMA, "", "f", lambda _: copy.deepcopy(sent), LARGE)
    assert code == (await refusal(writing)).code


async def test_two_large_configurations_of_a_new_object() -> None:
    scene = Scene()
    patch = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", **flow_schema()}
    first, second = await asyncio.gather(
        *(scene.registry.apply(FLOW_SCHEMA, "", "f", patch, LARGE) for _ in range(2))
    )
    assert (True, False) == (first.is_created, second.is_created)
    assert first.obj == second.obj


async def test_a_namespace_that_ends_during_a_large_creation(races: Races) -> None:
    scene = Scene()
    await scene.namespace("n")
    races += [lambda: asyncio.sleep(0), lambda: scene.delete(NAMESPACE, "n")]
    creating = scene.registry.create(POD, "n", completed(POD, pod("p", namespace="n")), LARGE)
    assert 403 == (await refusal(creating)).code
    assert ([], []) == (races, scene.names(POD, "n"))


ANNOTATIONS = {"large": "x" * LARGE_BYTES}
ANNOTATED: Object = {"metadata": {"annotations": ANNOTATIONS}}
CONFIGURATION = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", **ANNOTATED}
OPERATIONS = [{"op": "add", "path": "/metadata/annotations", "value": ANNOTATIONS}]


@pytest.mark.parametrize(
    ("method", "content_type", "body", "labels"),
    [
        ("PUT", "", flow_schema(annotations=ANNOTATIONS), None),
        ("PATCH", MERGE, ANNOTATED, {"a": "b"}),
        ("PATCH", STRATEGIC, ANNOTATED, {"a": "b"}),
        ("PATCH", JSON_PATCH, OPERATIONS, {"a": "b"}),
        ("PATCH", APPLY, CONFIGURATION, {"a": "b"}),
    ],
    ids=["put", "merge-patch", "strategic-merge-patch", "json-patch", "apply"],
)
async def test_a_large_request_is_tried_again(
    method: str, content_type: str, body: object, labels: object, site: Site, races: Races
) -> None:
    await site.send("POST", SCHEMAS, flow_schema())
    patch = {"metadata": {"labels": {"a": "b"}}}
    races.append(lambda: site.send("PATCH", f"{SCHEMAS}/f", patch, content_type=MERGE))
    path = f"{SCHEMAS}/f?fieldManager=m"
    response = await site.send(method, path, body, content_type=content_type)
    metadata = response.body["metadata"]

    assert (200, []) == (response.status, races), response.body
    assert ANNOTATIONS == metadata["annotations"]
    assert labels == metadata.get("labels")
