"""Tests of JSON patches and merge patches."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.patch.json_patch import (
    DEEPEST,
    json_patch,
    laid_out,
    merge_patch,
    touched_by,
    unknown_members,
)
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from tests.apiserver.ownership.schemas import rows

OBJ: dict[str, Any] = {"a": 1, "l": [1, 2], "o": {"b": {"c": None}, "x/y": 3}}

names = st.sampled_from(["a", "b/c", "~1"])
leaves = st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
objects = st.dictionaries(
    names, st.recursive(leaves, lambda inner: st.dictionaries(names, inner), max_leaves=8)
)


@pytest.mark.parametrize(
    ("operation", "expected"),
    rows("""
append            | {op: add, path: /l/-, value: 3}        | {l: [1, 2, 3]}
insert            | {op: add, path: /l/0, value: 3}        | {l: [3, 1, 2]}
without value     | {op: add, path: /a}                    | {a: null}
remove            | {op: remove, path: /l/0}               | {l: [2]}
replace           | {op: replace, path: /a, value: 2}      | {a: 2}
replace absent    | {op: replace, path: /z, value: 2}      | {z: 2}
escaped           | {op: replace, path: /o/x~1y, value: 4} | {o: {b: {c: null}, x/y: 4}}
test              | {op: test, path: /a, value: 1}         | {}
test absent       | {op: test, path: /z, value: null}      | {}
test null         | {op: test, path: /o/b/c}               | {}
test whole        | {op: test, path: "", value: {a: 1, l: [1, 2], o: {b: {c: null}, x/y: 3}}} | {}
copy              | {op: copy, from: /a, path: /l/0}       | {l: [1, 1, 2]}
copy absent       | {op: copy, from: /z, path: /a}         | {a: null}
move              | {op: move, from: /l/0, path: /o}       | {l: [2], o: 1}
move to itself    | {op: move, from: /a, path: /a}         | {}
remove last       | {op: remove, path: /l/-1}              | {l: [1]}
add last          | {op: add, path: /l/-1, value: 3}       | {l: [1, 2, 3]}
add first         | {op: add, path: /l/-3, value: 3}       | {l: [3, 1, 2]}
signed            | {op: replace, path: /l/+01, value: 3}  | {l: [1, 3]}
no index          | {op: add, path: /o/-1, value: 3}       | {o: {b: {c: null}, x/y: 3, "-1": 3}}
"""),
)
def test_operations(operation: str, expected: str) -> None:
    """They apply leniently, as Kubernetes does it; the object is not changed."""
    before = copy.deepcopy(OBJ)

    assert {**OBJ, **msgspec.yaml.decode(expected)} == json_patch(
        OBJ, [msgspec.yaml.decode(operation)]
    )
    assert before == OBJ == json_patch(OBJ, None)


@pytest.mark.parametrize(
    "operation",
    rows("""
null                  | null
unknown               | {op: jump, path: /a}
no path               | {op: remove}
add whole             | {op: add, path: "", value: {}}
absent parent         | {op: add, path: /z/b, value: 1}
beyond the list       | {op: add, path: /l/3, value: 1}
no index              | {op: add, path: /l/b, value: 1}
within a number       | {op: add, path: /a/b, value: 1}
below a number        | {op: test, path: /a/b/c}
remove absent         | {op: remove, path: /z}
remove beyond         | {op: remove, path: /l/2}
replace beyond        | {op: replace, path: /l/2, value: 1}
no object             | {op: replace, path: "", value: [1]}
test other            | {op: test, path: /a, value: 2}
test boolean          | {op: test, path: /a, value: true}
test beyond           | {op: test, path: /l/7}
move from nothing     | {op: move, path: /b}
move absent           | {op: move, path: /b, from: /z}
into itself           | {op: move, path: /o/b, from: /o}
copy beyond           | {op: copy, path: /b, from: /l/9}
remove before         | {op: remove, path: /l/-3}
remove within nothing | {op: remove, path: /l/-3/-1}
"""),
)
def test_operations_that_do_not_fit(operation: str) -> None:
    """What does not fit the object is answered with 422, and no object is changed."""
    before = copy.deepcopy(OBJ)
    with pytest.raises(StatusError, match="rejected our request due to an error") as caught:
        json_patch(OBJ, [{"op": "add", "path": "/o/n", "value": 1}, msgspec.yaml.decode(operation)])

    assert (422, before) == (caught.value.code, OBJ)


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({}, 400, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], 400, "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], 400, "number into Go struct field jsonPatchOp.op of type string"),
        ([{}] * 10_001, 413, "maximum operations in a JSON patch is 10000, got 10001"),
    ],
)
def test_no_patches(operations: object, code: int, message: str) -> None:
    """What is no patch, or too large a one, is refused before any operation."""
    with pytest.raises(StatusError) as caught:
        json_patch(OBJ, operations)

    assert code == caught.value.code
    assert message in caught.value.message


def at(*path: str) -> str:
    """The path of names."""
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)


def to_become(old: dict[str, Any], new: dict[str, Any], *path: str) -> list[dict[str, Any]]:
    """A plain patch that makes one object of another."""
    patch = [{"op": "remove", "path": at(*path, name)} for name in old.keys() - new.keys()]
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            patch += to_become(old[name], value, *path, name)
        else:
            patch.append({"op": "add", "path": at(*path, name), "value": value})
    return patch


@given(objects, objects)
def test_patches_make_what_they_are_made_from(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A patch made of a difference makes the other object; moves and copies keep values."""
    assert new == json_patch(old, [*to_become(old, new), {"op": "test", "path": "", "value": new}])
    assert new == json_patch(old, [{"op": "replace", "path": "", "value": new}])
    for name in old:
        copied = [
            {"op": "copy", "from": at(name), "path": "/x"},
            {"op": "remove", "path": at(name)},
        ]
        assert json_patch(old, copied) == json_patch(
            old, [{"op": "move", "from": at(name), "path": "/x"}]
        )


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "copy", "from": "/l", "path": "/l/-"}] * 60, id="copies"),
        *(
            pytest.param(
                [
                    {"op": "move", "from": "/a", "path": "/b"},
                    {"op": "add", "path": "/a", "value": {}},
                    {"op": "move", "from": "/b", "path": "/a/a"},
                ]
                * times
                + [{"op": "copy", "from": "/a", "path": "/c"}],
                id=f"depth-{times}",
            )
            for times in (DEEPEST, 3000)
        ),
    ],
)
def test_results_are_bounded(operations: list[dict[str, Any]]) -> None:
    """Copies of copies do not exhaust memory, moves into each other not the stack."""
    with pytest.raises(StatusError) as caught:
        json_patch({"a": {}, "l": ["a"]}, copy.deepcopy(operations))

    assert 422 == caught.value.code


