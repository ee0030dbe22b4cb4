"""Tests of lists and watches where recorded requests do not see: time, other clients, the end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver import lists
from apfproxy.apiserver.apps import REPLICA_SET
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.counters import Tally, WatchMeter
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.lists import Page, Selection, Watch, page
from apfproxy.apiserver.options import ListOptions
from apfproxy.apiserver.outcomes import WriteOptions
from apfproxy.apiserver.responses import AS_JSON, Form, Renderer, Shape, pieces
from apfproxy.apiserver.selectors import parse_field_selector, parse_label_selector
from apfproxy.apiserver.store.store import Store
from tests.apiserver.controllers.scene import NOW_S, Scene
from tests.apiserver.site import MERGE, NAMESPACES, SCHEMAS, TABLE, YAML, flow_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Events, Site


TURNS = 100
"""Turns of the loop in which everything is done that waits for nothing else."""


async def rest(events: Events) -> list[tuple[str, Any]]:
    found = []
    while event := await events.next():
        found.append((event["type"], event["object"]["metadata"].get("name")))
    return found


async def label(site: Site, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"a": value}}}
    response = await site.send("PATCH", f"{SCHEMAS}/{name}", patch, content_type=MERGE)
    assert 200 == response.status


async def test_initial_events(site: Site) -> None:
    """A bookmark tells where what is there ends; a version that does not come is one error."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    version = str(site.store.resource_version)
    base = f"{SCHEMAS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    async with (
        site.watch(f"{base}&allowWatchBookmarks=true&resourceVersion={version}") as marked,
        site.watch(base) as plain,
        site.watch(base.replace("Events=true", "Events=false")) as without,
        site.watch(f"{base}&resourceVersion=999") as future,
    ):
        assert ("ADDED", "a") == await marked.seen()
        bookmark = await marked.next()
        assert ([("ADDED", "a")], []) == (await rest(plain), await rest(without))
        error = await future.next()
        assert await future.next() is None

    annotations = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": version, "annotations": annotations}
    assert ("BOOKMARK", "FlowSchema") == (bookmark["type"], bookmark["object"]["kind"])
    assert metadata.items() <= bookmark["object"]["metadata"].items()
    assert ("ERROR", 504) == (error["type"], error["object"]["code"])


async def test_labels_come_and_go(site: Site) -> None:
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


async def test_each_watcher_gets_its_own_form(site: Site) -> None:
    later = "/apis/events.k8s.io/v1/namespaces/default/events"
    async with (
        site.watch(SCHEMAS) as one,
        site.watch(SCHEMAS) as other,
        site.watch(SCHEMAS.replace("/v1/", "/v1beta3/")) as beta,
        site.watch(SCHEMAS, TABLE) as table,
        site.watch(later) as events,
    ):
        await site.send("POST", SCHEMAS, flow_schema("a"))
        assert await one.next() == await other.next()
        assert "flowcontrol.apiserver.k8s.io/v1beta3" == (await beta.next())["object"]["apiVersion"]
        assert "Name" == (await table.next())["object"]["columnDefinitions"][0]["name"]
        await site.send("POST", SCHEMAS, flow_schema("b"))
        second = (await table.next())["object"]
        assert (None, "b") == (second["columnDefinitions"], second["rows"][0]["cells"][0])
        assert str(site.store.resource_version) == second["metadata"]["resourceVersion"]
        body = {"metadata": {"name": "e"}, "involvedObject": {"name": "n"}, "message": "m"}
        await site.send("POST", f"{NAMESPACES}/default/events", body)
        assert "m" == (await events.next())["object"]["note"]


async def test_bookmarks_and_timeouts(site: Site) -> None:
    """Once a minute, and shortly before the end, the client hears how far it has come."""
    loop = asyncio.get_running_loop()
    version = site.store.resource_version
    query = f"resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=150"
    began, times = loop.time(), []
    async with site.watch(f"{SCHEMAS}?{query}") as events:
        await site.send("POST", NAMESPACES, {"metadata": {"name": "n"}})
        while event := await events.next():
            times.append(round(loop.time() - began))
            assert "BOOKMARK" == event["type"]
            assert str(version + 1) == event["object"]["metadata"]["resourceVersion"]
    took, began = round(loop.time() - began), loop.time()
    async with site.watch(SCHEMAS) as events:
        assert [] == await rest(events)

    assert ([60, 120, 148], 150) == (times, took)
    assert 1800 <= round(loop.time() - began) <= 3600


async def test_events_are_no_yaml(site: Site) -> None:
    for accept, expected in ((YAML, 406), (f"{YAML},application/json;q=0.5", 200), ("", 200)):
        async with site.watch(f"{SCHEMAS}?timeoutSeconds=1", accept) as events:
            assert expected == events.status


