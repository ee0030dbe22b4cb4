"""The result of a simulation as plain data: JSON, tables and pictures are made of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from apfproxy.simulation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apfproxy.simulation.simulation import LevelView, Simulation

    Key = tuple[str, ...]
    Rows = dict[Key, dict[str, Any]]

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

NOTHING = dict.fromkeys(COMPARED, 0)

NEW, GONE, BOTH, MOVED = "new", "gone", "both", "moved"
"""A level, flow or client is only in the second configuration, only in the first, or in both; of a
flow that has another FlowSchema or level in the second, both parts are one that moved."""

KEPT = ("requests", "rejected", "nominalLimit", *COMPARED)
"""Fields of both configurations that a comparison has, too."""


def configuration_report(name: str, simulation: Simulation) -> dict[str, Any]:
    """What became of all requests in one configuration, after its run; see `listed`."""
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
        "serverConcurrencyLimit": simulation.limit,
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
            for key, tally in largest(by_flow)
        ],
        "flowsInAll": len(by_flow),
        "clients": [{"client": key} | tally_report(tally) for key, tally in largest(by_client)],
        "clientsInAll": len(by_client),
        "series": {
            "binSeconds": simulation.bin_ns / NS_PER_S,
            "levels": {name: series_report(view) for name, view in simulation.views.items()},
        },
    }


def listed(report: dict[str, Any], top: int) -> dict[str, Any]:
    """The report of a configuration with no more flows and clients than are to be listed."""
    return report | {"flows": report["flows"][:top], "clients": report["clients"][:top]}


def largest(groups: dict[Any, Tally]) -> list[tuple[Any, Tally]]:
    """Those who used or asked for most: by seat-seconds, then by requests, then by name."""
    return sorted(groups.items(), key=lambda item: (-item[1].seat_ns, -item[1].requests, item[0]))


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
    # No more digits than a plot can show.
    return {
        name: [round(value, 3) for value in values] for name, values in asdict(view.series).items()
    }


def difference(before: dict[str, Any], after: dict[str, Any], *, top: int) -> dict[str, Any]:
    """What the second configuration changes: its numbers less those of the first.

    `top` is how many flows and clients of each are listed.
    """
    flow = ("priorityLevel", "flowSchema", "flow")
    return {
        "total": subtracted(before["total"], after["total"]),
        "levels": compared(before["levels"], after["levels"], ("priorityLevel",)),
        "flows": compared(before["flows"], after["flows"], flow, top, can_move=True),
        "clients": compared(before["clients"], after["clients"], ("client",), top),
    }


def compared(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    names: tuple[str, ...],
    top: int | None = None,
    *,
    can_move: bool = False,
) -> list[dict[str, Any]]:
    """The differences of what is among the first so many of either list.

    Rows are told by the values of some fields.  One that only one list has is new, or gone, and
    its numbers in the other are 0; what is gone stands at the end.  Where rows can move, a new and
    a gone one with the same last value are one, if there is one of each.
    """
    earlier = {tuple(each[name] for name in names): each for each in before}
    later = {tuple(each[name] for name in names): each for each in after}
    places = moves(earlier, later) if can_move else {}
    earlier = {places.get(key, key): row for key, row in earlier.items()}
    origins = {new: dict(zip(names[:-1], old, strict=False)) for old, new in places.items()}
    keys = dict.fromkeys([*list(later)[:top], *list(earlier)[:top]])
    return [
        dict(zip(names, key, strict=True))
        | {"presence": presence(key, earlier, later, origins)}
        | ({"movedFrom": origins[key]} if key in origins else {})
        | subtracted(earlier.get(key, NOTHING), later.get(key, NOTHING))
        | {"before": kept(earlier.get(key)), "after": kept(later.get(key))}
        for key in sorted(keys, key=lambda key: key not in later)
    ]


def moves(earlier: Rows, later: Rows) -> dict[Key, Key]:
    """Keys that are gone, each to the new one with the same last value, where both are the only."""
    gone: dict[str, list[Key]] = {}
    new: dict[str, list[Key]] = {}
    for found, rows, others in ((gone, earlier, later), (new, later, earlier)):
        for key in rows:
            if key not in others and key[-1]:
                found.setdefault(key[-1], []).append(key)
    return {
        keys[0]: new[name][0]
        for name, keys in gone.items()
        if len(keys) == 1 and len(new.get(name, ())) == 1
    }


def presence(key: Key, earlier: Rows, later: Rows, origins: dict[Key, dict[str, str]]) -> str:
    """Which configurations have a row."""
    if key in origins:
        return MOVED
    if key not in earlier:
        return NEW
    return BOTH if key in later else GONE


def kept(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a comparison has of a row."""
    return row and {name: row[name] for name in KEPT if name in row}


def subtracted(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The differences of the fields that can be compared."""
    return {name: after[name] - before[name] for name in COMPARED}
