"""The present state on the live page: one JSON object of a state and of the rates of its history.

Limits, lent and borrowed amounts are seats; rates are requests per second; times are seconds.  A
level lends what its current limit is below its nominal limit, and borrows what it is above.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.gathering import MAX_QUEUES
from apfproxy.admin.history import Rates, ServedRates
from apfproxy.admin.state import DRAINING, NS_PER_S, UP, by_class, is_silent, total_demand
from apfproxy.admin.top_flows import largest
from apfproxy.flowcontrol.limits import level_limits, nominal_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.admin.history import History
    from apfproxy.admin.state import (
        ClusterState,
        EndpointState,
        Flow,
        FlowSchemaState,
        Holder,
        LevelState,
        ProcessState,
        UpstreamState,
    )
    from apfproxy.fleet.view import FleetView, MemberView

State = dict[str, Any]
"""As JSON has it."""

OF_A_CLUSTER: Final = "cluster/"
"""Begins the names of health checks of one of several clusters."""
OF_WORKERS: Final = "the parent process"
"""The store of the workers of one machine, in words."""
WORKER: Final = "worker"
"""The check of a worker that tells nothing."""
SHUTDOWN: Final = "shutdown"
"""The check of a process that ends."""
MAX_FLOW_SCHEMAS: Final = 100
"""Of those in force, the ones that match most requests."""
MAX_ENDPOINTS: Final = 64
"""On the page; those that are well are left out first."""
MAX_MEMBERS: Final = 64
"""Of a fleet; likewise."""
REJECTS, WAITS, WORKS, IDLE = "rejects", "waits", "works", "idle"
"""What a level did in the last seconds, worst first."""


def live_state(process: ProcessState, cluster: ClusterState, history: History) -> State:
    """The current state, without the time; rates are those of the last look."""
    listener, kinds = process.listener, {each.name: each.kind for each in cluster.flow_schemas}
    limit = cluster.limit
    if process.workers and cluster.fleet is not None:
        limit = cluster.fleet.limit
    state = {
        "serverConcurrencyLimit": limit,
        "seatFairFrac": cluster.seat_fair_frac,
        "enforcement": cluster.enforcement,
        "proxy": {
            "version": ", ".join(process.version),
            "startTime": process.used.started_s,
            "loopDelaySeconds": round(listener.loop_delay_ns / NS_PER_S, 2),
            "sheds": [reason for reason, holds in listener.overloads.items() if holds],
            "refusedPerSecond": history.refused,
        },
        "cluster": cluster.name,
        "problems": problems(process, cluster.name),
        "clientProblems": cluster.client_problems,
        "levels": [_level(each, history, kinds) for each in cluster.levels],
        "flowSchemas": _flow_schemas(cluster.flow_schemas, history),
        "flowSchemaCount": sum(each.is_in_force for each in cluster.flow_schemas),
        "topFlows": _top_flows(cluster, kinds),
        "upstream": upstream_json(cluster.upstream, history),
        "fleet": None if cluster.fleet is None else fleet_json(cluster.fleet),
        "configuration": {
            "generation": cluster.generation,
            "source": cluster.source,
            "events": [
                {
                    "time": each.unix_s,
                    "message": _of_workers(process, each.workers, each.message, is_own=each.is_own),
                    "isError": each.is_error,
                }
                for each in process.events
                if each.cluster in {"", cluster.name}
            ],
        },
    }
    if process.workers:
        state["workers"] = _workers(process, cluster, history)
    return state


def _of_workers(
    process: ProcessState, workers: Sequence[str], text: str, *, is_own: bool = False
) -> str:
    """A text with the workers that say it, unless all do and it is no worker's own."""
    if not process.workers:
        return text
    several = [each for each in process.workers if not each.problem]
    named = [name for name in workers if name]
    is_all = (
        not is_own
        and len(named) == len(several)
        and (len(several) > 1 or len(process.workers) == 1)
    )
    return text if not named or is_all else f"worker {', '.join(named)}: {text}"


def problems(process: ProcessState, cluster: str = "") -> list[State]:
    """The health checks that fail, without those of other clusters, and workers that are silent."""
    own = f"{OF_A_CLUSTER}{cluster}/"
    heard = sum(not each.problem for each in process.workers)
    found = []
    for check in process.health:
        if check.name.startswith(OF_A_CLUSTER) and not f"{check.name}/".startswith(own):
            continue
        for problem, workers in check.problems.items():
            if check.name == SHUTDOWN and "" not in workers and len(workers) < heard:
                continue  # it makes room for another one
            found.append(
                {
                    "check": check.name.removeprefix(own),
                    "problem": _of_workers(process, workers, problem),
                    "isBlocking": check.is_blocking,
                }
            )
    for worker in process.workers:
        if worker.problem:
            text = f"worker {worker.name} does not answer: {worker.problem}"
            found.append({"check": WORKER, "problem": text, "isBlocking": False})
    return found


