"""Tests of patches: JSON, merge and strategic merge patches, and applied configurations."""

from __future__ import annotations

import copy
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.bodies import applied
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.patch.json_patch import (
    DEEPEST,
    json_patch,
    laid_out,
    merge_patch,
    touched_by,
    unknown_members,
)
from apfproxy.apiserver.patch.strategic import strategic_merge
from apfproxy.apiserver.schema.types import structs
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
remove            | {op: remove, path: /l/0}               | {l: [2]}
test              | {op: test, path: /a, value: 1}         | {}
test absent       | {op: test, path: /z, value: null}      | {}
test null         | {op: test, path: /o/b/c}               | {}
test whole        | {op: test, path: "", value: {a: 1, l: [1, 2], o: {b: {c: null}, x/y: 3}}} | {}
copy              | {op: copy, from: /a, path: /l/0}       | {l: [1, 1, 2]}
move              | {op: move, from: /l/0, path: /o}       | {l: [2], o: 1}
move to itself    | {op: move, from: /a, path: /a}         | {}
remove last       | {op: remove, path: /l/-1}              | {l: [1]}
add last          | {op: add, path: /l/-1, value: 3}       | {l: [1, 2, 3]}
add first         | {op: add, path: /l/-3, value: 3}       | {l: [3, 1, 2]}
signed            | {op: replace, path: /l/+01, value: 3}  | {l: [1, 3]}
"""),
)
def test_operations(operation: str, expected: str) -> None:
    before = copy.deepcopy(OBJ)
    assert {**OBJ, **msgspec.yaml.decode(expected)} == json_patch(
        OBJ, [msgspec.yaml.decode(operation)]
    )
    assert before == OBJ == json_patch(OBJ, None)


@pytest.mark.parametrize(
    "operation",
    rows("""
absent parent         | {op: add, path: /z/b, value: 1}
beyond the list       | {op: add, path: /l/3, value: 1}
no index              | {op: add, path: /l/b, value: 1}
within a number       | {op: add, path: /a/b, value: 1}
below a number        | {op: test, path: /a/b/c}
remove beyond         | {op: remove, path: /l/2}
replace beyond        | {op: replace, path: /l/2, value: 1}
no object             | {op: replace, path: "", value: [1]}
test beyond           | {op: test, path: /l/7}
move from nothing     | {op: move, path: /b}
into itself           | {op: move, path: /o/b, from: /o}
copy beyond           | {op: copy, path: /b, from: /l/9}
remove before         | {op: remove, path: /l/-3}
remove within nothing | {op: remove, path: /l/-3/-1}
move what is absent   | {op: move, path: /b, from: /z}
test of another value | {op: test, path: /a, value: 2}
unknown operation     | {op: increase, path: /a}
"""),
)
def test_operations_that_do_not_fit(operation: str) -> None:
    before = copy.deepcopy(OBJ)
    with pytest.raises(StatusError, match="rejected our request due to an error") as caught:
        json_patch(OBJ, [{"op": "add", "path": "/o/n", "value": 1}, msgspec.yaml.decode(operation)])
    assert (422, before) == (caught.value.code, OBJ)


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({}, 400, "object into Go value of type \\[\\]handlers.jsonPatchOp"),
        ([[]], 400, "array into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], 400, "number into Go struct field jsonPatchOp.op of type string"),
        ([{}] * 10_001, 413, "maximum operations in a JSON patch is 10000, got 10001"),
    ],
)
def test_no_patches(operations: object, code: int, message: str) -> None:
    with pytest.raises(StatusError, match=message) as caught:
        json_patch(OBJ, operations)
    assert code == caught.value.code


MOVES = [
    {"op": "move", "from": "/a", "path": "/b"},
    {"op": "add", "path": "/a", "value": {}},
    {"op": "move", "from": "/b", "path": "/a/a"},
]
COPY = {"op": "copy", "from": "/a", "path": "/c"}
DOUBLE = {"op": "copy", "from": "/l", "path": "/l/-"}


@pytest.mark.parametrize(
    "operations",
    [[DOUBLE] * 60, [*MOVES * DEEPEST, COPY], [*MOVES * 3000, COPY]],
    ids=["copies", "deep", "deeper-than-the-stack"],
)
def test_results_are_bounded(operations: list[dict[str, Any]]) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"a": {}, "l": ["a"]}, copy.deepcopy(operations))
    assert 422 == caught.value.code


def test_unknown_members() -> None:
    assert ('json patch unknown field "[1].bogus"',) == unknown_members([{"op": ""}, {"bogus": 1}])
    assert () == unknown_members(None)


@given(objects, objects)
def test_merging_twice(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((obj, patch))
    once = merge_patch(obj, patch)
    assert once == merge_patch(once, patch)
    assert before == (obj, patch)


@pytest.mark.parametrize(
    ("patch", "message"),
    [(None, "Invalid JSON Patch"), ([], "cannot unmarshal array into Go value of type map")],
)
def test_no_merge_patches(patch: object, message: str) -> None:
    with pytest.raises(StatusError, match=message) as caught:
        merge_patch(OBJ, patch)
    assert 400 == caught.value.code


def test_touched_by() -> None:
    operations = [{"path": "/a/b~1c/d"}, {"from": "/a/e/f", "path": ""}]
    assert {"a": {"b/c": {}, "e": {}}} == touched_by(operations)
    assert {} == touched_by(None)


SCHEMA = structs(
    "p",
    """
