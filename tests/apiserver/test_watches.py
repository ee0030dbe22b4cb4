"""Tests of `apfproxy.apiserver.watches`."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.counters import EVENT_BOUNDS, WatchMeter
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.lists import Selection
from apfproxy.apiserver.options import ListOptions
from apfproxy.apiserver.rendering import Renderer
from apfproxy.apiserver.responses import AS_JSON
from apfproxy.apiserver.store.store import Store
from apfproxy.apiserver.watches import Watch
from apfproxy.flowcontrol.meters import Histogram
from tests.apiserver.controllers.scene import NOW_S, Scene
from tests.apiserver.site import (
    BUDGETS,
    FLOW_CONTROL,
    MERGE,
    NAMESPACES,
    PARTIAL,
    PODS,
    SCHEMAS,
    TABLE,
    YAML,
    budget,
    flow_schema,
    pod,
)

if TYPE_CHECKING:
    from tests.apiserver.site import Events, Site

TURNS = 100
"""Of the loop: what is done once all is known to be at hand is done in fewer."""


async def rest(events: Events) -> list[tuple[str, Any]]:
    """Type and name of all events up to the end of the watch."""
    found = []
    while event := await events.next():
        found.append((event["type"], event["object"]["metadata"].get("name")))
    return found


async def label(site: Site, name: str, value: str) -> None:
    """Change a label of a FlowSchema."""
    patch = {"metadata": {"labels": {"a": value}}}
    answer = await site.send("PATCH", f"{SCHEMAS}/{name}", patch, content_type=MERGE)
    assert 200 == answer.status


async def test_from_now(site: Site) -> None:
    """A watch begins with what is there and goes on with what happens."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    async with site.watch(SCHEMAS) as events:
        assert ("ADDED", "a") == await events.seen()
        await site.send("POST", SCHEMAS, flow_schema("b"))
        assert ("ADDED", "b") == await events.seen()
        await label(site, "b", "c")
        assert ("MODIFIED", "b") == await events.seen()
        await site.send("DELETE", f"{SCHEMAS}/a")
        assert ("DELETED", "a") == await events.seen()


async def test_from_a_version(site: Site) -> None:
    """A watch from a version has what happened since, and not what was before."""
    created = (await site.send("POST", SCHEMAS, flow_schema("a"))).body
    await site.send("POST", SCHEMAS, flow_schema("b"))
    await site.send("DELETE", f"{SCHEMAS}/a")
    version = created["metadata"]["resourceVersion"]
    async with site.watch(f"{SCHEMAS}?resourceVersion={version}&timeoutSeconds=1") as events:
        assert ("ADDED", "b") == await events.seen()
        deleted = await events.next()
        assert None is await events.next()

    assert "DELETED" == deleted["type"]
    assert int(version) + 2 == int(deleted["object"]["metadata"].pop("resourceVersion"))
    created["metadata"].pop("resourceVersion")
    assert created == deleted["object"]


async def test_from_any_version(site: Site) -> None:
    """Version 0 is any: all that is there."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    async with site.watch(f"{SCHEMAS}?resourceVersion=0&timeoutSeconds=1") as events:
        assert [("ADDED", "a")] == await rest(events)


async def test_initial_events(site: Site) -> None:
    """A bookmark tells where what is there ends; without any, nothing does."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    version = str(site.store.resource_version)
    base = f"{SCHEMAS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    async with site.watch(f"{base}&allowWatchBookmarks=true&resourceVersion={version}") as events:
        assert ("ADDED", "a") == await events.seen()
        bookmark = await events.next()
    async with site.watch(base) as events:
        assert [("ADDED", "a")] == await rest(events)
    none = base.replace("Events=true", "Events=false")
    async with site.watch(none) as events:
        assert [] == await rest(events)

    metadata = bookmark["object"]["metadata"]
    assert ("BOOKMARK", "FlowSchema") == (bookmark["type"], bookmark["object"]["kind"])
    assert version == metadata["resourceVersion"]
    assert {"k8s.io/initial-events-end": "true"} == metadata["annotations"]


