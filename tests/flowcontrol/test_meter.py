"""Tests of apfproxy.flowcontrol.meter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import (
    DEMAND_RATIO_BOUNDS,
    REQUEST_RATIO_BOUNDS,
    SEAT_RATIO_BOUNDS,
    LevelMeter,
    RatioHistogram,
    pack,
)
from tests.conformance import vectors

BUCKETS = {metric["name"]: metric.get("buckets", []) for metric in vectors.load("metrics")}


@pytest.mark.parametrize(
    ("bounds", "metric"),
    [
        (REQUEST_RATIO_BOUNDS, "priority_level_request_utilization"),
        (SEAT_RATIO_BOUNDS, "priority_level_seat_utilization"),
        (DEMAND_RATIO_BOUNDS, "demand_seats"),
    ],
)
def test_bounds_are_those_of_kubernetes(bounds: tuple[float, ...], metric: str) -> None:
    """The buckets are the reference's, but for the last, which has no bound."""
    *expected, last = BUCKETS[f"apiserver_flowcontrol_{metric}"]

    assert last == "+Inf"
    assert [float(bound) for bound in expected] == list(bounds)


@given(st.tuples(*[st.integers(0, 100_000)] * 4))
def test_states_come_back(state: tuple[int, int, int, int]) -> None:
    """Each part of a state is measured as it was packed."""
    meter = LevelMeter()
    meter.time_at[pack(*state)] = 10
    meter.fold()

    executing, seats, waiting, seats_waiting = state
    assert executing * 10 == meter.requests_executing.sum
    assert seats * 10 == meter.seats_in_use.sum
    assert waiting * 10 == meter.requests_waiting.sum
    assert (seats + seats_waiting) * 10 == meter.seat_demand.sum
    assert meter.time_at == {}


def test_ratios_fall_into_inclusive_buckets() -> None:
    """Time is counted in the first bucket whose bound the ratio does not exceed."""
    histogram = RatioHistogram((0, 0.5, 1))
    histogram.denominator = 4
    for value, duration_ns in ((0, 1), (1, 10), (2, 100), (4, 1000), (5, 10_000)):
        histogram.add(value, duration_ns)

    assert histogram.counts == [1, 110, 1000, 10_000]
    assert histogram.sum == 2.5 + 50 + 1000 + 12_500


def test_each_denominator_holds_from_its_change_on() -> None:
    """What was measured before is divided by what held before."""
    meter = LevelMeter()
    state = pack(requests_executing=2, seats=4, requests_waiting=6, seats_waiting=8)
    meter.time_at[state] = 100
    meter.set_seats_denominator(4)
    meter.set_waiting_capacity(60)
    meter.time_at[state] = 100
    meter.fold()

    assert meter.requests_executing.sum == 200 + 50
    assert meter.seats_in_use.sum == 400 + 100
    assert meter.requests_waiting.sum == 600 + 10
    assert meter.seat_demand.sum == 1200 + 300


def test_a_denominator_is_never_zero() -> None:
    """A level without queues is measured against one request."""
    meter = LevelMeter()
    meter.set_waiting_capacity(0)
    histograms = (
        meter.requests_executing,
        meter.seats_in_use,
        meter.requests_waiting,
        meter.seat_demand,
    )

    assert [histogram.denominator for histogram in histograms] == [1, 1, 1, 1]
