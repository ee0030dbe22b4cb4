"""Tests of the division of seats and of its adjustment."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.allocation import MIN_TARGET, InfeasibleError, Item, allocate
from apfproxy.flowcontrol.limits import (
    LevelDemand,
    LevelLimits,
    adjust,
    by_priority,
    levelled,
    nominal_limits,
    within,
)
from apfproxy.flowcontrol.priority_level import MAX_RETRY_AFTER_S, RetryAfter

names = st.text("abc", min_size=1)


@settings(deadline=None)
@given(server_limit=st.integers(0, 5_000), shares=st.dictionaries(names, st.integers(0, 2**31 - 1)))
def test_nominal_limits_lose_no_seat(server_limit: int, shares: dict[str, int]) -> None:
    is_shared = any(shares.values())
    total = sum(nominal_limits(server_limit, shares).values())
    most = server_limit + len(shares) - 1
    assert server_limit * is_shared <= total <= most * is_shared


def limited(
    nominal: int, lower: int, upper: int, high_watermark: int = 0, smoothed: float = 0.0
) -> LevelDemand:
    return LevelDemand(LevelLimits(nominal, lower, upper), False, high_watermark, smoothed, 77)


def exempt(nominal: int, lower: int, high_watermark: int = 0) -> LevelDemand:
    return LevelDemand(LevelLimits(nominal, lower, nominal + 100), True, high_watermark, 0.0, 0)


@st.composite
def demands(draw: st.DrawFn) -> LevelDemand:
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
    shares = {"a": 5, "b": 4, "c": 4, "d": 1, "e": 0}
    assert [(("a", "b", "c"), 1, 14)] == list(levelled(2, shares, "abc"))
    assert [(("a", "d"), 1, 4)] == list(levelled(2, shares, "ad"))
    assert [] == list(levelled(14, shares, "abcde"))
    assert [] == list(levelled(2, shares, "bc"))
    assert [] == list(levelled(0, shares, "abcde"))


def test_within() -> None:
    assert (3, 2, 1) == within([3, 3, 1], [0, 0, 0], 6)
    assert (2, 1) == within([2, 4], [5, 0], 6) == within([2, 4], [9, 1], 6)


@st.composite
def divisions(draw: st.DrawFn) -> tuple[int, list[Item]]:
    items = []
    for _ in range(draw(st.integers(1, 8))):
        lower = draw(st.integers(0, 50))
        upper = lower + draw(st.integers(0, 50))
        target = lower + draw(st.one_of(st.integers(0, 80), st.floats(0, 80)))
        items.append(Item(target, lower, upper))
    low_sum = round(sum(item.lower_bound for item in items))
    high_sum = round(sum(item.upper_bound for item in items))
    return draw(st.integers(low_sum, high_sum)), items


@settings(deadline=None)
@given(divisions())
def test_amounts_deviate_from_the_proportion_at_bounds_only(
    division: tuple[int, list[Item]],
) -> None:
    required_sum, items = division
    found = allocate(required_sum, items)

    assert pytest.approx(required_sum) == sum(found.amounts)
    for item, amount in zip(items, found.amounts, strict=True):
        assert item.lower_bound <= amount <= item.upper_bound
        share = found.fair_proportion * max(item.target, MIN_TARGET)
        expected = min(max(share, item.lower_bound), item.upper_bound)
        assert pytest.approx(expected, abs=1e-6) == amount


@pytest.mark.parametrize(
    ("required_sum", "items", "why"),
    [
        (-1, [], "required sum is -1"),
        (1, [], "upper bounds sum to 0, less than 1"),
        (1, [Item(2, 2, 3)], "lower bounds sum to 2, more than 1"),
        (4, [Item(2, 2, 3)], "upper bounds sum to 3, less than 4"),
        (1, [Item(0, -1, 3)], "lower bound of item 0 is -1"),
        (1, [Item(1, 2, 3)], "target of item 0 is 1"),
        (1, [Item(2, 2, 1)], "upper bound of item 0 is 1"),
    ],
)
def test_refused(required_sum: int, items: list[Item], why: str) -> None:
    with pytest.raises(InfeasibleError, match=re.escape(why)):
        allocate(required_sum, items)


HALF = 0.49999999999999944


@pytest.mark.parametrize(
    ("required_sum", "items", "amounts", "proportion"),
    [
        # Half a seat, but for the steps to it: the reference rounds it to none.
        (12, [(0, 0, 20), (0, 0, 1), (1, 1, 11)], (HALF, HALF, 11), 499.99999999999943),
        (
            1318032986,
            [(527988254, 201722169, 445941021), (1028122406, 872091965, 1385661022)],
            (445941021, 872091965),
            0.8446040562864491,
        ),
    ],
    ids=["a-step-to-the-last-bend-but-one", "a-step-just-short-of-a-bend"],
)
def test_rounds_as_the_reference(
    required_sum: int,
    items: list[tuple[int, int, int]],
    amounts: tuple[float, ...],
    proportion: float,
) -> None:
    found = allocate(required_sum, [Item(*item) for item in items])
    assert (amounts, proportion) == (found.amounts, found.fair_proportion)


steps = st.tuples(st.integers(-2, 40), st.integers(1, 60))


@given(st.lists(steps, max_size=30))
def test_stays_within_bounds_though_time_may_run_backwards(seconds: list[tuple[int, int]]) -> None:
    retry_after = RetryAfter()
    now_s = 1_700_000_000
    for passed_s, drops in seconds:
        now_s += passed_s
        for _ in range(drops):
            retry_after.record_drop(now_s)

        assert 1 <= retry_after.get() <= MAX_RETRY_AFTER_S
