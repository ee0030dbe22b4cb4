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
    parse,
    paths,
    shown,
    union,
)
from tests.apiserver.ownership.schemas import of_paths

ELEMENTS = ("f:a", "f:b", 'k:{"name":"c"}', "v:1", "i:0")
some_paths = st.sets(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple))


def listed(fields: FieldSet) -> set[Path]:
    """The paths of a set that is as it should be: nothing in it stands for nothing."""
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
    """Malformed and oversized sets get an error that says why."""
    with pytest.raises(FieldSetError, match=message):
        parse(raw)


def test_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deepest set is allowed; the number of elements is bounded over all levels."""
    assert nested(DEEPEST - 1) == parse(nested(DEEPEST - 1))

    monkeypatch.setattr(field_set, "MOST_ELEMENTS", 3)
    with pytest.raises(FieldSetError, match="3 elements"):
        parse({"f:a": {"f:b": {}}, "f:c": {"f:d": {}}})


def test_paths_are_shown_as_kubernetes_does() -> None:
    """Messages name fields, keys, values and positions."""
    path = ("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:2")

    assert '.ports[containerPort=80,protocol="TCP"][="x"][2]' == shown(path)
