"""Tests of the request counts by kind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import (
    EXECUTING,
    MUTATING,
    NS_PER_S,
    RATIO_BOUNDS,
    READ_ONLY,
    WAITING,
    KindMeter,
    RequestCount,
)


def bucket_ns(by_bound: dict[float, int]) -> tuple[int, ...]:
    """Nanoseconds by bucket from those by upper bound; infinity is the last."""
    return tuple(by_bound.get(bound, 0) for bound in (*RATIO_BOUNDS, float("inf")))


def test_usage_adds_nanoseconds_to_the_share_that_was_in_use() -> None:
    """Two of four seats for 30 ns, one for 20 ns and none for 50 ns are exactly that."""
    meter = KindMeter(100)
    meter.set_limits(100, waiting=0, executing=4)
    meter.kinds[True].executing.begin(150)
    meter.kinds[True].executing.begin(160)
    meter.kinds[True].executing.end(190)
    meter.kinds[True].executing.end(200)

    usages = {(usage.phase, usage.request_kind): usage for usage in meter.usages(200)}

    executing = usages[EXECUTING, MUTATING]
    assert bucket_ns({0: 50, 0.3: 20, 0.5: 30}) == executing.bucket_ns
    assert (20 * 1 + 30 * 2) / 4 == executing.ratio_ns
    assert bucket_ns({0: 100}) == usages[EXECUTING, READ_ONLY].bucket_ns
    assert bucket_ns({0: 100}) == usages[WAITING, MUTATING].bucket_ns
    assert bucket_ns({0: 100}) == usages[WAITING, READ_ONLY].bucket_ns


def test_waiting_is_counted_apart_from_executing() -> None:
    """A request that waits 10 ns and then executes shows as waiting for those 10 ns only."""
    meter = KindMeter(0)
    meter.kinds[False].waiting.begin(5)
    meter.kinds[False].waiting.end(15)
    meter.kinds[False].executing.begin(15)

    usages = {(usage.phase, usage.request_kind): usage for usage in meter.usages(20)}

    assert bucket_ns({0: 10, 1: 10}) == usages[WAITING, READ_ONLY].bucket_ns
    assert bucket_ns({0: 15, 1: 5}) == usages[EXECUTING, READ_ONLY].bucket_ns


def test_set_limits_leaves_the_past_alone() -> None:
    """What was counted under one limit stays in the buckets of that limit."""
    meter = KindMeter(0)
    meter.kinds[False].executing.begin(0)
    meter.set_limits(10, waiting=5, executing=2)

    usage = meter.usages(30)[2]

    assert bucket_ns({1: 10, 0.5: 20}) == usage.bucket_ns
    assert 10 * 1 + 20 / 2 == usage.ratio_ns


def test_counts_above_the_limit_go_to_the_last_bucket() -> None:
    """More than the limit can execute, since exempt requests do; the last bucket has them."""
    meter = KindMeter(0)
    meter.kinds[False].executing.begin(0)
    meter.kinds[False].executing.begin(0)

    assert bucket_ns({float("inf"): 7}) == meter.usages(7)[2].bucket_ns


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
    """Three at once in the first second, one of which goes on."""
    meter = KindMeter(0)
    for _ in range(3):
        meter.kinds[True].executing.begin(100)
    for _ in range(2):
        meter.kinds[True].executing.end(200)

    assert {MUTATING: expected, READ_ONLY: 0} == meter.in_flight(round(now_s * NS_PER_S))


def test_in_queue_is_of_those_that_wait() -> None:
    """A request that executes is not one of them."""
    meter = KindMeter(0)
    meter.kinds[False].waiting.begin(100)
    meter.kinds[False].waiting.begin(100)
    meter.kinds[False].waiting.end(200)
    meter.kinds[True].executing.begin(200)

    assert {MUTATING: 0, READ_ONLY: 2} == meter.in_queue(NS_PER_S)
    assert {MUTATING: 0, READ_ONLY: 1} == meter.in_queue(2 * NS_PER_S)


def test_in_flight_rolls_with_events_too() -> None:
    """Events in a later second close the one before, even when nobody reads in between."""
    meter = KindMeter(0)
    meter.kinds[True].executing.begin(0)
    meter.kinds[True].executing.begin(NS_PER_S)
    meter.kinds[True].executing.end(2 * NS_PER_S)
    meter.kinds[True].executing.end(2 * NS_PER_S)

    assert {MUTATING: 2, READ_ONLY: 0} == meter.in_flight(2 * NS_PER_S)
    assert {MUTATING: 2, READ_ONLY: 0} == meter.in_flight(3 * NS_PER_S)
    assert {MUTATING: 0, READ_ONLY: 0} == meter.in_flight(4 * NS_PER_S)


def test_a_count_seen_in_an_earlier_second_is_reached_again() -> None:
    """The high watermark begins anew with each second, the times at each count do not."""
    meter = KindMeter(0)
    meter.kinds[True].executing.begin(0)
    meter.kinds[True].executing.end(5)
    meter.kinds[True].executing.begin(3 * NS_PER_S)

    expected = bucket_ns({0: 3 * NS_PER_S - 5, 1: 12})
    assert expected == meter.usages(3 * NS_PER_S + 7)[3].bucket_ns


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
    """Whatever happens, the buckets hold all time and the sum all requests times time."""
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