async def test_initial_events_of_the_future(site: Site) -> None:
    """They are waited for, and then refused by the only event."""
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999"
    async with site.watch(f"{SCHEMAS}?{query}") as events:
        event = await events.next()

    assert ("ERROR", 504) == (event["type"], event["object"]["code"])


async def test_from_the_future(site: Site) -> None:
    """A watch from a version that is yet to come leaves out what comes before it."""
    version = site.store.resource_version + 1
    async with site.watch(f"{SCHEMAS}?resourceVersion={version}") as events:
        await site.send("POST", SCHEMAS, flow_schema("a"))
        await site.send("POST", SCHEMAS, flow_schema("b"))
        assert ("ADDED", "b") == await events.seen()


async def test_labels_come_and_go(site: Site) -> None:
    """An object that comes to be selected is new, and one that no longer is is gone."""
    await site.send("POST", SCHEMAS, flow_schema("f", labels={"a": "no"}))
    async with site.watch(f"{SCHEMAS}?labelSelector=a%3Dyes") as events:
        await label(site, "f", "still-no")
        await label(site, "f", "yes")
        assert ("ADDED", "f") == await events.seen()
        patch = {"spec": {"matchingPrecedence": 7}}
        await site.send("PATCH", f"{SCHEMAS}/f", patch, content_type=MERGE)
        assert ("MODIFIED", "f") == await events.seen()
        await label(site, "f", "no")
        gone = await events.next()
        await site.send("DELETE", f"{SCHEMAS}/f")
        await site.send("POST", SCHEMAS, flow_schema("g", labels={"a": "yes"}))
        assert ("ADDED", "g") == await events.seen()

    metadata = gone["object"]["metadata"]
    assert ("DELETED", "yes") == (gone["type"], metadata["labels"]["a"])
    assert site.store.resource_version - 2 == int(metadata["resourceVersion"])


@pytest.mark.parametrize(
    "path",
    [
        f"{SCHEMAS}?fieldSelector=metadata.name%3Da&timeoutSeconds=1",
        f"{FLOW_CONTROL}/watch/flowschemas/a?timeoutSeconds=1",
    ],
)
async def test_one_object(site: Site, path: str) -> None:
    """One object alone, by its name or by the deprecated path."""
    for name in ("a", "b"):
        await site.send("POST", SCHEMAS, flow_schema(name))
    async with site.watch(path) as events:
        assert [("ADDED", "a")] == await rest(events)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/apis/policy/v1/watch/poddisruptionbudgets", ["b", "c"]),
        ("/apis/policy/v1/watch/namespaces/default/poddisruptionbudgets", ["b"]),
        ("/apis/policy/v1/watch/namespaces/default/poddisruptionbudgets/b", ["b"]),
        ("/apis/policy/v1/poddisruptionbudgets", ["b", "c"]),
        (BUDGETS, ["b"]),
    ],
)
async def test_namespaces(site: Site, path: str, expected: list[str]) -> None:
    """A namespace's objects, or all."""
    await site.send("POST", NAMESPACES, {"metadata": {"name": "n"}})
    await site.send("POST", BUDGETS, budget("b"))
    await site.send("POST", BUDGETS.replace("default", "n"), budget("c"))
    async with site.watch(f"{path}?timeoutSeconds=1") as events:
        assert [("ADDED", name) for name in expected] == await rest(events)


