"""Tests of reading JSON data into objects of a schema."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.core.kinds import POD
from apfproxy.apiserver.flowcontrol.schema import FLOW_SCHEMA_V1
from apfproxy.apiserver.schema.reading import (
    MOST_UNKNOWN,
    MismatchError,
    canonical,
    read,
    read_in_order,
)
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, pointer, required

INNER = Struct("Inner", (required("name", Scalar.STRING), Field("size", Scalar.INT32)), "x.v1")
OUTER = Struct(
    "Outer",
    (
        Field("text", Scalar.STRING),
        pointer("textPointer", Scalar.STRING),
        Field("flag", Scalar.BOOLEAN),
        pointer("flagPointer", Scalar.BOOLEAN),
        Field("number", Scalar.INT32),
        Field("numberAlways", Scalar.INT64, is_always_written=True),
        pointer("numberPointer", Scalar.INT64),
        Field("pointerAlways", Scalar.INT64, is_pointer=True, is_always_written=True),
        Field("inner", INNER),
        pointer("innerPointer", INNER),
        Field("list", List(INNER)),
        Field("listAlways", List(Scalar.STRING), is_always_written=True),
        Field("map", Map(Scalar.STRING)),
        Field("maps", Map(INNER)),
        Field("lists", Map(List(Scalar.INT32))),
        Field("quantity", Scalar.QUANTITY),
        pointer("quantityPointer", Scalar.QUANTITY),
        Field("time", Scalar.TIME),
        Field("timeAlways", Scalar.TIME, is_always_written=True),
        Field("port", Scalar.INT_OR_STRING),
        pointer("portPointer", Scalar.INT_OR_STRING),
        Field("any", Scalar.ANY),
    ),
    "x.v1",
)
EMPTY: dict[str, Any] = {
    "numberAlways": 0,
    "pointerAlways": None,
    "inner": {"name": ""},
    "listAlways": None,
    "quantity": "0",
    "timeAlways": None,
    "port": 0,
}
"""What is always written."""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, {}),
        (dict.fromkeys(OUTER.by_name), {}),
        ({"text": "", "flag": False, "number": 0, "list": [], "map": {}, "listAlways": []}, {}),
        ({"text": "a", "flag": True, "number": -(2**31)}, ...),
        ({"textPointer": "", "flagPointer": False, "numberPointer": 0, "innerPointer": {}}, None),
        ({"numberAlways": 2**63 - 1, "pointerAlways": 0}, ...),
        ({"inner": {"size": 0, "name": "a"}}, {"inner": {"name": "a"}}),
        ({"list": [None, {"size": 1}]}, {"list": [{"name": ""}, {"name": "", "size": 1}]}),
        ({"listAlways": ["a", None]}, {"listAlways": ["a", ""]}),
        ({"map": {"a": None, "b": "c"}}, {"map": {"a": "", "b": "c"}}),
        ({"maps": {"a": None}}, {"maps": {"a": {"name": ""}}}),
        ({"lists": {"a": None, "b": [1, None]}}, {"lists": {"a": None, "b": [1, 0]}}),
        ({"quantity": "1024Mi"}, {"quantity": "1Gi"}),
        ({"quantity": 1.5, "quantityPointer": 0}, {"quantity": "1500m", "quantityPointer": "0"}),
        ({"time": "2024-01-01T01:00:00.5+01:00"}, {"time": "2024-01-01T00:00:00Z"}),
        ({"time": "0001-01-01T00:00:00Z", "timeAlways": "0001-01-01T00:00:00Z"}, {}),
        ({"port": "http", "portPointer": 0}, ...),
        ({"port": ""}, ...),
        ({"any": {"a": [None, {}]}}, ...),
        ({"any": 0}, ...),
    ],
)
def test_canonical_form(raw: dict[str, Any], expected: Any) -> None:  # noqa: ANN401  `...` is raw
    """What Go would write is what reading gives, and once more of that."""
    if expected is ...:
        expected = raw
    elif expected is None:
        expected = {**raw, "innerPointer": {"name": ""}}
    before = copy.deepcopy(raw)

    found = read(OUTER, raw)

    assert ({**EMPTY, **expected}, ()) == (found.obj, found.unknown)
    assert found.obj == canonical(OUTER, found.obj)
    assert before == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"Text": "a"}, ("Text",)),
        ({"text": None, "bogus": None}, ("bogus",)),
        ({"inner": {"name": "a", "x": 1}, "y": {"z": 1}}, ("inner.x", "y")),
        ({"list": [{}, {"x": {}}], "maps": {"k": {"x": 1}}}, ("list[1].x", "maps.k.x")),
        ({"any": {"x": 1}, "map": {"x": "1"}}, ()),
    ],
)
def test_unknown_fields(raw: dict[str, Any], expected: tuple[str, ...]) -> None:
    """Fields that the schema does not have are told with their paths, and dropped."""
    found = read(OUTER, raw)

    assert expected == found.unknown
    assert () == read(OUTER, found.obj).unknown


def test_many_unknown_fields() -> None:
    """Only the first hundred unknown fields are told."""
    assert MOST_UNKNOWN == len(read(OUTER, {f"x{each}": 1 for each in range(500)}).unknown)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([], "array into Go value of type v1.Outer"),
        (True, "bool into Go value of type v1.Outer"),
        ({"text": 1}, "number into Go struct field Outer.text of type string"),
        ({"flag": "true"}, "string into Go struct field Outer.flag of type bool"),
        ({"number": 2**31}, "number 2147483648 into Go struct field Outer.number of type int32"),
        ({"number": 1.5}, "number 1.5 into Go struct field Outer.number of type int32"),
        ({"number": True}, "bool into Go struct field Outer.number of type int32"),
        ({"numberAlways": {}}, "object into Go struct field Outer.numberAlways of type int64"),
        ({"inner": "x"}, "string into Go struct field Outer.inner of type v1.Inner"),
        ({"list": {}}, "object into Go struct field Outer.list of type []v1.Inner"),
        (
            {"list": [{"name": 1}]},
            "number into Go struct field Inner.list.name of type string",
        ),
        ({"map": []}, "array into Go struct field Outer.map of type map[string]string"),
        ({"map": {"a": 1}}, "number into Go struct field Outer.map of type string"),
        ({"time": 1}, "number into Go struct field Outer.time of type string"),
        ({"port": 1.5}, "number 1.5 into Go struct field Outer.port of type int32"),
    ],
)
def test_mismatch(raw: object, expected: str) -> None:
    """A value of a wrong type is told as Go tells it."""
    with pytest.raises(MismatchError) as raised:
        read(OUTER, raw)

    assert f"json: cannot unmarshal {expected}" == str(raised.value)


@pytest.mark.parametrize("value", ["2024-1-01T00:00:00Z", "2024-01-01", ""])
def test_bad_time(value: str) -> None:
    """A text that is no time is told."""
    with pytest.raises(MismatchError, match=r'^parsing time ".*" as "2006-01-02T15:04:05Z07:00"'):
        read(OUTER, {"time": value})


@pytest.mark.parametrize("value", ["1x", "", True, {}, []])
def test_bad_quantity(value: object) -> None:
    """What is no quantity is told as Kubernetes tells it."""
    with pytest.raises(MismatchError, match=r"^quantities must match the regular expression"):
        read(OUTER, {"quantity": value})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*OUTER.by_name, *INNER.by_name, "other"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(VALUES)
@settings(max_examples=100)
def test_anything(raw: object) -> None:
    """Any JSON is refused with a message, or gives a canonical form that stays the same."""
    try:
        obj = read(OUTER, raw).obj
    except MismatchError:
        return
    assert obj == canonical(OUTER, obj)


def test_order() -> None:
    """Fields are written in the order of the schema."""
    raw = {"status": {}, "spec": {"matchingPrecedence": 1}, "metadata": {}, "kind": "FlowSchema"}

    assert ["kind", "metadata", "spec", "status"] == list(read(FLOW_SCHEMA_V1, raw).obj)


def test_fields_that_are_kept() -> None:
    """An open struct keeps what it does not know, behind what it knows; null is absent."""
    schema = Struct("Open", (Field("known", INNER),), keeps_unknown=True)
    raw = {"b": [None], "a": None, "known": {"name": "x", "b": 1}, "c": {"d": 1.5}}
    found = read(schema, raw)

    assert {"known": {"name": "x"}, "b": [None], "c": {"d": 1.5}} == found.obj
    assert ["known", "b", "c"] == list(found.obj)
    assert ("known.b",) == found.unknown
    assert found.obj == canonical(schema, found.obj)


def test_first_wrong_type_of_the_document() -> None:
    """Of several values of wrong types the first one of the document is told, where it is text."""
    raw = {"kind": "Pod", "spec": {"restartPolicy": 5, "nodeName": []}, "metadata": 1}
    containers = [{"resources": {"limits": {"cpu": "x"}}}]
    unreadable = {"spec": {"nodeName": 5, "containers": containers, "schedulerName": 1}}
    with pytest.raises(MismatchError) as error:
        read_in_order(POD.versions[0].schema, raw)
    with pytest.raises(MismatchError, match="quantities must match the regular expression"):
        read_in_order(
            POD.versions[0].schema, unreadable
        )  # Go stops there, whatever it has met before

    assert "number into Go struct field PodSpec.spec.restartPolicy of" in str(error.value)


def test_nulls_are_of_any_type() -> None:
    """They are passed over in search of the first wrong value."""
    raw = {"maps": {"a": None}, "list": [None], "lists": {"a": [None, "x"]}, "text": None}

    with pytest.raises(MismatchError, match="string into Go struct field"):
        read_in_order(OUTER, raw)
