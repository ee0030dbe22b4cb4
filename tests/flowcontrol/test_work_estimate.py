"""Tests of work, and of how it is estimated."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.learned_costs import ObjectStats
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.queue_set import (
    ONE_SEAT,
    WorkEstimate,
    format_seat_seconds,
    ns_per_seat,
    seat_ticks,
)
from apfproxy.request.attributes import parse_attributes

MEGABYTES = ObjectStats(count=1000, average_bytes=4000)  # 40 seats' worth
MANY = ObjectStats(1_000_000_000, 1_500_000)


def estimator(stats: ObjectStats | None = MEGABYTES, watch_count: int = 0) -> WorkEstimator:
    """An estimator that knows the same about every request."""
    return WorkEstimator(lambda _: stats, lambda _: watch_count)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", b"/api/v1/pods/p"),
        ("GET", b"/healthz"),
        ("POST", b"/metrics"),
        ("DELETE", b"/api/v1/namespaces/n/pods"),
        ("POST", b"/api/v1/namespaces/n/serviceaccounts/s/token"),
        ("GET", b"/api/v1/pods?watch=1&resourceVersion=5"),
    ],
)
def test_fixed(method: str, target: bytes) -> None:
    """These need one seat, whatever is known."""
    attributes = parse_attributes(method, target)

    assert estimator().fixed(attributes) is ONE_SEAT
    assert estimator(MANY, watch_count=1000).estimate(attributes, 0) is ONE_SEAT


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", b"/api/v1/pods"),
        ("GET", b"/api/v1/pods?watch=1"),
        ("GET", b"/api/v1/pods?watch=1&resourceVersion=5&limit=x"),
        ("POST", b"/api/v1/namespaces/n/pods"),
        ("PATCH", b"/not/a/resource"),
    ],
)
def test_not_fixed(method: str, target: bytes) -> None:
    """These depend on what is known of their objects or on the priority level."""
    assert estimator().fixed(parse_attributes(method, target)) is None


@pytest.mark.parametrize(
    ("target", "stats", "max_seats", "seats"),
    [
        pytest.param(b"", MEGABYTES, 0, 40, id="whole"),
        pytest.param(b"", MEGABYTES, 15, 15, id="level-allows-less"),
        pytest.param(b"", ObjectStats(10_000, 10_000), 500, 100, id="most-for-a-list"),
        pytest.param(b"", ObjectStats(1, 100_001), 0, 2, id="rounded-up"),
        pytest.param(b"", ObjectStats(0, 0), 0, 1, id="empty"),
        pytest.param(b"", ObjectStats(3, 0), 0, 45, id="size-unknown"),
        pytest.param(b"", None, 0, 1, id="nothing-known"),
        pytest.param(b"", MANY, 0, 100, id="outdated"),
        pytest.param(b"?limit=100", MEGABYTES, 0, 4, id="limit"),
        pytest.param(b"?limit=100&labelSelector=a", MEGABYTES, 0, 20, id="limit-and-selector"),
        pytest.param(b"?resourceVersion=0", MEGABYTES, 0, 10, id="from-the-cache"),
        pytest.param(b"?resourceVersion=0&labelSelector=a", MEGABYTES, 0, 10, id="cached-selector"),
        pytest.param(b"?fieldSelector=metadata.name=a", MEGABYTES, 0, 1, id="one-name"),
        pytest.param(b"?limit=x", None, 7, 7, id="not-decodable"),
        pytest.param(b"?watch=1", MEGABYTES, 0, 10, id="watch"),
    ],
)
def test_list(target: bytes, stats: ObjectStats | None, max_seats: int, seats: int) -> None:
    """A LIST takes a seat per 100 kB that is held for it."""
    attributes = parse_attributes("GET", b"/api/v1/pods" + target)

    estimate = estimator(stats).estimate(attributes, max_seats)

    assert (seats, 0, 0) == (
        estimate.initial_seats,
        estimate.final_seats,
        estimate.additional_latency_ns,
    )


@pytest.mark.parametrize(
    ("estimate", "max_seats", "work"),
    [
        pytest.param(ONE_SEAT, 1, 300_000, id="one-seat"),
        pytest.param(WorkEstimate(3), 3, 900_000, id="wide"),
        pytest.param(WorkEstimate(1, 4, 5_000_000), 4, 2_300_000, id="final-seats-are-more"),
        pytest.param(WorkEstimate(4, 1, 5_000_000), 4, 1_700_000, id="initial-seats-are-more"),
    ],
)
def test_work_estimate(estimate: WorkEstimate, max_seats: int, work: int) -> None:
    assert max_seats == estimate.max_seats
    assert work == estimate.work


def test_a_cut_estimate_keeps_its_final_work() -> None:
    cut = WorkEstimate(3, 8, 5_000_000).cut(2)

    assert repr(cut) == "WorkEstimate(3, 2, 20000000)"
    assert cut.work == WorkEstimate(3, 8, 5_000_000).work


@pytest.mark.parametrize(
    ("seats", "duration_ns", "ticks"),
    [
        pytest.param(1, 3_000_000, 300_000, id="the-guess"),
        pytest.param(1, 4, 0, id="down"),
        pytest.param(1, 5, 1, id="half-away-from-zero"),
        pytest.param(1, -5, -1, id="negative-half-away-from-zero"),
        pytest.param(1, -4, 0, id="negative-up"),
        pytest.param(1 / 3, 100, 3, id="a-share"),
        pytest.param(0.49999999999999994, 10, 0, id="just-below-a-half"),
        pytest.param(1, 45_035_996_273_704_970, 4_503_599_627_370_497, id="beyond-2**52"),
    ],
)
def test_seat_ticks(seats: float, duration_ns: int, ticks: int) -> None:
    """Work is rounded once, half away from zero."""
    assert ticks == seat_ticks(seats, duration_ns)


@pytest.mark.parametrize(
    ("work", "seats", "duration_ns"),
    [(300_000, 1, 3_000_000), (100, 3, 333), (0, 5, 0)],
)
def test_ns_per_seat(work: int, seats: int, duration_ns: int) -> None:
    """The time is rounded down."""
    assert duration_ns == ns_per_seat(work, seats)


@pytest.mark.parametrize(
    ("work", "text"),
    [(0, "0.00000000ss"), (300_000, "0.00300000ss"), (-150_000_000, "-1.50000000ss")],
)
def test_format_seat_seconds(work: int, text: str) -> None:
    """Seat-seconds have eight decimals and a unit."""
    assert text == format_seat_seconds(work)
