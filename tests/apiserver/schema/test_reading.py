"""Structs as text, JSON data read into objects of them, and exact numbers with suffixes."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema.quantity import (
    FORMAT_RULE,
    LARGEST_EXPONENT,
    LONGEST,
    NANO,
    QuantityError,
    parse,
)
from apfproxy.apiserver.schema.reading import (
    LAYOUT,
    MICRO_LAYOUT,
    MismatchError,
    canonical,
    canonical_micro_time,
    canonical_time,
    read,
    read_in_order,
)
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS, OBJECT_META
from apfproxy.apiserver.schema.types import List, Map, SchemaError, Struct, Type, structs
from apfproxy.objects.documents import MOST_PATHS

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


SUFFIXES = {
    "n": Fraction(1, NANO),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** (power + 1) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
    **{f"e{exponent}": Fraction(10) ** exponent for exponent in (-12, -9, -3, -1, 0, 1, 6, 21)},
}

CANONICAL = """
    1024Mi=1Gi 0.5=500m 5.=5. 1000m=1 1e3=1e3 1000e0=1e3 100e0=100e0 10e-1=1 1E=1E 1000E=1e21
    12e7=120e6 0.1n=1n -0.1n=-1n 1e-999999999=1e-9 1.5Gi=1536Mi 0.5Ki=512 1.1Ki=1126400m
    -1024Ki=-1Mi 16Ei=9223372036854775807 -16Ei=-9223372036854775807 00=0 +=0 -0=0 0Ki=0 .=0
    Ki=0 20000000000000000000=20E +5=+5 007=007
    1.500=1.500 1E3=1E3 +5Ki=+5Ki 0005Ki=0005Ki 1001Ki=1001Ki
""".split()  # noqa: SIM905  pairs read best in rows


@pytest.mark.parametrize("pair", CANONICAL)
def test_canonical_form(pair: str) -> None:
    """The suffix is the largest that keeps the value; seemingly canonical texts are kept."""
    text, _, canonical = pair.partition("=")
    assert canonical == str(parse(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, FORMAT_RULE) for text in ("", "1 Gi", "1..5", "\u0661", "5\n", "1e3e3")),
        *((text, "unable to parse quantity's suffix") for text in ("--5", "1ki", "1e", "5+3")),
        *((text, "unable to parse numeric part of quantity") for text in ("Ei", "-.e-20")),
        ("1" * (LONGEST + 1), f"quantities must have at most {LONGEST} characters"),
        (
            f"1e{LARGEST_EXPONENT + 1}",
            f"quantities must have an exponent of at most {LARGEST_EXPONENT}",
        ),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert message == str(caught.value)


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 2000) | st.integers(0, 10**20),
    st.text("0123456789", max_size=12),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_the_value_is_exact_or_rounded_up(
    sign: str, whole: int, fraction: str, suffix: str
) -> None:
    magnitude = -(-Fraction(f"{whole}.{fraction or 0}") * SUFFIXES[suffix] * NANO // 1)
    if suffix.endswith("i"):
        magnitude = min(magnitude, (2**63 - 1) * NANO)
    found = parse(f"{sign}{whole}.{fraction}{suffix}")
    assert (-magnitude if sign == "-" else magnitude) == found.nano
    assert (found.nano, found.text) == (parse(found.text).nano, parse(found.text).text)


@given(st.text("0123456789+-.eEinumkKMGTP", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(QuantityError):
        assert parse(text) == parse(parse(text).text)


PART = Struct("Part", (), "p", "A part.")
OTHERS = {"Part": PART, "ObjectMeta": OBJECT_META}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "no name, colon and description: A"),
        ("A: x.\nA: y.", "A is declared twice: A: y."),
        ("A +x: y.", r"no mark \+x is known: A \+x: y."),
        ("A: x.\n  1 a string", "no name, type and description: 1 a string"),
        ("A: x.\n  1 a string +x=1  y.", r"no mark \+x is known: 1 a string"),
        ("A: x.\n  1 a B  y.", "no type B is known, .*: 1 a B  y."),
        ("A: x.\n  1 a []A  y.", r"no type A is known, or it contains itself: 1 a \[\]A  y."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        structs("p", text)


ROOTS = (
    *(version.schema for kind in KINDS for version in kind.versions),
    *EVICTIONS.values(),
    DELETE_OPTIONS,
)


def structs_of(kind: Type, found: dict[str, Struct]) -> dict[str, Struct]:
    if isinstance(kind, List | Map):
        return structs_of(kind.item if isinstance(kind, List) else kind.value, found)
    if isinstance(kind, Struct):
        name = f"{kind.package}.{kind.name}"
        if name in found:
            assert found[name].by_name.keys() == kind.by_name.keys(), f"two structs {name}"
            return found
        found[name] = kind
        for field in kind.fields:
            structs_of(field.type, found)
    return found


def test_unknown_fields_are_bounded() -> None:
    few, many = ({"k" * length: {f"x{each}": 1 for each in range(9999)}} for length in (2**18, 1))
    assert (4, MOST_PATHS) == tuple(
        len(read(STRUCTS["Outer"], {"maps": maps}).unknown) for maps in (few, many)
    )
