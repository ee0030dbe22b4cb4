"""What the live state has of the last seconds; made once a second, since it costs more.

Rates are those of 5 s.  Everything is bounded, however many objects, flows and requests there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apfproxy.api.flowcontrol.types import stable_uid
from apfproxy.flowcontrol.explanation import distinguished_by
from apfproxy.observe.level_pressure import greatest_holder, oldest_wait_ns
from apfproxy.observe.recent_rates import Rates, by_level
from apfproxy.observe.top_flows import MAX_NAME, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.observe.level_pressure import Holder
    from apfproxy.observe.recent_rates import Key

State = dict[str, Any]
"""As JSON has it."""

MAX_FLOW_SCHEMAS = 100
"""Of those in force, the ones that match most requests."""

REJECTS, WAITS, WORKS, IDLE = "rejects", "waits", "works", "idle"
"""What a level did in the last seconds, worst first."""

KINDS = {"ByUser": "user", "ByNamespace": "namespace", "user-agent": "program"}
"""What a flow is the flow of, by what tells flows apart."""

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Recent:
    """Parts of the state.

    Attributes:
        levels: By the level's name, what to add to its part.
        flow_schemas: In the order in which they are tried.
        top_flows: As the page's JSON has them.
    """

    levels: Mapping[str, State] = field(default_factory=dict)
    flow_schemas: Sequence[State] = ()
    top_flows: Sequence[State] = ()


def recent(
    controller: Controller, rates: Mapping[Key, Rates], top_flows: Iterable[Mapping[str, Any]]
) -> Recent:
    """Make all parts, by the rates of FlowSchemas at their levels."""
    levels = by_level(rates)
    now_ns = controller.now_ns()
    return Recent(
        levels={
            name: _level(controller, level, levels.get(name, Rates()), now_ns)
            for name, level in controller.levels.items()
        },
        flow_schemas=_flow_schemas(controller, rates),
        top_flows=[_flow(controller, flow) for flow in top_flows],
    )


def displayable(text: str) -> str:
    """The text with escapes for what is no Unicode, which a header may contain."""
    return text.encode(errors="backslashreplace").decode()


def flow_kind(controller: Controller, flow_schema: str) -> str:
    """What the flows of a FlowSchema are: `user`, `namespace`, `header x-team`; "" if unknown."""
    schema = controller.in_force.flow_schemas.get(flow_schema)
    how = "" if schema is None else distinguished_by(schema)
    return KINDS.get(how, how)


def _level(controller: Controller, level: PriorityLevel, rates: Rates, now_ns: int) -> State:
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
        "servedPerSecond": round(rates.dispatched, 2),
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
    }


def _flow_schemas(controller: Controller, rates: Mapping[Key, Rates]) -> list[State]:
    """Those in force that match most, in the order in which they are tried."""
    found: list[tuple[float, int, State]] = []
    for place, schema in enumerate(controller.flow_schemas()):
        name, level = schema.metadata.name, schema.spec.priority_level_configuration.name
        rate = rates.get((level, name), Rates())
        found.append((
            -rate.matched,
            place,
            {
                "name": name,
                "uid": stable_uid(schema),
                "priorityLevel": level,
                "matchingPrecedence": schema.spec.matching_precedence,
                "kind": flow_kind(controller, name),
                "matchedPerSecond": round(rate.matched, 2),
                "rejectedPerSecond": round(sum(rate.rejected.values()), 2),
            },
        ))  # fmt: skip
    kept = sorted(found, key=lambda each: each[:2])[:MAX_FLOW_SCHEMAS]
    return [state for _, _, state in sorted(kept, key=lambda each: each[1])]


def _flow(controller: Controller, flow: Mapping[str, Any]) -> State:
    """A flow; `isWhole` if its name is complete, so that its hand can be computed."""
    shown = {name: displayable(flow[name]) for name in NAMES}
    is_whole = shown["flow"] == flow["flow"] and len(flow["flow"]) < MAX_NAME
    kind = flow_kind(controller, flow["flowSchema"])
    return {**flow, **shown, "kind": kind, "isWhole": is_whole}
