"""Priority levels over all replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from apfproxy.flowcontrol.limits import LevelLimits
from apfproxy.simulation.fleet_levels import FleetLevel

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel


def part(limit: int) -> Any:  # noqa: ANN401  what stands for a level
    """A replica's level."""
    queue_set = SimpleNamespace(
        seats_in_use=0, requests_waiting=0, dispatched_total=0, rejected_total=0
    )
    return SimpleNamespace(name="level", is_exempt=False, current_limit=limit, queue_set=queue_set)


def test_sums() -> None:
    """Seats and requests of all replicas are added up, of those that are gone, too."""
    one, two = part(3), part(2)
    level = FleetLevel(cast("PriorityLevel", one), LevelLimits(4, 1, 9))
    level.add(one)
    level.add(two)
    one.queue_set.seats_in_use, two.queue_set.seats_in_use = 3, 2
    one.queue_set.requests_waiting = 4
    one.queue_set.dispatched_total = 7
    level.note(10)
    level.sample(20, 10)
    level.remove(one)
    two.queue_set.dispatched_total = two.queue_set.rejected_total = 1
    level.sample(30, 10)

    meter = level.meter
    assert (100, 80, 20, 5, 4) == (
        meter.seat_ns,
        meter.waiting_ns,
        meter.borrowed_ns,
        meter.max_seats,
        meter.max_waiting,
    )
    assert ([5.0, 5.0], [5, 2], [7, 1], [0, 1]) == (
        level.series.seats,
        level.series.limit,
        level.series.dispatched,
        level.series.rejected,
    )
    assert (4, 1, 9, False) == (
        level.level.nominal_limit,
        level.level.lower_limit,
        level.level.upper_limit,
        level.level.is_exempt,
    )
    assert 5 == level.max_limit
    assert "<FleetLevel level of 1 replicas>" == repr(level)


def test_clear() -> None:
    """After the warm-up measuring begins anew, and the series go on."""
    one = part(3)
    level = FleetLevel(cast("PriorityLevel", one), LevelLimits(3, 3, 3))
    level.add(one)
    one.queue_set.seats_in_use = 2
    level.note(0)
    level.clear(5)
    level.sample(10, 10)

    assert 10 == level.meter.seat_ns
    assert [2.0] == level.series.seats
