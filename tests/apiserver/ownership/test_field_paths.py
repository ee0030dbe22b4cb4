"""Tests of field paths, and of comparing, merging, cutting and checking objects by them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.ownership import field_set
from apfproxy.apiserver.ownership.field_set import (
    DEEPEST,
    FieldSet,
    FieldSetError,
    Path,
    difference,
    in_order,
    intersection,
    parse,
    paths,
    shown,
    union,
)
from apfproxy.apiserver.ownership.typed import (
    LEAF,
    UNTYPED,
    differences,
    fields_of,
    merged,
    node_of,
    with_named_fields,
    without,
    wrong_types,
)
from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, Struct
from tests.apiserver.ownership.schemas import (
    SPEC,
    THING,
    Object,
    configuration,
    of_paths,
    rows,
    specs,
)

ELEMENTS = ("f:a", "f:b", 'k:{"name":"c"}', "v:1", "i:0")
some_paths = st.sets(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple))


def listed(fields: FieldSet) -> set[Path]:
    assert fields == of_paths(*paths(fields))
    return set(paths(fields))


@given(some_paths, some_paths)
def test_sets_of_paths_are_sets(left: set[Path], right: set[Path]) -> None:
    """Parents and children count one by one, and no operation changes its arguments."""
    one, other = of_paths(*left), of_paths(*right)
    assert left | right == listed(union(one, other))
    assert left - right == listed(difference(one, other))
    assert left & right == listed(intersection(one, other))
    assert (left, right) == (listed(one), listed(other))
    assert left & right or one is difference(one, other)


@given(some_paths)
def test_what_is_written_is_read_again(members: set[Path]) -> None:
    """Reading the order of writing changes nothing, not even the order; nor does a difference."""
    written = in_order(of_paths(*members))
    assert of_paths(*members) == written
    assert repr(written) == repr(parse(written))
    for path in members:
        less = difference(written, of_paths(path))
        assert repr(less) == repr(in_order(less))


@pytest.mark.parametrize(
    "elements",
    [
        ["f:a", "f:b"],
        ['k:{"n":1}', 'k:{"p":9}', 'k:{"p":10}', 'k:{"p":"x"}'],
        ["v:9", "v:10", 'v:"b"', "v:true", "v:null"],
        ["f:z", 'k:{"a":1}', "v:1", "i:9", "i:10"],
    ],
)
def test_parsed_sets_are_in_order(elements: list[str]) -> None:
    assert elements == list(parse({element: {} for element in reversed(elements)}))


def test_elements_have_one_form() -> None:
    raw: FieldSet = {'k:{"a":1,"b":2}': {"f:x": {}}, 'k:{"b":2,"a":1}': {".": {}}}
    assert {'k:{"a":1,"b":2}': {".": {}, "f:x": {}}} == parse(raw)
    assert {'k:{"a":"\\u003c","b":1}': {}} == parse({'k:{ "b": 1, "a": "<" }': None})
    assert {"f:a": {}} == parse({"x:future": {}, "f:a": {}, ".": {}})


def nested(depth: int) -> Any:  # noqa: ANN401  JSON
    return {"f:a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param([], r"must be an object, not \[\]", id="list"),
        pytest.param({"f:a": 1}, "must be an object, not 1", id="number-below"),
        pytest.param({"f": {}}, "2 characters", id="short"),
        pytest.param({"fa": {}}, "missing colon", id="no-colon"),
        pytest.param({"v:": {}}, "v:", id="no-value"),
        pytest.param({"v:" + "[" * 5000: {}}, "v:", id="deep-value"),
        pytest.param({"k:1": {}}, "keys must be an object", id="keys-no-object"),
        pytest.param({"i:1.5": {}}, "whole number", id="index-no-integer"),
        pytest.param(nested(DEEPEST), "levels", id="too-deep"),
    ],
)
def test_what_is_no_set_is_refused(raw: object, message: str) -> None:
    with pytest.raises(FieldSetError, match=message):
        parse(raw)


def test_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nested(DEEPEST - 1) == parse(nested(DEEPEST - 1))
    monkeypatch.setattr(field_set, "MOST_ELEMENTS", 3)
    with pytest.raises(FieldSetError, match="3 elements"):
        parse({"f:a": {"f:b": {}}, "f:c": {"f:d": {}}})


NODE = node_of(SPEC)
TCP_ELEMENT = 'k:{"port":80,"protocol":"TCP"}'
ABBREVIATIONS = {
    '[port=80,protocol="TCP"]': "[TCP]",
    '[port=80,protocol="UDP"]': "[UDP]",
    ".ports[TCP] .ports[TCP].port .ports[TCP].protocol": ".ports<TCP>",
}
LONG = {"TCP": "{port: 80, protocol: TCP}", "UDP": "{port: 80, protocol: UDP}"}


def read(cell: str) -> Any:  # noqa: ANN401  JSON
    for name, text in LONG.items():
        cell = cell.replace(f"<{name}>", text).replace(f"<{name}", text[:-1])
    return msgspec.yaml.decode(cell)


def abbreviated(text: str) -> str:
    for long, short in ABBREVIATIONS.items():
        text = text.replace(long, short)
    return text


def told(fields: FieldSet) -> str:
    return abbreviated(" ".join(sorted(map(shown, paths(fields)))))


def node_of_set(text: str) -> FieldSet:
    return fields_of(NODE, read(text))


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    rows("""
new struct         | {}              | {maybe: {left: a}}         | .maybe .maybe.left |
map of structs     | {}              | {groups: {x: {}}}          | .groups .groups.x |
items for null     | {ports: null}   | {ports: [<TCP>]} | .ports<TCP> |
item gone          | {ports: [<TCP>]} | {ports: []} | | .ports<TCP>
twice as before    | {names: [a, a, b]} | {names: [a, a]}         | | .names[="b"]
twice to thrice    | {names: [a, a]} | {names: [a, a, a]}         | .names[="a"] |
twice to once      | {ports: [<TCP>, <TCP>]} | {ports: [<TCP>]} | .ports<TCP> | .ports[TCP]
once to twice      | {ports: [<TCP>]} | {ports: [<TCP>, <TCP>]} | .ports[TCP] | .ports<TCP>
twice to none      | {names: [a, a, b]} | {names: [b]}            | | .names[="a"]
none to twice      | {names: [b]}    | {names: [a, a, b]}         | .names[="a"] |
new list twice     | {}              | {names: [a, a]}            | .names .names[="a"] |
without a type | {any: {a: 1, c: {d: 1}}} | {any: {a: 2, e: {}}} | .any.a .any.e | .any.c .any.c.d
"""),
)
def test_differences_are_those_of_kubernetes(
    old: str, new: str, changed: str, removed: str
) -> None:
    assert (changed, removed) == tuple(map(told, differences(NODE, read(old), read(new))))


def test_named_fields_are_added_to_a_set() -> None:
    fields: FieldSet = {
        "f:groups": {"f:x": {"f:left": {}}},
        "f:ports": {TCP_ELEMENT: {"f:tags": {'v:"a"': {}}}},
        "f:maybe": {".": {}, "f:left": {}},
        "f:bogus": {"f:x": {}},
        "f:size": {"f:x": {}},
    }
    added = difference(with_named_fields(NODE, fields), fields)

    assert ".groups .ports .ports[TCP].tags .size" == told(added)


@pytest.mark.parametrize(
    ("spec", "unwanted", "expected"),
    rows("""
