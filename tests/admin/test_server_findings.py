"""What is wrong with several servers behind, in words; `test_verdict` has those of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.admin.verdict import server_errors, server_silent, server_text, servers_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.admin.amounts import Finding

    Rule = Callable[[dict[str, Any], float], Iterator[Finding]]

NOW_S = 1000.0
RULES: tuple[Rule, ...] = (servers_out, server_silent, server_errors)


def endpoint(url: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """An endpoint that has its part of the requests, and answers them in time."""
    return {
        "url": url,
        "state": "up",
        "problem": None,
        "since": None,
        "share": 0.3333,
        "inFlight": 40,
        "answersPerSecond": {"2xx": 100.0},
        "failuresPerSecond": 0.0,
        "p99": 0.045,
        **changes,
    }


def out(url: str, state: str = "failing", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """An endpoint that gets no requests."""
    quiet: dict[str, Any] = {"answersPerSecond": {}, "p99": None, "inFlight": 0, "share": 0.0}
    known = {"problem": "connection refused", "since": NOW_S - 12}
    return endpoint(url, **{"state": state, **quiet, **known, **changes})


def state(*endpoints: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A proxy before these, but for the changes of what is known of them together."""
    every = endpoints or (endpoint("a"), endpoint("b"), endpoint("c"))
    return {
        "levels": [{"name": "low", "dispatchedPerSecond": 100.0, "failedPerSecond": 0.0}],
        "upstream": {
            "state": "up",
            "address": "a",
            "since": NOW_S - 12,
            "problem": "all 3 fail",
            "answersPerSecond": {"2xx": 300.0},
            "failuresPerSecond": 0.0,
            "p50": 0.01,
            "p99": 0.045,
            "endpoints": list(every),
            "endpointCount": sum(each["state"] != "draining" for each in every),
            "healthyCount": sum(each["state"] == "up" for each in every),
            "seatsPerEndpoint": None,
            **changes,
        },
    }


def found(judged: dict[str, Any]) -> list[tuple[str, str]]:
    """Severity and text of each sentence."""
    return [(str(kind), text) for rule in RULES for kind, text in rule(judged, NOW_S)]


@pytest.mark.parametrize(
    ("judged", "severity", "expected"),
    [
        pytest.param(
            state(endpoint("a"), out("b"), endpoint("c")),
            "warning",
            "1 of 3 servers behind is out: b (failing for 12 s: connection refused)",
            id="one-out",
        ),
        pytest.param(
            state(
                endpoint("a", share=1.0),
                out("b", since=None),
                out("c", "ejected"),
                seatsPerEndpoint=200,
            ),
            "warning",
            "2 of 3 servers behind are out: b (failing: connection refused),"
            " c (ejected for 12 s: connection refused);"
            " the limit is 200 seats instead of 600",
            id="two-out",
        ),
        pytest.param(
            state(
                *(out(name, problem=None, since=None) for name in "abcd"),
                state="failing",
                failuresPerSecond=40.0,
                seatsPerEndpoint=100,
            ),
            "error",
            "all 4 servers behind are out, so each still gets requests:"
            " a (failing), b (failing), c (failing) and 1 more;"
            " the limit is 100 seats instead of 400; 40 requests/s fail",
            id="all-out",
        ),
        pytest.param(
            state(endpointCount=0, healthyCount=0, endpoints=[], state="unknown"),
            "error",
            "no endpoint is known, so no request can be forwarded",
            id="none-known",
        ),
        pytest.param(
            state(
                endpoint("a", answersPerSecond={"5xx": 20.0}, failuresPerSecond=10.0),
                endpoint("b"),
                answersPerSecond={"2xx": 270.0, "5xx": 20.0},
                failuresPerSecond=10.0,
            ),
            "error",
            "the servers behind fail 10 % of their requests: 20/s are answers 5xx,"
            " 10/s get no answer, most of them at a",
            id="one-fails-requests",
        ),
        pytest.param(
            state(
                endpoint("a", failuresPerSecond=5.0),
                endpoint("b", failuresPerSecond=5.0),
                failuresPerSecond=10.0,
            ),
            "warning",
            "the servers behind fail 3.2 % of their requests: 10/s get no answer",
            id="both-fail-requests",
        ),
        pytest.param(
            state(silentSeconds=12.0, awaiting=20),
            "warning",
            "the servers behind have answered nothing for 12 s: 20 requests wait for them",
            id="silent",
        ),
    ],
)  # fmt: skip
def test_wrong(judged: dict[str, Any], severity: str, expected: str) -> None:
    """Each has one sentence."""
    assert [(severity, expected)] == found(judged)


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(state(), id="balanced"),
        pytest.param({"levels": []}, id="nothing-known"),
        pytest.param(state(endpoint("a"), out("b", "draining"), endpoint("c")), id="drained"),
        pytest.param(
            state(endpoint("a", inFlight=59, share=0.5), endpoint("b", inFlight=20, share=0.5)),
            id="few-over",
        ),
        pytest.param(state(endpoint("a", p99=0.99), endpoint("b", p99=0.01)), id="not-slow"),
        pytest.param(state(endpoint("a", p99=None), endpoint("b")), id="idle"),
        pytest.param(state(endpoint("a", inFlight=900), out("b", "draining")), id="alone"),
    ],
)
def test_no_matter(judged: dict[str, Any]) -> None:
    """A drained server, or a little difference, is how things are."""
    assert [] == found(judged)


def test_summary() -> None:
    """How they do in few words."""
    assert "upstream p99 45 ms" == server_text(state())
    assert "upstream 3 errors/s" == server_text(state(p99=None, failuresPerSecond=3.0))
    assert "" == server_text(state(state="failing"))
