"""Tests of comparing, merging and cutting objects by how they are owned."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.ownership.field_set import FieldSet, difference, of_paths, paths
from apfproxy.apiserver.ownership.structure import node_of, structure
from apfproxy.apiserver.ownership.typed import (
    ABSENT,
    STRIPPED,
    compare_objects,
    everything,
    fields_of,
    merged,
    pruned,
    with_named_fields,
    without,
)
from tests.apiserver.ownership.schemas import SPEC, THING, thing

NODE = node_of(SPEC)
TCP = {"port": 80, "protocol": "TCP"}
UDP = {"port": 80, "protocol": "UDP"}
TCP_ELEMENT = 'k:{"port":80,"protocol":"TCP"}'
UDP_ELEMENT = 'k:{"port":80,"protocol":"UDP"}'

texts = st.sampled_from(["", "a", "b", "c"])
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "name": texts,
            "ready": st.booleans(),
            "tags": st.lists(texts, unique=True, max_size=2),
        },
    ),
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
    max_size=3,
)
pairs = st.fixed_dictionaries({}, optional={"left": texts, "right": texts})
maps = st.dictionaries(texts, texts, max_size=2)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "title": texts,
        "always": pairs,
        "maybe": st.none() | pairs,
        "limits": maps,
        "groups": st.dictionaries(texts, pairs, max_size=2),
        "choices": maps,
        "words": st.lists(texts, max_size=2),
        "names": st.lists(texts, unique=True, max_size=3),
        "ports": st.none() | ports,
    },
)


def compared(old: dict[str, Any], new: dict[str, Any]) -> tuple[FieldSet, FieldSet]:
    """What differs between two specs."""
    changed, removed = compare_objects(structure(THING), thing(**old), thing(**new), STRIPPED)
    return changed.get("f:spec", {}), removed.get("f:spec", {})


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        pytest.param({}, {}, {}, {}, id="nothing"),
        pytest.param({"size": 1}, {"size": 2}, {"f:size": {}}, {}, id="modified-scalar"),
        pytest.param({}, {"title": "a"}, {"f:title": {}}, {}, id="added-scalar"),
        pytest.param({"title": "a"}, {}, {}, {"f:title": {}}, id="removed-scalar"),
        pytest.param({}, {"when": None}, {"f:when": {}}, {}, id="added-null"),
        pytest.param(
            {}, {"always": {"left": "a"}}, {"f:always": {"f:left": {}}}, {}, id="struct-was-there"
        ),
        pytest.param(
            {},
            {"maybe": {"left": "a"}},
            {"f:maybe": {".": {}, "f:left": {}}},
            {},
            id="struct-was-not-there",
        ),
        pytest.param({}, {"maybe": {}}, {"f:maybe": {}}, {}, id="empty-struct"),
        pytest.param({"maybe": None}, {"maybe": {}}, {"f:maybe": {}}, {}, id="null-to-empty"),
        pytest.param(
            {"whole": {"a": "b"}}, {"whole": {"a": "c"}}, {"f:whole": {}}, {}, id="atomic-struct"
        ),
        pytest.param(
            {"limits": {"a": "1", "b": "1"}},
            {"limits": {"b": "2", "c": "1"}},
            {"f:limits": {"f:b": {}, "f:c": {}}},
            {"f:limits": {"f:a": {}}},
            id="map",
        ),
        pytest.param(
            {}, {"groups": {"x": {}}}, {"f:groups": {".": {}, "f:x": {}}}, {}, id="map-of-structs"
        ),
        pytest.param(
            {"choices": {"a": "1"}}, {"choices": {}}, {"f:choices": {}}, {}, id="atomic-map"
        ),
        pytest.param({"words": ["a"]}, {"words": ["b"]}, {"f:words": {}}, {}, id="atomic-list"),
        pytest.param(
            {"names": ["a", "b"]},
            {"names": ["c", "b"]},
            {"f:names": {'v:"c"': {}}},
            {"f:names": {'v:"a"': {}}},
            id="set",
        ),
        pytest.param({"names": ["a", "b"]}, {"names": ["b", "a"]}, {}, {}, id="order-of-a-set"),
        pytest.param(
            {"ports": None},
            {"ports": [TCP]},
            {"f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}, "f:protocol": {}}}},
            {},
            id="items-for-null",
        ),
        pytest.param(
            {"ports": [{**TCP, "name": "a"}, UDP]},
            {"ports": [{**TCP, "name": "b"}]},
            {"f:ports": {TCP_ELEMENT: {"f:name": {}}}},
            {"f:ports": {UDP_ELEMENT: {".": {}, "f:port": {}, "f:protocol": {}}}},
            id="items",
        ),
        pytest.param(
            {"names": ["a", "a", "b"]},
            {"names": ["a", "a"]},
            {},
            {"f:names": {'v:"b"': {}}},
            id="twice-as-before",
        ),
        pytest.param(
            {"names": ["a", "a"]},
            {"names": ["a", "a", "a"]},
            {"f:names": {'v:"a"': {}}},
            {},
            id="twice-to-thrice",
        ),
        pytest.param(
            {"ports": [TCP, TCP]},
            {"ports": [TCP]},
            {"f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}, "f:protocol": {}}}},
            {"f:ports": {TCP_ELEMENT: {}}},
            id="twice-to-once",
        ),
        pytest.param(
            {"names": ["a", "a", "b"]},
            {"names": ["b"]},
            {},
            {"f:names": {'v:"a"': {}}},
            id="twice-to-none",
        ),
        pytest.param(
            {"ports": [TCP]},
            {"ports": [TCP, TCP]},
            {"f:ports": {TCP_ELEMENT: {}}},
            {"f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}, "f:protocol": {}}}},
            id="once-to-twice",
        ),
        pytest.param(
            {"names": ["b"]},
            {"names": ["a", "a", "b"]},
            {"f:names": {'v:"a"': {}}},
            {},
            id="none-to-twice",
        ),
        pytest.param(
            {}, {"names": ["a", "a"]}, {"f:names": {".": {}, 'v:"a"': {}}}, {}, id="new-list-twice"
        ),
        pytest.param(
            {"limits": {"a": "1"}},
            {"bogus": 1},
            {},
            {"f:limits": {".": {}, "f:a": {}}},
            id="unknown-fields-do-not-count",
        ),
        pytest.param(
            {"any": {"a": 1, "b": [1], "c": {"d": 1}}},
            {"any": {"a": 2, "b": [1, 2], "e": {"f": {}}}},
            {"f:any": {"f:a": {}, "f:b": {}, "f:e": {".": {}, "f:f": {}}}},
            {"f:any": {"f:c": {".": {}, "f:d": {}}}},
            id="without-a-type",
        ),
        pytest.param({"any": 1}, {"any": {"a": 1}}, {"f:any": {}}, {}, id="object-for-a-number"),
    ],
)
def test_differences_are_those_of_kubernetes(
    old: dict[str, Any], new: dict[str, Any], changed: FieldSet, removed: FieldSet
) -> None:
    """Leaves, items and keys are compared one by one; what is new or gone counts with all in it."""
    assert (changed, removed) == compared(old, new)


def test_unknown_fields_are_owned_by_nobody() -> None:
    """What the description does not have is passed over, wherever it is."""
    bogus = {"maybe": {"bogus": 1}}

    assert ({"f:maybe": {".": {}}}, {}) == compared({}, bogus)
    assert ({}, {}) == compared(bogus, {"maybe": {"bogus": 2}})
    assert {} == fields_of(NODE, {"bogus": 1})


def test_metadata_that_the_server_sets_does_not_count() -> None:
    """Nobody owns names, identity or versions."""
    old, new = thing(), thing()
    new["metadata"] = {"name": "two", "uid": "u", "labels": {"a": "b"}, "generation": 4}

    assert ({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}, {}) == compare_objects(
        structure(THING), old, new, STRIPPED
    )


def test_an_object_may_have_no_metadata() -> None:
    """Metadata that is missing or null is empty."""
    one, other = thing(size=1), {**thing(size=1), "metadata": None}
    del one["metadata"], one["status"], other["status"]

    assert ({}, {}) == compare_objects(structure(THING), one, other, STRIPPED)


def test_what_does_not_count_is_left_out() -> None:
    """Fields of the root can be passed over."""
    assert ({}, {}) == compare_objects(
        structure(THING), thing(), thing(size=1), frozenset({"spec", "metadata"})
    )


@given(specs, specs)
def test_differences_are_in_one_of_the_objects(old: dict[str, Any], new: dict[str, Any]) -> None:
    """What is added or modified is in the new object, what is removed in the old one."""
    changed, removed = compared(old, new)

    assert {} == difference(changed, everything(NODE, thing(**new)["spec"]))
    assert {} == difference(removed, everything(NODE, thing(**old)["spec"]))


@given(specs)
def test_an_object_differs_not_from_itself(spec: dict[str, Any]) -> None:
    """There is nothing between an object and its copy."""
    assert ({}, {}) == compared(spec, copy.deepcopy(spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"size": 1}, {"f:size": {}}, id="scalar"),
        pytest.param({"size": None}, {"f:size": {}}, id="null"),
        pytest.param({"always": {"left": "a"}}, {"f:always": {"f:left": {}}}, id="struct"),
        pytest.param({"always": {}}, {"f:always": {}}, id="empty-struct"),
        pytest.param({"always": None}, {"f:always": {}}, id="null-struct"),
        pytest.param({"words": []}, {"f:words": {}}, id="empty-atomic-list"),
        pytest.param({"names": []}, {}, id="empty-set"),
        pytest.param({"names": None}, {"f:names": {}}, id="null-set"),
        pytest.param({"names": ["a", "a"]}, {"f:names": {'v:"a"': {}}}, id="twice"),
        pytest.param({"limits": {"a": "1"}}, {"f:limits": {"f:a": {}}}, id="map"),
        pytest.param(
            {"groups": {"a": {"left": "x"}, "b": {}}},
            {"f:groups": {"f:a": {".": {}, "f:left": {}}, "f:b": {}}},
            id="map-of-structs",
        ),
        pytest.param(
            {"ports": [{"port": 80, "tags": []}]},
            {"f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}}}},
            id="items",
        ),
        pytest.param({"any": [1]}, {"f:any": {}}, id="list-without-a-type"),
        pytest.param(
            {"any": {"a": {"b": [1]}, "c": 0}},
            {"f:any": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}},
            id="without-a-type",
        ),
    ],
)
def test_applied_fields_are_those_of_kubernetes(spec: dict[str, Any], expected: FieldSet) -> None:
    """Leaves, items and keys are owned; structs and lists are so only by what is in them."""
    assert expected == fields_of(NODE, spec)


def test_named_fields_are_added_to_a_set() -> None:
    """Structs, maps and lists are members when something in them is; map keys are not."""
    fields = of_paths(
        ("f:groups", "f:x", "f:left"),
        ("f:ports", TCP_ELEMENT, "f:tags", 'v:"a"'),
        ("f:maybe",),
        ("f:maybe", "f:left"),
        ("f:bogus", "f:x"),
        ("f:size", "f:x", "f:y"),
    )
    named = of_paths(("f:groups",), ("f:ports",), ("f:ports", TCP_ELEMENT, "f:tags"), ("f:size",))

    assert {*paths(fields), *paths(named)} == set(paths(with_named_fields(NODE, fields)))


@pytest.mark.parametrize(
    ("spec", "unwanted", "expected"),
    [
        pytest.param({"size": 1, "title": "a"}, [("f:size",)], {"title": "a"}, id="scalar"),
        pytest.param({"size": 1}, [("f:size",)], None, id="nothing-left"),
        pytest.param(
            {"size": 1, "always": {"left": "a"}},
            [("f:always", "f:left")],
            {"size": 1, "always": None},
            id="nothing-left-below",
        ),
        pytest.param(
            {"size": 1, "limits": {}},
            [("f:limits", "f:a")],
            {"size": 1, "limits": None},
            id="empty",
        ),
        pytest.param(
            {"names": ["a", "b"]}, [("f:names", 'v:"a"')], {"names": ["b"]}, id="item-of-a-set"
        ),
        pytest.param(
            {"ports": [{**TCP, "name": "a"}, UDP]},
            [("f:ports", TCP_ELEMENT, "f:name")],
            {"ports": [TCP, UDP]},
            id="field-of-an-item",
        ),
        pytest.param({"ports": [TCP]}, [("f:ports", TCP_ELEMENT)], {"ports": None}, id="last-item"),
        pytest.param(
            {"size": 1, "words": ["a"]},
            [("f:size", "f:x"), ("f:words", "i:0")],
            {"size": 1, "words": None},
            id="below-leaves",
        ),
        pytest.param({"bogus": 1}, [("f:bogus",)], {"bogus": 1}, id="unknown"),
        pytest.param(
            {"any": {"a": {"b": 1}, "c": [1]}},
            [("f:any", "f:a", "f:b")],
            {"any": {"a": None, "c": [1]}},
            id="without-a-type",
        ),
    ],
)
def test_cutting_leaves_the_rest(
    spec: dict[str, Any], unwanted: list[tuple[str, ...]], expected: object
) -> None:
    """Members of the set go with all that is in them."""
    assert expected == without(NODE, spec, of_paths(*unwanted))


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        pytest.param({"size": 1}, {"size": 2}, {"size": 2}, id="scalar"),
        pytest.param({"size": 1}, {"title": "a"}, {"size": 1, "title": "a"}, id="added"),
        pytest.param({"limits": {"a": "1"}}, {"limits": None}, {"limits": {"a": "1"}}, id="null"),
        pytest.param({"limits": None}, {"limits": {}}, {"limits": {}}, id="empty-for-null"),
        pytest.param(
            {"limits": {"a": "1"}},
            {"limits": {"b": "2"}},
            {"limits": {"a": "1", "b": "2"}},
            id="map",
        ),
        pytest.param({"words": ["a"]}, {"words": ["b"]}, {"words": ["b"]}, id="atomic-list"),
        pytest.param(
            {"ports": [{**TCP, "name": "a"}, UDP]},
            {"ports": [{**TCP, "ready": True}]},
            {"ports": [{**TCP, "name": "a", "ready": True}, UDP]},
            id="items",
        ),
        pytest.param({"ports": None}, {"ports": [TCP]}, {"ports": [TCP]}, id="items-for-null"),
        pytest.param({"names": ["a"]}, {"names": None}, {"names": ["a"]}, id="null-for-items"),
        pytest.param({"size": 1}, {"bogus": 1}, {"size": 1}, id="unknown"),
        pytest.param(
            {"any": {"a": 1, "b": {"c": 1}, "d": {"e": 1}}},
            {"any": {"b": {"f": 1}, "d": [1]}},
            {"any": {"a": 1, "b": {"c": 1, "f": 1}, "d": [1]}},
            id="without-a-type",
        ),
    ],
)
def test_merging_keeps_what_is_not_applied(
    live: dict[str, Any], applied: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Leaves are replaced; maps and lists that are owned by their items are merged."""
    assert expected == merged(NODE, live, applied)


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        pytest.param("abc", "", "abc", id="nothing-applied"),
        pytest.param("abc", "cba", "cba", id="new-order"),
        pytest.param("abc", "d", "abcd", id="new-item-last"),
        pytest.param("abc", "bxd", "abcxd", id="new-items-after-what-is-live"),
        pytest.param("abc", "xb", "axbc", id="new-items-before-what-follows-them"),
        pytest.param("abx", "bay", "bxay", id="others-stay-where-they-were"),
        pytest.param("", "ab", "ab", id="nothing-live"),
        pytest.param("aab", "a", "ab", id="twice-becomes-once"),
        pytest.param("aab", "b", "aab", id="twice-stays"),
    ],
)
def test_merged_items_keep_the_order_applied(live: str, applied: str, expected: str) -> None:
    """Items that are applied come in their order, the others stay where they were."""
    result = merged(NODE, {"names": list(live)}, {"names": list(applied)})

    assert list(expected) == result["names"]


