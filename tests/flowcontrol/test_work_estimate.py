"""Tests of `apfproxy.flowcontrol.work_estimate`."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.ticket import ONE_SEAT
from apfproxy.flowcontrol.work_estimate import ObjectStats, WorkEstimator
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
