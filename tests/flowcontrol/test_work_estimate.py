"""Tests of work, and of how it is estimated."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.learned_costs import ObjectStats
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.queue_set import (
    ONE_SEAT,
    format_seat_seconds,
    ns_per_seat,
    seat_ticks,
)
from apfproxy.request.attributes import parse_attributes

MANY = ObjectStats(1_000_000_000, 1_500_000)


@pytest.mark.parametrize(
    ("method", "target", "is_fixed"),
    [
        ("GET", b"/api/v1/pods/p", True),
        ("GET", b"/healthz", True),
        ("POST", b"/metrics", True),
        ("DELETE", b"/api/v1/namespaces/n/pods", True),
        ("POST", b"/api/v1/namespaces/n/serviceaccounts/s/token", True),
        ("GET", b"/api/v1/pods?watch=1&resourceVersion=5", True),
        ("GET", b"/api/v1/pods", False),
        ("GET", b"/api/v1/pods?watch=1", False),
        ("GET", b"/api/v1/pods?watch=1&resourceVersion=5&limit=x", False),
        ("POST", b"/api/v1/namespaces/n/pods", False),
        ("PATCH", b"/not/a/resource", False),
    ],
)
def test_fixed_estimates_depend_on_attributes_alone(
    method: str, target: bytes, is_fixed: bool
) -> None:
    estimator = WorkEstimator(lambda _: MANY, lambda _: 1000)
    attributes = parse_attributes(method, target)

    assert is_fixed == (estimator.fixed(attributes) is ONE_SEAT)
    assert is_fixed == (estimator.estimate(attributes, 0) is ONE_SEAT)


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
def test_seat_ticks_are_rounded_once(seats: float, duration_ns: int, ticks: int) -> None:
    assert ticks == seat_ticks(seats, duration_ns)


@pytest.mark.parametrize(
    ("work", "seats", "duration_ns"),
    [(300_000, 1, 3_000_000), (100, 3, 333), (0, 5, 0)],
)
def test_ns_per_seat_is_rounded_down(work: int, seats: int, duration_ns: int) -> None:
    assert duration_ns == ns_per_seat(work, seats)


@pytest.mark.parametrize(
    ("work", "text"),
    [(0, "0.00000000ss"), (300_000, "0.00300000ss"), (-150_000_000, "-1.50000000ss")],
)
def test_format_seat_seconds(work: int, text: str) -> None:
    assert text == format_seat_seconds(work)