async def test_clients_that_leave_and_a_server_that_stops(site: Site) -> None:
    collection = site.store.collection(FLOW_SCHEMA.resource)
    async with site.watch(SCHEMAS):
        assert 1 == collection.watchers
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert 0 == collection.watchers
    async with site.watch(SCHEMAS) as events:
        await site.send("POST", SCHEMAS, flow_schema("a"))
        await site.store.close()
        assert [("ADDED", "a")] == await rest(events)


class Client:
    """Does something after each of the first writes to it; what it heard are types of events."""

    def __init__(
        self, scene: Scene, *then: Callable[[], Awaitable[object]], **options: str | bool
    ) -> None:
        renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, AS_JSON, "", lambda: NOW_S)
        collection = scene.store.collection(FLOW_SCHEMA.resource)
        chance = random.Random(1)  # noqa: S311  a duration
        given = ListOptions(**options)  # type: ignore[arg-type]
        self.watch = Watch(scene.store, collection, Selection(), given, renderer, chance)
        self.then = deque(then)
        self.events: list[Any] = []
        self.heard: list[str] = []
        self.tally = Tally()

    async def write(self, data: bytes) -> None:
        self.events.append(json.loads(data))
        self.heard.append(self.events[-1]["type"])
        if self.then:
            await self.then.popleft()()

    async def run(self) -> None:
        await self.watch.begin()
        meter = WatchMeter(lambda: self.heard.append("through"), self.tally)
        await self.watch.run(self.write, meter)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.store = scene.registry.store = Store(window=8)
    return scene


async def create(scene: Scene, number: int) -> None:
    for _ in range(number):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{scene.store.resource_version}"))


def nothing() -> Awaitable[object]:
    return asyncio.sleep(0)


def for_ever() -> Awaitable[object]:
    return asyncio.Event().wait()


async def test_where_changes_are_missing(scene: Scene) -> None:
    """The watch ends with an error, by which clients know to list again, also in its midst."""
    await create(scene, 1)
    slow = Client(scene, lambda: create(scene, 20))
    await slow.run()
    late = Client(scene, resource_version="2")
    await late.run()

    assert (["ADDED", "through", "ERROR"], ["ERROR"]) == (slow.heard, late.heard)
    status = late.events[0]["object"]
    assert (410, "Expired") == (status["code"], status["reason"])
    assert status["message"].startswith("too old resource version: 2 (")
    assert 0 == scene.store.collection(FLOW_SCHEMA.resource).watchers


@pytest.mark.parametrize("version", ["", "1"])
async def test_large_events(scene: Scene, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("apfproxy.apiserver.lists.WRITTEN_BYTES", 1)
    await create(scene, 5)
    client = Client(scene, nothing, nothing, for_ever, resource_version=version)
    running = asyncio.create_task(client.run())
    for _ in range(TURNS):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])

    assert ["ADDED"] * 3 == [heard for heard in client.heard if heard != "through"]


