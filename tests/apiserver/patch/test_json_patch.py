"""Tests of `apfproxy.apiserver.patch.json_patch`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.patch.errors import REJECTED, PatchError
from apfproxy.apiserver.patch.json_patch import json_patch, unknown_members
from apfproxy.apiserver.patch.merge import DEEPEST

OBJ: dict[str, Any] = {"a": 1, "l": [1, 2], "o": {"b": {"c": None}, "x/y": 3}}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([], OBJ, id="nothing"),
        pytest.param(None, OBJ, id="null"),
        pytest.param([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3]}, id="append"),
        pytest.param([{"op": "add", "path": "/l/0", "value": 3}], {"l": [3, 1, 2]}, id="insert"),
        pytest.param([{"op": "add", "path": "/a"}], {"a": None}, id="add-without-value"),
        pytest.param([{"op": "remove", "path": "/l/0"}], {"l": [2]}, id="remove"),
        pytest.param([{"op": "replace", "path": "/a", "value": 2}], {"a": 2}, id="replace"),
        pytest.param([{"op": "replace", "path": "/z", "value": 2}], {"z": 2}, id="replace-absent"),
        pytest.param(
            [{"op": "replace", "path": "/o/x~1y", "value": 4}],
            {"o": {"b": {"c": None}, "x/y": 4}},
            id="escaped",
        ),
        pytest.param([{"op": "test", "path": "/a", "value": 1}], {}, id="test"),
        pytest.param([{"op": "test", "path": "/z", "value": None}], {}, id="test-absent"),
        pytest.param([{"op": "test", "path": "/z"}], {}, id="test-absent-without-value"),
        pytest.param([{"op": "test", "path": "/o/b/c"}], {}, id="test-null"),
        pytest.param([{"op": "test", "path": "", "value": OBJ}], {}, id="test-whole"),
        pytest.param([{"op": "copy", "from": "/a", "path": "/l/0"}], {"l": [1, 1, 2]}, id="copy"),
        pytest.param([{"op": "copy", "from": "/z", "path": "/a"}], {"a": None}, id="copy-absent"),
        pytest.param([{"op": "remove", "path": "/l/-1"}], {"l": [1]}, id="remove-last"),
        pytest.param([{"op": "add", "path": "/l/-1", "value": 3}], {"l": [1, 2, 3]}, id="add-last"),
        pytest.param(
            [{"op": "add", "path": "/l/-3", "value": 3}], {"l": [3, 1, 2]}, id="add-first"
        ),
        pytest.param([{"op": "replace", "path": "/l/+01", "value": 3}], {"l": [1, 3]}, id="signed"),
        pytest.param(
            [{"op": "copy", "from": "/l/-2", "path": "/l/-1"}], {"l": [1, 2, 1]}, id="copy-to-last"
        ),
        pytest.param(
            [{"op": "add", "path": "/o/-1", "value": 3}],
            {"o": {"b": {"c": None}, "x/y": 3, "-1": 3}},
            id="no-index",
        ),
        pytest.param([{"op": "move", "from": "/l", "path": "/a"}], {"a": [1, 2]}, id="move"),
    ],
)
def test_json_patch(operations: object, expected: dict[str, Any]) -> None:
    """Operations apply in turn, leniently as Kubernetes does it; nothing given is changed."""
    before = copy.deepcopy((OBJ, operations))
    patched = json_patch(OBJ, operations)
    wanted = {**OBJ, **expected}
    if isinstance(operations, list) and any(part["op"] == "move" for part in operations):
        del wanted["l"]

    assert wanted == patched
    assert before == (OBJ, operations)


def test_whole_document() -> None:
    """The whole object may be replaced by another."""
    assert {"b": 2} == json_patch(OBJ, [{"op": "replace", "path": "", "value": {"b": 2}}])


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="empty"),
        pytest.param({"op": "jump", "path": "/a"}, id="unknown"),
        pytest.param({"op": "remove"}, id="no-path"),
        pytest.param({"op": "add", "path": "", "value": {}}, id="add-whole"),
        pytest.param({"op": "add", "path": "/z/b", "value": 1}, id="absent-parent"),
        pytest.param({"op": "add", "path": "/l/3", "value": 1}, id="beyond-the-list"),
        pytest.param({"op": "add", "path": "/l/b", "value": 1}, id="no-index"),
        pytest.param({"op": "add", "path": "/a/b", "value": 1}, id="within-a-number"),
        pytest.param({"op": "remove", "path": "/z"}, id="remove-absent"),
        pytest.param({"op": "remove", "path": "/l/2"}, id="remove-beyond"),
        pytest.param({"op": "replace", "path": "/l/2", "value": 1}, id="replace-beyond"),
        pytest.param({"op": "replace", "path": "", "value": [1]}, id="no-object"),
        pytest.param({"op": "test", "path": "/a", "value": 2}, id="test-other"),
        pytest.param({"op": "test", "path": "/a", "value": True}, id="test-boolean"),
        pytest.param({"op": "test", "path": "/a"}, id="test-there"),
        pytest.param({"op": "test", "path": "/z/b"}, id="test-absent-parent"),
        pytest.param({"op": "test", "path": "/l/7"}, id="test-beyond"),
        pytest.param({"op": "move", "path": "/b"}, id="move-from-nothing"),
        pytest.param({"op": "move", "path": "/b", "from": "/z"}, id="move-absent"),
        pytest.param({"op": "copy", "path": "/b", "from": "/l/9"}, id="copy-beyond"),
        pytest.param({"op": "add", "path": "a", "value": 1}, id="no-pointer"),
        pytest.param({"op": "remove", "path": "/l/-3"}, id="remove-before"),
        pytest.param({"op": "remove", "path": "/l/-3/-1"}, id="remove-within-nothing"),
        pytest.param({"op": "remove", "path": f"/l/-{5000 * '1'}"}, id="remove-far-before"),
    ],
)
def test_rejected(operation: object) -> None:
    """What does not fit the object is answered with 422, and no object is changed."""
    before = copy.deepcopy(OBJ)
    with pytest.raises(PatchError) as caught:
        json_patch(OBJ, [{"op": "add", "path": "/new", "value": 1}, operation])

    assert (422, REJECTED, before) == (caught.value.code, str(caught.value), OBJ)


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({}, 400, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("a", 400, "cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([1], 400, "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], 400, "number into Go struct field jsonPatchOp.op of type string"),
        ([{"path": {}}], 400, "object into Go struct field jsonPatchOp.path of type string"),
        ([{}] * 10_001, 413, "maximum operations in a JSON patch is 10000, got 10001"),
    ],
)
def test_refused(operations: object, code: int, message: str) -> None:
    """What is no patch, or too large a one, is refused before any operation."""
    with pytest.raises(PatchError) as caught:
        json_patch(OBJ, operations)

    assert code == caught.value.code
    assert message in str(caught.value)


def test_copies_are_bounded() -> None:
    """Copies of copies do not exhaust memory."""
    double = [
        {"op": "copy", "from": "/l", "path": "/l/-"},
        {"op": "copy", "from": "/l", "path": "/l/-"},
    ]
    with pytest.raises(PatchError) as caught:
        json_patch({"l": ["a"]}, double * 30)

    assert 422 == caught.value.code


@pytest.mark.parametrize("times", [DEEPEST, 3000])
def test_depth_is_bounded(times: int) -> None:
    """Moves into each other do not exhaust the stack."""
    deeper = [
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a", "value": {}},
        {"op": "move", "from": "/b", "path": "/a/a"},
    ]
    operations = deeper * times + [{"op": "copy", "from": "/a", "path": "/c"}]
    with pytest.raises(PatchError) as caught:
        json_patch({"a": {}}, operations)

    assert 422 == caught.value.code


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (None, ()),
        ([None, {"op": "add", "path": "", "value": 1, "from": ""}], ()),
        ([{}, {"bogus": 1}], ('json patch unknown field "[1].bogus"',)),
    ],
)
def test_unknown_members(operations: object, expected: tuple[str, ...]) -> None:
    """Members that no operation has are named as warnings do it."""
    assert expected == unknown_members(operations)