def _level(level: LevelState, history: History, kinds: dict[str, str]) -> State:
    rates = history.levels.get(level.name)
    shown = level.queues or [0] * min(level.queue_count, MAX_QUEUES)
    return {
        "name": level.name,
        "uid": level.uid,
        "type": "Exempt" if level.is_exempt else "Limited",
        "isQuiescing": level.is_quiescing,
        "shares": level.shares,
        "lendablePercent": level.lendable_percent,
        "borrowingLimitPercent": level.borrowing_percent,
        "nominal": level.nominal_limit,
        "min": level.lower_limit,
        "max": None if level.is_exempt else level.upper_limit,
        "current": level.current_limit,
        "seatsInUse": level.seats_in_use,
        "executing": level.requests_executing,
        "waiting": level.requests_waiting,
        "lent": max(0, level.nominal_limit - level.current_limit),
        "borrowed": max(0, level.current_limit - level.nominal_limit),
        "dispatched": level.dispatched_total,
        "rejected": level.rejected_total,
        "timedOut": level.timed_out_total,
        "cancelled": level.cancelled_total,
        "failed": level.failed_total,
        "queueCount": level.queue_count,
        "queues": shown,
        "queueSeats": level.queue_seats or [0] * len(shown),
        **_lately(level, rates or NO_RATES),
        "oldestWaitSeconds": round(level.oldest_wait_s, 3),
        "holder": _holder(level.holders, kinds) if _is_pressed(level, rates) else None,
    }


NO_RATES: Final = Rates()


def _is_pressed(level: LevelState, rates: Rates | None) -> bool:
    return bool(level.requests_waiting or (rates is not None and rates.rejected))


def _lately(level: LevelState, rates: Rates) -> State:
    """What a level did lately."""
    if rates.rejected:
        condition = REJECTS
    elif level.requests_waiting:
        condition = WAITS
    else:
        condition = WORKS if rates.matched or level.requests_executing else IDLE
    return {
        "condition": condition,
        "dispatchedPerSecond": round(rates.dispatched, 2),
        "servedPerSecond": round(max(0.0, rates.dispatched - rates.failed), 2),
        "failedPerSecond": round(rates.failed, 2),
        "leftPerSecond": round(rates.left, 2),
        "rejectedPerSecond": {reason: round(rate, 2) for reason, rate in rates.rejected.items()},
    }


def _holder(holders: Sequence[Holder], kinds: dict[str, str]) -> State | None:
    for holder in holders:
        return {
            "flowSchema": holder.flow_schema,
            "flow": holder.flow,
            "kind": kinds.get(holder.flow_schema, ""),
            "seats": holder.seats,
            "waitsFor": holder.waits_for,
        }
    return None


def _flow_schemas(schemas: Sequence[FlowSchemaState], history: History) -> list[State]:
    """Those in force that match most, in the order in which they are tried."""
    found = [
        (history.flow_schemas.get((each.priority_level, each.name), NO_RATES), each)
        for each in schemas
        if each.is_in_force
    ]
    if len(found) > MAX_FLOW_SCHEMAS:
        found = heapq.nsmallest(MAX_FLOW_SCHEMAS, found, key=lambda each: -each[0].matched)
    found.sort(key=lambda each: each[1].place)
    return [
        {
            "name": schema.name,
            "uid": schema.uid,
            "priorityLevel": schema.priority_level,
            "matchingPrecedence": schema.precedence,
            "kind": schema.kind,
            "matchedPerSecond": round(rates.matched, 2),
            "rejectedPerSecond": round(sum(rates.rejected.values()), 2),
        }
        for rates, schema in found
    ]


def _top_flows(cluster: ClusterState, kinds: dict[str, str]) -> list[State]:
    if cluster.top_flows is None:
        return []
    return [
        {**flow_json(each), "kind": kinds.get(each.flow_schema, ""), "isWhole": each.is_whole}
        for each in largest(cluster.top_flows)
    ]


def flow_json(flow: Flow) -> State:
    """A flow that used much, by its names and its numbers."""
    return {
        "flowSchema": flow.flow_schema,
        "priorityLevel": flow.priority_level,
        "flow": flow.flow,
        "seatSeconds": flow.seat_seconds,
        "waitSeconds": flow.wait_seconds,
        "rejected": flow.rejected,
    }


def _workers(process: ProcessState, cluster: ClusterState, history: History) -> list[State]:
    heard = [
        {
            "name": each.name,
            "problem": "",
            "seatsInUse": each.seats_in_use,
            "executing": each.executing,
            "waiting": each.waiting,
            "dispatchedPerSecond": round(history.workers.get(each.name, 0.0), 2),
            "loopDelaySeconds": round(each.loop_delay_s, 2),
        }
        for each in cluster.workers
    ]
    silent = [each for each in process.workers if each.problem]
    return heard + [{"name": each.name, "problem": each.problem} for each in silent]


