"""Tests of the division of seats and of its adjustment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.limits import (
    LevelDemand,
    LevelLimits,
    adjust,
    by_priority,
    levelled,
    nominal_limits,
    within,
)

names = st.text("abc", min_size=1)


@settings(deadline=None)
@given(server_limit=st.integers(0, 5_000), shares=st.dictionaries(names, st.integers(0, 2**31 - 1)))
def test_nominal_limits_lose_no_seat(server_limit: int, shares: dict[str, int]) -> None:
    assume(any(shares.values()))
    total = sum(nominal_limits(server_limit, shares).values())

    assert server_limit <= total < server_limit + len(shares)


def limited(
    nominal: int, lower: int, upper: int, high_watermark: int = 0, smoothed: float = 0.0
) -> LevelDemand:
    """A level that is not exempt, with a current limit of its own."""
    return LevelDemand(LevelLimits(nominal, lower, upper), False, high_watermark, smoothed, 77)


def exempt(nominal: int, lower: int, high_watermark: int = 0) -> LevelDemand:
    return LevelDemand(LevelLimits(nominal, lower, nominal + 100), True, high_watermark, 0.0, 0)


@st.composite
def demands(draw: st.DrawFn) -> LevelDemand:
    """A limited level, of a server that has 100 seats, with any demand."""
    nominal = draw(st.integers(0, 100))
    lower = nominal - draw(st.integers(0, nominal))
    upper = nominal + draw(st.one_of(st.just(100), st.integers(0, 200)))
    high_watermark = draw(st.integers(0, 300))
    smoothed = draw(st.floats(0, 300))
    return LevelDemand(LevelLimits(nominal, lower, upper), False, high_watermark, smoothed, nominal)


@settings(deadline=None)
@given(levels=st.lists(demands(), min_size=1, max_size=8), exempt_seats=st.integers(0, 500))
def test_adjust_keeps_every_bound(levels: list[LevelDemand], exempt_seats: int) -> None:
    adjustment = adjust([*levels, exempt(0, 0, exempt_seats)])

    *current, current_exempt = adjustment.current
    assert exempt_seats == current_exempt
    for level, seats in zip(levels, current, strict=True):
        assert level.limits.lower <= seats <= level.limits.upper
    nominal_sum = sum(level.limits.nominal for level in levels)
    if adjustment.fair_proportion > 0:
        assert abs(nominal_sum - sum(current)) <= len(levels) / 2
    else:
        assert sum(current) <= nominal_sum


def prior(priority: int, shares: int, wanted: int, lower: int = 0, upper: int = 100) -> LevelDemand:
    limits = LevelLimits(lower, lower, upper)
    return LevelDemand(limits, False, wanted, float(wanted), 0, priority, shares)


@given(
    levels=st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(0, 50), st.integers(0, 30), st.integers(0, 3),
            st.integers(3, 60),
        ),
        min_size=1,
        max_size=6,
    ),
    others=st.lists(demands(), max_size=3),
    seats=st.integers(0, 100),
)  # fmt: skip
def test_priorities_move_no_seat_from_or_to_others(
    levels: list[tuple[int, ...]], others: list[LevelDemand], seats: int
) -> None:
    with_priority = [prior(*level) for level in levels]
    without = [replace(level, priority=None) for level in with_priority]
    found = adjust([*with_priority, *others], seats)
    plain = adjust([*without, *others], seats)

    own = found.current[: len(levels)]
    assert found.current[len(levels) :] == plain.current[len(levels) :]
    for level, limit in zip(with_priority, own, strict=True):
        assert level.limits.lower <= limit <= level.limits.upper
    if plain.fair_proportion > 0:
        is_least = sum(own) == sum(level.limits.lower for level in with_priority)
        assert sum(found.current) <= seats or is_least


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(0, 300))
def test_within_leaves_no_room_unused(levels: list[tuple[int, int]], seats: int) -> None:
    current, used = [each[0] for each in levels], [each[1] for each in levels]

    cut = within(current, used, seats)

    most = sum(max(pair) for pair in zip(cut, used, strict=True))
    wanted = sum(max(pair) for pair in zip(current, used, strict=True))
    assert all(0 <= own <= limit for own, limit in zip(cut, current, strict=True))
    assert most == min(wanted, max(seats, sum(used)))


BY_PRIORITY: dict[str, tuple[list[tuple[int, ...]], int, tuple[int, ...]]] = {
    "sure-of-their-parts": ([(3, 80, 9), (2, 20, 9)], 5, (4, 1)),
    "the-greatest-has-the-rest": ([(3, 20, 9), (2, 80, 1)], 5, (4, 1)),
    "no-seats": ([(2, 20, 9), (3, 20, 9)], 0, (0, 0)),
    "one-after-the-other": ([(1, 10, 9), (9, 10, 2), (5, 10, 4)], 9, (3, 2, 4)),
    "idle": ([(1, 30, 0), (2, 10, 0)], 8, (6, 2)),
    "wanted-by-none": ([(1, 30, 0), (2, 10, 4)], 8, (3, 5)),
    "equals-by-shares": ([(7, 30, 9), (7, 10, 9)], 8, (6, 2)),
    "equals-and-demand": ([(7, 30, 1), (7, 10, 3), (7, 0, 9)], 8, (1, 3, 4)),
    "without-shares": ([(1, 0, 9), (2, 0, 3)], 8, (5, 3)),
    "lower-limit": ([(1, 10, 9, 2), (2, 90, 9)], 4, (2, 2)),
    "lower-limits-are-kept": ([(1, 10, 9, 2), (2, 90, 9, 3)], 4, (2, 3)),
    "upper-limit": ([(1, 10, 9), (2, 90, 9, 0, 3)], 8, (5, 3)),
    "upper-limits": ([(1, 10, 9, 0, 2), (2, 90, 9, 0, 3)], 8, (2, 3)),
    "the-odd-seat": ([(1, 10, 9), (2, 10, 9), (3, 10, 9)], 4, (1, 1, 2)),
}


@pytest.mark.parametrize("case", BY_PRIORITY)
def test_by_priority(case: str) -> None:
    levels, seats, expected = BY_PRIORITY[case]

    assert expected == by_priority([prior(*level) for level in levels], seats)


def test_levelled() -> None:
    """Which levels have the same seats though their shares differ, and what is enough."""
    shares = {"a": 5, "b": 4, "c": 4, "d": 1, "e": 0}

    assert [(("a", "b", "c"), 1, 14)] == list(levelled(2, shares, "abc"))
    assert [(("a", "d"), 1, 4)] == list(levelled(2, shares, "ad"))
    assert [] == list(levelled(14, shares, "abcde"))
    assert [] == list(levelled(2, shares, "bc"))
    assert [] == list(levelled(0, shares, "abcde"))


def test_within() -> None:
    assert (3, 2, 1) == within([3, 3, 1], [0, 0, 0], 6)
    assert (2, 1) == within([2, 4], [5, 0], 6) == within([2, 4], [9, 1], 6)
