"""Tests of the tables of how fields are owned."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.ownership.field_set import FieldSetError
from apfproxy.apiserver.ownership.structure import (
    LEAF,
    UNTYPED,
    Branch,
    Items,
    Leaf,
    empty,
    node_of,
    structure,
)
from apfproxy.apiserver.schema.types import List, ListType, Map, Scalar, Struct, pointer, required
from tests.apiserver.ownership.schemas import PORT, SPEC, THING

PORTS = List(PORT, ListType.MAP, ("protocol", "port"))


def test_an_empty_object_has_what_go_writes_always() -> None:
    """Structs that are no pointers, and fields without omitempty, are there from the start."""
    assert {
        "metadata": {},
        "spec": {"size": 0, "always": {}, "ports": None},
        "status": {},
    } == empty(THING)


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        pytest.param(Scalar.INT32, Leaf, id="scalar"),
        pytest.param(Struct("A", (), is_atomic=True), Leaf, id="atomic-struct"),
        pytest.param(Map(Scalar.STRING, is_atomic=True), Leaf, id="atomic-map"),
        pytest.param(List(Scalar.STRING), Leaf, id="atomic-list"),
        pytest.param(Struct("A", ()), Branch, id="struct"),
        pytest.param(Map(Scalar.STRING), Branch, id="map"),
        pytest.param(List(Scalar.STRING, ListType.SET), Items, id="set"),
        pytest.param(PORTS, Items, id="list-map"),
    ],
)
def test_what_is_owned_as_one_is_a_leaf(type_: Scalar, expected: type) -> None:
    """Scalars and atomic types are leaves."""
    assert expected is type(node_of(type_))


def test_open_structs_have_more_fields() -> None:
    """What a struct keeps is owned by the keys of objects, and so is what has no type at all."""
    node = structure(Struct("A", (pointer("a", Scalar.STRING),), keeps_unknown=True))

    assert isinstance(node, Branch)
    assert ("f:a", LEAF) == node.at("a")
    assert ("f:b", UNTYPED) == node.at("b")
    assert ("f:c", UNTYPED) == UNTYPED.at("c")
    assert UNTYPED is node_of(Scalar.ANY)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({"port": 80, "protocol": "UDP"}, 'k:{"port":80,"protocol":"UDP"}', id="keys"),
        pytest.param({"port": 80, "name": "x"}, 'k:{"port":80,"protocol":"TCP"}', id="default"),
    ],
)
def test_items_are_told_apart_by_their_keys(item: object, expected: str) -> None:
    """Keys come sorted, with their defaults where they are left out."""
    node = node_of(PORTS)

    assert isinstance(node, Items)
    assert expected == node.element(item)


@pytest.mark.parametrize(
    ("list_", "item", "message"),
    [
        pytest.param(PORTS, {"protocol": "TCP"}, 'omits key field "port"', id="no-key"),
        pytest.param(PORTS, 1, "may not have non-map elements", id="no-map"),
        pytest.param(List(Scalar.ANY, ListType.SET), {}, "that's a map type", id="map-in-set"),
        pytest.param(List(Scalar.ANY, ListType.SET), None, "an explicit null", id="null-in-set"),
        pytest.param(
            List(Map(Scalar.ANY), ListType.MAP, ("a",)), {"b": 1}, "omits key", id="items-of-maps"
        ),
    ],
)
def test_an_item_without_keys_is_refused(list_: List, item: object, message: str) -> None:
    """What cannot be told apart from others cannot be owned."""
    node = node_of(list_)

    assert isinstance(node, Items)
    with pytest.raises(FieldSetError, match=message):
        node.element(item)


def test_a_key_that_go_writes_always_may_be_left_out() -> None:
    """Its zero value is its default, as in the documents of OpenAPI."""
    item = Struct("Item", (required("key", Scalar.INT32), pointer("other", Scalar.INT32)))

    node = node_of(List(item, ListType.MAP, ("key",)))

    assert isinstance(node, Items)
    assert 'k:{"key":0}' == node.element({"other": 1})


def test_a_set_tells_items_apart_by_value() -> None:
    """Values are written as JSON that is safe inside HTML."""
    assert 'v:"\\u003ca\\u003e \\u0026"' == Items(Leaf(), (), {}).element("<a> &")


def test_tables_are_made_once() -> None:
    """The tables of a struct are kept."""
    assert structure(SPEC) is structure(SPEC)
