"""Tests of `apfproxy.apiserver.responses`, beside the recorded requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.responses import Form, Renderer, Shape, pieces
from tests.apiserver.controllers.scene import Scene
from tests.apiserver.site import flow_schema

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry

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


async def test_columns_of_watches() -> None:
    """Only the first Table of a watch says what its columns are."""
    renderer, entries = await rendered(TABLE)
    first, second = (json.loads(renderer.event("ADDED", entry))["object"] for entry in entries)
    bookmark = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]

    assert len(FLOW_SCHEMA.columns) == len(first["columnDefinitions"])
    assert None is second["columnDefinitions"] is bookmark["columnDefinitions"]
    assert {"resourceVersion": "7"} == bookmark["metadata"]


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


async def test_shapes_that_a_response_has_not() -> None:
    """An object is no list, and a list no object."""
    one, entries = await rendered(Form(shape=Shape.METADATA_LIST))
    many, _ = await rendered(Form(shape=Shape.METADATA))

    with pytest.raises(StatusError, match=r"is not a list \(\*flowcontrol.FlowSchema\)"):
        one.document(entries[0])
    with pytest.raises(StatusError, match=r"is a list \(\*flowcontrol.FlowSchemaList\)"):
        many.list_chunks(entries, {})


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
