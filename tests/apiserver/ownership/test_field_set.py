"""Tests of sets of field paths."""

from __future__ import annotations

from typing import Any

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
    of_paths,
    parse,
    paths,
    recursive_difference,
    shown,
    union,
)

ELEMENTS = ("f:a", "f:b", 'k:{"name":"c"}', "v:1", "i:0")

some_path = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple)
some_paths = st.sets(some_path, max_size=8)


def made(members: set[Path]) -> FieldSet:
    """The set of these paths."""
    return of_paths(*sorted(members))


def listed(fields: FieldSet) -> set[Path]:
    """The paths of a set that is as it should be: nothing in it stands for nothing."""
    assert fields == made(set(paths(fields)))
    return set(paths(fields))


@given(some_paths, some_paths)
def test_union_is_that_of_sets(left: set[Path], right: set[Path]) -> None:
    """The union has the paths of either set."""
    assert left | right == listed(union(made(left), made(right)))


@given(some_paths, some_paths)
def test_difference_is_that_of_sets(left: set[Path], right: set[Path]) -> None:
    """Parents and children are taken away one by one."""
    assert left - right == listed(difference(made(left), made(right)))


@given(some_paths, some_paths)
def test_intersection_is_that_of_sets(left: set[Path], right: set[Path]) -> None:
    """The intersection has the paths of both sets."""
    assert left & right == listed(intersection(made(left), made(right)))


@given(some_paths, some_paths)
def test_recursive_difference_takes_what_lies_below(left: set[Path], right: set[Path]) -> None:
    """A path goes if it, or one that it begins with, is in the other set."""
    expected = {path for path in left if not any(path[: i + 1] in right for i in range(len(path)))}

    assert expected == listed(recursive_difference(made(left), made(right)))


@given(some_paths)
def test_what_is_written_is_read_again(members: set[Path]) -> None:
    """Reading the order of writing changes nothing, not even the order."""
    written = in_order(made(members))

    assert made(members) == written
    assert repr(written) == repr(parse(written))


@given(some_paths, some_paths)
def test_operations_change_no_argument(left: set[Path], right: set[Path]) -> None:
    """Sets can be shared, because nothing changes them."""
    one, other = made(left), made(right)
    for operation in (union, difference, intersection, recursive_difference):
        operation(one, other)

    assert (made(left), made(right)) == (one, other)


def test_a_difference_of_nothing_is_the_set_itself() -> None:
    """Who has lost nothing is told by identity."""
    fields = of_paths(("f:spec", "f:a"), ("f:spec",))

    assert fields is difference(fields, of_paths(("f:spec", "f:b"), ("f:other",)))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"f:b": {}, "f:a": {}}, ["f:a", "f:b"], id="names"),
        pytest.param({"f:a": {"f:b": {}}, ".": {}}, ["f:a"], id="the-root-is-no-member"),
        pytest.param(
            {'k:{"p":10}': {}, 'k:{"p":9}': {}, 'k:{"p":"x"}': {}, 'k:{"n":1}': {}},
            ['k:{"n":1}', 'k:{"p":9}', 'k:{"p":10}', 'k:{"p":"x"}'],
            id="keys-by-value",
        ),
        pytest.param(
            {"v:true": {}, "v:10": {}, 'v:"b"': {}, "v:9": {}, "v:null": {}},
            ["v:9", "v:10", 'v:"b"', "v:true", "v:null"],
            id="values",
        ),
        pytest.param(
            {"i:10": {}, "i:9": {}, "v:1": {}, 'k:{"a":1}': {}, "f:z": {}},
            ["f:z", 'k:{"a":1}', "v:1", "i:9", "i:10"],
            id="types",
        ),
        pytest.param({'k:{ "b": 1, "a": "<" }': None}, ['k:{"a":"\\u003c","b":1}'], id="one-form"),
        pytest.param({"x:future": {}, "f:a": {}}, ["f:a"], id="unknown-types-are-left-out"),
        pytest.param(None, [], id="null"),
    ],
)
def test_parsed_sets_are_in_order(raw: object, expected: list[str]) -> None:
    """Elements come in one form and in the order that Kubernetes writes."""
    assert expected == list(parse(raw))


def test_elements_of_one_meaning_are_one() -> None:
    """Two spellings of the same keys are one path, with what is below both."""
    raw: FieldSet = {'k:{"a":1,"b":2}': {"f:x": {}}, 'k:{"b":2,"a":1}': {".": {}}}

    assert {'k:{"a":1,"b":2}': {".": {}, "f:x": {}}} == parse(raw)


def nested(depth: int) -> Any:  # noqa: ANN401  JSON
    """A set of one path with so many elements."""
    result: dict[str, Any] = {}
    for _ in range(depth):
        result = {"f:a": result}
    return result


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
        pytest.param({"i:x": {}}, "i:x", id="index-no-json"),
        pytest.param({"i:1.5": {}}, "whole number", id="index-no-integer"),
        pytest.param(nested(DEEPEST + 1), "levels", id="too-deep"),
    ],
)
def test_what_is_no_set_is_refused(raw: object, message: str) -> None:
    """Malformed and oversized sets get an error that says why."""
    with pytest.raises(FieldSetError, match=message):
        parse(raw)


def test_a_set_may_be_as_deep_as_the_limit() -> None:
    """The limit itself is allowed."""
    assert nested(DEEPEST - 1) == parse(nested(DEEPEST - 1))


def test_too_many_elements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of elements in one set is bounded, over all levels."""
    monkeypatch.setattr(field_set, "MOST_ELEMENTS", 3)

    with pytest.raises(FieldSetError, match="3 elements"):
        parse({"f:a": {"f:b": {}}, "f:c": {"f:d": {}}})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(("f:spec", "f:a"), ".spec.a", id="fields"),
        pytest.param(
            ("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name"),
            '.ports[containerPort=80,protocol="TCP"].name',
            id="keys",
        ),
        pytest.param(("f:finalizers", 'v:"x"'), '.finalizers[="x"]', id="value"),
        pytest.param(("f:rules", "i:2"), ".rules[2]", id="index"),
    ],
)
def test_paths_are_shown_as_kubernetes_does(path: Path, expected: str) -> None:
    """Messages name fields, keys, values and positions."""
    assert expected == shown(path)
