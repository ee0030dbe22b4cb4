"""Large writes are worked out in a thread, one at a time."""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from apfproxy.apiserver import registry as registry_module
from apfproxy.apiserver.core.kinds import NAMESPACE, POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.large_writes import LARGE_BYTES, CollectorPause, LargeWrites, compute
from apfproxy.apiserver.registry import WriteOptions, completed
from apfproxy.base.tasks import spawn
from tests.apiserver.controllers.scene import TESTER, Scene
from tests.apiserver.site import (
    APPLY,
    JSON_PATCH,
    MERGE,
    SCHEMAS,
    STRATEGIC,
    flow_schema,
    pod,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

TYPED = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema"}
LARGE = WriteOptions("tester", sent_bytes=LARGE_BYTES)


@pytest.mark.parametrize(("size", "is_here"), [(LARGE_BYTES - 1, True), (LARGE_BYTES, False)])
async def test_where_it_is_computed(size: int, is_here: bool) -> None:
    """A small write does not leave its thread; a large one does, and the collector rests."""
    thread, is_enabled = await compute(size, lambda: (threading.current_thread(), gc.isenabled()))

    assert is_here == (threading.current_thread() is thread)
    assert is_here == is_enabled
    assert gc.isenabled()


async def test_the_loop_goes_round() -> None:
    """A large write waits for what only the event loop can do, and gets it."""
    done = threading.Event()
    asyncio.get_running_loop().call_later(0, done.set)

    assert await compute(LARGE_BYTES, lambda: done.wait(10))


async def test_turns() -> None:
    """A large write waits for the one before it; a small one for none."""
    writes = LargeWrites()
    entered = []
    end = asyncio.Event()

    async def write(name: str, size: int) -> None:
        async with writes.turn(size):
            entered.append(name)
            await end.wait()

    tasks = [
        spawn(write(name, size), name=name)
        for name, size in (("first", LARGE_BYTES), ("second", LARGE_BYTES), ("small", 0))
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    before = list(entered)
    end.set()
    await asyncio.gather(*tasks)

    assert ["first", "small"] == before
    assert ["first", "small", "second"] == entered


def test_the_collector_rests_for_all() -> None:
    """It works again when the last that wants it to rest is through, unless it never worked."""
    pause = CollectorPause()
    with pause.hold():
        with pause.hold():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()

    gc.disable()
    try:
        with pause.hold():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


async def labelled(scene: Scene, labels: dict[str, str]) -> None:
    """Give the FlowSchema `f` labels, as a client with a small request would."""
    metadata = scene.registry.get(FLOW_SCHEMA, "", "f")["metadata"]
    await scene.change(FLOW_SCHEMA, "f", {"metadata": {**metadata, "labels": labels}})


def racing(race: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], None]:
    """Does something on the event loop, once, from the thread that this is called in."""
    loop = asyncio.get_running_loop()
    left = [race]

    def run() -> None:
        if left:
            asyncio.run_coroutine_threadsafe(left.pop()(), loop).result(10)

    return run


async def test_a_large_update_is_made_again_if_the_object_changed() -> None:
    """Somebody else changes the object while a thread works: neither change is lost."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    race = racing(lambda: labelled(scene, {"from": "other"}))
    seen: list[object] = []

    def change(obj: Object) -> Object:
        seen.append(obj["metadata"].get("labels"))
        race()
        obj["metadata"]["annotations"] = {"from": "large"}
        return obj

    written = await scene.registry.update(FLOW_SCHEMA, "", "f", change, LARGE)
    metadata = scene.registry.get(FLOW_SCHEMA, "", "f")["metadata"]

    assert [None, {"from": "other"}] == seen
    assert ({"from": "other"}, {"from": "large"}) == (metadata["labels"], metadata["annotations"])
    assert metadata == written.obj["metadata"]


async def test_a_large_update_of_an_object_that_goes() -> None:
    """Somebody else deletes the object while a thread works: there is nothing to change."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    race = racing(lambda: scene.delete(FLOW_SCHEMA, "f"))

    def change(obj: Object) -> Object:
        race()
        return obj

    with pytest.raises(StatusError) as caught:
        await scene.registry.update(FLOW_SCHEMA, "", "f", change, LARGE)

    assert 404 == caught.value.code
    assert scene.store.head(FLOW_SCHEMA.resource, "", "f") is None


async def test_a_large_update_from_a_version_that_changes() -> None:
    """Who says which version he means gets a conflict if it changes while a thread works."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    sent = scene.registry.get(FLOW_SCHEMA, "", "f")
    race = racing(lambda: labelled(scene, {"from": "other"}))

    def change(_live: Object) -> Object:
        race()
        return copy.deepcopy(sent)

    with pytest.raises(StatusError) as caught:
        await scene.registry.update(FLOW_SCHEMA, "", "f", change, LARGE)

    assert 409 == caught.value.code


async def test_large_writes_leave_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating, applying, changing and deleting large objects is computed in other threads."""
    scene = Scene()
    here, threads = threading.current_thread(), []
    for name in ("prepare_creation", "complete_creation", "updated", "applied"):
        work = getattr(registry_module, name)

        def recorded(*args: Any, work: Any = work, **kwargs: Any) -> Any:  # noqa: ANN401 - any
            threads.append(threading.current_thread())
            return work(*args, **kwargs)

        monkeypatch.setattr(registry_module, name, recorded)
    obj = completed(FLOW_SCHEMA, flow_schema())
    obj["metadata"]["annotations"] = {"large": "x" * LARGE_BYTES}
    await scene.registry.create(FLOW_SCHEMA, "", obj, LARGE)
    await labelled(scene, {"a": "b"})
    patch = {"metadata": {"name": "f", "labels": {"c": "d"}}}
    await scene.registry.apply(FLOW_SCHEMA, "", "f", patch, TESTER, force=True)

    assert 4 == len(threads)
    assert here not in threads
    assert {"a": "b", "c": "d"} == scene.registry.get(FLOW_SCHEMA, "", "f")["metadata"]["labels"]

    await scene.delete(FLOW_SCHEMA, "f")
    assert scene.store.head(FLOW_SCHEMA.resource, "", "f") is None


async def test_a_namespace_that_ends_during_a_large_creation() -> None:
    """What is created while its namespace goes is refused, as if it had come later."""
    scene = Scene()
    await scene.create(NAMESPACE, completed(NAMESPACE, {"metadata": {"name": "n"}}))
    race = racing(lambda: scene.delete(NAMESPACE, "n"))

    def prepare(obj: Object) -> None:
        race()
        POD.rules.prepare_create(obj)

    rules = msgspec.structs.replace(POD.rules, prepare_create=prepare)
    kind = msgspec.structs.replace(POD, rules=rules)

    with pytest.raises(StatusError) as caught:
        await scene.registry.create(kind, "n", completed(POD, pod("p", namespace="n")), LARGE)

    assert caught.value.code in {403, 404}
    assert scene.store.head(POD.resource, "n", "p") is None


ANNOTATED = {"metadata": {"annotations": {"large": "x" * LARGE_BYTES}}}
NAMED = {"metadata": {"name": "f", **ANNOTATED["metadata"]}}
JSON_OPERATIONS = [
    {"op": "add", "path": "/metadata/annotations", "value": ANNOTATED["metadata"]["annotations"]}
]


@pytest.mark.parametrize(
    ("method", "content_type", "body", "keeps"),
    [
        pytest.param(
            "PUT",
            "",
            {**flow_schema(), "metadata": {"name": "f", **ANNOTATED["metadata"]}},
            False,
            id="put",
        ),
        pytest.param("PATCH", MERGE, ANNOTATED, True, id="merge-patch"),
        pytest.param("PATCH", STRATEGIC, ANNOTATED, True, id="strategic-merge-patch"),
        pytest.param("PATCH", JSON_PATCH, JSON_OPERATIONS, True, id="json-patch"),
        pytest.param("PATCH", APPLY, {**TYPED, **ANNOTATED}, True, id="apply"),
    ],
)
async def test_a_large_request_is_tried_again(
    method: str,
    content_type: str,
    body: object,
    keeps: bool,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The object changes before the hand-over: both writes count, one after the other."""
    await site.send("POST", SCHEMAS, flow_schema())

    async def label() -> None:
        answer = await site.send(
            "PATCH", f"{SCHEMAS}/f", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE
        )
        assert 200 == answer.status

    race = racing(label)
    attempts = []
    for name in ("updated", "applied"):
        work = getattr(registry_module, name)

        def raced(*args: Any, work: Any = work, **kwargs: Any) -> Any:  # noqa: ANN401 - any
            made = work(*args, **kwargs)
            attempts.append(made)
            if len(attempts) == 1:
                race()
            return made

        monkeypatch.setattr(registry_module, name, raced)
    path = f"{SCHEMAS}/f?fieldManager=m"
    answer = await site.send(method, path, body, content_type=content_type)
    metadata = answer.body["metadata"]

    assert 200 == answer.status, answer.body
    assert 3 == len(attempts), "the large one twice, and the small one"
    assert ANNOTATED["metadata"]["annotations"] == metadata["annotations"]
    assert ({"a": "b"} if keeps else None) == metadata.get("labels")
