"""States of a proxy, as its admin listener tells them."""

from __future__ import annotations

from typing import Any


def level(name: str = "work", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A limited level at rest, but for the changes."""
    return {
        "name": name,
        "type": "Limited",
        "isQuiescing": False,
        "nominal": 10,
        "min": 5,
        "max": 40,
        "current": 10,
        "seatsInUse": 0,
        "executing": 0,
        "waiting": 0,
        "lent": 0,
        "borrowed": 0,
        "servedPerSecond": 0.0,
        "failedPerSecond": 0.0,
        "rejectedPerSecond": {},
        "timedOut": 0,
        "cancelled": 0,
        "queues": [0, 0],
        "queueSeats": [0, 0],
        **changes,
    }


def flow(name: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A flow that took something."""
    return {
        "flowSchema": "everybody",
        "priorityLevel": "work",
        "flow": name,
        "seatSeconds": 1.0,
        "waitSeconds": 0.0,
        "rejected": 0.0,
        **changes,
    }


def state(*levels: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A proxy with these levels, but for the changes."""
    return {
        "time": 1_792_481_236.0,
        "serverConcurrencyLimit": 20,
        "seatFairFrac": 0.5,
        "enforcement": "enforce",
        "levels": list(levels or (level(),)),
        "topFlows": [],
        "configuration": {"generation": 3, "events": []},
        **changes,
    }
