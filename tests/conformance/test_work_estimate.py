"""Work estimates against the reference vectors."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.flowcontrol.learned_costs import ObjectStats
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.request.attributes import parse_attributes
from tests.conformance import vectors

CASES = vectors.load("work_estimate")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_work_estimate(case: dict[str, Any]) -> None:
    """A request is estimated to need what Kubernetes estimates."""
    known = ObjectStats(case["object_count"], case["average_object_bytes"])
    stats = {"known": known, "stale": ObjectStats(1_000_000_000, 1_500_000), "not-found": None}[
        case["stats"]
    ]
    estimator = WorkEstimator(lambda _: stats, lambda _: case["watch_count"])
    attributes = parse_attributes(case["method"], case["url"].encode())

    estimate = estimator.estimate(attributes, case["max_seats"])

    assert case["initial_seats"] == estimate.initial_seats
    assert case["final_seats"] == estimate.final_seats
    assert case["additional_latency_ns"] == estimate.additional_latency_ns
    assert estimator.fixed(attributes) in {None, estimate}
