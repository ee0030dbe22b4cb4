"""The overviews of several clusters, from several workers that have them all, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.merged_upstream import UNKNOWN, badness, largest
from apfproxy.admin.overview import SEVERITIES, in_order, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.admin.live_recent import State

    Row = Mapping[str, Any]

REFUSED: Final = "refused"
SUMMED: Final = ("seatsInUse", "serverConcurrencyLimit", "executing", "waiting")
RATES: Final = ("servedPerSecond", "failedPerSecond", "rejectedPerSecond")


def merged_overview(states: Sequence[Mapping[str, Any]]) -> State:
    """All clusters of all workers, by their pages; the limit is what the workers have of it."""
    by_name: dict[str, list[Row]] = {}
    for state in states:
        for row in state["clusters"]:
            by_name.setdefault(row["name"], []).append(row)
    rows = list(map(_merged, by_name.values()))
    rows.sort(key=in_order)
    return {"verdict": verdict(rows), "clusters": rows}


def _merged(rows: Sequence[Row]) -> State:
    worst = min(rows, key=lambda row: SEVERITIES.index(row["severity"]))
    return {
        **worst,
        "state": _state([row["state"] for row in rows]),
        "healthyCount": min(row["healthyCount"] for row in rows),
        "endpointCount": max(row["endpointCount"] for row in rows),
        **{key: sum(row[key] for row in rows) for key in SUMMED},
        **{key: round(sum(row[key] for row in rows), 1) for key in RATES},
        "p99": largest(row["p99"] for row in rows),
    }


def _state(states: Iterable[str]) -> str:
    """The best of the states: a cluster fails only where it fails for all workers."""
    found = set(states)
    if found == {REFUSED}:
        return REFUSED
    return max(found - {REFUSED}, key=lambda state: -1 if state == UNKNOWN else badness(state))
