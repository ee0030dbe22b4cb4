"""Durations, tallies and the seats of levels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import pack
from apfproxy.simulation.measures import Durations, Tally
from apfproxy.simulation.simulation import Simulation
from tests.simulation.scene import objects


def durations_of(values: list[int]) -> Durations:
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
    merged = durations_of(first)
    merged.merge(durations_of(second))
    expected = durations_of(first + second)

    assert expected.counts == merged.counts
    assert expected.total_ns == merged.total_ns


def test_tallies_merge() -> None:
    first, second = Tally(), Tally()
    for tally in (first, second):
        tally.executed, tally.queued, tally.cut_off, tally.without_seats = 3, 2, 1, 4
        tally.seat_ns, tally.service_ns = 10, 20
        tally.waits.add(5)
        tally.rejected["time-out"] = 2
    second.rejected["queue-full"] = 1
    first.merge(second)

    assert (6, 4, 2, 8) == (first.executed, first.queued, first.cut_off, first.without_seats)
    assert (20, 40, 10) == (first.seat_ns, first.service_ns, first.waits.total_ns)
    assert {"time-out": 4, "queue-full": 1} == first.rejected
    assert (5, 19) == (first.rejected_total, first.requests)


def test_integrates() -> None:
    """Seats, waiting requests and borrowed seats are weighted by time."""
    view = Simulation(objects(), 2).views["level"]
    view.time_at[pack(1, 3, 0, 0)] = 10
    view.time_at[pack(1, 1, 4, 4)] = 100
    view.fold()

    assert (130, 400, 10) == (view.seat_ns, view.waiting_ns, view.borrowed_ns)
    assert (3, 4) == (view.max_seats, view.max_waiting)
    assert {} == view.time_at
