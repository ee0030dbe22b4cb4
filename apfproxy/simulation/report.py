"""The result of a simulation as plain data: JSON, tables and pictures are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from apfproxy.flowcontrol.limit_finder import LimitFinder
from apfproxy.flowcontrol.limit_view import limit_view
from apfproxy.simulation.measures import Tally

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apfproxy.simulation.measures import LevelView
    from apfproxy.simulation.simulation import Simulation

    Row = dict[str, Any]
    Key = tuple[str, ...]
    Rows = dict[Key, Row]

NS_PER_S = 1e9
QUANTILES = (0.5, 0.9, 0.99)
KNEE = 0.97
"""The part of a model's highest goodput that its best concurrency has, as the proxy's default."""

COMPARED = (
    *("executed", "queued", "rejectedTotal", "cutOff"),
    *("waitMean", "waitP50", "waitP90", "waitP99", "seatSeconds"),
)
LATENCIES = ("latencyMean", "latencyP50", "latencyP90", "latencyP99")
"""With a server model: waiting and execution."""
KEPT = ("requests", "rejected", "nominalLimit", *COMPARED, *LATENCIES)
"""Fields of both configurations that a comparison repeats."""
NOTHING = dict.fromkeys(COMPARED, 0)
FLOW = ("priorityLevel", "flowSchema", "flow")

NEW, GONE, BOTH, MOVED = "new", "gone", "both", "moved"
"""A row is only in the second configuration, only in the first, or in both."""


def configuration_report(name: str, simulation: Simulation) -> Row:
    """The outcome of all requests in one configuration, after its run."""
    server = simulation.server_view
    seconds = (simulation.clock.time_ns - simulation.counted_from_ns) / NS_PER_S
    total = Tally()
    by_level: dict[Hashable, Tally] = {name: Tally() for name in simulation.views}
    by_flow: dict[Hashable, Tally] = {}
    by_client: dict[Hashable, Tally] = {}
    for (client, level, schema, flow), tally in simulation.tallies.items():
        total.merge(tally)
        by_level[level].merge(tally)
        by_flow.setdefault((level, schema, flow), Tally()).merge(tally)
        by_client.setdefault(client, Tally()).merge(tally)
    return {
        "name": name,
        "serverConcurrencyLimit": simulation.limit,
        "problems": list(simulation.problems),
        "seconds": seconds,
        "warmUpSeconds": simulation.counted_from_ns / NS_PER_S,
        **_server_report(simulation, seconds),
        "total": _tally_report(total),
        "levels": [
            {"priorityLevel": name} | _tally_report(by_level[name]) | _level_report(view, seconds)
            for name, view in simulation.views.items()
        ],
        "flows": [
            dict(zip(FLOW, key, strict=True)) | _tally_report(tally)
            for key, tally in _largest(by_flow)
        ],
        "flowsInAll": len(by_flow),
        "clients": [{"client": key} | _tally_report(tally) for key, tally in _largest(by_client)],
        "clientsInAll": len(by_client),
        "series": {
            "binSeconds": simulation.bin_ns / NS_PER_S,
            "levels": {name: _rounded(view.series) for name, view in simulation.views.items()},
            **({"server": _rounded(server.series)} if server else {}),
        },
    }


def _rounded(series: dict[str, list[float]]) -> Row:
    """No more digits than a plot can show."""
    return {name: [round(value, 3) for value in of] for name, of in series.items()}


def _server_report(simulation: Simulation, seconds: float) -> Row:
    """The server, where it has a model or its limit is found; else nothing."""
    view, model = simulation.server_view, simulation.server_model
    if view is None:
        return {}
    found: Row = {
        "goodput": view.responses / seconds if seconds else 0.0,
        "workMean": view.work_ns / NS_PER_S / seconds if seconds else 0.0,
    }
    if model is not None:
        concurrency, most = model.rates[-1][1].knee(KNEE)
        found |= {"model": model.text, "modelKnee": concurrency, "modelMostWork": round(most, 6)}
    if isinstance(view.finder, LimitFinder):
        now_s = simulation.clock.time_ns / NS_PER_S
        found["foundLimit"] = to_builtins(limit_view(view.finder, now_s, now_s))
    return {"server": found}


def listed(report: Row, top: int) -> Row:
    return report | {"flows": report["flows"][:top], "clients": report["clients"][:top]}


def _largest(groups: dict[Any, Tally]) -> list[tuple[Any, Tally]]:
    return sorted(groups.items(), key=lambda item: (-item[1].seat_ns, -item[1].requests, item[0]))


def _tally_report(tally: Tally) -> Row:
    waits = tally.waits
    at_once = tally.executed - sum(waits.counts.values())
    p50, p90, p99 = (value / NS_PER_S for value in waits.quantiles(QUANTILES, at_once))
    latencies = tally.latencies
    ended = latencies.counts.total()
    values = (latencies.total_ns / ended, *latencies.quantiles(QUANTILES)) if ended else ()
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
        **{name: value / NS_PER_S for name, value in zip(LATENCIES, values, strict=False)},
    }


def _level_report(view: LevelView, seconds: float) -> Row:
    level = view.level
    nominal = level.nominal_limit
    per_second = 1 / (seconds * NS_PER_S) if seconds else 0.0
    return {
        "isExempt": level.is_exempt,
        "nominalLimit": nominal,
        "lowerLimit": level.lower_limit,
        "upperLimit": None if level.is_exempt else level.upper_limit,
        "highestLimit": view.max_limit,
        "seatsMean": view.seat_ns * per_second,
        "seatsMax": view.max_seats,
        "borrowedMean": view.borrowed_ns * per_second,
        "borrowedMax": max(0, view.max_seats - nominal),
        "waitingMean": view.waiting_ns * per_second,
        "waitingMax": view.max_waiting,
    }


def difference(before: Row, after: Row, *, top: int) -> Row:
    """The changes by the second configuration; `top` flows and clients of each are listed."""
    return {
        "total": _subtracted(before["total"], after["total"]),
        "levels": compared(before["levels"], after["levels"], ("priorityLevel",)),
        "flows": compared(before["flows"], after["flows"], FLOW, top, can_move=True),
        "clients": compared(before["clients"], after["clients"], ("client",), top),
    }


def compared(
    before: list[Row],
    after: list[Row],
    names: tuple[str, ...],
    top: int | None = None,
    *,
    can_move: bool = False,
) -> list[Row]:
    """The differences of the first `top` rows, each known by some fields; the gone come last.

    Where rows can move, a new and a gone one that alone share their last field are one.
    """
    earlier = {tuple(each[name] for name in names): each for each in before}
    later = {tuple(each[name] for name in names): each for each in after}
    places = _moves(earlier, later) if can_move else {}
    earlier = {places.get(key, key): row for key, row in earlier.items()}
    origins = {new: dict(zip(names[:-1], old, strict=False)) for old, new in places.items()}
    keys = dict.fromkeys([*list(later)[:top], *list(earlier)[:top]])
    found = []
    for key in sorted(keys, key=lambda key: key not in later):
        presence = NEW if key not in earlier else BOTH if key in later else GONE
        found.append(
            dict(zip(names, key, strict=True))
            | {"presence": MOVED if key in origins else presence}
            | ({"movedFrom": origins[key]} if key in origins else {})
            | _subtracted(earlier.get(key, NOTHING), later.get(key, NOTHING))
            | {"before": _kept(earlier.get(key)), "after": _kept(later.get(key))}
        )
    return found


def _moves(earlier: Rows, later: Rows) -> dict[Key, Key]:
    """Keys that are gone to new ones with the same last value, where each is the only one."""
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


def _kept(row: Row | None) -> Row | None:
    return row and {name: row[name] for name in KEPT if name in row}


def _subtracted(before: Row, after: Row) -> Row:
    names = [*COMPARED, *(name for name in LATENCIES if name in before or name in after)]
    return {name: after.get(name, 0) - before.get(name, 0) for name in names}
