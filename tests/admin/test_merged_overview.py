"""The overviews of several clusters, from several workers, as one."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.admin.merged_overview import merged_overview


def row(name: str, state: str = "up", severity: str = "ok", **values: Any) -> dict[str, Any]:  # noqa: ANN401
    """A cluster, as a worker has it."""
    return {
        "name": name,
        "where": f"{name}.example",
        "state": state,
        "severity": severity,
        "problem": "" if severity == "ok" else "gone",
        "healthyCount": 1,
        "endpointCount": 2,
        "seatsInUse": 3,
        "serverConcurrencyLimit": 10,
        "executing": 3,
        "waiting": 0,
        "servedPerSecond": 5.0,
        "failedPerSecond": 0.0,
        "rejectedPerSecond": 0.0,
        "isObserving": False,
        "p99": 0.1,
        **values,
    }


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    """The overview of a worker."""
    return {"verdict": [], "clusters": list(rows)}


def test_sums() -> None:
    """What clusters do for all workers adds up; those with problems come first."""
    first = page(row("a"), row("b"))
    second = page(row("b", "failing", "error"), row("a", p99=0.5, healthyCount=0))
    merged = merged_overview([first, second])
    b, a = merged["clusters"]

    assert (a["name"], a["seatsInUse"], a["servedPerSecond"], a["p99"]) == ("a", 6, 10.0, 0.5)
    assert (a["healthyCount"], a["endpointCount"]) == (0, 2)
    assert a["serverConcurrencyLimit"] == 20
    assert (b["state"], b["severity"], b["problem"]) == ("up", "error", "gone")
    assert merged["verdict"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param(["refused", "refused"], "refused", id="by-all"),
        pytest.param(["refused", "up"], "up", id="by-one"),
        pytest.param(["failing", "failing"], "failing", id="fails"),
        pytest.param(["unknown", "failing"], "failing", id="known"),
        pytest.param(["unknown", "unknown"], "unknown", id="unknown"),
    ],
)
def test_state(states: list[str], expected: str) -> None:
    """A cluster is as well as it is for the worker that sees it best."""
    merged = merged_overview([page(row("a", state)) for state in states])

    assert merged["clusters"][0]["state"] == expected
