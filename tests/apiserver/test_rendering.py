"""Tests of `apfproxy.apiserver.rendering`."""

from __future__ import annotations

import json

import pytest

from apfproxy.api.core.kinds import POD
from apfproxy.apiserver.negotiation import Form, Shape
from apfproxy.apiserver.rendering import Renderer, as_yaml, indented, indented_list, yaml_list
from tests.apiserver.controllers.scene import Scene

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

    shown = ["object"] if include != "None" else []
    assert [["cells", *shown], ["cells", "conditions", *shown]] == [list(row) for row in rows]
    assert ["Failed"] == [condition["reason"] for condition in rows[1]["conditions"]]
