"""The present state on the live page: one JSON object of a state and of the rates of its history.

Rates are requests per second; a level lends what its current limit is below its nominal limit.
"""

from __future__ import annotations

import heapq
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apfproxy.admin.gathering import MAX_QUEUES
from apfproxy.admin.history import Rates, ServedRates, TokenRates, tokens_by_level
from apfproxy.admin.state import UP, by_class, is_silent, total_demand
from apfproxy.admin.top_flows import MEASURES, largest
from apfproxy.flowcontrol.limits import level_limits, nominal_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.admin.history import History
    from apfproxy.admin.state import (
        ClusterState,
        EndpointState,
        Flow,
        FlowSchemaState,
        Health,
        LevelState,
        ProcessState,
        Share,
        TokensState,
        UpstreamState,
    )
    from apfproxy.fleet.view import FleetView, MemberView

State = dict[str, Any]

OF_A_CLUSTER: Final = "cluster/"
OF_WORKERS: Final = "the parent process"
WORKER: Final = "worker"
SHUTDOWN: Final = "shutdown"
MAX_FLOW_SCHEMAS: Final = 100
"""FlowSchemas in force on the page: the ones that match most requests."""
MAX_ENDPOINTS: Final = 64
"""On the page; those that are well are left out first."""
MAX_MEMBERS: Final = 64
"""Members of a fleet on the page, the first ones."""
REJECTS, WAITS, WORKS, IDLE = "rejects", "waits", "works", "idle"
"""States of a level in the last seconds, worst first."""


def live_state(process: ProcessState, cluster: ClusterState, history: History) -> State:
    listener, kinds = process.listener, {each.name: each.kind for each in cluster.flow_schemas}
    fleet, flows, tokens = cluster.fleet, cluster.top_flows, tokens_by_level(cluster)
    state = {
        "serverConcurrencyLimit": cluster.server_concurrency_limit,
        "foundLimit": None
        if cluster.found_limit is None
        else msgspec.to_builtins(cluster.found_limit),
        "seatFairFrac": cluster.seat_fair_frac,
        "enforcement": cluster.enforcement,
        "proxy": {
            "version": ", ".join(process.version),
            "startTime": process.used.started_s,
            "loopDelaySeconds": round(listener.loop_delay_s, 2),
            "sheds": [reason for reason, holds in listener.overloads.items() if holds],
            "refusedPerSecond": history.refused,
        },
        "cluster": cluster.name,
        "problems": problems(process, cluster.name),
        "clientProblems": cluster.client_problems,
        "levels": [_level(each, history, kinds, tokens.get(each.name)) for each in cluster.levels],
        "flowSchemas": _flow_schemas(cluster.flow_schemas, history),
        "flowSchemaCount": sum(each.is_in_force for each in cluster.flow_schemas),
        "topFlows": [
            {**flow_json(each), "kind": kinds.get(each.flow_schema, ""), "isWhole": each.is_whole}
            for each in ([] if flows is None else largest(flows))
        ],
        "banCommand": cluster.ban_command,
        "upstream": upstream_json(cluster.upstream, history),
        "fleet": None if fleet is None else fleet_json(fleet),
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
        if fleet is not None:
            state["serverConcurrencyLimit"] = fleet.limit
        state["workers"] = [
            *(_share(each, history) for each in cluster.workers),
            *(picked(each, "name", "problem") for each in process.workers if each.problem),
        ]
    return state


def picked(part: object, *names: str) -> State:
    return {page_name(name): getattr(part, name) for name in names}


@cache
def page_name(name: str) -> str:
    """A field's name in JSON, such as `seatsInUse`; `nominal_limit` is `nominal` there."""
    first, *others = re.sub("^requests_|_(limit|total)$", "", name).split("_")
    return first + "".join(map(str.capitalize, others))


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


def _level(
    level: LevelState, history: History, kinds: dict[str, str], tokens: TokensState | None
) -> State:
    rates = history.levels.get(level.name, NO_RATES)
    queues = level.queues or [0] * min(level.queue_count, MAX_QUEUES)
    is_pressed = level.requests_waiting or rates.rejected
    if rates.rejected:
        condition = REJECTS
    elif level.requests_waiting:
        condition = WAITS
    else:
        condition = WORKS if rates.matched or level.requests_executing else IDLE
    return {
        **picked(level, *LEVEL),
        "min": level.lower_limit,
        "max": level.maximum,
        "lent": max(0, level.nominal_limit - level.current_limit),
        "borrowed": max(0, level.current_limit - level.nominal_limit),
        "queues": queues,
        "queueSeats": level.queue_seats or [0] * len(queues),
        "condition": condition,
        "dispatchedPerSecond": round(rates.dispatched, 2),
        "servedPerSecond": round(max(0.0, rates.dispatched - rates.failed), 2),
        "failedPerSecond": round(rates.failed, 2),
        "leftPerSecond": round(rates.left, 2),
        "rejectedPerSecond": {reason: round(rate, 2) for reason, rate in rates.rejected.items()},
        "tokens": None if tokens is None else _tokens(tokens, history.tokens.get(level.name)),
        "oldestWaitSeconds": round(level.oldest_wait_s, 3),
        "holder": next(
            (
                {**picked(each, *HOLDER), "kind": kinds.get(each.flow_schema, "")}
                for each in level.holders
                if is_pressed
            ),
            None,
        ),
    }


def _tokens(tokens: TokensState, rates: TokenRates | None) -> State:
    rates = rates or NO_TOKEN_RATES
    return {
        **picked(tokens, "open_streams", "completions", "completion_tokens", "prompt_tokens"),
        "tokensPerSecond": rates.tokens,
        "promptTokensPerSecond": rates.prompt_tokens,
        **picked(rates, *rates._fields[2:]),
    }


LEVEL: Final = (
    *("name", "uid", "type", "is_quiescing", "shares", "lendable_percent"),
    *("borrowing_limit_percent", "nominal_limit", "current_limit", "seats_in_use"),
    *("requests_executing", "requests_waiting", "dispatched_total", "rejected_total"),
    *("timed_out_total", "cancelled_total", "failed_total", "queue_count"),
)
HOLDER: Final = ("flow_schema", "flow", "seats", "waits_for")
NO_RATES: Final = Rates()
NO_TOKEN_RATES: Final = TokenRates()


def _flow_schemas(schemas: Sequence[FlowSchemaState], history: History) -> list[State]:
    """List the FlowSchemas in force that match most, in the order in which they are tried."""
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
            **picked(schema, "name", "uid", "priority_level", "matching_precedence", "kind"),
            **picked(schema, "user", "until_s", "weight"),
            "matchedPerSecond": round(rates.matched, 2),
            "rejectedPerSecond": round(sum(rates.rejected.values()), 2),
            "rejectedBy": {reason: round(rate, 2) for reason, rate in rates.rejected.items()},
        }
        for rates, schema in found
    ]