async def test_pods_without_grace(site: Site) -> None:
    """A pod that is deleted at once is seen to be deleted first."""
    await site.send("POST", PODS, pod())
    version = site.store.resource_version
    async with site.watch(f"{PODS}?resourceVersion={version}") as events:
        await site.send("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
        assert ("MODIFIED", "p") == await events.seen()
        assert ("DELETED", "p") == await events.seen()


async def test_tables(site: Site) -> None:
    """Each event is a Table of one row, whose version is the object's."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    async with site.watch(SCHEMAS, TABLE) as events:
        first = await events.next()
        await site.send("POST", SCHEMAS, flow_schema("b"))
        second = await events.next()

    assert ["Table", "Table"] == [event["object"]["kind"] for event in (first, second)]
    assert "Name" == first["object"]["columnDefinitions"][0]["name"]
    assert None is second["object"]["columnDefinitions"]
    assert "b" == second["object"]["rows"][0]["cells"][0]
    assert str(site.store.resource_version) == second["object"]["metadata"]["resourceVersion"]


async def test_metadata(site: Site) -> None:
    """Each event has the metadata alone."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    async with site.watch(SCHEMAS, PARTIAL) as events:
        event = await events.next()

    assert "PartialObjectMetadata" == event["object"]["kind"]
    assert "spec" not in event["object"]


async def test_many_watchers(site: Site) -> None:
    """All watchers of a form get the same bytes; those of another form their own."""
    beta = SCHEMAS.replace("/v1/", "/v1beta3/")
    async with (
        site.watch(SCHEMAS) as one,
        site.watch(SCHEMAS) as other,
        site.watch(beta) as old,
    ):
        await site.send("POST", SCHEMAS, flow_schema("a"))
        first = await one.next()
        assert first == await other.next()
        assert first["object"]["apiVersion"] != (await old.next())["object"]["apiVersion"]


async def test_two_kinds_of_one_collection(site: Site) -> None:
    """Who watches events beside somebody who watches them in their other form sees his own form."""
    paths = (f"{NAMESPACES}/default/events", "/apis/events.k8s.io/v1/namespaces/default/events")
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "n"}, "message": "m"}
    async with site.watch(paths[0]) as core, site.watch(paths[1]) as later:
        await site.send("POST", paths[0], event)
        seen = [(await events.next())["object"] for events in (core, later)]

    assert ["v1", "events.k8s.io/v1"] == [each["apiVersion"] for each in seen]
    assert ["m", "m"] == [seen[0]["message"], seen[1]["note"]]


