"""The present state on the live page: one JSON object, read from the controller at the request.

Limits, lent and borrowed amounts are seats.  A level lends what its current limit is below its
nominal limit, and borrows what it is above.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apfproxy.observe.configuration_events import ConfigurationEvents
from apfproxy.observe.dumps import levels_by_name
from apfproxy.observe.top_flows import MAX_NAME, NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.observe.live_history import LiveHistory

State = dict[str, Any]
"""As JSON has it."""

MAX_QUEUES = 4096
"""Of one level, the first ones; a level may have millions, which no page could show."""


@dataclass(frozen=True, slots=True)
class LiveInputs:
    """What the page shows beside the controller's state.

    Attributes:
        enforcement: `enforce` or `observe`, as set.
        events: What happened to the configuration.
        top_flows: The flows that use most, greatest first, each as the page's JSON has it.
        history: What there is of the last minutes already; None to begin now.
    """

    enforcement: str = "enforce"
    events: ConfigurationEvents = field(default_factory=ConfigurationEvents)
    top_flows: Callable[[], Iterable[Mapping[str, Any]]] = tuple
    history: LiveHistory | None = None


def live_state(
    controller: Controller, inputs: LiveInputs, top_flows: Iterable[Mapping[str, Any]]
) -> State:
    """The current state, without the time; the top flows are those of their last update."""
    return {
        "serverConcurrencyLimit": controller.server_concurrency_limit,
        "seatFairFrac": controller.seat_fair_frac,
        "enforcement": inputs.enforcement,
        "levels": [_level(level) for level in levels_by_name(controller)],
        "topFlows": [_flow(flow) for flow in top_flows],
        "configuration": {
            "generation": controller.generation,
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


def displayable(text: str) -> str:
    """The text with escapes for what is no Unicode, which a header may contain."""
    return text.encode(errors="backslashreplace").decode()


def _level(level: PriorityLevel) -> State:
    queue_set = level.queue_set
    queues = queue_set.queues[:MAX_QUEUES]
    return {
        "name": level.name,
        "uid": level.uid,
        "type": "Exempt" if level.is_exempt else "Limited",
        "isQuiescing": level.is_quiescing,
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
        "queueCount": len(queue_set.queues),
        "queues": [queue.requests_waiting for queue in queues],
        "queueSeats": [queue.seats_in_use for queue in queues],
    }


def _flow(flow: Mapping[str, Any]) -> State:
    """A flow; `isWhole` if its name is complete, so that its hand can be computed."""
    shown = {name: displayable(flow[name]) for name in NAMES}
    is_whole = shown["flow"] == flow["flow"] and len(flow["flow"]) < MAX_NAME
    return {**flow, **shown, "isWhole": is_whole}