@given(specs, specs)
def test_what_is_merged_has_all_of_both(live: dict[str, Any], applied: dict[str, Any]) -> None:
    """Nothing that is owned on either side is lost, and merging again changes nothing."""
    result = merged(NODE, live, applied)
    fields = fields_of(NODE, result)

    assert {} == difference(fields_of(NODE, applied), with_named_fields(NODE, fields))
    assert result == merged(NODE, result, applied)
    assert merged(NODE, live, ABSENT) is live


def test_pruning_takes_only_what_nobody_owns() -> None:
    """What was applied before goes; what others own stays, and so does what nobody ever owned."""
    value = {
        "size": 1,
        "title": "kept",
        "limits": {"mine": "1", "theirs": "2", "nobody": "3"},
        "ports": [TCP, {**UDP, "name": "theirs", "ready": True}],
    }
    last = of_paths(
        ("f:size",),
        ("f:limits", "f:mine"),
        ("f:limits", "f:theirs"),
        ("f:ports", TCP_ELEMENT),
        ("f:ports", UDP_ELEMENT),
        ("f:ports", UDP_ELEMENT, "f:ready"),
    )
    owned = of_paths(
        ("f:limits", "f:theirs"),
        ("f:ports", UDP_ELEMENT),
        ("f:ports", UDP_ELEMENT, "f:port"),
        ("f:ports", UDP_ELEMENT, "f:protocol"),
        ("f:ports", UDP_ELEMENT, "f:name"),
    )

    assert {
        "title": "kept",
        "limits": {"theirs": "2", "nobody": "3"},
        "ports": [{**UDP, "name": "theirs"}],
    } == pruned(NODE, value, last, owned)


def test_pruning_nothing_gives_the_value_itself() -> None:
    """Who still applies all that he applied before removes nothing."""
    value = {"size": 1}

    assert value is pruned(NODE, value, {"f:size": {}}, {"f:size": {}, "f:title": {}})