Thing: -
  name     string                              -
  size     int32                               -
  labels   map[string]string                   -
  inner    Item                                -
  whole    Item               +replaced        -
  by_name  map[string]Item                     -
  items    []Item             +keys=name       -
  plain    []Item                              -
  keyless  []Item             +merged          -
  words    []string           +set +merged     -
  any      any                                 -
  open     Open                                -
Open: -
  +open a b c d x y z
Item: -
  name     string                              -
  value    int32                               -
  args     []string                            -
  ports    []Port             +keys=port       -
Port: -
  port     int32                               -
  name     string                              -
""",
)["Thing"]
INSTRUCTIONS = {
    "$order/": "$setElementOrder/",
    "$delete/": "$deleteFromPrimitiveList/",
    "DELETE": "$patch: delete",
    "REPLACE": "$patch: replace",
}


def read(cell: str) -> Any:  # noqa: ANN401  JSON
    """The value of a cell in YAML, in which `<ab>` stands for the items of these names."""
    for short, long in INSTRUCTIONS.items():
        cell = cell.replace(short, long)
    found = re.sub("<(.*?)>", lambda text: str([{"name": name} for name in text[1]]), cell)
    return msgspec.yaml.decode(found)


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    rows("""
no type | {any: {a: {b: 1}}} | {any: {a: {b: null, d: [1]}}} | {any: {a: {d: [1]}}}
list without type    | {any: {a: [1]}}         | {any: {a: [2]}}            | {any: {a: [2]}}
kept field | {open: {a: {b: 1}}} | {open: {a: {c: 1}}} | {open: {a: {b: 1, c: 1}}}
map of objects | {by_name: {a: {value: 1}}} | {by_name: {a: {name: b}}}
| {by_name: {a: {value: 1, name: b}}}
items by number | {inner: {ports: [{port: 1, name: a}, {port: 2}]}}
| {inner: {ports: [{port: 1, DELETE}, {port: 3}]}} | {inner: {ports: [{port: 3}, {port: 2}]}}
no items at all      | {items: []}             | {items: []}                | {items: []}
atomic               | {plain: <a>}            | {plain: <b>}               | {plain: <b>}
set                  | {words: [b, a]}         | {words: [c, a]}            | {words: [c, b, a]}
delete from set      | {words: [a, b, c]}      | {$delete/words: [a, c, d]} | {words: [b]}
delete from nothing  | {}                      | {$delete/words: [a]}       | {}
delete no list       | {words: [a]}            | {$delete/words: a}         | {words: [a]}
replace object       | {inner: {name: a}}      | {inner: {REPLACE, value: 2}} | {inner: {value: 2}}
delete nothing       | {}                      | {inner: {DELETE}}          | {}
delete everything    | {size: 1}               | {DELETE}                   | {}
delete another type  | {inner: 1}              | {inner: {DELETE}}          | {}
delete item | {items: <ab>} | {items: [{name: a, DELETE}, {name: c, DELETE}]} | {items: <b>}
replace list         | {items: <ab>}           | {items: [{REPLACE}, {name: c}]} | {items: <c>}
empty list           | {items: <ab>}           | {items: [{REPLACE}]}       | {items: []}
retained | {size: 1, flag: true} | {$retainKeys: [size], size: 2, $delete/words: []} | {size: 2}
order alone          | {items: <ab>}           | {$order/items: <ba>}       | {items: <ba>}
order of some        | {items: <abcd>}         | {$order/items: <db>}       | {items: <acdb>}
order with others    | {items: <xab>}          | {$order/items: <ba>}       | {items: <xba>}
order of new item    | {items: <axb>}          | {$order/items: <acb>, items: <c>} | {items: <acxb>}
order of new list    | {}                      | {$order/items: <ba>, items: <ba>} | {items: <ba>}
order of nothing     | {}                      | {$order/items: <a>}        | {}
order of set | {words: [a, b, c]} | {$order/words: [c, d, a], words: [d]} | {words: [b, c, d, a]}
order of null | {words: null} | {$order/words: [], plain: <b>} | {words: null, plain: <b>}
order with deletion | {items: <ab>} | {$order/items: <cb>, items: [{name: a, DELETE}, {name: c}]}
| {items: <cb>}
order of unknown     | {open: {x: <ab>}}       | {open: {$order/x: <c>, x: <c>}} | {open: {x: <c>}}
order of unknown kept | {open: {x: <ab>}}      | {open: {$order/x: <ba>}}   | {open: {x: <ab>}}
"""),
)
def test_strategic_merge(obj: str, patch: str, expected: str) -> None:
    given_ = read(obj), read(patch)
    before = copy.deepcopy(given_)
    assert read(expected) == strategic_merge(SCHEMA, *given_)
    assert before == given_


LAID_OUT = {"size": 1, "new": {"b": 1, "a": 2}, "labels": {"b": "", "a": ""}, "name": "x"}


@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        (None, "name size labels(a b) items(value args) new(b a)"),
        ({"items": {"0": {}}}, "items(args value) labels(a b) name new(b a) size"),
    ],
)
def test_touched_parts_are_in_the_order_of_their_keys(touched: object, expected: str) -> None:
    def below(value: object) -> str:
        if isinstance(value, list):
            return "".join(map(below, value))
        return f"({members(value)})" if isinstance(value, dict) else ""

    def members(value: dict[str, Any]) -> str:
        return " ".join(f"{name}{below(each)}" for name, each in value.items())

    value = {"items": [{"args": [], "value": 1}], **LAID_OUT}
    assert expected == members(laid_out(SCHEMA, value, touched))


orders = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(live=orders, patch=orders)
def test_order_of_patch(live: list[str], patch: list[str]) -> None:
    old, change = ([{"name": name} for name in each] for each in (live, patch))
    merged = [
        each["name"] for each in strategic_merge(SCHEMA, {"items": old}, {"items": change})["items"]
    ]

    assert set(merged) == {*live, *patch}
    assert patch == [name for name in merged if name in patch]
    assert [name for name in live if name not in patch] == [
        name for name in merged if name not in patch
    ]


@pytest.mark.parametrize(
    ("obj", "patch", "code", "message"),
    rows("""
