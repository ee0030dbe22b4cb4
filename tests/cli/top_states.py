"""States of a proxy, as its admin listener tells them."""

from __future__ import annotations

from typing import Any

NOW = 1_792_481_236.0


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
        "queueCount": 2,
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
        "time": NOW,
        "serverConcurrencyLimit": 20,
        "seatFairFrac": 0.5,
        "enforcement": "enforce",
        "levels": list(levels or (level(),)),
        "topFlows": [],
        "configuration": {"generation": 3, "events": []},
        **changes,
    }


def endpoint(url: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A server behind that is well, but for the changes."""
    return {
        "url": url,
        "state": "up",
        "problem": None,
        "since": NOW - 60,
        "ramp": 1.0,
        "share": 0.5,
        "seats": 12,
        "inFlight": 14,
        "answersPerSecond": {"2xx": 100.0, "5xx": 0.5},
        "failuresPerSecond": 0.0,
        "p99": 0.045,
        **changes,
    }


def upstream(*endpoints: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The servers behind together."""
    return {
        "address": "http://127.0.0.1:8000",
        "state": "up",
        "problem": None,
        "since": NOW - 60,
        "answersPerSecond": {"2xx": 10.0, "5xx": 2.0},
        "failuresPerSecond": 0.0,
        "p50": 0.004,
        "p99": 0.045,
        "endpoints": list(endpoints),
        "endpointCount": len(endpoints) or 1,
        "healthyCount": sum(each["state"] == "up" for each in endpoints) if endpoints else 1,
        **changes,
    }


def cluster(name: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A cluster that is well, but for the changes."""
    return {
        "name": name,
        "severity": "ok",
        "state": "up",
        "problem": "",
        "healthyCount": 3,
        "endpointCount": 3,
        "seatsInUse": 4,
        "serverConcurrencyLimit": 600,
        "waiting": 0,
        "servedPerSecond": 20.0,
        "failedPerSecond": 0.0,
        "rejectedPerSecond": 0.0,
        "p99": 0.045,
        **changes,
    }


def clusters(*each: dict[str, Any]) -> dict[str, Any]:
    """A proxy with these clusters."""
    verdict = [{"severity": "ok", "text": "all is well"}]
    return {"time": NOW, "verdict": verdict, "clusters": list(each)}
