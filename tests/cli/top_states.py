"""States of a proxy, as its admin listener tells them."""

from __future__ import annotations

import json
from typing import Any

NOW = 1_792_481_236.0
LEVEL = """{
  "type": "Limited", "isQuiescing": false, "nominal": 10, "min": 5, "max": 40, "current": 10,
  "seatsInUse": 0, "executing": 0, "waiting": 0, "lent": 0, "borrowed": 0, "servedPerSecond": 0.0,
  "failedPerSecond": 0.0, "rejectedPerSecond": {}, "queueCount": 2, "queues": [0, 0]
}"""
ENDPOINT = """{
  "state": "up", "problem": null, "since": 1792481176.0, "ramp": 1.0, "share": 0.5, "seats": 12,
  "inFlight": 14, "answersPerSecond": {"2xx": 100.0, "5xx": 0.5}, "failuresPerSecond": 0.0,
  "p99": 0.045
}"""
UPSTREAM = """{
  "address": "http://127.0.0.1:8000", "state": "up", "problem": null, "since": 1792481176.0,
  "answersPerSecond": {"2xx": 10.0, "5xx": 2.0}, "failuresPerSecond": 0.0, "p50": 0.004,
  "p99": 0.045
}"""
TOKENS = """{
  "openStreams": 8, "completions": 20, "completionTokens": 9000, "promptTokens": 800,
  "tokensPerSecond": 412.5, "promptTokensPerSecond": 9.5, "firstTokenP50": 1.25,
  "firstTokenP99": 11.5, "firstTokenExecutingP50": 0.35, "betweenTokensP50": 0.0207,
  "betweenTokensP99": null
}"""
CLUSTER = """{
  "severity": "ok", "state": "up", "problem": "", "healthyCount": 3, "endpointCount": 3,
  "seatsInUse": 4, "serverConcurrencyLimit": 600, "waiting": 0, "servedPerSecond": 20.0,
  "failedPerSecond": 0.0, "rejectedPerSecond": 0.0, "p99": 0.045
}"""
Json = dict[str, Any]


def level(name: str = "work", **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {**json.loads(LEVEL), "name": name, **changes}


def flow(name: str, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    names = {"flowSchema": "everybody", "priorityLevel": "work", "flow": name}
    return {**names, "seatSeconds": 1.0, "waitSeconds": 0.0, "rejected": 0.0, **changes}


def tokens(**changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {**json.loads(TOKENS), **changes}


def event(message: str, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {
        "generation": 3,
        "events": [{"time": 0.0, "message": message, "isError": False, **changes}],
    }


def state(*levels: Json, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {
        "time": NOW,
        "serverConcurrencyLimit": 20,
        "enforcement": "enforce",
        "levels": list(levels or (level(),)),
        "topFlows": [],
        "configuration": {"generation": 3, "events": []},
        **changes,
    }


def endpoint(url: str, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {**json.loads(ENDPOINT), "url": url, **changes}


def upstream(*endpoints: Json, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    healthy = sum(each["state"] == "up" for each in endpoints) if endpoints else 1
    counts = {"endpointCount": len(endpoints) or 1, "healthyCount": healthy}
    return {**json.loads(UPSTREAM), "endpoints": list(endpoints), **counts, **changes}


def cluster(name: str, **changes: Any) -> Json:  # noqa: ANN401 - any JSON
    return {**json.loads(CLUSTER), "name": name, **changes}


def clusters(*each: Json) -> Json:
    verdict = [{"severity": "ok", "text": "all is well"}]
    return {"time": NOW, "verdict": verdict, "clusters": list(each)}
