"""Reading JSON data into objects of a schema."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.reading import (
    LAYOUT,
    MICRO_LAYOUT,
    MOST_UNKNOWN,
    MismatchError,
    canonical,
    canonical_micro_time,
    canonical_time,
    read,
    read_in_order,
)

STRUCTS = structs(
    "x.v1",
    """
Outer: All sorts of fields.
  text             string              A text.
  textPointer      *string             A text.
  flag             bool                A truth value.
  number           int32               A number.
  numberAlways     int64 +written      A number.
  pointerAlways    *int64 +written     A number.
  inner            Inner               A struct.
  innerPointer     *Inner              A struct.
  list             []Inner             A list.
  listAlways       []string +written   A list.
  maps             map[string]Inner    A map.
  lists            map[string][]int32  A map.
  quantityPointer  *quantity           A quantity.
  time             time +omitempty     A time.
  timeAlways       time                A time.
  port             intOrString         A port.
  portPointer      *intOrString        A port.
  bytes            []byte              Bytes.
  any              any                 Any JSON.
Inner: A struct.
  name  string +required  A text.
  size  int32             A number.
Open +open: Keeps what it does not know.
  known  *Inner  A struct.
""",
)
OUTER, OPEN = STRUCTS["Outer"], STRUCTS["Open"]
NAMES = [name for struct in STRUCTS.values() for name in struct.by_name]
EMPTY: dict[str, Any] = {
    "numberAlways": 0,
    "pointerAlways": None,
    "inner": {"name": ""},
    "listAlways": None,
    "timeAlways": None,
    "port": 0,
}
"""Fields that are always written."""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (dict.fromkeys(OUTER.by_name), {}),
        ({"text": "", "flag": False, "number": 0, "list": [], "maps": {}, "listAlways": []}, {}),
        ({"textPointer": ""}, {"textPointer": ""}),
        ({"innerPointer": {}}, {"innerPointer": {"name": ""}}),
        ({"list": [None, {"size": 1}]}, {"list": [{"name": ""}, {"name": "", "size": 1}]}),
        ({"maps": {"a": None}}, {"maps": {"a": {"name": ""}}}),
        ({"lists": {"a": None, "b": [1, None]}}, {"lists": {"a": None, "b": [1, 0]}}),
        ({"quantityPointer": 1.5}, {"quantityPointer": "1500m"}),
        ({"time": "2024-01-01T01:00:00.5+01:00"}, {"time": "2024-01-01T00:00:00Z"}),
        ({"time": "0001-01-01T00:00:00Z", "timeAlways": "0001-01-01T00:00:00Z"}, {}),
        ({"port": "", "portPointer": 0, "any": 0}, {"port": "", "portPointer": 0, "any": 0}),
        ({"bytes": "A\nQI="}, {"bytes": "AQI="}),
    ],
)
def test_canonical_form(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    """Reading gives what Go would write, and reading that changes nothing."""
    before = copy.deepcopy(raw)

    found = read(OUTER, raw)

    assert ({**EMPTY, **expected}, ()) == (found.obj, found.unknown)
    assert found.obj == canonical(OUTER, found.obj)
    assert before == raw


def test_unknown_fields_are_dropped() -> None:
    """Their paths are reported, in any case of letters; only the first hundred of them."""
    found = read(OUTER, {"Text": None, "list": [{}, {"x": {}}], "maps": {"k": {"x": 1}}})

    assert ("Text", "list[1].x", "maps.k.x") == found.unknown
    assert MOST_UNKNOWN == len(read(OUTER, dict.fromkeys(map(str, range(500)))).unknown)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "other"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
@settings(max_examples=200)
def test_any_json_is_read_or_refused(raw: object) -> None:
    """Reading in order refuses the same values, and the canonical form stays the same."""
    try:
        obj = read(OUTER, raw).obj
    except MismatchError:
        with pytest.raises(MismatchError):
            read_in_order(OUTER, raw)
        return
    assert obj == canonical(OUTER, obj) == read_in_order(OUTER, raw).obj


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "cannot restore struct from: slice"),
        ({"lists": {"a": "b"}}, "cannot restore slice from string"),
        ({"maps": 5}, "cannot restore map from int64"),
        ({"text": 1}, "cannot convert int64 to string"),
        ({"text": {}}, "unrecognized type: string"),
        ({"bytes": "AQ!="}, "illegal base64 data at input byte 2"),
        ({"bytes": "AQIDB"}, "illegal base64 data at input byte 4"),
    ],
)
def test_restored(raw: object, message: str) -> None:
    """Go says most in other words where it makes a struct of decoded data."""
    with pytest.raises(MismatchError) as raised:
        read(OUTER, raw)

    assert message == raised.value.restored


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", f' as "{LAYOUT}": cannot parse "yesterday" as "2006"'),
        ("2024-1-01T00:00:00Z", f' as "{LAYOUT}": cannot parse "1-01T00:00:00Z" as "01"'),
        ("2024-02-30T00:00:00Z", ": day out of range"),
        ("2024-01-01T24:00:00Z", ": hour out of range"),
        ("2024-01-01T00:00:00.5Zx", ': extra text: "x"'),
        ("2024-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
        ("2024-01-01T00:00:00+00:61", ": time zone offset minute out of range"),
        ("9999-12-31T23:59:59-01:00", f' as "{LAYOUT}": cannot parse "{{}}" as "2006"'),
        ("2024-01-01T00:00:00Z", f' as "{MICRO_LAYOUT}": cannot parse "Z" as ".000000"'),
        ("2024-01-01T00:00:00.1234567Z", f' as "{MICRO_LAYOUT}": cannot parse "7Z" as "Z07:00"'),
        ("2026-02-30T00:00:00.000000Z", ": day out of range"),
    ],
)
def test_no_time(text: str, expected: str) -> None:
    """The message is about the first element that does not fit; micro times have six digits."""
    parse = (
        canonical_micro_time if MICRO_LAYOUT in expected or ".000000" in text else canonical_time
    )
    with pytest.raises(MismatchError) as raised:
        parse(text)

    assert f'parsing time "{text}"{expected.format(text)}' == str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05,123456+01:30", "2026-01-02T01:34:05.123456Z"),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z"),
        ("0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_micro_time(text: str, expected: str | None) -> None:
    assert expected == canonical_micro_time(text)
