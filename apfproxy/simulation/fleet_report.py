"""What a report says of a simulated fleet, beside what it says of any configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.fleet.standing import Standing

if TYPE_CHECKING:
    from apfproxy.simulation.fleet_simulation import FleetSimulation
    from apfproxy.simulation.replica import Replica

NS_PER_S = 1e9


def fleet_report(simulation: FleetSimulation) -> dict[str, Any]:
    """The fleet after its run; times in seconds."""
    return {
        "events": [str(event) for event in simulation.plan.events],
        "seatsMax": simulation.most_seats,
        "secondsAboveLimit": simulation.over_ns / NS_PER_S,
        "storeReads": simulation.store.reads,
        "storeWrites": simulation.store.writes,
        "replicas": [
            replica_report(replica, simulation.clock.time_ns) for replica in simulation.replicas
        ],
    }


def replica_report(replica: Replica, now_ns: int) -> dict[str, Any]:
    """One replica; one that comes back is another one of the same number."""
    member = replica.member
    stood_s = {standing: time_ns / NS_PER_S for standing, time_ns in member.stood_ns.items()}
    ended_ns = replica.ended_ns if replica.is_gone else now_ns
    return {
        "replica": replica.number,
        "from": replica.began_ns / NS_PER_S,
        "to": ended_ns / NS_PER_S,
        "executed": replica.executed,
        "lost": replica.lost,
        "seatsMost": replica.most_seats,
        "secondsHolding": stood_s[Standing.HOLDING],
        "secondsAway": stood_s[Standing.LAPSED] + stood_s[Standing.ALONE],
        "writes": member.refreshes,
        "conflicts": member.conflicts,
        "failures": member.failures,
    }
