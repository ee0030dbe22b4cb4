"""Reading JSON data into objects of a schema."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from apfproxy.apiserver.schema.types import structs

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
""",
)
OUTER = STRUCTS["Outer"]
NAMES = [name for struct in STRUCTS.values() for name in struct.by_name]


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
        ({"lists": {"a": "b"}}, "cannot restore slice from string"),
        ({"maps": 5}, "cannot restore map from int64"),
        ({"text": {}}, "unrecognized type: string"),
    ],
)
def test_restored(raw: object, message: str) -> None:
    """Go says most in other words where it makes a struct of decoded data."""
    with pytest.raises(MismatchError) as raised:
        read(OUTER, raw)

    assert message == raised.value.restored


def test_nothing_keeps_a_refused_document() -> None:
    class Document(dict[str, Any]):
        pass

    raw = Document(text=5, list=[1, 2])
    kept = weakref.ref(raw)
    gc.disable()
    try:
        with contextlib.suppress(MismatchError):
            read_in_order(OUTER, raw)
        del raw
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-30T00:00:00Z", ": day out of range"),
        ("2024-01-01T24:00:00Z", ": hour out of range"),
        ("2024-01-01T00:00:00.5Zx", ': extra text: "x"'),
        ("2024-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
        ("2024-01-01T00:00:00+00:61", ": time zone offset minute out of range"),
        ("9999-12-31T23:59:59-01:00", f' as "{LAYOUT}": cannot parse "{{}}" as "2006"'),
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
