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