async def test_others_run_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a watch that catches up nor a selector of many conditions keeps them waiting."""
    monkeypatch.setattr(lists, "CONDITIONS_AT_ONCE", 4)
    monkeypatch.setattr(lists, "WRITTEN_BYTES", 1)
    await create(scene, 6)
    client = Client(scene, resource_version="1")
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0)
    caught_up = len(client.events)
    running.cancel()
    conditions = Selection(
        labels=parse_label_selector("!a,!b"), fields=parse_field_selector("metadata.name!=f1")
    )
    entries = scene.store.collection(FLOW_SCHEMA.resource).snapshot()
    choosing = asyncio.create_task(conditions.among(entries))
    for _ in entries:
        assert not choosing.done()
        await asyncio.sleep(0)

    assert 4 == caught_up
    assert entries[1:] == await choosing
    assert entries[1:4] == await conditions.among(entries, 3)


def names(document: Any) -> list[str]:  # noqa: ANN401  JSON
    return [item["metadata"]["name"] for item in document["items"]]


async def test_pages_are_of_one_state(site: Site) -> None:
    for name in "bcd":
        await site.send("POST", SCHEMAS, flow_schema(name))
    version = site.store.resource_version
    pages = [(await site.get(f"{SCHEMAS}?limit=1")).body]
    await site.send("DELETE", f"{SCHEMAS}/c")
    await site.send("POST", SCHEMAS, flow_schema("a"))
    while token := pages[-1]["metadata"].get("continue"):
        pages.append((await site.get(f"{SCHEMAS}?limit=1&continue={token}")).body)

    assert [["b"], ["c"], ["d"]] == [names(each) for each in pages]
    assert [2, 1, None] == [each["metadata"].get("remainingItemCount") for each in pages]
    assert {str(version)} == {each["metadata"]["resourceVersion"] for each in pages}


@pytest.mark.parametrize("match", ["", "&resourceVersionMatch=Exact", "&limit=1"])
async def test_versions_that_are_yet_to_come(site: Site, match: str) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    late = await site.get(f"{SCHEMAS}?resourceVersion=999{match}")
    took_s = loop.time() - began
    version = site.store.resource_version + 1
    listing = asyncio.create_task(site.get(f"{SCHEMAS}?resourceVersion={version}{match}"))
    await asyncio.sleep(0)
    await site.send("POST", SCHEMAS, flow_schema("a"))

    assert (504, "Timeout") == late.summary
    assert [("", "ResourceVersionTooLarge")] == late.causes
    assert (3, 1) == (round(took_s), late.body["details"]["retryAfterSeconds"])
    assert ["a"] == names((await listing).body)


def put(store: Store, *numbers: int) -> Store:
    for number in numbers:
        store.put("things", {"metadata": {"name": f"f{number}", "uid": "u"}}, {})
    return store


async def listed(store: Store, **options: Any) -> Page:  # noqa: ANN401  of ListOptions
    return await page(store, store.collection("things"), Selection(), ListOptions(**options))


async def test_the_largest_limit() -> None:
    store = put(Store(), 0, 1, 2)
    found = await listed(store, limit=2**63 - 1, resource_version="2")
    assert ({"resourceVersion": "2"}, ["f0"]) == (found.metadata, [e.name for e in found.entries])


async def test_states_that_are_gone() -> None:
    """410; a page gets a token with which to go on, of whatever state there is then."""
    store = put(Store(window=8), 0, 1, 2)
    token = (await listed(store, limit=1)).metadata["continue"]
    put(store, *(number % 5 for number in range(1, 40)))
    with pytest.raises(StatusError) as gone:
        await listed(store, resource_version="2", resource_version_match="Exact")
    with pytest.raises(StatusError) as expired:
        await listed(store, continue_token=token)
    token = expired.value.status()["metadata"]["continue"]
    again = await listed(store, limit=2, continue_token=token)

    for error in (gone.value, expired.value):
        assert (410, "Expired") == (error.code, error.reason)
    assert {} == gone.value.status()["metadata"]
    assert ["f1", "f2"] == [each.name for each in again.entries]
    assert str(store.resource_version) == again.metadata["resourceVersion"]
    assert 2 == again.metadata["remainingItemCount"]


def token_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("a", "illegal base64 data at input byte 0"),
        ("\u20ac*", "illegal base64 data at input byte 0"),
        ("a" * (lists.LONGEST_TOKEN + 4), f"it has more than {lists.LONGEST_TOKEN} characters"),
        (token_of(b'{"v":"\xff"}'), ""),
        (token_of(b'{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}'), "../a"),
    ],
)
async def test_tokens_of_other_origin(token: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        await listed(Store(), continue_token=token)
    prefix = "invalid continue token: continue key is not valid: "
    assert 400 == caught.value.code
    assert caught.value.message.startswith(prefix + message)


@given(
    st.text()
    | st.binary().map(token_of)
    | st.text("abc/.\0").map(
        lambda start: token_of(f'{{"v":"meta.k8s.io/v1","rv":-1,"start":"{start}"}}'.encode())
    )
)
def test_any_text_is_a_token_or_refused(text: str) -> None:
    async def code() -> int:
        try:
            await listed(put(Store(), 1), continue_token=text)
        except StatusError as error:
            return error.code
        return 200

    assert asyncio.run(code()) in {200, 400}


AS_TABLE = Form(shape=Shape.TABLE)


async def rendered(form: Form) -> tuple[Renderer, list[Entry]]:
    scene = Scene()
    for name, precedence in (("a", 2000), ("b", 1000)):
        await scene.create(FLOW_SCHEMA, flow_schema(name, precedence))
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, form, "", scene.registry.clock)
    return renderer, scene.store.collection(FLOW_SCHEMA.resource).snapshot()


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
async def test_conditions_of_rows(include: str) -> None:
    """A row of a Table tells what is to be known of it, between its cells and its object."""
    scene = Scene()
    await scene.namespace()
    for name in ("a", "b"):
        await scene.pod(name)
    status = {**scene.registry.get(POD, "default", "b")["status"], "phase": "Failed"}
    await scene.change(POD, "b", {"status": status}, "default", "status")
    renderer = Renderer(POD, POD.storage, AS_TABLE, include, scene.registry.clock)
    entries = scene.store.collection(POD.resource).snapshot()
    rows = json.loads(b"".join(renderer.list_chunks(entries, {})))["rows"]

    assert [["cells", "object"], ["cells", "conditions", "object"]] == [list(row) for row in rows]
    assert (include == "None") == (rows[0]["object"] is None)
    assert ["Failed"] == [condition["reason"] for condition in rows[1]["conditions"]]


async def test_ages_in_events(site: Site) -> None:
    """They are those of the time of the event, not of the time when the watch began."""
    change = {"metadata": {"labels": {"a": "b"}}}
    ages = []
    async with site.watch(f"{SCHEMAS}?resourceVersion={site.store.resource_version}", TABLE) as one:
        for seconds in (100, 7):
            site.now_s += seconds
            if seconds == 100:
                await site.create(FLOW_SCHEMA, flow_schema())
            else:
                await site.send("PATCH", f"{SCHEMAS}/f", change, content_type=MERGE)
            ages.append((await one.next())["object"]["rows"][0]["cells"][-2])
    assert ["0s", "7s"] == ages


def relabelled(obj: Object) -> Object:
    obj["metadata"]["labels"] = {"a": "c"}
    return obj


@pytest.mark.parametrize("accept", ["", TABLE])
@pytest.mark.parametrize("query", ["", "labelSelector=a%3Db", "labelSelector=a!%3Db"])
async def test_watchers_share_the_work(
    site: Site, monkeypatch: pytest.MonkeyPatch, accept: str, query: str
) -> None:
    """Made for each, a large object would keep all others waiting while many watch."""
    await site.create(FLOW_SCHEMA, flow_schema(labels={"a": "b"}))
    made = []
    part = "_row" if accept else "_object"
    make: Callable[..., bytes] = getattr(Renderer, part)

    def counting(*given: object) -> bytes:
        made.append(part)
        return make(*given)

    path = f"{SCHEMAS}?{query}&resourceVersion={site.store.resource_version}"
    async with contextlib.AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(site.watch(path, accept)) for _ in range(3)]
        monkeypatch.setattr(Renderer, part, counting)
        await site.registry.update(FLOW_SCHEMA, "", "f", relabelled, WriteOptions("tester"))
        events = [await each.next() for each in watches]
    assert 1 == len({each["type"] for each in events}) == len(made)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_bookmarks_as_rows(kind: Kind) -> None:
    renderer = Renderer(kind, kind.storage, AS_TABLE, "", lambda: 0)
    table = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]
    assert len(kind.columns) == len(table["rows"][0]["cells"])


def test_bookmarks_of_controllers() -> None:
    """The replicas are a number, as in kube-apiserver, though an object may lack them."""
    renderer = Renderer(REPLICA_SET, REPLICA_SET.storage, AS_JSON, "", lambda: 0)
    found = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]

    assert 0 == found["spec"]["replicas"]


@pytest.mark.parametrize(
    ("shape", "kind", "keys"),
    [
        (Shape.OBJECT, "FlowSchema", {"kind", "apiVersion", "metadata", "spec", "status"}),
        (Shape.METADATA, "PartialObjectMetadata", {"kind", "apiVersion", "metadata"}),
        (Shape.METADATA_LIST, "PartialObjectMetadata", {"kind", "apiVersion", "metadata"}),
    ],
)
async def test_bookmarks(shape: Shape, kind: str, keys: set[str]) -> None:
    renderer, entries = await rendered(Form(shape=shape))
    event = json.loads(renderer.bookmark(7, is_end_of_initial=False))
    obj = event["object"]
    assert ("BOOKMARK", kind, keys) == (event["type"], obj["kind"], set(obj))
    assert {"resourceVersion": "7"} == {key: val for key, val in obj["metadata"].items() if val}
    if shape is Shape.METADATA_LIST:  # an event is no list
        assert "spec" in json.loads(renderer.event("ADDED", entries[0]))["object"]


async def test_parts_of_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apfproxy.apiserver.responses.CHUNK_ITEMS", 3)
    monkeypatch.setattr("apfproxy.apiserver.responses.CHUNK_BYTES", 5000)
    scene = Scene()
    for number, size in enumerate([1, 1, 1, 1, 6000, 6000, 1]):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{number}", annotations={"a": "x" * size}))
    entries = scene.store.collection(FLOW_SCHEMA.resource).snapshot()
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, Form(), "", scene.registry.clock)
    chunks = list(renderer.list_chunks(entries, {}))

    assert [3, 2, 1, 1] == [len(part) for part in pieces(each.data for each in entries)]
    assert 6 == len(chunks)
    assert 7 == len(json.loads(b"".join(chunks))["items"])
