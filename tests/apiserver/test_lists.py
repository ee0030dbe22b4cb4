"""Tests of lists where recorded requests do not see: waiting, states that are gone, any token."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver import lists
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.lists import Page, Selection, page
from apfproxy.apiserver.options import ListOptions
from apfproxy.apiserver.responses import Form, Renderer, Shape, pieces
from apfproxy.apiserver.store.store import Store
from tests.apiserver.controllers.scene import Scene
from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from tests.apiserver.site import Site


def names(document: Any) -> list[str]:  # noqa: ANN401  JSON
    return [item["metadata"]["name"] for item in document["items"]]


async def test_pages_are_of_one_state(site: Site) -> None:
    """Changes between two pages show in neither, nor in the number of remaining items."""
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
    """They are waited for, for three seconds; a list of one that comes has it."""
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


TABLE = Form(shape=Shape.TABLE)


async def rendered(form: Form) -> tuple[Renderer, list[Entry]]:
    """A renderer, and two FlowSchemas, of which the second comes first for requests."""
    scene = Scene()
    for name, precedence in (("a", 2000), ("b", 1000)):
        await scene.create(FLOW_SCHEMA, flow_schema(name, precedence))
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, form, "", scene.now_s)
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
    renderer = Renderer(POD, POD.storage, TABLE, include, scene.now_s)
    entries = scene.store.collection(POD.resource).snapshot()
    rows = json.loads(b"".join(renderer.list_chunks(entries, {})))["rows"]

    assert [["cells", "object"], ["cells", "conditions", "object"]] == [list(row) for row in rows]
    assert (include == "None") == (rows[0]["object"] is None)
    assert ["Failed"] == [condition["reason"] for condition in rows[1]["conditions"]]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_bookmarks_as_rows(kind: Kind) -> None:
    """A bookmark in a Table has a cell in each column, whatever the kind."""
    renderer = Renderer(kind, kind.storage, TABLE, "", 0)
    table = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]

    assert len(kind.columns) == len(table["rows"][0]["cells"])


@pytest.mark.parametrize(
    ("shape", "kind", "keys"),
    [
        (Shape.OBJECT, "FlowSchema", {"kind", "apiVersion", "metadata", "spec", "status"}),
        (Shape.METADATA, "PartialObjectMetadata", {"kind", "apiVersion", "metadata"}),
        (Shape.METADATA_LIST, "PartialObjectMetadata", {"kind", "apiVersion", "metadata"}),
    ],
)
async def test_bookmarks(shape: Shape, kind: str, keys: set[str]) -> None:
    """A bookmark has nothing but a version, in the form of the other events."""
    renderer, entries = await rendered(Form(shape=shape))
    event = json.loads(renderer.bookmark(7, is_end_of_initial=False))
    obj = event["object"]

    assert ("BOOKMARK", kind, keys) == (event["type"], obj["kind"], set(obj))
    assert {"resourceVersion": "7"} == {key: val for key, val in obj["metadata"].items() if val}
    if shape is Shape.METADATA_LIST:  # an event is no list
        assert "spec" in json.loads(renderer.event("ADDED", entries[0]))["object"]


async def test_parts_of_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many objects are in a part as usual, but fewer that are large; all are in one."""
    monkeypatch.setattr("apfproxy.apiserver.responses.CHUNK_ITEMS", 3)
    monkeypatch.setattr("apfproxy.apiserver.responses.CHUNK_BYTES", 5000)
    scene = Scene()
    for number, size in enumerate([1, 1, 1, 1, 6000, 6000, 1]):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{number}", annotations={"a": "x" * size}))
    entries = scene.store.collection(FLOW_SCHEMA.resource).snapshot()
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, Form(), "", scene.now_s)
    chunks = list(renderer.list_chunks(entries, {}))

    assert [3, 2, 1, 1] == [len(part) for part in pieces(entries)]
    assert 6 == len(chunks)
    assert 7 == len(json.loads(b"".join(chunks))["items"])
