"""What the live state has of the last seconds; made once a second, since it costs more.

Rates are those of 5 s.  Everything is bounded, however many objects, flows and requests there are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apfproxy.admin.level_pressure import greatest_holder, oldest_wait_ns
from apfproxy.admin.recent_rates import Rates
from apfproxy.admin.top_flows import MAX_NAME, NAMES
from apfproxy.flowcontrol.explanation import distinguished_by
from apfproxy.objects.types import FlowSchema, stable_uid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.admin.level_pressure import Holder
    from apfproxy.admin.recent_rates import Key, RecentRates
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel

State = dict[str, Any]
"""As JSON has it."""

MAX_FLOW_SCHEMAS = 100
"""Of those in force, the ones that match most requests."""

REJECTS, WAITS, WORKS, IDLE = "rejects", "waits", "works", "idle"
"""What a level did in the last seconds, worst first."""

KINDS = {"ByUser": "user", "ByNamespace": "namespace", "user-agent": "program"}
"""What a flow is the flow of, by what tells flows apart."""

NO_RATES = Rates()
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Recent:
    """Parts of the state.

    Attributes:
        levels: By the level's name, what to add to its part.
        flow_schemas: In the order in which they are tried.
        top_flows: As the page's JSON has them.
        refusals: What the proxy itself refused, a second; see `RecentRefusals`.
    """

    levels: Mapping[str, State] = field(default_factory=dict)
    flow_schemas: Sequence[State] = ()
    top_flows: Sequence[State] = ()
    refusals: Mapping[str, float] = field(default_factory=dict)


def recent(
    controller: Controller,
    rates: RecentRates,
    top_flows: Iterable[Mapping[str, Any]],
    refusals: Mapping[str, float],
) -> Recent:
    """Make all parts."""
    levels = rates.levels()
    now_ns = controller.now_ns()
    return Recent(
        levels={
            name: level_part(controller, level, levels.get(name, Rates()), now_ns)
            for name, level in controller.levels.items()
        },
        flow_schemas=flow_schemas(controller, rates.flow_schemas()),
        top_flows=[_flow(controller, flow) for flow in top_flows],
        refusals=refusals,
    )


def displayable(text: str) -> str:
    """The text with escapes for what is no Unicode, which a header may contain."""
    return text.encode(errors="backslashreplace").decode()


def flow_kind(controller: Controller, flow_schema: str) -> str:
    """What the flows of a FlowSchema are: `user`, `namespace`, `header x-team`; "" if unknown."""
    schema = controller.in_force.flow_schemas.get(flow_schema)
    return "" if schema is None else _kind(schema)


def _kind(schema: FlowSchema) -> str:
    how = distinguished_by(schema)
    return KINDS.get(how, how)


def level_part(controller: Controller, level: PriorityLevel, rates: Rates, now_ns: int) -> State:
    """What a level did lately, and who holds its seats if any request lacks one."""
    queue_set = level.queue_set
    is_pressed = bool(rates.rejected or queue_set.requests_waiting)
    holder = greatest_holder(queue_set) if is_pressed else None
    if rates.rejected:
        condition = REJECTS
    elif queue_set.requests_waiting:
        condition = WAITS
    else:
        condition = WORKS if rates.matched or queue_set.requests_executing else IDLE
    return {
        "condition": condition,
        "dispatchedPerSecond": round(rates.dispatched, 2),
        "servedPerSecond": round(max(0.0, rates.dispatched - rates.failed), 2),
        "failedPerSecond": round(rates.failed, 2),
        "leftPerSecond": round(rates.left, 2),
        "rejectedPerSecond": {
            reason.value: round(rate, 2) for reason, rate in rates.rejected.items()
        },
        "oldestWaitSeconds": round(oldest_wait_ns(queue_set, now_ns) / NS_PER_S, 3),
        "holder": None if holder is None else _holder(controller, holder),
    }


def _holder(controller: Controller, holder: Holder) -> State:
    return {
        "flowSchema": holder.flow_schema,
        "flow": displayable(holder.flow[:MAX_NAME]),
        "kind": flow_kind(controller, holder.flow_schema),
        "seats": holder.seats,
        "waitsFor": holder.waits_for,
    }


def flow_schemas(controller: Controller, rates: Mapping[Key, Rates]) -> list[State]:
    """Those in force that match most, in the order in which they are tried."""
    found = []
    for place, schema in enumerate(controller.flow_schemas()):
        key = schema.spec.priority_level_configuration.name, schema.metadata.name
        found.append((rates.get(key, NO_RATES), place, schema))
    if len(found) > MAX_FLOW_SCHEMAS:
        found = heapq.nsmallest(MAX_FLOW_SCHEMAS, found, key=lambda each: -each[0].matched)
        found.sort(key=lambda each: each[1])
    return [_flow_schema(schema, rate) for rate, _, schema in found]


def _flow_schema(schema: FlowSchema, rates: Rates) -> State:
    return {
        "name": schema.metadata.name,
        "uid": stable_uid(schema),
        "priorityLevel": schema.spec.priority_level_configuration.name,
        "matchingPrecedence": schema.spec.matching_precedence,
        "kind": _kind(schema),
        "matchedPerSecond": round(rates.matched, 2),
        "rejectedPerSecond": round(sum(rates.rejected.values()), 2),
    }


def _flow(controller: Controller, flow: Mapping[str, Any]) -> State:
    """A flow; `isWhole` if its name is complete, so that its hand can be computed."""
    shown = {name: displayable(flow[name]) for name in NAMES}
    is_whole = shown["flow"] == flow["flow"] and len(flow["flow"]) < MAX_NAME
    kind = flow_kind(controller, flow["flowSchema"])
    return {**flow, **shown, "kind": kind, "isWhole": is_whole}
