"""Tests of `apfproxy.apiserver.rendering`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.core.kinds import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.negotiation import Form, Shape
from apfproxy.apiserver.rendering import (
    Renderer,
    as_yaml,
    indented,
    indented_list,
    pieces,
    yaml_list,
)
from tests.apiserver.controllers.scene import Scene
from tests.apiserver.site import flow_schema

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry

LISTS = [
    pytest.param([], b'"items":[', id="empty"),
    pytest.param([b'{"b":{},"a":1}'], b'"items":[', id="one-part"),
    pytest.param([b'{"a":[1]},{"a":[]}', b',{"a":"]}"}'], b'"items":[', id="two-parts"),
    pytest.param([b'{"cells":[1]}'], b'"columnDefinitions":[{"name":"x"}],"rows":[', id="table"),
]
HEAD = b'{"kind":"L","apiVersion":"v1","metadata":{"resourceVersion":"1"},'


def test_indented() -> None:
    """JSON for people has two blanks a level, and ends its last line."""
    assert b'{\n  "a": [\n    1\n  ]\n}\n' == indented(b'{"a":[1]}')


def test_yaml() -> None:
    """YAML is in block style, its keys in order."""
    assert b"a: x\nb:\n- 1\n" == as_yaml(b'{"b":[1],"a":"x"}')


@pytest.mark.parametrize(("parts", "name"), LISTS)
def test_lists_in_parts(parts: list[bytes], name: bytes) -> None:
    """A list that is made in parts is the same as one that is made as a whole."""
    chunks = [HEAD + name, *parts, b"]}"]
    whole = b"".join(chunks)

    assert indented(whole) == b"".join(indented_list(iter(chunks)))
    assert as_yaml(whole) == b"".join(yaml_list(iter(chunks)))


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
async def test_conditions_of_rows(include: str) -> None:
    """A row of a Table tells what is to be known of it, between its cells and its object."""
    scene = Scene()
    await scene.namespace()
    for name in ("a", "b"):
        await scene.pod(name)
    status = {**scene.registry.get(POD, "default", "b")["status"], "phase": "Failed"}
    await scene.change(POD, "b", {"status": status}, "default", "status")
    form = Form(shape=Shape.TABLE)
    renderer = Renderer(POD, POD.storage, form, include, scene.now_s)
    entries = scene.store.collection(POD.resource).snapshot()
    rows = json.loads(b"".join(renderer.list_chunks(entries, {})))["rows"]

    assert [["cells", "object"], ["cells", "conditions", "object"]] == [list(row) for row in rows]
    assert (include == "None") == (rows[0]["object"] is None)
    assert ["Failed"] == [condition["reason"] for condition in rows[1]["conditions"]]


SCHEMA_COLUMNS = 6


async def rendered(form: Form, include: str = "") -> tuple[Renderer, list[Entry]]:
    """A renderer, and two FlowSchemas, of which the second comes first for requests."""
    scene = Scene()
    for name, precedence in (("a", 2000), ("b", 1000)):
        await scene.create(FLOW_SCHEMA, flow_schema(name, precedence))
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, form, include, scene.now_s)
    return renderer, scene.store.collection(FLOW_SCHEMA.resource).snapshot()


async def test_rows_are_in_order() -> None:
    """FlowSchemas are shown in the order in which requests meet them, and listed by name."""
    table, entries = await rendered(Form(shape=Shape.TABLE))
    objects, _ = await rendered(Form())
    rows = json.loads(b"".join(table.list_chunks(entries, {})))["rows"]
    items = json.loads(b"".join(objects.list_chunks(entries, {})))["items"]

    assert ["b", "a"] == [row["cells"][0] for row in rows]
    assert ["a", "b"] == [item["metadata"]["name"] for item in items]


async def test_columns_of_watches() -> None:
    """Only the first Table of a watch says what its columns are."""
    renderer, entries = await rendered(Form(shape=Shape.TABLE))
    first, second = (json.loads(renderer.event("ADDED", entry))["object"] for entry in entries)
    bookmark = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]

    assert SCHEMA_COLUMNS == len(first["columnDefinitions"])
    assert None is second["columnDefinitions"] is bookmark["columnDefinitions"]
    assert [first["metadata"]["resourceVersion"]] == [
        row["object"]["metadata"]["resourceVersion"] for row in first["rows"]
    ]
    assert {"resourceVersion": "7"} == bookmark["metadata"]
    assert ["", "", 0, "<none>", "<unknown>", "?"] == bookmark["rows"][0]["cells"]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_bookmarks_as_rows(kind: Kind) -> None:
    """A bookmark in a Table has a cell in each column, whatever the kind."""
    renderer = Renderer(kind, kind.storage, Form(shape=Shape.TABLE), "", 0)
    table = json.loads(renderer.bookmark(7, is_end_of_initial=True))["object"]

    assert len(kind.columns) == len(table["rows"][0]["cells"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("7", '"7"'),
        ("08", '"08"'),
        ("1e+3", '"1e+3"'),
        ("true", '"true"'),
        ("y", '"y"'),
        ("2020-01-01T00:00:00Z", '"2020-01-01T00:00:00Z"'),
        ("*", "'*'"),
        ("a: b", "'a: b'"),
        ("a\nb\n", "|\n  a\n  b"),
    ],
)
def test_text_in_yaml(text: str, expected: str) -> None:
    """Text is quoted as Kubernetes does it: with two marks where it would be something else."""
    assert f"text: {expected}\n" == as_yaml(json.dumps({"text": text}).encode()).decode()


@pytest.mark.parametrize(
    ("form", "kind", "has_spec"),
    [
        pytest.param(Form(), "FlowSchema", True, id="object"),
        pytest.param(Form(shape=Shape.METADATA), "PartialObjectMetadata", False, id="metadata"),
        pytest.param(
            Form(shape=Shape.METADATA_LIST), "PartialObjectMetadata", False, id="metadata-list"
        ),
    ],
)
async def test_bookmarks(form: Form, kind: str, has_spec: bool) -> None:
    """A bookmark has nothing but a version, in the form of the other events."""
    renderer, _ = await rendered(form)
    event = json.loads(renderer.bookmark(7, is_end_of_initial=False))

    assert ("BOOKMARK", kind) == (event["type"], event["object"]["kind"])
    assert {"resourceVersion": "7"} == {
        name: value for name, value in event["object"]["metadata"].items() if value
    }
    assert has_spec == ("spec" in event["object"])


async def test_only_metadata() -> None:
    """A list of metadata has no more."""
    renderer, entries = await rendered(Form(shape=Shape.METADATA_LIST, meta_version="v1beta1"))
    listed = json.loads(b"".join(renderer.list_chunks(entries, {"resourceVersion": "7"})))
    empty = json.loads(b"".join(renderer.list_chunks([], {"resourceVersion": "7"})))
    event = json.loads(renderer.event("ADDED", entries[0]))

    assert ("PartialObjectMetadataList", "meta.k8s.io/v1beta1") == (
        listed["kind"],
        listed["apiVersion"],
    )
    assert [{"kind", "apiVersion", "metadata"}] * 2 == [set(item) for item in listed["items"]]
    assert empty["items"] is None
    assert "FlowSchema" == event["object"]["kind"]


async def test_shapes_that_an_answer_has_not() -> None:
    """An object is no list, and a list no object."""
    one, entries = await rendered(Form(shape=Shape.METADATA_LIST))
    many, _ = await rendered(Form(shape=Shape.METADATA))

    with pytest.raises(StatusError, match=r"is not a list \(\*flowcontrol.FlowSchema\)"):
        one.document(entries[0])
    with pytest.raises(StatusError, match=r"is a list \(\*flowcontrol.FlowSchemaList\)"):
        many.list_chunks(entries, {})


async def test_other_versions() -> None:
    """Objects are written in the version that the client asks for."""
    scene = Scene()
    await scene.create(FLOW_SCHEMA, flow_schema())
    version = FLOW_SCHEMA.versions[1]
    renderer = Renderer(FLOW_SCHEMA, version, Form(), "", scene.now_s)
    entries = scene.store.collection(FLOW_SCHEMA.resource).snapshot()
    listed = json.loads(b"".join(renderer.list_chunks(entries, {})))
    alone = json.loads(renderer.document(entries[0]))

    assert listed["apiVersion"].endswith("/v1beta3")
    assert alone["apiVersion"].endswith("/v1beta3")
    assert {"metadata", "spec", "status"} == set(listed["items"][0])


async def test_bad_include() -> None:
    """What a row cannot carry is refused, where there are rows."""
    await rendered(Form(), "Everything")
    with pytest.raises(StatusError) as error:
        await rendered(Form(shape=Shape.TABLE), "Everything")

    assert 400 == error.value.code


async def test_parts_of_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many objects are in a part as usual, but fewer that are large; all are in one."""
    monkeypatch.setattr("apfproxy.apiserver.rendering.CHUNK_ITEMS", 3)
    monkeypatch.setattr("apfproxy.apiserver.rendering.CHUNK_BYTES", 5000)
    scene = Scene()
    for number, size in enumerate([1, 1, 1, 1, 6000, 6000, 1]):
        await scene.create(FLOW_SCHEMA, flow_schema(f"f{number}", annotations={"a": "x" * size}))
    entries = scene.store.collection(FLOW_SCHEMA.resource).snapshot()
    renderer = Renderer(FLOW_SCHEMA, FLOW_SCHEMA.storage, Form(), "", scene.now_s)
    chunks = list(renderer.list_chunks(entries, {}))

    assert [3, 2, 1, 1] == [len(part) for part in pieces(entries)]
    assert [] == list(pieces([]))
    assert 6 == len(chunks)
    assert 7 == len(json.loads(b"".join(chunks))["items"])