def test_unknown_members() -> None:
    """Members that no operation has are named as warnings do it."""
    assert ('json patch unknown field "[1].bogus"',) == unknown_members([{"op": ""}, {"bogus": 1}])
    assert () == unknown_members(None)


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    rows("""
replaced | {a: b}        | {a: c}          | {a: c}
removed  | {a: b, b: c}  | {a: null}       | {b: c}
text     | {a: [b]}      | {a: c}          | {a: c}
below    | {a: {b: c}}   | {a: {b: d, c: null}} | {a: {b: d}}
list     | {a: [{b: c}]} | {a: [1]}        | {a: [1]}
null     | {e: null}     | {a: 1}          | {e: null, a: 1}
new      | {}            | {a: {bb: {ccc: null}}} | {a: {bb: {}}}
"""),
)
def test_merge_patch(obj: str, patch: str, expected: str) -> None:
    """These are examples of RFC 7386, Appendix A."""
    decode = msgspec.yaml.decode

    assert decode(expected) == merge_patch(decode(obj), decode(patch))


@given(objects, objects)
def test_merging_twice(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    """A patch that is applied twice has no more effect, and changes nothing that it is given."""
    before = copy.deepcopy((obj, patch))
    once = merge_patch(obj, patch)

    assert once == merge_patch(once, patch)
    assert before == (obj, patch)


@pytest.mark.parametrize(
    ("patch", "message"),
    [(None, "Invalid JSON Patch"), ([], "cannot unmarshal array into Go value of type map")],
)
def test_no_merge_patch(patch: object, message: str) -> None:
    """Only objects are merge patches."""
    with pytest.raises(StatusError, match=message) as caught:
        merge_patch({}, patch)

    assert 400 == caught.value.code


INNER = Struct("Inner", (Field("y", Scalar.STRING), Field("x", Scalar.STRING)))
OUTER = Struct(
    "Outer",
    (
        Field("kind", Scalar.STRING),
        Field("inner", INNER),
        Field("many", List(INNER)),
        Field("labels", Map(Scalar.STRING)),
    ),
)
PARTS = {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("type_", "value", "touched", "expected"),
    [
        pytest.param(OUTER, {"inner": PARTS, "kind": 1}, None, "kind inner y x", id="fields"),
        pytest.param(OUTER, {"kind": 1, "inner": PARTS}, {}, "inner y x kind", id="touched"),
        pytest.param(OUTER, {"inner": PARTS}, {"inner": {"x": 5}}, "inner x y", id="below"),
        pytest.param(OUTER, {"labels": {"b": 1, "a": 2}}, None, "labels a b", id="map"),
        pytest.param(OUTER, {"many": [PARTS]}, {"many": {"0": {}}}, "many x y", id="items"),
        pytest.param(OUTER, {"many": [PARTS]}, None, "many y x", id="untouched-items"),
        pytest.param(OUTER, {"z": {"b": 1, "a": 2}, "kind": 1}, None, "kind z b a", id="unknown"),
        pytest.param(Scalar.STRING, {"b": 1, "a": [{"c": 1}]}, None, "b a c", id="wrong-type"),
    ],
)
def test_patched_objects_are_laid_out(
    type_: Type, value: object, touched: object, expected: str
) -> None:
    """What is touched is sorted, the rest in the order of fields."""
    text = json.dumps(laid_out(type_, value, touched))

    assert expected == " ".join(part for part in text.split('"') if part.isalpha())


def test_touched_by() -> None:
    """An operation goes through the parents of what it names."""
    operations = [{"path": "/a/b~1c/d"}, {"from": "/a/e/f", "path": ""}]

    assert {"a": {"b/c": {}, "e": {}}} == touched_by(operations)
    assert {} == touched_by(None)
