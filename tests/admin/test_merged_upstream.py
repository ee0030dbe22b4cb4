"""What several workers know of the servers behind, as one proxy would know it."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.admin.merged_upstream import (
    badness,
    largest,
    merged_endpoint_rows,
    merged_endpoint_states,
    merged_upstream,
    summed,
    typical,
)


def endpoint(url: str, state: str = "up", **values: Any) -> dict[str, Any]:  # noqa: ANN401
    """A server as the live state has it."""
    return {
        "url": url,
        "state": state,
        "problem": None if state == "up" else "gone",
        "since": 1.0,
        "weight": 1,
        "ramp": 1.0,
        "share": 0.5,
        "seats": 2,
        "inFlight": 3,
        "connections": {"open": 4, "idle": 1},
        "answersPerSecond": {"2xx": 10.0},
        "failuresPerSecond": 0.0,
        "ejections": 1,
        "p50": 0.01,
        "p99": 0.1,
        **values,
    }


def upstream(state: str = "up", **values: Any) -> dict[str, Any]:  # noqa: ANN401
    """The servers together."""
    return {
        "address": "http://a",
        "state": state,
        "problem": None if state == "up" else "refused",
        "since": 5.0,
        "answers": {"2xx": 100},
        "failures": {"refused": 1},
        "answersPerSecond": {"2xx": 10.0},
        "failuresPerSecond": 0.5,
        "awaiting": 1,
        "silentSeconds": 0.5,
        "p50": 0.01,
        "p99": 0.1,
        "connections": {"open": 4, "idle": 1},
        "endpoints": [endpoint("http://a")],
        "endpointCount": 1,
        "healthyCount": 1,
        "seatsPerEndpoint": None,
        **values,
    }


def test_sums() -> None:
    """What the servers do for all workers adds up."""
    slow = upstream(p50=0.03, p99=0.3, answersPerSecond={"2xx": 30.0, "5xx": 0.0})
    merged = merged_upstream([upstream(), None, slow])

    assert merged is not None
    assert merged["answersPerSecond"] == {"2xx": 40.0, "5xx": 0.0}
    assert (merged["p50"], merged["p99"]) == (0.025, 0.3)
    assert merged["failuresPerSecond"] == 1.0
    assert merged["connections"] == {"open": 8, "idle": 2}
    assert merged["endpoints"][0]["inFlight"] == 6
    assert merged["endpointCount"] == 1
    assert merged_upstream([None]) is None


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param(["failing", "failing"], "failing", id="for-all"),
        pytest.param(["failing", "up"], "up", id="for-one"),
        pytest.param(["up", "failing"], "up", id="for-the-other"),
        pytest.param(["failing", "unknown"], "unknown", id="not-known"),
        pytest.param(["unknown", "failing"], "unknown", id="not-known-first"),
    ],
)
def test_state(states: list[str], expected: str) -> None:
    """The servers fail only where they fail for all workers."""
    merged = merged_upstream([upstream(state) for state in states])

    assert merged is not None
    assert merged["state"] == expected
    assert (merged["problem"] is None) == (expected == "up")


def test_endpoint_that_one_worker_sees_failing() -> None:
    """A server is as it is for the worker that sees it worst."""
    states = merged_endpoint_states([
        [endpoint("a"), endpoint("b")],
        [endpoint("a", "ejected"), endpoint("b", p99=None)],
    ])  # fmt: skip

    assert [(each["url"], each["state"]) for each in states] == [("a", "ejected"), ("b", "up")]
    assert states[0]["problem"] == "gone"
    assert states[1]["p99"] == 0.1


def test_rows() -> None:
    """The table has sums, and names the worker for which a server is out."""

    def row(state: str, problem: str) -> dict[str, Any]:
        numbers = ("Seats", "RequestsInFlight", "IdleConnections", "Answers", "Failures")
        return {
            "Endpoint": "a",
            "State": state,
            "Since": "then",
            "Weight": 1,
            "SharePercent": "50.0",
            **dict.fromkeys(numbers, 2),
            "Ejections": 0,
            "Problem": problem,
        }

    one_sees_it = merged_endpoint_rows([(1, [row("up", "")]), (2, [row("failing", "gone")])])
    all_see_it = merged_endpoint_rows([(1, [row("failing", "gone")])])

    assert (one_sees_it[0]["State"], one_sees_it[0]["Problem"]) == ("failing", "worker 2: gone")
    assert (one_sees_it[0]["Answers"], one_sees_it[0]["SharePercent"]) == (4, "50.0")
    assert all_see_it[0]["Problem"] == "gone"


def test_badness() -> None:
    """A state of a newer version is no reason to worry."""
    order = ["failing", "ejected", "draining", "unknown", "up", "new"]

    assert sorted(order, key=badness) == order


def test_summed() -> None:
    """Keys that only one has are kept."""
    assert summed([{"a": 1, "b": 0.1}, {"b": 0.2}]) == {"a": 1, "b": 0.3}


def test_times() -> None:
    """Times of nobody are none."""
    assert typical([]) is None
    assert typical([(None, 1.0), (0.5, 0.0)]) == 0.5
    assert largest([None, 0.5, 0.1]) == 0.5
    assert largest([None]) is None
