"""Tests of what flow control counts for metrics, and of seat demand."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import (
    DURATION_BOUNDS_NS,
    EXECUTING,
    MUTATING,
    NS_PER_S,
    RATIO_BOUNDS,
    READ_ONLY,
    SHORT_NS,
    SMOOTHING_COEFFICIENT,
    DemandStats,
    FlowSchemaCounters,
    Histogram,
    KindMeter,
    LevelMeter,
    RatioHistogram,
    RequestCount,
    SeatDemand,
    pack,
)


def test_requests_dispatched_at_once_are_sorted_when_read() -> None:
    counters = FlowSchemaCounters("level", "schema")
    counters.dispatched_at_once = 3
    counters.wait_executed_ns.observe(7_000_000)
    counters.dispatched_at_once += 2
    counters.queue_length_after_enqueue.observe(20)

    assert counters.wait_executed_ns.counts[:3] == [5, 0, 1]
    assert counters.wait_executed_ns.sum == 7_000_000
    assert counters.queue_length_after_enqueue.counts[:3] == [0, 5, 1]
    assert counters.queue_length_after_enqueue.sum == 25


@given(st.tuples(*[st.integers(0, 100_000)] * 4))
def test_states_come_back(state: tuple[int, int, int, int]) -> None:
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
    histogram = RatioHistogram((0, 0.5, 1))
    histogram.denominator = 4
    for value, duration_ns in ((0, 1), (1, 10), (2, 100), (4, 1000), (5, 10_000)):
        histogram.add(value, duration_ns)
    assert histogram.counts == [1, 110, 1000, 10_000]
    assert histogram.sum == 2.5 + 50 + 1000 + 12_500


def test_sums_and_highs() -> None:
    first, second = Histogram((1, 10)), Histogram((1, 10))
    for histogram, values in ((first, (1, 5)), (second, (5, 100))):
        for value in values:
            histogram.observe(value)
    first.add(second)
    assert ([1, 2, 1], 111) == (first.counts, first.sum)

    meter = KindMeter(0)
    meter.kinds[False].executing.begin(0)
    meter.kinds[True].waiting.begin(0)
    assert {READ_ONLY: 1, MUTATING: 0} == meter.in_flight(NS_PER_S)
    assert {READ_ONLY: 0, MUTATING: 1} == meter.in_queue(NS_PER_S)


def test_each_denominator_holds_from_its_change_on() -> None:
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


def bucket_ns(by_bound: dict[float, int]) -> tuple[int, ...]:
    return tuple(by_bound.get(bound, 0) for bound in (*RATIO_BOUNDS, float("inf")))


def test_set_limits_leaves_the_past_alone() -> None:
    meter = KindMeter(0)
    meter.kinds[False].executing.begin(0)
    meter.set_limits(10, waiting=5, executing=2)
    usage = meter.usages(30)[2]
    assert bucket_ns({1: 10, 0.5: 20}) == usage.bucket_ns
    assert 10 * 1 + 20 / 2 == usage.ratio_ns


@pytest.mark.parametrize(
    ("now_s", "expected"),
    [
        pytest.param(0.9, 0, id="no-second-is-over"),
        pytest.param(1.0, 3, id="the-first-second-saw-three"),
        pytest.param(1.9, 3, id="still-the-first-second"),
        pytest.param(2.0, 1, id="one-was-still-there-in-the-second"),
        pytest.param(7.5, 1, id="and-goes-on"),
    ],
)
def test_in_flight_is_the_maximum_of_the_last_full_second(now_s: float, expected: int) -> None:
    meter = KindMeter(0)
    for _ in range(3):
        meter.kinds[True].executing.begin(100)
    for _ in range(2):
        meter.kinds[True].executing.end(200)
    assert {MUTATING: expected, READ_ONLY: 0} == meter.in_flight(round(now_s * NS_PER_S))


def test_an_event_told_late_takes_nothing_away() -> None:
    """A dispatch at 5 ns that is told after an end at 10 ns counts from 10 ns on."""
    meter = KindMeter(0)
    meter.kinds[True].executing.begin(0)
    meter.kinds[True].executing.end(10)
    meter.kinds[True].executing.begin(5)
    meter.kinds[True].executing.end(8)
    assert bucket_ns({0: 5, 1: 10}) == meter.usages(15)[3].bucket_ns


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("begin", "end", "flush", "high")), st.integers(0, NS_PER_S * 2))
    ),
    denominator=st.integers(1, 5),
)
def test_no_nanosecond_is_lost(steps: list[tuple[str, int]], denominator: int) -> None:
    now_ns = 0
    request_ns = 0
    count = RequestCount(EXECUTING, MUTATING, now_ns)
    count.shares.denominator = denominator
    for step, duration_ns in steps:
        now_ns += duration_ns
        request_ns += count.count * duration_ns
        if step == "begin":
            count.begin(now_ns)
        elif step == "end" and count.count:
            count.end(now_ns)
        elif step == "flush":
            count.flush(now_ns)
        else:
            assert 0 <= count.last_high(now_ns)
            assert count.previous_high <= len(steps)

    usage = count.usage(now_ns)

    assert now_ns == sum(usage.bucket_ns)
    assert pytest.approx(request_ns / denominator) == usage.ratio_ns


def test_an_end_without_a_beginning() -> None:
    """After errors of the program there are such; the count stays of use to all others."""
    count = RequestCount(EXECUTING, READ_ONLY, 0)
    for _ in range(3):
        count.end(10)
    count.flush(20)

    count.begin(30)
    count.begin(40)
    count.end(50)
    assert 1 == count.count
    assert bucket_ns({0: 30, 1: 10, float("inf"): 10}) == count.usage(50).bucket_ns


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1))
@example([(3, 5)])
def test_statistics_are_those_of_a_sample_each_nanosecond(steps: list[tuple[int, int]]) -> None:
    demand = SeatDemand(0)
    samples: list[int] = []
    for seats, duration_ns in steps:
        demand.update(len(samples), seats)
        samples += [seats] * duration_ns

    stats = demand.reset(len(samples))

    assert max(seats for seats, _ in steps) == stats.high_watermark
    if samples:
        assert pytest.approx(statistics.fmean(samples)) == stats.average
        # Kubernetes subtracts the squared average, which leaves the root of a rounding error.
        assert pytest.approx(statistics.pstdev(samples), abs=1e-6) == stats.stddev


def test_histogram_bounds_are_inclusive() -> None:
    histogram = Histogram((0, 10))
    for value in (0, 1, 10, 11):
        histogram.observe(value)

    assert ([1, 2, 1], 22) == (histogram.counts, histogram.sum)
    short = Histogram(DURATION_BOUNDS_NS)
    for duration_ns in (1, SHORT_NS):
        short.observe(duration_ns)
    assert [0, 2] == short.counts[:2]
    assert 0 == DURATION_BOUNDS_NS[0] < SHORT_NS == DURATION_BOUNDS_NS[1]


def test_in_flight_rolls_with_events_too() -> None:
    meter = KindMeter(0)
    executing = meter.kinds[True].executing
    executing.begin(0)
    executing.begin(NS_PER_S)
    executing.end(2 * NS_PER_S)
    executing.end(2 * NS_PER_S)

    assert [2, 2, 0] == [meter.in_flight(second * NS_PER_S)[MUTATING] for second in (2, 3, 4)]


def test_smoothed_rises_at_once_and_decays_slowly() -> None:
    """A period without length tells its high watermark only."""
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
    demand.update(30, 8)

    assert DemandStats(200.0, 0.0, 200) == demand.reset(30)
    assert pytest.approx(200) == demand.smoothed


def test_peaks_between_marks() -> None:
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

    assert (0, 3) == (demand.recent_watermark, demand.reset(4).high_watermark)


def test_tokens_that_are_taken_back_are_made_good_by_the_next() -> None:
    """A metric that counts must never fall."""
    counters = FlowSchemaCounters("level", "schema")
    meter = counters.token_meter()
    assert meter is counters.token_meter()
    seen = []
    for tokens in 5, -3, 2, -2, 4, 1:
        meter.count(tokens)
        seen.append(meter.completion_tokens)

    assert [5, 5, 5, 5, 6, 7] == seen


def test_equal_parts_of_a_total_fall_into_one_bucket() -> None:
    histogram = Histogram((10, 20))
    histogram.observe_each(3, 32)
    histogram.observe_each(1, 11)

    assert [3, 1, 0] == histogram.counts
    assert 43 == histogram.sum
