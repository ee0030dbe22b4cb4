"""Tests of `apfproxy.apiserver.patch.merge`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.patch.errors import PatchError
from apfproxy.apiserver.patch.merge import DEEPEST, merge_patch

names = st.sampled_from("abc")
leaves = st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
objects = st.dictionaries(
    names, st.recursive(leaves, lambda inner: st.dictionaries(names, inner), max_leaves=8)
)


def without_nulls(value: Any) -> Any:  # noqa: ANN401  # JSON
    """The value without members that are null."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(member) for name, member in value.items() if member is not None}


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(obj: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    """The examples of RFC 7386, Appendix A, that are about objects."""
    assert expected == merge_patch(obj, patch)


@given(objects, objects)
def test_twice(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    """A patch that is applied twice has no more effect, and changes nothing that it is given."""
    before = copy.deepcopy((obj, patch))
    once = merge_patch(obj, patch)

    assert once == merge_patch(once, patch)
    assert before == (obj, patch)


@given(objects)
def test_to_and_from_nothing(obj: dict[str, Any]) -> None:
    """An object is a patch that makes it of nothing; an empty patch changes nothing."""
    assert without_nulls(obj) == merge_patch({}, obj)
    assert obj == merge_patch(obj, {})


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "cannot unmarshal array into Go value of type map"),
        ("a", "cannot unmarshal string into"),
        (1.5, "cannot unmarshal number into"),
        (True, "cannot unmarshal bool into"),
    ],
)
def test_no_object(patch: object, message: str) -> None:
    """Only objects are merge patches."""
    with pytest.raises(PatchError, match=message) as caught:
        merge_patch({}, patch)

    assert 400 == caught.value.code


def test_too_deep() -> None:
    """A patch of too many levels is refused."""
    patch: dict[str, Any] = {}
    for _ in range(DEEPEST):
        patch = {"a": patch}

    with pytest.raises(PatchError, match="more than 200 levels"):
        merge_patch({}, patch)
