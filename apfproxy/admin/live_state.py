"""The present state on the live page: one JSON object, read from the controller at the request.

Limits, lent and borrowed amounts are seats.  A level lends what its current limit is below its
nominal limit, and borrows what it is above.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apfproxy.admin.dumps import levels_by_name
from apfproxy.admin.fleet_state import fleet_state
from apfproxy.admin.live_recent import IDLE, Recent, State, displayable
from apfproxy.base import build
from apfproxy.base.events import ConfigurationEvents
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.settings import ENFORCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apfproxy.admin.live_history import LiveHistory
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.proxy.counters import ProxyCounters

NS_PER_S = 1_000_000_000
VERSION = build.short_version()

OF_A_CLUSTER = "cluster/"
"""Begins the names of health checks of one of several clusters."""

MAX_QUEUES = 4096
"""Of one level, the first ones; a level may have millions, which no page could show."""


@dataclass(frozen=True, slots=True)
class LiveInputs:
    """What the page shows beside the controller's state.

    Attributes:
        enforcement: `enforce` or `observe`, as set now.
        events: What happened to the configuration.
        top_flows: The flows that use most, greatest first, each as the page's JSON has it.
        history: What there is of the last minutes already; None to begin now.
        health: The health checks, whose problems are shown; None for none.
        counters: Of the data plane; None if there is none.
        started_s: When the process began, in seconds since 1970.
        source: Where the objects come from now, in a few words.
        upstream: How the server behind is, as the page's JSON has it; None if there is none.
        cluster: Whose page it is; "" where there are not several.
        fleet: Who shares the seats; None if nobody does.
        client_problems: Why clients are not told apart as they could be, a text for each reason.
    """

    enforcement: Callable[[], str] = lambda: ENFORCE
    events: ConfigurationEvents = field(default_factory=ConfigurationEvents)
    top_flows: Callable[[], Iterable[Mapping[str, Any]]] = tuple
    history: LiveHistory | None = None
    health: HealthRegistry | None = None
    counters: ProxyCounters | None = None
    started_s: float = 0.0
    source: Callable[[], str] = str
    upstream: Callable[[], State] | None = None
    cluster: str = ""
    fleet: Callable[[], FleetView | None] = lambda: None
    client_problems: Callable[[], Iterable[str]] = tuple


NO_RECENT = Recent()
NEW_LEVEL = {
    "condition": IDLE,
    "dispatchedPerSecond": 0.0,
    "servedPerSecond": 0.0,
    "failedPerSecond": 0.0,
    "leftPerSecond": 0.0,
    "rejectedPerSecond": {},
    "oldestWaitSeconds": 0.0,
    "holder": None,
}


def live_state(controller: Controller, inputs: LiveInputs, recent: Recent = NO_RECENT) -> State:
    """The current state, without the time; what is recent is that of its last update."""
    fleet = inputs.fleet()
    return {
        "serverConcurrencyLimit": controller.server_concurrency_limit,
        "seatFairFrac": controller.seat_fair_frac,
        "enforcement": inputs.enforcement(),
        "proxy": {**_proxy(inputs), "refusedPerSecond": recent.refusals},
        "cluster": inputs.cluster,
        "problems": problems(inputs.health, inputs.cluster),
        "clientProblems": list(inputs.client_problems()),
        "levels": [
            {**_level(level), **recent.levels.get(level.name, NEW_LEVEL)}
            for level in levels_by_name(controller)
        ],
        "flowSchemas": recent.flow_schemas,
        "flowSchemaCount": len(controller.in_force.flow_schemas),
        "topFlows": recent.top_flows,
        "upstream": None if inputs.upstream is None else inputs.upstream(),
        "fleet": None if fleet is None else fleet_state(fleet),
        "configuration": {
            "generation": controller.generation,
            "source": inputs.source(),
            "events": [
                {
                    "time": event.unix_s,
                    "message": displayable(event.message),
                    "isError": event.is_error,
                }
                for event in inputs.events
            ],
        },
    }


def _proxy(inputs: LiveInputs) -> State:
    counters = inputs.counters
    late_s = 0.0 if counters is None else counters.listener.loop_delay_ns / NS_PER_S
    overloads = {} if counters is None else counters.listener.overloads
    return {
        "version": VERSION,
        "startTime": inputs.started_s,
        "loopDelaySeconds": round(late_s, 2),
        "sheds": [reason.value for reason, holds in overloads.items() if holds],
    }


def problems(health: HealthRegistry | None, cluster: str = "") -> list[State]:
    """The health checks that fail, without those of other clusters."""
    own = f"{OF_A_CLUSTER}{cluster}/"
    return [
        {
            "check": check.name.removeprefix(own),
            "problem": displayable(problem),
            "isBlocking": check.is_blocking,
        }
        for check in health or ()
        if not check.name.startswith(OF_A_CLUSTER) or f"{check.name}/".startswith(own)
        if (problem := check.problem) is not None
    ]


def _level(level: PriorityLevel) -> State:
    queue_set = level.queue_set
    shares, lendable_percent, borrowing_percent = level_shares(level.configuration)
    queues = queue_set.queues[:MAX_QUEUES]
    return {
        "name": level.name,
        "uid": level.uid,
        "type": "Exempt" if level.is_exempt else "Limited",
        "isQuiescing": level.is_quiescing,
        "shares": shares,
        "lendablePercent": lendable_percent,
        "borrowingLimitPercent": borrowing_percent,
        "nominal": level.nominal_limit,
        "min": level.lower_limit,
        "max": None if level.is_exempt else level.upper_limit,
        "current": level.current_limit,
        "seatsInUse": queue_set.seats_in_use,
        "executing": queue_set.requests_executing,
        "waiting": queue_set.requests_waiting,
        "lent": max(0, level.nominal_limit - level.current_limit),
        "borrowed": max(0, level.current_limit - level.nominal_limit),
        "dispatched": queue_set.dispatched_total,
        "rejected": queue_set.rejected_total,
        "timedOut": queue_set.timed_out_total,
        "cancelled": queue_set.cancelled_total,
        "failed": level.failed_total,
        "queueCount": len(queue_set.queues),
        "queues": [queue.requests_waiting for queue in queues],
        "queueSeats": [queue.seats_in_use for queue in queues],
    }