scalar        | {size: 1, title: a}                  | {size: 1} | {title: a}
nothing left  | {size: 1}                            | {size: 1} | null
below         | {size: 1, always: {left: a}}         | {always: {left: a}} | {size: 1, always: null}
empty         | {size: 1, limits: {}}                | {limits: {a: 1}} | {size: 1, limits: null}
item of a set | {names: [a, b]}                      | {names: [a]} | {names: [b]}
untyped       | {any: {a: {b: 1}, c: [1]}}           | {any: {a: {b: 1}}} | {any: {c: [1]}}
last item     | {ports: [<TCP>]}                     | {ports: [<TCP>]} | {ports: null}
unknown       | {bogus: 1}                           | {bogus: 1} | {bogus: 1}
"""),
)
def test_cutting_leaves_the_rest(spec: str, unwanted: str, expected: str) -> None:
    assert read(expected) == without(NODE, read(spec), node_of_set(unwanted))


def test_below_leaves_nothing_can_be_cut() -> None:
    """Clients may claim to own what is in a leaf, or a field of an item alone."""
    unwanted: FieldSet = {
        "f:size": {"f:x": {}},
        "f:words": {"i:0": {}},
        "f:ports": {TCP_ELEMENT: {"f:name": {}}},
        "f:any": {"f:a": {"f:b": {}}},
    }
    spec = read("{size: 1, words: [a], ports: [<TCP, name: a}], any: {a: {b: 1}}}")

    expected = read("{size: 1, words: null, ports: [<TCP>], any: {a: null}}")
    assert expected == without(NODE, spec, unwanted)


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    rows("""
items          | {ports: [<TCP>, <UDP>]} | {ports: [<TCP, x: 1}]} | {ports: [<TCP>, <UDP>]}
null for items | {names: [a]}            | {names: null}         | {names: [a]}
unknown        | {size: 1}               | {bogus: 1}            | {size: 1}
no item        | {names: [a, b, c]}      | {names: []}           | {names: [a, b, c]}
new order      | {names: [a, b, c]}      | {names: [c, b, a]}    | {names: [c, b, a]}
last           | {names: [a, b]}         | {names: [d]}          | {names: [a, b, d]}
after live     | {names: [a, b, c]}      | {names: [b, x, d]}    | {names: [a, b, c, x, d]}
before next    | {names: [a, b, c]}      | {names: [x, b]}       | {names: [a, x, b, c]}
others stay    | {names: [a, b, x]}      | {names: [b, a, y]}    | {names: [b, x, a, y]}
twice to once  | {names: [a, a, b]}      | {names: [a]}          | {names: [a, b]}
twice stays    | {names: [a, a, b]}      | {names: [b]}          | {names: [a, a, b]}
"""),
)
def test_merging_keeps_what_is_not_applied(live: str, applied: str, expected: str) -> None:
    assert read(expected) == merged(NODE, read(live), read(applied))


@given(specs, specs)
def test_what_is_merged_has_all_of_both(live: Object, applied: Object) -> None:
    result = merged(NODE, live, applied)
    fields = with_named_fields(NODE, fields_of(NODE, result))
    assert {} == difference(fields_of(NODE, applied), fields)
    assert result == merged(NODE, result, applied)


ITEM = Struct(
    "Item",
    (
        Field("key", Scalar.INT32, is_required=True, is_always_written=True),
        Field("other", Scalar.STRING),
    ),
)
PORTS = node_of(SPEC.by_name["ports"].type)


def test_nodes_follow_types() -> None:
    open_struct = Struct("A", (Field("a", Scalar.STRING),), kept=frozenset({"b"}))
    node = node_of(open_struct)
    assert [] == list(wrong_types(open_struct, {"b": 1}))
    assert [".c: field not declared in schema"] == list(wrong_types(open_struct, {"c": 1}))
    (wrong,) = wrong_types(SPEC, {"limits": {"a": {}}})
    assert wrong.startswith(".limits.a: expected any scalar")
    keyed = node_of(List(ITEM, ListType.MAP, ("key",)))

    assert [LEAF] * 2 == [node_of(List(ITEM, None)), node_of(Struct("A", (), is_atomic=True))]
    assert [("f:a", LEAF), ("f:b", UNTYPED), None] == [node.at(key) for key in "abc"]
    assert UNTYPED is UNTYPED.below("f:x")
    assert 'k:{"key":0}' == keyed.element({"other": "x"})
    assert ['k:{"port":80,"protocol":"TCP"}'] == [PORTS.element({"port": 80, "name": "x"})]
    assert [""] == [told(fields_of(node_of(open_struct, (("b",), ("a",))), {"a": "x"}))]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"ports": 1}, ".spec.ports: expected list, got &{1}"),
        ({"title": 1}, ".spec.title: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"names": [{}]},
            (
                ".spec.names: element 0: "
                "associative list without keys has an element that's a map type"
            ),
        ),
    ],
)
def test_wrong_types_are_told_in_the_words_of_go(spec: Object, expected: str) -> None:
    assert [expected] == list(wrong_types(THING, configuration(**spec)))


def test_items_have_their_own_keys() -> None:
    for node in (PORTS, node_of(List(Map(Scalar.ANY), ListType.MAP, ("port",)))):
        with pytest.raises(FieldSetError, match='omits key field "port"'):
            node.element({})
    with pytest.raises(FieldSetError, match="map"):
        node_of(SPEC.by_name["names"].type).element({})
    with pytest.raises(FieldSetError, match="may not have non-map elements"):
        PORTS.element(1)
    twice = configuration(ports=read("[<TCP>, {port: 80}]"))
    told_ = abbreviated(" ".join(wrong_types(THING, twice)))
    assert ".spec.ports: duplicate entries for key [TCP]" == told_