retain | {} | {$retainKeys: a} | 400 | invalid patch format of retainKeys
not retained | {} | {$retainKeys: [a], size: 1} | 400 | invalid patch format of retainKeys
no order     | {}            | {$setElementOrderX/a: []}     | 400 | format of setElementOrder list
order | {} | {$order/items: 1} | 500 | expected a []interface {}, but received a 1
order's list | {items: []} | {$order/items: [], items: {}} | 500
| expected a []interface {}, but received a {}
not in order | {}            | {$order/items: <a>, items: <b>} | 500 | The order in patch list
other order  | {}            | {$order/items: <ab>, items: <ba>} | 500 | The order in patch list
order of any | {} | {$order/bogus: [], bogus: [1]} | 500 | unable to find api field in struct
no map       | {items: <a>}  | {$order/items: [a], items: <a>} | 500 | but received a "a"
deletion | {} | {$deleteFromPrimitiveList: []} | 400 | invalid patch format of primitive list
no key | {items: <a>} | {items: [{value: 1}]} | 500 | map: {"value": 1} does not contain declared
bad key      | {items: <a>}  | {items: [{name: {}}]}         | 500 | no value to compare items by
other type | {items: <a>} | {items: [a]} | 500 | list element types are not identical
merging      | {items: <a>}  | {items: [{$patch: merge}]}    | 500 | merging lists cannot yet
unknown      | {items: <a>}  | {items: [{$patch: null}]}     | 500 | unknown patch type: null
unknown of all | {} | {$patch: merge} | 500 | unknown patch type: merge in map
list of list | {words: [a]} | {words: [[a]]} | 422 | lists of lists are not supported
keyless | {keyless: <a>} | {keyless: <a>} | 500 | cannot merge lists without merge
no field | {bogus: {}} | {bogus: {}} | 500 | in struct Thing for the json field "bogus"
"""),
)
def test_strategic_patches_are_refused(obj: str, patch: str, code: str, message: str) -> None:
    with pytest.raises(StatusError, match=re.escape(message)) as caught:
        strategic_merge(SCHEMA, read(obj), read(patch))
    assert int(code) == caught.value.code


APPLIED = b"kind: FlowSchema\napiVersion: flowcontrol.apiserver.k8s.io/v1\nspec: {rules: []}\n"


def test_applied() -> None:
    twice = APPLIED + b"spec: {}\n"
    found, warnings = applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, APPLIED, "Strict")
    assert ({"rules": []}, []) == (found["spec"], warnings)
    for validation, told in (("Warn", ['duplicate field "spec"']), ("Ignore", [])):
        assert told == applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, validation)[1]
    with pytest.raises(StatusError, match="strict decoding") as error:
        applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, "Strict")
    assert 400 == error.value.code
