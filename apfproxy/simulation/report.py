"""What a simulation found, as plain data: what JSON, tables and pages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.simulation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from apfproxy.simulation.simulation import LevelView, Simulation

NS_PER_S = 1e9
QUANTILES = (0.5, 0.9, 0.99)

COMPARED = (
    "executed",
    "queued",
    "rejectedTotal",
    "cutOff",
    "waitMean",
    "waitP50",
    "waitP90",
    "waitP99",
    "seatSeconds",
)
"""Fields of which a comparison has the difference."""


def configuration_report(name: str, simulation: Simulation, top: int) -> dict[str, Any]:
    """What became of all requests in one configuration.

    Args:
        name: The configuration's.
        simulation: After its run.
        top: Flows and clients that are listed, those with most seat-seconds first.
    """
    seconds = (simulation.clock.time_ns - simulation.counted_from_ns) / NS_PER_S
    total = Tally()
    by_level: dict[Hashable, Tally] = {name: Tally() for name in simulation.views}
    by_flow: dict[Hashable, Tally] = {}
    by_client: dict[Hashable, Tally] = {}
    for (client, level, schema, flow), tally in simulation.tallies.items():
        for group, key in (
            (by_level, level),
            (by_flow, (level, schema, flow)),
            (by_client, client),
        ):
            group.setdefault(key, Tally()).merge(tally)
        total.merge(tally)
    return {
        "name": name,
        "serverConcurrencyLimit": simulation.controller.server_concurrency_limit,
        "problems": list(simulation.problems),
        "seconds": seconds,
        "warmUpSeconds": simulation.counted_from_ns / NS_PER_S,
        "total": tally_report(total),
        "levels": [
            {"priorityLevel": name} | tally_report(by_level[name]) | level_report(view, seconds)
            for name, view in simulation.views.items()
        ],
        "flows": [
            dict(zip(("priorityLevel", "flowSchema", "flow"), key, strict=True))
            | tally_report(tally)
            for key, tally in largest(by_flow, top)
        ],
        "flowsInAll": len(by_flow),
        "clients": [
            {"client": key} | tally_report(tally) for key, tally in largest(by_client, top)
        ],
        "clientsInAll": len(by_client),
        "series": {
            "binSeconds": simulation.bin_ns / NS_PER_S,
            "levels": {name: series_report(view) for name, view in simulation.views.items()},
        },
    }


def largest(groups: dict[Any, Tally], top: int) -> list[tuple[Any, Tally]]:
    """Those who used or asked for most: by seat-seconds, then by requests, then by name."""
    return sorted(groups.items(), key=lambda item: (-item[1].seat_ns, -item[1].requests, item[0]))[
        :top
    ]


def tally_report(tally: Tally) -> dict[str, Any]:
    """What became of some requests; times in seconds."""
    waits = tally.waits
    at_once = tally.executed - sum(waits.counts.values())
    p50, p90, p99 = (value / NS_PER_S for value in waits.quantiles(QUANTILES, at_once))
    return {
        "requests": tally.requests,
        "executed": tally.executed,
        "queued": tally.queued,
        "rejected": {str(reason): count for reason, count in sorted(tally.rejected.items())},
        "rejectedTotal": tally.rejected_total,
        "cutOff": tally.cut_off,
        "withoutSeats": tally.without_seats,
        "waitMean": waits.total_ns / max(tally.executed, 1) / NS_PER_S,
        "waitP50": p50,
        "waitP90": p90,
        "waitP99": p99,
        "executionMean": tally.service_ns / max(tally.executed, 1) / NS_PER_S,
        "seatSeconds": tally.seat_ns / NS_PER_S,
    }


def level_report(view: LevelView, seconds: float) -> dict[str, Any]:
    """Limits and seats of a level; what is borrowed are seats in use beyond the nominal ones."""
    level, meter = view.level, view.meter
    nominal = level.nominal_limit
    per_second = 1 / (seconds * NS_PER_S) if seconds else 0.0
    return {
        "isExempt": level.is_exempt,
        "nominalLimit": nominal,
        "lowerLimit": level.lower_limit,
        "upperLimit": None if level.is_exempt else level.upper_limit,
        "highestLimit": view.max_limit,
        "seatsMean": meter.seat_ns * per_second,
        "seatsMax": meter.max_seats,
        "borrowedMean": meter.borrowed_ns * per_second,
        "borrowedMax": max(0, meter.max_seats - nominal),
        "waitingMean": meter.waiting_ns * per_second,
        "waitingMax": meter.max_waiting,
    }


def series_report(view: LevelView) -> dict[str, list[float]]:
    """A level over time."""
    series = view.series
    return {
        "seats": rounded(series.seats),
        "waiting": rounded(series.waiting),
        "limit": rounded(series.limit),
        "dispatched": rounded(series.dispatched),
        "rejected": rounded(series.rejected),
    }


def rounded(values: Iterable[float]) -> list[float]:
    """Values with no more digits than a plot can show."""
    return [round(value, 3) for value in values]


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What the second configuration changes: its numbers less those of the first."""
    return {
        "total": subtracted(before["total"], after["total"]),
        "levels": compared(before["levels"], after["levels"], ("priorityLevel",)),
        "flows": compared(before["flows"], after["flows"], ("priorityLevel", "flowSchema", "flow")),
        "clients": compared(before["clients"], after["clients"], ("client",)),
    }


def compared(
    before: list[dict[str, Any]], after: list[dict[str, Any]], names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The differences of all that is in both lists, told by the values of some fields."""
    earlier = {tuple(each[name] for name in names): each for each in before}
    return [
        {name: each[name] for name in names} | subtracted(earlier[key], each)
        for each in after
        if (key := tuple(each[name] for name in names)) in earlier
    ]


def subtracted(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The differences of the fields that can be compared."""
    return {name: after[name] - before[name] for name in COMPARED}
