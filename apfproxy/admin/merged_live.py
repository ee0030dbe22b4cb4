"""The live states of several workers as the state of one proxy.

Seats, requests and rates are sums.  A queue has the same number in all workers, since all deal a
flow the same hand, so queues are summed by their numbers.  Problems say which worker has them,
unless all have the same.  What is new, which a worker of a newer version may have, is that of the
first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from apfproxy.admin.live_recent import IDLE, MAX_FLOW_SCHEMAS, REJECTS, WAITS, WORKS, State
from apfproxy.admin.merged_flows import merged_flows
from apfproxy.admin.merged_limits import bounds_of, total
from apfproxy.admin.merged_upstream import merged_upstream, summed
from apfproxy.admin.top_flows_page import DEFAULT_LIMIT
from apfproxy.admin.verdict import WORKER

CONDITIONS: Final = (REJECTS, WAITS, WORKS, IDLE)
"""Worst first."""
SUMMED: Final = (
    "nominal",
    "min",
    "current",
    "seatsInUse",
    "executing",
    "waiting",
    "lent",
    "borrowed",
    "dispatched",
    "rejected",
    "timedOut",
    "cancelled",
    "failed",
)
RATES: Final = ("dispatchedPerSecond", "servedPerSecond", "failedPerSecond", "leftPerSecond")
SHUTDOWN: Final = "shutdown"
"""The check of a process that ends."""
SAME_EVENT_S: Final = 10.0
"""Workers read the same files within so many seconds."""
MAX_EVENTS: Final = 50
RULES: Final = ("shares", "lendablePercent", "borrowingLimitPercent")
FLEET_SUMS: Final = ("claim", "inForce")

Json = Mapping[str, Any]
ByWorker = Sequence[tuple[str, Json]]
"""Names of workers with what they say."""


def merged_state(
    states: ByWorker, silent: Mapping[str, str], own_problems: Sequence[State] = ()
) -> State:
    """The state of all, without its time and its verdict.

    Args:
        states: What each worker says that answers; at least one.
        silent: The workers that do not, and why.
        own_problems: Of the process that they belong to.
    """
    found = [state for _, state in states]
    first = found[0]
    fleet = merged_fleet([state.get("fleet") for state in found])
    limit = sum(state["serverConcurrencyLimit"] for state in found)
    levels = _levels([state["levels"] for state in found])
    if fleet is not None and fleet.get("isOfWorkers"):
        levels = _of_whole_server(levels, fleet["limit"])
    return {
        **{key: value for key, value in first.items() if key not in {"time", "verdict"}},
        "serverConcurrencyLimit": limit if fleet is None else fleet["limit"],
        "seatFairFrac": min(state["seatFairFrac"] for state in found),
        "proxy": _proxy([state["proxy"] for state in found]),
        "problems": _problems(states, silent, own_problems),
        "clientProblems": list(
            dict.fromkeys(text for state in found for text in state.get("clientProblems", ()))
        ),
        "levels": levels,
        "flowSchemas": _flow_schemas([state["flowSchemas"] for state in found]),
        "flowSchemaCount": max(state["flowSchemaCount"] for state in found),
        "topFlows": merged_flows((state["topFlows"] for state in found), DEFAULT_LIMIT),
        "upstream": merged_upstream([state["upstream"] for state in found]),
        "fleet": fleet,
        "configuration": _configuration([(name, state["configuration"]) for name, state in states]),
        "workers": [_worker(name, state) for name, state in states]
        + [{"name": name, "problem": problem} for name, problem in silent.items()],
    }


def merged_fleet(fleets: Sequence[Json | None]) -> State | None:
    """Who shares the seats, as the first member says that knows it; None if nobody does.

    What this machine may use is the sum of what its workers may; each is as it says itself.
    """
    found = [fleet for fleet in fleets if fleet is not None]
    if not found:
        return None
    shown = next((fleet for fleet in found if fleet.get("state") == "held"), found[0])
    problem = next((fleet["problem"] for fleet in found if fleet.get("problem")), "")
    sums = {key: sum(fleet.get(key, 0) for fleet in found) for key in FLEET_SUMS if key in shown}
    own = {
        member["name"]: {**member, "state": fleet["state"]}
        for fleet in found
        for member in fleet["members"]
        if member["isSelf"]
    }
    members = [own.get(member["name"], member) for member in shown["members"]]
    return {**shown, **sums, "problem": problem, "members": members}


def _proxy(parts: Sequence[Json]) -> State:
    return {
        **parts[0],
        "version": ", ".join(dict.fromkeys(part["version"] for part in parts)),
        "startTime": min(part["startTime"] for part in parts),
        "loopDelaySeconds": max(part["loopDelaySeconds"] for part in parts),
        "sheds": list(dict.fromkeys(reason for part in parts for reason in part["sheds"])),
        "refusedPerSecond": summed(part["refusedPerSecond"] for part in parts),
    }


def _problems(
    states: ByWorker, silent: Mapping[str, str], own_problems: Sequence[State]
) -> list[State]:
    """The health checks that fail, and workers that do not answer.

    What a worker says, too, is that of the workers.
    """
    found: dict[tuple[str, str, bool], list[str]] = {}
    for name, state in states:
        for each in state["problems"]:
            key = each["check"], each["problem"], each["isBlocking"]
            found.setdefault(key, []).append(name)
    problems = []
    for (check, problem, is_blocking), names in found.items():
        if check == SHUTDOWN and len(names) < len(states):
            continue  # it makes room for another one
        if len(names) < len(states) or (len(states) == 1 and silent):
            problem = f"worker {', '.join(names)}: {problem}"  # noqa: PLW2901
        problems.append({"check": check, "problem": problem, "isBlocking": is_blocking})
    for name, problem in silent.items():
        text = f"worker {name} does not answer: {problem}"
        problems.append({"check": WORKER, "problem": text, "isBlocking": False})
    known = {check for check, _, _ in found}
    return [each for each in own_problems if each["check"] not in known] + problems


def _levels(lists: Sequence[Sequence[Json]]) -> list[State]:
    by_name: dict[str, list[Json]] = {}
    for levels in lists:
        for level in levels:
            by_name.setdefault(level["name"], []).append(level)
    return [merged_level(found) for _, found in sorted(by_name.items())]


def _of_whole_server(levels: Sequence[State], limit: int) -> list[State]:
    """The levels with the bounds that they have of the limit that all workers share.

    What a worker has of it follows what is wanted, so its bounds are of the moment.  A level of a
    worker of another version, which does not tell its shares, stays as it is.
    """
    if not all(key in level for level in levels for key in RULES):
        return list(levels)
    shares, lendable, borrowing = RULES
    bounds = bounds_of(
        limit,
        {level["name"]: (level[shares], level[lendable], level[borrowing]) for level in levels},
    )
    found = []
    for level in levels:
        of_level, current = bounds[level["name"]], level["current"]
        found.append(
            {
                **level,
                "nominal": of_level.nominal,
                "min": of_level.lower,
                "max": None if level["max"] is None else of_level.upper,
                "lent": max(0, of_level.nominal - current),
                "borrowed": max(0, current - of_level.nominal),
            }
        )
    return found


def merged_level(levels: Sequence[Json]) -> State:
    """A priority level of all workers."""
    return {
        **levels[0],
        **{key: sum(level[key] for level in levels) for key in SUMMED},
        **{key: round(sum(level[key] for level in levels), 2) for key in RATES},
        "isQuiescing": all(level["isQuiescing"] for level in levels),
        "max": total(level["max"] for level in levels),
        "queueCount": max(level["queueCount"] for level in levels),
        "queues": by_place([level["queues"] for level in levels]),
        "queueSeats": by_place([level["queueSeats"] for level in levels]),
        "condition": min((level["condition"] for level in levels), key=CONDITIONS.index),
        "rejectedPerSecond": summed(level["rejectedPerSecond"] for level in levels),
        "oldestWaitSeconds": max(level["oldestWaitSeconds"] for level in levels),
        "holder": _holder([level["holder"] for level in levels]),
    }


def by_place(lists: Sequence[Sequence[int]]) -> list[int]:
    """The sums of the first elements, of the second ones, and so on."""
    return list(map(sum, zip_longest(*lists, fillvalue=0)))


def _holder(holders: Sequence[Json | None]) -> State | None:
    """Who wants most seats, of those that want most in one worker."""
    found: dict[tuple[str, str], State] = {}
    for each in holders:
        if each is not None:
            known = found.setdefault(
                (each["flowSchema"], each["flow"]), {**each, "seats": 0, "waitsFor": 0}
            )
            known["seats"] += each["seats"]
            known["waitsFor"] += each["waitsFor"]
    return max(found.values(), key=lambda each: int(each["seats"] + each["waitsFor"]), default=None)


def _flow_schemas(lists: Sequence[Sequence[Json]]) -> list[State]:
    """Those that match most, in the order in which they are tried."""
    found: dict[str, State] = {}
    for schemas in lists:
        for schema in schemas:
            known = found.get(schema["name"])
            if known is None:
                found[schema["name"]] = dict(schema)
                continue
            for rate in ("matchedPerSecond", "rejectedPerSecond"):
                known[rate] = round(known[rate] + schema[rate], 2)
    kept = sorted(found.values(), key=lambda each: -each["matchedPerSecond"])[:MAX_FLOW_SCHEMAS]
    return sorted(kept, key=lambda each: (each["matchingPrecedence"], each["name"]))


def _configuration(parts: ByWorker) -> State:
    """What is in force, and what happened to it; the same of several workers comes once."""
    first = parts[0][1]
    events: list[tuple[State, list[str]]] = []
    for name, part in parts:
        for event in part["events"]:
            for known, names in events:
                is_same = known["message"] == event["message"] and name not in names
                if is_same and abs(known["time"] - event["time"]) <= SAME_EVENT_S:
                    names.append(name)
                    break
            else:
                events.append((dict(event), [name]))
    for event, names in events:
        if len(names) < len(parts):
            event["message"] = f"worker {', '.join(names)}: {event['message']}"
    shown = sorted((event for event, _ in events), key=lambda event: float(event["time"]))
    return {
        **first,
        "generation": max(part["generation"] for _, part in parts),
        "events": shown[-MAX_EVENTS:],
    }


def _worker(name: str, state: Json) -> State:
    levels = state["levels"]
    return {
        "name": name,
        "problem": "",
        "seatsInUse": sum(level["seatsInUse"] for level in levels),
        "executing": sum(level["executing"] for level in levels),
        "waiting": sum(level["waiting"] for level in levels),
        "dispatchedPerSecond": round(sum(level["dispatchedPerSecond"] for level in levels), 2),
        "loopDelaySeconds": state["proxy"]["loopDelaySeconds"],
    }
