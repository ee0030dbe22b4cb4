"""Tests of `apfproxy.api.selectors.shard`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.api.selectors.errors import SelectorError
from apfproxy.api.selectors.shard import HASHES, ShardSelector, fnv1a, parse_shard_selector

UID = "object.metadata.uid"
ZERO = "'0x0000000000000000'"
HALF = "'0x8000000000000000'"
WHOLE = "'0x10000000000000000'"


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_fnv1a(text: str, value: int) -> None:
    """The hash is that of the published test vectors."""
    assert value == fnv1a(text)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        (f"shardRange({UID}, {ZERO}, {HALF})", ((0, HASHES // 2),)),
        (
            f" shardRange( {UID} ,{ZERO},\n{HALF} ) ||shardRange({UID},{HALF},{WHOLE}) ",
            ((0, HASHES // 2), (HASHES // 2, HASHES)),
        ),
        (f"shardRange({UID}, {ZERO}, {HALF})".replace("'", '"'), ((0, HASHES // 2),)),
    ],
)
def test_parse_shard_selector(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Ranges between `||` are read."""
    selector = parse_shard_selector(text)
    assert ShardSelector(UID, ranges) == selector
    assert text == selector.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "empty shard selector is not allowed"),
        ("a", "expected shardRange(field, 'start', 'end'), got \"a\""),
        (f"shardRange({UID}, {ZERO})", "expected shardRange"),
        (f"shardRange({UID}, {ZERO}, {HALF}) && b", "expected '||' or the end, got \"&& b\""),
        (f"shardRange({UID}, {ZERO}, {HALF}) ||", "expected shardRange"),
        (f"shardRange(metadata.uid, {ZERO}, {HALF})", 'unsupported field path "metadata.uid"'),
        (f"shardRange({UID}, '', {HALF})", "hexStart must have '0x' prefix, got \"\""),
        (f"shardRange({UID}, {ZERO}, '0x')", "hexEnd: hex value is required after '0x'"),
        (f"shardRange({UID}, {ZERO}, '0x{18 * '0'}')", "hex value too long (18 chars, max 17)"),
        (f"shardRange({UID}, {ZERO}, '0x000000000000000G')", "invalid hex character"),
        (f"shardRange({UID}, {ZERO}, '0x10000000000000001')", "17-digit hex value must be"),
        (f"shardRange({UID}, '0x1', {HALF})", 'did you mean "0x0000000000000001"?'),
        (
            f"shardRange({UID}, {HALF}, {HALF})",
            "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
        ),
        (
            (
                f"shardRange({UID}, {ZERO}, {HALF})"
                f" || shardRange(object.metadata.namespace, {HALF}, {WHOLE})"
            ),
            "all shard ranges must use the same field",
        ),
    ],
)
def test_parse_shard_selector_refuses(text: str, message: str) -> None:
    """All else is refused, and it is said why."""
    with pytest.raises(SelectorError, match=re.escape(message)):
        parse_shard_selector(text)


@given(uid=st.text(), namespace=st.text(), bound=st.integers(1, HASHES - 1))
def test_matches(uid: str, namespace: str, bound: int) -> None:
    """Every object is in exactly one of two ranges that share a bound."""
    for field in ("uid", "namespace"):
        shards = [
            ShardSelector(f"object.metadata.{field}", ((0, bound),)),
            ShardSelector(f"object.metadata.{field}", ((bound, HASHES),)),
        ]

        assert 1 == sum(shard.matches(uid, namespace) for shard in shards)


def test_matches_the_field() -> None:
    """The hash is that of the field that is named."""
    value = fnv1a("x")
    ranges = ((value, value + 1),)

    assert [True, False, False, True] == [
        ShardSelector(UID, ranges).matches("x", "y"),
        ShardSelector(UID, ranges).matches("y", "x"),
        ShardSelector("object.metadata.namespace", ranges).matches("x", "y"),
        ShardSelector("object.metadata.namespace", ranges).matches("y", "x"),
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, HASHES - 1), st.integers(1, HASHES)).filter(
            lambda bounds: bounds[0] < bounds[1]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_text(ranges: list[tuple[int, int]]) -> None:
    """The text of a selector is read as the same selector."""
    selector = ShardSelector(UID, tuple(ranges))

    assert selector == parse_shard_selector(str(selector))
