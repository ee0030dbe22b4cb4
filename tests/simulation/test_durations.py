"""Distributions of durations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.simulation.durations import Durations


def durations_of(values: list[int]) -> Durations:
    """The distribution of some durations."""
    found = Durations()
    for value in values:
        found.add(value)
    return found


@given(values=st.lists(st.integers(0, 10**13), min_size=1), part=st.floats(0.01, 1))
def test_quantiles_are_close(values: list[int], part: float) -> None:
    """A quantile is within 0.8 % of the exact one."""
    exact = sorted(values)[math.ceil(part * len(values)) - 1]

    (found,) = durations_of(values).quantiles((part,))

    assert found == pytest.approx(exact, rel=0.008)


def test_zeros_count() -> None:
    """Durations of 0 that were never added count for the quantiles."""
    found = durations_of([100, 100])

    assert (0.0, 0.0, 100.0) == found.quantiles((0.5, 0.6, 1.0), zeros=3)
    assert (0.0,) == Durations().quantiles((0.5,))


@given(first=st.lists(st.integers(0, 10**9)), second=st.lists(st.integers(0, 10**9)))
def test_merges(first: list[int], second: list[int]) -> None:
    """Two distributions merged are that of all durations."""
    merged = durations_of(first)
    merged.merge(durations_of(second))
    expected = durations_of(first + second)

    assert expected.counts == merged.counts
    assert expected.total_ns == merged.total_ns
