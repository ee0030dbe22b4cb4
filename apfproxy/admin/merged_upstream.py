"""What several workers know of the servers behind, as one proxy would know it.

Each worker watches the servers by itself.  A server is as the worker sees it that sees it worst;
the servers together fail only where they fail for all workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.endpoint_state import DRAINING, OUT, UP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.admin.live_recent import State

FAILING: Final = "failing"
UNKNOWN: Final = "unknown"
WORST_FIRST: Final = (FAILING, "ejected", DRAINING, UNKNOWN, UP)


def merged_upstream(states: Sequence[Mapping[str, Any] | None]) -> State | None:
    """The part `upstream` of the live state; None if no worker has one."""
    found = [state for state in states if state is not None]
    if not found:
        return None
    first = found[0]
    if all(each["state"] == FAILING for each in found):
        shown = first
    else:
        up = [each for each in found if each["state"] == UP]
        shown = (up or found)[0] if up or first["state"] != FAILING else found[-1]
    endpoints = merged_endpoint_states([each["endpoints"] for each in found])
    return {
        **first,
        "state": shown["state"],
        "problem": shown["problem"],
        "since": shown["since"],
        "answers": summed(each["answers"] for each in found),
        "failures": summed(each["failures"] for each in found),
        "answersPerSecond": summed(each["answersPerSecond"] for each in found),
        "failuresPerSecond": round(sum(each["failuresPerSecond"] for each in found), 2),
        "awaiting": sum(each["awaiting"] for each in found),
        "silentSeconds": max(each["silentSeconds"] for each in found),
        "p50": typical((each["p50"], sum(each["answersPerSecond"].values())) for each in found),
        "p99": largest(each["p99"] for each in found),
        "connections": summed(each["connections"] for each in found),
        "endpoints": endpoints,
        "endpointCount": max(each["endpointCount"] for each in found),
        "healthyCount": min(each["healthyCount"] for each in found),
    }


def merged_endpoint_states(lists: Iterable[Iterable[Mapping[str, Any]]]) -> list[State]:
    """Each server with its load from all workers, in their order."""
    by_url: dict[str, list[Mapping[str, Any]]] = {}
    for endpoints in lists:
        for each in endpoints:
            by_url.setdefault(each["url"], []).append(each)
    return [_endpoint(found) for found in by_url.values()]


def _endpoint(found: Sequence[Mapping[str, Any]]) -> State:
    worst = min(found, key=lambda each: badness(each["state"]))
    return {
        **worst,
        "ramp": min(each["ramp"] for each in found),
        "share": round(sum(each["share"] for each in found) / len(found), 4),
        "seats": sum(each["seats"] for each in found),
        "inFlight": sum(each["inFlight"] for each in found),
        "connections": summed(each["connections"] for each in found),
        "answersPerSecond": summed(each["answersPerSecond"] for each in found),
        "failuresPerSecond": round(sum(each["failuresPerSecond"] for each in found), 2),
        "ejections": sum(each["ejections"] for each in found),
        "p50": typical((each["p50"], sum(each["answersPerSecond"].values())) for each in found),
        "p99": largest(each["p99"] for each in found),
    }


SUMMED_COLUMNS: Final = (
    "Seats",
    "RequestsInFlight",
    "IdleConnections",
    "Answers",
    "Failures",
    "Ejections",
)


def merged_endpoint_rows(
    dumps: Sequence[tuple[int, Sequence[Mapping[str, Any]]]],
) -> list[dict[str, Any]]:
    """The rows of `/debug/endpoints`, by the index of the worker that has them."""
    by_name: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, rows in dumps:
        for row in rows:
            by_name.setdefault(row["Endpoint"], []).append((index, row))
    merged = []
    for found in by_name.values():
        index, worst = min(found, key=lambda each: badness(each[1]["State"]))
        problem = worst["Problem"]
        if problem and any(row["State"] not in OUT for _, row in found):
            problem = f"worker {index}: {problem}"
        shares = [float(row["SharePercent"]) for _, row in found]
        merged.append(
            {
                **worst,
                "SharePercent": f"{sum(shares) / len(shares):.1f}",
                **{column: sum(row[column] for _, row in found) for column in SUMMED_COLUMNS},
                "Problem": problem,
            }
        )
    return merged


def badness(state: str) -> int:
    """The place of a state of an endpoint: the worst one has the first."""
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def summed(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sums by key."""
    found: dict[str, float] = {}
    for each in amounts:
        for key, amount in each.items():
            found[key] = round(found.get(key, 0) + amount, 2)
    return found


def typical(times: Iterable[tuple[float | None, float]]) -> float | None:
    """The mean of the medians of several, each with its weight; None if none has one."""
    known = [(time, weight) for time, weight in times if time is not None]
    weights = sum(weight for _, weight in known)
    if not known:
        return None
    if not weights:
        return known[0][0]
    return round(sum(time * weight for time, weight in known) / weights, 4)


def largest(times: Iterable[float | None]) -> float | None:
    """The largest of those that are known; None if none is."""
    return max((time for time in times if time is not None), default=None)
