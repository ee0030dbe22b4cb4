"""Tests of apfproxy.flowcontrol.counters."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import DURATION_BOUNDS_NS, SHORT_NS, FlowSchemaCounters, Histogram


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        pytest.param(0, [1, 0, 0], id="at-the-first-bound"),
        pytest.param(1, [0, 1, 0], id="between"),
        pytest.param(10, [0, 1, 0], id="at-the-last-bound"),
        pytest.param(11, [0, 0, 1], id="above"),
    ],
)
def test_histogram_bounds_are_inclusive(value: int, counts: list[int]) -> None:
    """A value falls into the first bucket whose bound it does not exceed."""
    histogram = Histogram((0, 10))
    histogram.observe(value)

    assert counts == histogram.counts
    assert value == histogram.sum


def test_requests_dispatched_at_once_are_sorted_when_read() -> None:
    """They waited for no time, in a queue that they had to themselves."""
    counters = FlowSchemaCounters("level", "schema")
    counters.dispatched_at_once = 3
    counters.wait_executed_ns.observe(7_000_000)
    counters.dispatched_at_once += 2
    counters.queue_length_after_enqueue.observe(20)

    assert counters.wait_executed_ns.counts[:3] == [5, 0, 1]
    assert counters.wait_executed_ns.sum == 7_000_000
    assert counters.queue_length_after_enqueue.counts[:3] == [0, 5, 1]
    assert counters.queue_length_after_enqueue.sum == 25


def test_short_durations() -> None:
    """They are told by a comparison, as the search would find them."""
    histogram = Histogram(DURATION_BOUNDS_NS)
    for duration_ns in (1, SHORT_NS):
        histogram.observe(duration_ns)

    assert [0, 2] == histogram.counts[:2]
    assert 0 == DURATION_BOUNDS_NS[0] < SHORT_NS == DURATION_BOUNDS_NS[1]
