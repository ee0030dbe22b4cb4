"""One replica; `test_fleet_simulation` has what comes of it."""

from __future__ import annotations

from apfproxy.simulation.fleet_events import FleetPlan
from apfproxy.simulation.fleet_simulation import FleetSimulation
from apfproxy.simulation.replica import next_in_turn
from apfproxy.simulation.sources import Sequence
from tests.simulation.scene import objects
from tests.simulation.test_simulation import MS, S, kind


def test_leaving_waits_for_requests() -> None:
    """It gets no new ones, and is gone once those in flight have ended."""
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=2))
    first, second = simulation.replicas
    seen = []
    Sequence(simulation, [(n * 100 * MS, kind(), S) for n in range(1, 5)])
    simulation.clock.arm(250 * MS, lambda _: first.leave(), None)
    simulation.clock.arm(260 * MS, lambda _: seen.append((first.is_serving, first.is_gone)), None)
    simulation.run()

    assert [(False, False)] == seen
    assert first.is_gone
    assert not second.is_gone
    assert 4 == first.executed + second.executed
    assert 0 == first.lost


def test_turns_are_spread_evenly() -> None:
    """Each has as many as its weight, and the others are in between."""
    replicas = FleetSimulation(objects(), 12, FleetPlan(replicas=4)).replicas
    for replica, weight in zip(replicas, (5, 1, 1, 0), strict=True):
        replica.weight = weight
    turns = [next_in_turn(replicas) for _ in range(14)]

    assert [0, 0, 1, 0, 2, 0, 0] * 2 == [each.number for each in turns if each is not None]
    assert next_in_turn(replicas[3:]) is None


def test_dying_twice() -> None:
    """The second time nothing happens."""
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=2))
    replica = simulation.replicas[0]
    replica.die()
    replica.die()

    assert replica.is_gone
    assert 0 == replica.ended_ns
