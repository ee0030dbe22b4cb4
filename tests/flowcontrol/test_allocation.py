"""Tests of the bounded proportional allocation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.allocation import MIN_TARGET, InfeasibleError, Item, allocate


@st.composite
def divisions(draw: st.DrawFn) -> tuple[int, list[Item]]:
    """A sum and items that it can be divided among."""
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
def test_allocate_keeps_bounds_and_sum(division: tuple[int, list[Item]]) -> None:
    required_sum, items = division

    amounts = allocate(required_sum, items).amounts

    assert pytest.approx(required_sum) == sum(amounts)
    for item, amount in zip(items, amounts, strict=True):
        assert min(max(amount, item.lower_bound), item.upper_bound) == amount


@settings(deadline=None)
@given(divisions())
def test_allocate_deviates_from_the_proportion_at_bounds_only(
    division: tuple[int, list[Item]],
) -> None:
    required_sum, items = division

    allocation = allocate(required_sum, items)

    for item, amount in zip(items, allocation.amounts, strict=True):
        share = allocation.fair_proportion * max(item.target, MIN_TARGET)
        expected = min(max(share, item.lower_bound), item.upper_bound)
        assert pytest.approx(expected, abs=1e-6) == amount


@pytest.mark.parametrize(
    ("required_sum", "items", "why"),
    [
        pytest.param(-1, [], "required sum is -1", id="negative-sum"),
        pytest.param(1, [], "upper bounds sum to 0, less than 1", id="nobody-to-take-it"),
        pytest.param(1, [Item(2, 2, 3)], "lower bounds sum to 2, more than 1", id="too-little"),
        pytest.param(4, [Item(2, 2, 3)], "upper bounds sum to 3, less than 4", id="too-much"),
        pytest.param(1, [Item(0, -1, 3)], "lower bound of item 0 is -1", id="negative-bound"),
        pytest.param(1, [Item(1, 2, 3)], "target of item 0 is 1", id="target-below-its-bound"),
        pytest.param(1, [Item(2, 2, 1)], "upper bound of item 0 is 1", id="bounds-crossed"),
    ],
)
def test_allocate_refuses(required_sum: int, items: list[Item], why: str) -> None:
    with pytest.raises(InfeasibleError, match=re.escape(why)):
        allocate(required_sum, items)


@pytest.mark.parametrize(
    ("required_sum", "items", "amounts", "proportion"),
    [
        # Half a seat, but for the steps to it: the reference rounds it to none.
        pytest.param(
            12,
            [Item(0, 0, 20), Item(0, 0, 1), Item(1, 1, 11)],
            (0.49999999999999944, 0.49999999999999944, 11),
            499.99999999999943,
            id="a-step-to-the-last-bend-but-one",
        ),
        pytest.param(
            1318032986,
            [
                Item(527988254, 201722169, 445941021),
                Item(1028122406, 872091965, 1385661022),
            ],
            (445941021, 872091965),
            0.8446040562864491,
            id="a-step-just-short-of-a-bend",
        ),
    ],
)
def test_allocate_rounds_as_the_reference(
    required_sum: int, items: list[Item], amounts: tuple[float, ...], proportion: float
) -> None:
    allocation = allocate(required_sum, items)

    assert (amounts, proportion) == (allocation.amounts, allocation.fair_proportion)
