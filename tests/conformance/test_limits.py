"""Limits of priority levels and their adjustment by demand, against what Kubernetes does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.decode import decode_documents
from tests.conformance import vectors
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel

NS_PER_S = 1_000_000_000


def whole_numbers(level: PriorityLevel) -> dict[str, int | bool]:
    return {
        "NominalCL": level.nominal_limit,
        "MinCL": level.lower_limit,
        "MaxCL": level.upper_limit,
        "CurrentCL": level.current_limit,
        "MaxSeats": level.max_seats,
        "HighWatermark": level.demand.stats.high_watermark,
        "Quiescing": level.is_quiescing,
    }


def averages(level: PriorityLevel) -> dict[str, float]:
    return {
        "Avg": level.demand.stats.average,
        "StdDev": level.demand.stats.stddev,
        "Smoothed": level.demand.smoothed,
    }


def assert_state(expected: dict[str, dict[str, Any]], controller: Controller) -> None:
    assert expected.keys() == controller.levels.keys()
    for name, state in expected.items():
        level = controller.levels[name]
        exact = whole_numbers(level)
        assert (name, {key: state[key] for key in exact}) == (name, exact)
        close = averages(level)
        assert {key: pytest.approx(state[key], rel=1e-9, abs=0) for key in close} == close
        assert level.current_limit == level.queue_set.concurrency_limit


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(index)) for index, case in enumerate(vectors.load("limits"))]
)
def test_limits(case: dict[str, Any]) -> None:
    clock = VirtualClock()
    controller = Controller(clock, case["server_concurrency_limit"], 0)
    objects = {"kind": "List", "apiVersion": "v1", "items": case["priority_levels"]}
    decoded = decode_documents(json.dumps(objects).encode(), "limits.json")
    digest = controller.digest(decoded.objects)

    controller.commit(digest)

    assert () == (*decoded.problems, *digest.problems)
    assert_state(case["state_after_configuration"], controller)
    for period in case["periods"]:
        for demand_by_level in period["demand_each_second"]:
            for name, seats in demand_by_level.items():
                controller.levels[name].demand.update(clock.now_ns(), seats)
            clock.run_until(clock.now_ns() + NS_PER_S)
        controller.adjust_limits()
        assert_state(period["state_after_adjustment"], controller)
