"""Tests of `apfproxy.apiserver.patch.strategic`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.patch.errors import PatchError
from apfproxy.apiserver.patch.merge import DEEPEST
from apfproxy.apiserver.patch.strategic import strategic_merge
from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, Struct

PORT = Struct("Port", (Field("port", Scalar.INT32), Field("name", Scalar.STRING)))
ITEM = Struct(
    "Item",
    (
        Field("name", Scalar.STRING),
        Field("value", Scalar.INT32),
        Field("args", List(Scalar.STRING)),
        Field("labels", Map(Scalar.STRING)),
        Field("ports", List(PORT, ListType.MAP, ("port",), "port", is_merged=True)),
    ),
)
SCHEMA = Struct(
    "Thing",
    (
        Field("name", Scalar.STRING),
        Field("size", Scalar.INT32),
        Field("labels", Map(Scalar.STRING)),
        Field("inner", ITEM),
        Field("by_name", Map(ITEM)),
        Field("items", List(ITEM, ListType.MAP, ("name",), "name", is_merged=True)),
        Field("plain", List(ITEM)),
        Field("keyless", List(ITEM, is_merged=True)),
        Field("words", List(Scalar.STRING, ListType.SET, is_merged=True)),
        Field("any", Scalar.ANY),
        Field("open", Struct("Open", (), keeps_unknown=True)),
    ),
)


def items(*names: str) -> list[dict[str, Any]]:
    """Items with nothing but names."""
    return [{"name": name} for name in names]


def named(obj: dict[str, Any]) -> str:
    """The names of an object's items."""
    return "".join(item["name"] for item in obj["items"])


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param({"size": 1}, {"size": 2}, {"size": 2}, id="value"),
        pytest.param({"size": 1}, {"size": None, "name": None}, {}, id="null"),
        pytest.param({"size": 1}, {"size": "a"}, {"size": "a"}, id="another-type"),
        pytest.param({}, {"bogus": {"a": 1}}, {"bogus": {"a": 1}}, id="unknown-field"),
        pytest.param(
            {"labels": {"a": "1", "b": "2"}},
            {"labels": {"b": None, "c": "3"}},
            {"labels": {"a": "1", "c": "3"}},
            id="map",
        ),
        pytest.param({}, {"labels": {"b": None}}, {"labels": {}}, id="null-within-nothing"),
        pytest.param(
            {"any": {"a": {"b": 1}, "c": [1]}},
            {"any": {"a": {"b": None, "d": 1}, "c": [2]}},
            {"any": {"a": {"d": 1}, "c": [2]}},
            id="without-a-type",
        ),
        pytest.param(
            {"open": {"a": {"b": 1}}},
            {"open": {"a": {"c": 1}}},
            {"open": {"a": {"b": 1, "c": 1}}},
            id="kept-field",
        ),
        pytest.param({"labels": None}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}, id="no-map"),
        pytest.param(
            {"by_name": {"a": {"value": 1}}},
            {"by_name": {"a": {"name": "b"}}},
            {"by_name": {"a": {"value": 1, "name": "b"}}},
            id="map-of-objects",
        ),
        pytest.param(
            {"items": [{"name": "a", "value": 1}, {"name": "b"}]},
            {"items": [{"name": "b", "value": 2}, {"name": "a", "args": ["x"]}]},
            {"items": [{"name": "b", "value": 2}, {"name": "a", "value": 1, "args": ["x"]}]},
            id="items",
        ),
        pytest.param(
            {"items": items("a")},
            {"items": [{"name": "b", "value": None}, {"name": "b", "value": 2}]},
            {"items": [{"name": "b", "value": 2}, {"name": "a"}]},
            id="new-item-twice",
        ),
        pytest.param(
            {"inner": {"ports": [{"port": 1, "name": "a"}, {"port": 2}]}},
            {"inner": {"ports": [{"port": 1, "$patch": "delete"}, {"port": 3}]}},
            {"inner": {"ports": [{"port": 3}, {"port": 2}]}},
            id="items-by-number",
        ),
        pytest.param({"items": items("a")}, {"items": []}, {"items": items("a")}, id="no-items"),
        pytest.param({"items": []}, {"items": []}, {"items": []}, id="no-items-at-all"),
        pytest.param(
            {"plain": items("a")}, {"plain": items("b")}, {"plain": items("b")}, id="atomic"
        ),
        pytest.param(
            {"words": ["b", "a"]}, {"words": ["c", "a"]}, {"words": ["c", "b", "a"]}, id="set"
        ),
        pytest.param(
            {"words": ["a", "b", "c"]},
            {"$deleteFromPrimitiveList/words": ["a", "c", "d"]},
            {"words": ["b"]},
            id="delete-from-set",
        ),
        pytest.param({}, {"$deleteFromPrimitiveList/words": ["a"]}, {}, id="delete-from-nothing"),
        pytest.param(
            {"words": ["a"]},
            {"$deleteFromPrimitiveList/words": "a"},
            {"words": ["a"]},
            id="delete-no-list",
        ),
        pytest.param(
            {"inner": {"name": "a", "value": 1}},
            {"inner": {"$patch": "replace", "value": 2}},
            {"inner": {"value": 2}},
            id="replace-object",
        ),
        pytest.param(
            {"inner": {"name": "a"}},
            {"inner": {"$patch": "delete"}},
            {"inner": {}},
            id="delete-object",
        ),
        pytest.param({}, {"inner": {"$patch": "delete"}}, {}, id="delete-nothing"),
        pytest.param({"inner": 1}, {"inner": {"$patch": "delete"}}, {}, id="delete-another-type"),
        pytest.param(
            {},
            {"items": [{"name": "a", "$patch": "delete"}, {"name": "b"}]},
            {"items": items("b")},
            id="delete-within-nothing",
        ),
        pytest.param(
            {"items": items("a", "b")},
            {"items": [{"name": "a", "$patch": "delete"}, {"name": "c", "$patch": "delete"}]},
            {"items": items("b")},
            id="delete-item",
        ),
        pytest.param(
            {"items": items("a", "b")},
            {"items": [{"$patch": "replace"}, {"name": "c"}]},
            {"items": items("c")},
            id="replace-list",
        ),
        pytest.param(
            {"items": items("a", "b")},
            {"items": [{"$patch": "replace"}]},
            {"items": []},
            id="empty-list",
        ),
        pytest.param(
            {"inner": {"name": "a", "value": 1, "args": ["x"]}},
            {"inner": {"$retainKeys": ["name", "value"], "value": 2, "args": None}},
            {"inner": {"name": "a", "value": 2}},
            id="retain-keys",
        ),
        pytest.param(
            {"items": items("a", "b")},
            {"$setElementOrder/items": items("b", "a")},
            {"items": items("b", "a")},
            id="order-alone",
        ),
        pytest.param(
            {},
            {"$setElementOrder/items": items("b", "a"), "items": items("b", "a")},
            {"items": items("b", "a")},
            id="order-of-new-list",
        ),
        pytest.param({}, {"$setElementOrder/items": items("a")}, {}, id="order-of-nothing"),
        pytest.param(
            {"words": ["a", "b", "c"]},
            {"$setElementOrder/words": ["c", "d", "a"], "words": ["d"]},
            {"words": ["b", "c", "d", "a"]},
            id="order-of-set",
        ),
        pytest.param(
            {"plain": items("a")},
            {"$setElementOrder/words": [], "plain": items("b")},
            {"plain": items("b")},
            id="empty-order",
        ),
        pytest.param(
            {"open": {"unknown": items("a", "b")}},
            {"open": {"$setElementOrder/unknown": items("c"), "unknown": items("c")}},
            {"open": {"unknown": items("c")}},
            id="order-of-unknown-list",
        ),
        pytest.param(
            {"open": {"unknown": items("a", "b")}},
            {"open": {"$setElementOrder/unknown": items("b", "a")}},
            {"open": {"unknown": items("a", "b")}},
            id="order-of-unknown-list-alone",
        ),
    ],
)
def test_strategic_merge(
    obj: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Members, items and instructions are merged; neither object nor patch is changed."""
    before = copy.deepcopy((obj, patch))

    assert expected == strategic_merge(SCHEMA, obj, patch)
    assert before == (obj, patch)


@pytest.mark.parametrize(
    ("live", "patch", "order", "expected"),
    [
        ("ab", "", "ba", "ba"),
        ("abcd", "", "db", "acdb"),
        ("ab", "c", "cab", "cab"),
        ("ab", "c", "acb", "acb"),
        ("axb", "c", "acb", "acxb"),
        ("xab", "", "ba", "xba"),
    ],
)
def test_order(live: str, patch: str, order: str, expected: str) -> None:
    """Named items have the order that is asked for, others stay before what they were before."""
    change: dict[str, Any] = {"$setElementOrder/items": items(*order)}
    if patch:
        change["items"] = items(*patch)

    assert expected == named(strategic_merge(SCHEMA, {"items": items(*live)}, change))


names = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(live=names, patch=names)
def test_order_of_patch(live: list[str], patch: list[str]) -> None:
    """The patch's items have its order, all others theirs, and none is lost."""
    obj, change = {"items": items(*live)}, {"items": items(*patch)}
    merged = named(strategic_merge(SCHEMA, obj, change))

    assert set(merged) == {*live, *patch}
    assert patch == [name for name in merged if name in patch]
    assert [name for name in live if name not in patch] == [
        name for name in merged if name not in patch
    ]


@given(live=names, patch=names)
def test_twice(live: list[str], patch: list[str]) -> None:
    """A patch that is applied twice has no more effect than once."""
    change = {"items": items(*patch)}
    once = strategic_merge(SCHEMA, {"items": items(*live)}, change)

    assert {item["name"] for item in once["items"]} == {
        item["name"] for item in strategic_merge(SCHEMA, once, change)["items"]
    }


@pytest.mark.parametrize(
    ("obj", "patch", "code", "message"),
    [
        ({}, {"$patch": "merge"}, 500, "unknown patch type: merge in map"),
        ({}, {"$retainKeys": "a"}, 400, "invalid patch format of retainKeys"),
        ({}, {"$retainKeys": ["a"], "size": 1}, 400, "invalid patch format of retainKeys"),
        ({}, {"$setElementOrderX/a": []}, 400, "invalid patch format of setElementOrder list"),
        ({}, {"$setElementOrder/items": 1}, 500, "expected a []interface {}, but received a 1"),
        (
            {"items": []},
            {"$setElementOrder/items": [], "items": 1},
            500,
            "expected a []interface {}, but received a 1",
        ),
        (
            {},
            {"$setElementOrder/items": items("a"), "items": items("b")},
            500,
            "The order in patch list",
        ),
        (
            {},
            {"$setElementOrder/items": items("a", "b"), "items": items("b", "a")},
            500,
            "The order in patch list",
        ),
        (
            {},
            {"$setElementOrder/bogus": [], "bogus": [1]},
            500,
            "unable to find api field in struct",
        ),
        ({}, {"$deleteFromPrimitiveList": []}, 400, "invalid patch format of primitive list"),
        (
            {"items": items("a")},
            {"items": [{"value": 1}]},
            500,
            'map: {"value": 1} does not contain declared merge key: name',
        ),
        (
            {"items": items("a")},
            {"items": [{"$patch": "delete"}]},
            500,
            "does not contain declared merge key: name",
        ),
        ({"items": items("a")}, {"items": [{"name": {}}]}, 500, "no value to compare items by"),
        ({"items": items("a")}, {"items": ["a"]}, 500, "list element types are not identical"),
        ({"items": items("a")}, {"items": [{"$patch": "merge"}]}, 500, "merging lists cannot yet"),
        ({"items": items("a")}, {"items": [{"$patch": None}]}, 500, "unknown patch type: null"),
        ({"words": ["a"]}, {"words": [["a"]]}, 422, "lists of lists are not supported"),
        ({"keyless": items("a")}, {"keyless": items("a")}, 500, "cannot merge lists without merge"),
        ({"bogus": {}}, {"bogus": {}}, 500, 'in struct Thing for the json field "bogus"'),
        (
            {"items": items("a")},
            {"$setElementOrder/items": ["a"], "items": items("a")},
            500,
            "expected a map[string]interface {}, but received a",
        ),
    ],
)
def test_refused(obj: dict[str, Any], patch: dict[str, Any], code: int, message: str) -> None:
    """What cannot be followed is refused, with Kubernetes' status."""
    with pytest.raises(PatchError) as caught:
        strategic_merge(SCHEMA, obj, patch)

    assert code == caught.value.code
    assert message in str(caught.value)


def test_deletions_have_no_place_in_an_order() -> None:
    """An item that goes may be missing in the order."""
    patch = {
        "$setElementOrder/items": items("c", "b"),
        "items": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
    }

    assert "cb" == named(strategic_merge(SCHEMA, {"items": items("a", "b")}, patch))


def test_too_deep() -> None:
    """A patch of too many levels is refused."""
    schema = Struct("Deep", (Field("a", Scalar.ANY),))
    schema.by_name["a"] = Field("a", schema)
    patch: dict[str, Any] = {}
    for _ in range(DEEPEST):
        patch = {"a": patch}

    with pytest.raises(PatchError, match="more than 200 levels"):
        strategic_merge(schema, copy.deepcopy(patch), patch)


def test_replaced_objects() -> None:
    """A struct may be one that is replaced as a whole."""
    inner = Struct("Inner", (Field("a", Scalar.STRING), Field("b", Scalar.STRING)))
    schema = Struct("Outer", (Field("inner", inner, is_replaced=True),))

    assert {"inner": {"b": "2"}} == strategic_merge(
        schema, {"inner": {"a": "1"}}, {"inner": {"b": "2"}}
    )