def upstream_json(upstream: UpstreamState, history: History) -> State:
    """The servers behind: totals since the start, and rates a second of the last seconds."""
    return {
        "address": upstream.address,
        "state": upstream.health.state,
        "problem": upstream.health.problem,
        "since": upstream.health.since_s,
        "answers": by_class(upstream.served.answers),
        "failures": upstream.served.failures,
        **_served(history.upstream),
        "awaiting": upstream.awaiting,
        "silentSeconds": round(upstream.silent_s, 1),
        "connections": {"open": upstream.open_count, "idle": upstream.idle_count},
        "endpoints": [
            endpoint_json(each, history.endpoints.get(each.url)) for each in shown(upstream)
        ],
        "endpointCount": upstream.endpoint_count,
        "healthyCount": upstream.healthy_count,
        "seatsPerEndpoint": upstream.seats_per_endpoint,
    }


def _served(rates: ServedRates) -> State:
    return {
        "answersPerSecond": rates.answers,
        "failuresPerSecond": rates.failures,
        "p50": rates.p50,
        "p99": rates.p99,
    }


def endpoint_json(endpoint: EndpointState, rates: ServedRates | None) -> State:
    """One endpoint; `share` is the part of all requests that it should have, from 0 to 1."""
    is_drained = endpoint.health.state == DRAINING
    return {
        "url": endpoint.url,
        "state": endpoint.health.state,
        "problem": endpoint.health.problem,
        "since": endpoint.health.since_s,
        "weight": endpoint.weight,
        "ramp": round(endpoint.ramp, 2),
        "share": round(endpoint.share, 4),
        "seats": endpoint.seats,
        "inFlight": endpoint.busy_count,
        "connections": {"open": endpoint.open_count, "idle": endpoint.idle_count},
        **_served(NOT_SERVED if is_drained else rates or ServedRates()),
        "ejections": endpoint.ejections_total,
    }


NOT_SERVED: Final = ServedRates({})


def shown(upstream: UpstreamState) -> Sequence[EndpointState]:
    """Those with a place on the page, in their order."""
    endpoints = upstream.endpoints
    if len(endpoints) <= MAX_ENDPOINTS:
        return endpoints
    order = sorted(range(len(endpoints)), key=lambda place: endpoints[place].health.state == UP)
    return [endpoints[place] for place in sorted(order[:MAX_ENDPOINTS])]


def fleet_json(view: FleetView) -> State:
    """Who shares the seats; ages are whole seconds, so that what stays the same does not change.

    `used` and `demand` are sums over the members, as they last said.
    """

    def rank(member: MemberView) -> tuple[bool, bool, str]:
        is_well = member.is_alike and not is_silent(member)
        return not member.is_self, is_well, member.key

    members = view.members
    return {
        "store": view.store,
        "name": view.name,
        "isOfWorkers": view.store == OF_WORKERS,
        "state": view.state,
        "problem": view.problem,
        "age": None if view.age_s is None else int(view.age_s),
        "limit": view.limit,
        "claims": view.claims,
        "claim": view.claim,
        "inForce": view.in_force,
        "safeShare": view.safe_share,
        "used": sum(member.used for member in members),
        "demand": sum(total_demand(member) for member in members),
        "failures": view.failures,
        "lost": view.lost,
        "lostAge": None if view.lost_age_s is None else int(view.lost_age_s),
        "memberCount": len(members),
        "silentCount": sum(map(is_silent, members)),
        "unlikeCount": sum(not member.is_alike for member in members),
        "members": [_member(each) for each in sorted(members, key=rank)[:MAX_MEMBERS]],
    }


def _member(member: MemberView) -> State:
    found = {
        "name": member.name,
        "isSelf": member.is_self,
        "isSilent": is_silent(member),
        "isAlike": member.is_alike,
        "limit": member.limit,
        "claim": member.claim,
        "used": member.used,
        "demand": total_demand(member),
        "age": int(member.age_s),
        "lease": member.lease_s,
    }
    return {**found, "state": member.state} if member.state else found


def of_whole_server(cluster: ClusterState) -> None:
    """Give levels of several workers the bounds that they have of the limit that these share.

    What a worker has of it follows what is wanted, so its bounds are of the moment.
    """
    if cluster.fleet is None or cluster.fleet.store != OF_WORKERS:
        return
    limit = cluster.fleet.limit
    nominal = nominal_limits(limit, {each.name: each.shares for each in cluster.levels})
    for each in cluster.levels:
        bounds = level_limits(
            nominal[each.name], limit, each.lendable_percent, each.borrowing_percent
        )
        each.nominal_limit, each.lower_limit = bounds.nominal, bounds.lower
        each.upper_limit = bounds.upper
    cluster.limit, cluster.shared_limit, cluster.members = limit, None, None
