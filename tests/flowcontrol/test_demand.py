"""Tests of the seat demand integrator."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import NS_PER_S, SMOOTHING_COEFFICIENT, DemandStats, SeatDemand


def as_tuple(stats: DemandStats) -> tuple[float, float, int]:
    """The statistics as a value that can be compared."""
    return stats.average, stats.stddev, stats.high_watermark


def test_variance_is_never_negative() -> None:
    """What rounding leaves below zero is no deviation."""
    demand = SeatDemand(0)
    demand.update(0, 7)

    assert [0.0] * 50 == [demand.reset(i * 1_234_567).stddev // 1e-6 for i in range(1, 51)]


def test_a_period_without_length_tells_its_high_watermark_only() -> None:
    """The averages stay those of the period before; so does the envelope."""
    demand = SeatDemand(0)
    demand.update(0, 3)
    demand.reset(10 * NS_PER_S)
    smoothed = demand.smoothed
    demand.update(10 * NS_PER_S, 8)

    assert (3.0, 0.0, 8) == as_tuple(demand.reset(10 * NS_PER_S))
    assert smoothed == demand.smoothed


def test_smoothed_rises_at_once_and_decays_slowly() -> None:
    """A peak counts fully in its own period, and almost so in the next."""
    demand = SeatDemand(0)
    demand.update(0, 100)
    demand.reset(10)
    demand.update(10, 0)

    assert pytest.approx(100) == demand.smoothed
    demand.reset(20)
    assert pytest.approx(100 * SMOOTHING_COEFFICIENT) == demand.smoothed
    demand.update(20, 200)
    demand.reset(30)
    assert pytest.approx(200) == demand.smoothed


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1))
def test_statistics_are_those_of_a_sample_each_nanosecond(steps: list[tuple[int, int]]) -> None:
    """The integrals give what the plain definition gives."""
    demand = SeatDemand(0)
    samples: list[int] = []
    for seats, duration_ns in steps:
        demand.update(len(samples), seats)
        samples += [seats] * duration_ns

    stats = demand.reset(len(samples))

    assert max(seats for seats, _ in steps) == stats.high_watermark
    if samples:
        assert pytest.approx(statistics.fmean(samples)) == stats.average
        assert pytest.approx(statistics.pstdev(samples), abs=1e-9) == stats.stddev


def test_peaks_between_marks() -> None:
    """A peak is the maximum since it was taken last; marks and periods remember all of them."""
    demand = SeatDemand(0)
    demand.update(0, 3)
    demand.update(1, 1)
    assert [3, 3, 1] == [demand.peak, demand.take_peak(), demand.peak]
    assert 3 == demand.recent_watermark
    demand.update(2, 2)
    demand.update(3, 0)

    demand.mark()
    assert [2, 0] == [demand.take_peak(), demand.take_peak()]
    demand.mark()
    assert 0 == demand.recent_watermark
    assert 3 == demand.reset(4).high_watermark