async def test_bookmarks(site: Site) -> None:
    """Once a minute, and shortly before the end, the client hears how far it has come."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    version = site.store.resource_version
    query = f"resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=150"
    async with site.watch(f"{SCHEMAS}?{query}") as events:
        began = asyncio.get_running_loop().time()
        await site.send("POST", NAMESPACES, {"metadata": {"name": "n"}})
        times = []
        while event := await events.next():
            times.append(round(asyncio.get_running_loop().time() - began))
            assert "BOOKMARK" == event["type"]
            assert str(version + 1) == event["object"]["metadata"]["resourceVersion"]

    assert [60, 120, 148] == times


async def test_timeouts(site: Site) -> None:
    """A watch ends when the client wants it to, in order; or else within an hour."""
    loop = asyncio.get_running_loop()
    durations = []
    for query in ("?timeoutSeconds=7", ""):
        began = loop.time()
        async with site.watch(f"{SCHEMAS}{query}") as events:
            assert [] == await rest(events)
        durations.append(loop.time() - began)

    assert 7 == round(durations[0])
    assert 1800 <= round(durations[1]) <= 3600


@pytest.mark.parametrize(
    ("accept", "expected"), [(YAML, 406), (f"{YAML},application/json;q=0.5", 200), ("", 200)]
)
async def test_events_are_no_yaml(site: Site, accept: str, expected: int) -> None:
    """A client that takes nothing but YAML cannot watch; the next of its choices counts."""
    async with site.watch(f"{SCHEMAS}?timeoutSeconds=1", accept) as events:
        assert expected == events.status


async def test_clients_that_leave(site: Site) -> None:
    """Nobody watches for a client that is gone."""
    collection = site.store.collection(FLOW_SCHEMA.resource)
    async with site.watch(SCHEMAS):
        assert 1 == collection.watchers
    for _ in range(TURNS):
        await asyncio.sleep(0)

    assert 0 == collection.watchers


async def test_the_server_stops(site: Site) -> None:
    """A watch ends in order when the server does."""
    async with site.watch(SCHEMAS) as events:
        await site.send("POST", SCHEMAS, flow_schema("a"))
        await site.store.close()
        assert [("ADDED", "a")] == await rest(events)


def watch_of(store: Store, **options: Any) -> Watch:  # noqa: ANN401  of ListOptions
    """A watch of all FlowSchemas."""
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, AS_JSON, "", NOW_S)
    return Watch(
        store,
        store.collection(FLOW_SCHEMA.resource),
        Selection(),
        ListOptions(**options),
        renderer,
        random.Random(1),  # noqa: S311  a duration
    )


async def changes(scene: Scene, number: int) -> None:
    """Create some FlowSchemas."""
    for _ in range(number):
        version = scene.store.resource_version
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{version}"))


@pytest.fixture
def scene() -> Scene:
    """A registry that keeps few changes."""
    scene = Scene()
    scene.store = scene.registry.store = Store(window=8)
    return scene


async def test_too_old(scene: Scene) -> None:
    """Where changes are missing the watch is one error, by which clients know to list anew."""
    await changes(scene, 20)
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    watch = watch_of(scene.store, resource_version="2")
    await watch.begin()
    await watch.run(write)

    (event,) = map(json.loads, written)
    assert ("ERROR", 410, "Expired") == (
        event["type"],
        event["object"]["code"],
        event["object"]["reason"],
    )
    assert event["object"]["message"].startswith("too old resource version: 2 (")


async def test_slow_clients(scene: Scene) -> None:
    """One that reads too slowly to keep up with the changes falls out of the window."""
    await changes(scene, 1)
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)
        if len(written) == 1:
            await changes(scene, 20)

    watch = watch_of(scene.store)
    await watch.begin()
    await watch.run(write)

    assert ["ADDED", "ERROR"] == [json.loads(line)["type"] for line in written]
    assert 0 == scene.store.collection(FLOW_SCHEMA.resource).watchers


async def test_initial_events_are_told(scene: Scene) -> None:
    """Whoever gives the request its seats hears when its initial events are through."""
    await changes(scene, 1)
    heard: list[str] = []

    async def write(data: bytes) -> None:
        heard.append(json.loads(data)["type"])
        if len(heard) == 3:
            await scene.store.close()

    watch = watch_of(scene.store)
    await watch.begin()
    sizes = Histogram(EVENT_BOUNDS)
    meter = WatchMeter(lambda: heard.append("through"), sizes)
    running = asyncio.create_task(watch.run(write, meter))
    await asyncio.sleep(0)
    await changes(scene, 1)
    await running

    assert ["ADDED", "through", "ADDED"] == heard
    assert 2 == sum(sizes.counts)


@pytest.mark.parametrize("is_initial", [True, False])
async def test_large_events(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, is_initial: bool
) -> None:
    """No more is made of events than a client takes: where it takes none, one piece of them."""
    monkeypatch.setattr("apfproxy.apiserver.watches.WRITTEN_BYTES", 1)
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)
        if len(written) == 3:
            await asyncio.Event().wait()

    watch = watch_of(scene.store, resource_version="" if is_initial else "1")
    if is_initial:
        await changes(scene, 5)
    await watch.begin()
    running = asyncio.create_task(watch.run(write))
    await asyncio.sleep(0)
    if not is_initial:
        await changes(scene, 5)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])

    assert ["ADDED"] * 3 == [json.loads(data)["type"] for data in written]


async def test_events_before_bookmarks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bookmark interrupts is written before it: nobody gets it after that."""
    monkeypatch.setattr("apfproxy.apiserver.watches.WRITTEN_BYTES", 1)
    monkeypatch.setattr("apfproxy.apiserver.watches.BOOKMARK_S", 0.001)
    types: list[str] = []

    async def write(data: bytes) -> None:
        event = json.loads(data)
        types.append(event["type"])
        if event["type"] == "BOOKMARK" and "ADDED" in types:
            await scene.store.close()
        elif len(types) == 1:
            await asyncio.Event().wait()  # until the bookmark is due

    watch = watch_of(scene.store, resource_version="1", allow_watch_bookmarks=True)
    await changes(scene, 4)
    await watch.begin()
    await watch.run(write)

    assert ["ADDED"] * 4 + ["BOOKMARK"] == types