def flow_json(flow: Flow) -> State:
    return picked(flow, "flow_schema", "priority_level", "flow", *MEASURES)


def _share(worker: Share, history: History) -> State:
    return {
        **picked(worker, "name", "seats_in_use", "executing", "waiting"),
        "problem": "",
        "dispatchedPerSecond": round(history.workers.get(worker.name, 0.0), 2),
        "loopDelaySeconds": round(worker.loop_delay_s, 2),
    }


def upstream_json(upstream: UpstreamState, history: History) -> State:
    """The servers behind: totals since the start, and rates a second of the last seconds."""
    return {
        **picked(upstream, "address", "awaiting", "endpoint_count", "healthy_count"),
        **picked(upstream, "seats_per_endpoint"),
        **_health(upstream.health),
        "answers": by_class(upstream.served.answers),
        "failures": upstream.served.failures,
        **_served(history.upstream),
        "silentSeconds": round(upstream.silent_s, 1),
        "connections": {"open": upstream.open_count, "idle": upstream.idle_count},
        "endpoints": [
            endpoint_json(each, history.endpoints.get(each.url)) for each in shown(upstream)
        ],
    }


def _health(health: Health) -> State:
    return {"state": health.state, "problem": health.problem, "since": health.since_s}


def _served(rates: ServedRates) -> State:
    return {
        "answersPerSecond": rates.answers,
        "failuresPerSecond": rates.failures,
        **picked(rates, "p50", "p99"),
    }


def endpoint_json(endpoint: EndpointState, rates: ServedRates | None) -> State:
    """One endpoint; `share` is the part of all requests that it should have, from 0 to 1."""
    return {
        **picked(endpoint, "url", "weight", "seats"),
        **_health(endpoint.health),
        "ramp": round(endpoint.ramp, 2),
        "share": round(endpoint.share, 4),
        "inFlight": endpoint.busy_count,
        "connections": {"open": endpoint.open_count, "idle": endpoint.idle_count},
        **_served(NOT_SERVED if endpoint.is_drained else rates or ServedRates()),
        "ejections": endpoint.ejections_total,
    }


NOT_SERVED: Final = ServedRates({})


def shown(upstream: UpstreamState) -> Sequence[EndpointState]:
    endpoints = upstream.endpoints
    if len(endpoints) <= MAX_ENDPOINTS:
        return endpoints
    order = sorted(range(len(endpoints)), key=lambda place: endpoints[place].health.state == UP)
    return [endpoints[place] for place in sorted(order[:MAX_ENDPOINTS])]


def fleet_json(view: FleetView) -> State:
    """Ages are whole seconds, so that equal states stay equal."""

    def rank(member: MemberView) -> tuple[bool, bool, str]:
        is_well = member.is_alike and not is_silent(member)
        return not member.is_self, is_well, member.key

    members = view.members
    return {
        **picked(view, "store", "name", "state", "problem", "limit", "claims", "claim"),
        **picked(view, "in_force", "safe_share", "failures", "lost"),
        "isOfWorkers": view.store == OF_WORKERS,
        "age": None if view.age_s is None else int(view.age_s),
        "used": sum(member.used for member in members),
        "demand": sum(map(total_demand, members)),
        "lostAge": None if view.lost_age_s is None else int(view.lost_age_s),
        "memberCount": len(members),
        "silentCount": sum(map(is_silent, members)),
        "unlikeCount": sum(not member.is_alike for member in members),
        "members": [
            {
                **picked(each, "name", "is_self", "is_alike", "limit", "claim", "used"),
                "isSilent": is_silent(each),
                "demand": total_demand(each),
                "age": int(each.age_s),
                "lease": each.lease_s,
                **({"state": each.state} if each.state else {}),
            }
            for each in sorted(members, key=rank)[:MAX_MEMBERS]
        ],
    }


def of_whole_server(cluster: ClusterState) -> None:
    """Give levels of several workers the bounds that they have of the limit that these share.

    A worker's part of it follows its demand.
    """
    if cluster.fleet is None or cluster.fleet.store != OF_WORKERS:
        return
    limit = cluster.fleet.limit
    nominal = nominal_limits(limit, {each.name: each.shares for each in cluster.levels})
    for each in cluster.levels:
        bounds = level_limits(
            nominal[each.name], limit, each.lendable_percent, each.borrowing_limit_percent
        )
        each.nominal_limit, each.lower_limit = bounds.nominal, bounds.lower
        each.upper_limit = bounds.upper
    cluster.server_concurrency_limit, cluster.shared_limit, cluster.members = limit, None, None
