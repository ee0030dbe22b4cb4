"""What is wrong, in words: each rule with the state that makes it, and one that just does not."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.admin.amounts import MAX_PROBLEM, Severity
from apfproxy.admin.verdict import verdict

NOW_S = 1000.0
SERVER = "http://127.0.0.1:8000"
GREEDY = {"flowSchema": "all", "flow": "greedy", "kind": "user", "seats": 19, "waitsFor": 0}


def level(name: str = "low", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A priority level of 19 seats that does nothing."""
    return {
        "name": name,
        "type": "Limited",
        "current": 19,
        "max": 40,
        "seatsInUse": 0,
        "waiting": 0,
        "dispatchedPerSecond": 0.0,
        "failedPerSecond": 0.0,
        "leftPerSecond": 0.0,
        "rejectedPerSecond": {},
        "oldestWaitSeconds": 0.0,
        "holder": None,
        **changes,
    }


def state(*levels: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The state of a proxy with 40 seats."""
    return {
        "serverConcurrencyLimit": 40,
        "enforcement": "enforce",
        "proxy": proxy(),
        "problems": [],
        "levels": list(levels or [level()]),
        **changes,
    }


def proxy(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A proxy that is on time and refuses nothing."""
    return {"loopDelaySeconds": 0.0, "sheds": [], "refusedPerSecond": {}, **changes}


def server(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A server behind that answers 100 requests a second."""
    return {
        "address": SERVER,
        "state": "up",
        "problem": None,
        "since": None,
        "answersPerSecond": {"2xx": 100.0, "5xx": 0.0},
        "failuresPerSecond": 0.0,
        "p50": 0.012,
        "p99": 0.045,
        **changes,
    }


def problem(check: str, text: str, *, is_blocking: bool = False) -> dict[str, Any]:
    """A health check that fails."""
    return {"check": check, "problem": text, "isBlocking": is_blocking}


def found(judged: dict[str, Any]) -> list[tuple[str, str]]:
    """Severity and text of each sentence."""
    return [(each["severity"], each["text"]) for each in verdict(judged, NOW_S)]


IDLE = "all is well: no requests just now, nothing waits"
BUSY: dict[str, Any] = {
    "current": 19,
    "seatsInUse": 19,
    "dispatchedPerSecond": 120.0,
    "holder": GREEDY,
}
FULL = level("other", current=21, max=21, seatsInUse=21)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(state(), IDLE, id="idle"),
        pytest.param(
            state(level(dispatchedPerSecond=119.6), level(dispatchedPerSecond=0.4)),
            "all is well: 120 requests/s, nothing waits",
            id="busy",
        ),
        pytest.param(
            state(level(dispatchedPerSecond=120.0), upstream=server()),
            "all is well: 120 requests/s, nothing waits, upstream p99 45 ms",
            id="server",
        ),
        pytest.param(
            state(
                upstream=server(
                    state="unknown", p50=None, p99=None, answersPerSecond={}, failuresPerSecond=0.0
                )
            ),
            IDLE,
            id="server-unknown",
        ),
        pytest.param(
            state(upstream=server(answersPerSecond={"2xx": 100.0, "5xx": 0.2})),
            "all is well: no requests just now, nothing waits, upstream p99 45 ms, 0.2 errors/s",
            id="few-errors",
        ),
        pytest.param(state(upstream=server(p99=0.99)), f"{IDLE}, upstream p99 990 ms", id="fast"),
        pytest.param(
            state(upstream=server(silentSeconds=4.9, awaiting=20)),
            f"{IDLE}, upstream p99 45 ms",
            id="not-long-silent",
        ),
        pytest.param(state(proxy=proxy(loopDelaySeconds=0.09, sheds=[])), IDLE, id="not-very-late"),
        pytest.param(
            state(level(**BUSY, waiting=19, oldestWaitSeconds=0.99), FULL),
            "all is well: 120 requests/s, 19 wait a moment",
            id="waits-briefly",
        ),
        pytest.param(
            state(
                problems=[
                    problem("enforcement", "x"),
                    problem("upstream", "y"),
                    problem("servers", "z"),
                ]
            ),
            IDLE,
            id="said-elsewhere",
        ),
    ],
)
def test_all_is_well(judged: dict[str, Any], expected: str) -> None:
    """Where no rule finds anything, that is said, and how much is done."""
    assert [("ok", expected)] == found(judged)


@pytest.mark.parametrize(
    ("judged", "severity", "expected"),
    [
        pytest.param(
            state(
                upstream=server(
                    state="failing",
                    problem="connection refused",
                    since=NOW_S - 12,
                    failuresPerSecond=245.3,
                )
            ),
            "error",
            f"the server behind, {SERVER}, has been failing for 12 s: connection refused;"
            " 245 requests/s fail",
            id="server-failing",
        ),
        pytest.param(
            state(upstream=server(silentSeconds=12.0, awaiting=20)),
            "warning",
            "the server behind has answered nothing for 12 s: 20 requests wait for it",
            id="server-silent",
        ),
        pytest.param(
            state(upstream=server(state="failing")),
            "error",
            f"the server behind, {SERVER}, has been failing: it gives no answers",
            id="server-failing-nothing-known",
        ),
        pytest.param(
            state(
                level(**{**BUSY, "holder": {**GREEDY, "waitsFor": 200}}, waiting=287,
                      rejectedPerSecond={"queue-full": 240.0, "time-out": 5}),
                FULL,
                upstream=server(answersPerSecond={"2xx": 1500.0, "5xx": 10.0}, failuresPerSecond=2),
            ),
            "error",
            "low rejects 245/s (queues full), 287 wait: user greedy holds 19 of its 19 seats and"
            " waits for 200; upstream p99 45 ms, 12 errors/s",
            id="rejects",
        ),
        pytest.param(
            state(level(rejectedPerSecond={"concurrency-limit": 1.0})),
            "error",
            "low rejects 1/s (no seat free)",
            id="rejects-nobody-holds",
        ),
        pytest.param(
            state(level(**{**BUSY, "holder": {**GREEDY, "seats": 9}, "rejectedPerSecond": {
                "time-out": 1.0}})),
            "error",
            "low rejects 1/s (waited too long)",
            id="rejects-many-hold",
        ),
        pytest.param(
            state(level(**{**BUSY, "holder": {**GREEDY, "flow": ""}, "rejectedPerSecond": {
                "time-out": 1.0}})),
            "error",
            "low rejects 1/s (waited too long): FlowSchema all holds 19 of its 19 seats",
            id="flows-are-not-told-apart",
        ),
        pytest.param(
            state(level(**BUSY, waiting=2, oldestWaitSeconds=1.0), FULL),
            "warning",
            "2 wait in low, for up to 1 s: user greedy holds 19 of its 19 seats",
            id="waits-long",
        ),
        pytest.param(
            state(level(**{**BUSY, "holder": {**GREEDY, "seats": 2, "waitsFor": 18}}, waiting=20),
                  FULL, upstream=server()),
            "warning",
            "20 wait in low: user greedy holds 2 of its 19 seats and waits for 18;"
            " upstream p99 45 ms",
            id="many-wait",
        ),
        pytest.param(
            state(level(seatsInUse=9, waiting=19), level("idle", current=4)),
            "warning",
            "9 of 40 seats are in use while 19 wait: 4 are kept for idle levels (idle)",
            id="many-seats-kept",
        ),
        pytest.param(
            state(problems=[problem("configuration", "the last change is not in force: a.yaml")]),
            "error",
            "the objects: the last change is not in force: a.yaml",
            id="objects-refused",
        ),
        pytest.param(
            state(problems=[problem("settings", "s.yaml:3: drain: expected a mapping")]),
            "error",
            "the settings are not in force: s.yaml:3: drain: expected a mapping",
            id="settings-refused",
        ),
        pytest.param(
            state(problems=[problem("shutdown", "the process is shutting down")]),
            "warning",
            "the process is shutting down",
            id="shutdown",
        ),
        pytest.param(
            state(problems=[problem("limits", "not done for 40 s")]),
            "warning",
            "health check limits fails: not done for 40 s",
            id="stale-duty",
        ),
        pytest.param(
            state(problems=[problem("sweep", "not done for 40 s", is_blocking=True)]),
            "error",
            "health check sweep fails: not done for 40 s",
            id="stale-duty-that-blocks",
        ),
        pytest.param(
            state(clientProblems=["authentication says nothing"]),
            "warning",
            "authentication says nothing",
            id="clients-not-told-apart",
        ),
        pytest.param(
            state(problems=[problem("limits", "x" * (MAX_PROBLEM + 1))]),
            "warning",
            f"health check limits fails: {'x' * (MAX_PROBLEM - 1)}…",
            id="long-problem",
        ),
        pytest.param(
            state(proxy=proxy(loopDelaySeconds=0.1, sheds=[])),
            "warning",
            "the proxy itself is 100 ms late: it needs more processor time",
            id="late",
        ),
        pytest.param(
            state(proxy=proxy(loopDelaySeconds=2.5, sheds=["loop-delay"])),
            "error",
            "the proxy is 2.5 s late, it has too much to do: new connections are refused",
            id="sheds",
        ),
        pytest.param(
            state(proxy=proxy(loopDelaySeconds=0.0, sheds=["memory"])),
            "error",
            "the proxy is short of memory: new connections are refused",
            id="memory",
        ),
        pytest.param(
            state(
                upstream=server(answersPerSecond={"2xx": 99.0, "5xx": 0.6}, failuresPerSecond=0.4)
            ),
            "warning",
            "the server behind fails 1 % of its requests: 0.6/s are answers 5xx,"
            " 0.4/s get no answer",
            id="some-errors",
        ),
        pytest.param(
            state(upstream=server(answersPerSecond={"2xx": 90.0}, failuresPerSecond=10.0)),
            "error",
            "the server behind fails 10 % of its requests: 10/s get no answer",
            id="many-errors",
        ),
    ],
)  # fmt: skip
def test_wrong(judged: dict[str, Any], severity: str, expected: str) -> None:
    """What is wrong comes first, and then nobody says that all is well."""
    sentences = found(judged)

    assert (severity, expected) == sentences[0]
    assert "ok" not in {severity for severity, _ in sentences}


@pytest.mark.parametrize(
    ("judged", "well", "expected"),
    [
        pytest.param(
            state(upstream=server(p99=None, p50=None, silentSeconds=5.0, awaiting=1)),
            IDLE,
            "the server behind has answered nothing for 5 s: 1 request waits for it",
            id="silent-to-one",
        ),
    ],
)
def test_notes(judged: dict[str, Any], well: str, expected: str) -> None:
    """What is worth knowing does not keep all from being well."""
    assert [("ok", well), ("note", expected)] == found(judged)


def test_what_would_be() -> None:
    """Where flow control only observes nothing is wrong by it: it is what would be."""
    judged = state(
        level(
            "a",
            seatsInUse=5,
            waiting=3,
            oldestWaitSeconds=9.0,
            holder={**GREEDY, "seats": 5, "waitsFor": 3},
        ),
        level("b", rejectedPerSecond={"queue-full": 2.0, "ban": 1.0}),
        enforcement="observe",
    )
    greedy = "user greedy holds 5 of its 19 seats and would wait for 3"

    assert [
        (
            "note",
            "flow control only observes: enforcing would reject 3/s in b; 3 requests would wait",
        ),
        ("note", "b would reject 2/s (queues full)"),
        ("note", f"3 would wait in a, for up to 9 s: {greedy}"),
        ("note", "5 of 40 seats are in use while 3 would wait: 19 are kept for idle levels (b)"),
    ] == found(judged)


WOULD = "flow control only observes: enforcing would reject "
FEWER = "63 of 100 requests/s would go on, if each took as long as now"


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(state(), ("ok", "nothing; nothing would wait"), id="idle"),
        pytest.param(
            state(level(waiting=50, dispatchedPerSecond=62.5)),
            ("ok", "nothing; 50 requests would wait, 800 ms each"),
            id="wait",
        ),
        pytest.param(
            state(
                level(waiting=1, dispatchedPerSecond=1.0, rejectedPerSecond={"queue-full": 1.0}),
                level("b", rejectedPerSecond={"rate": 2.0}),
            ),
            ("note", "2/s in b, 1/s in low; 1 request would wait, 1 s each"),
            id="reject",
        ),
        pytest.param(
            state(level(dispatchedPerSecond=80.0), upstream=server()),
            ("ok", "nothing; nothing would wait"),
            id="nearly-as-many",
        ),
        pytest.param(
            state(level(dispatchedPerSecond=63.0), upstream=server()),
            (
                "ok",
                f"nothing; nothing would wait; {FEWER}",
            ),
            id="fewer",
        ),
        pytest.param(state(upstream=None), ("ok", "nothing; nothing would wait"), id="no-server"),
    ],
)
def test_what_enforcing_would_do(judged: dict[str, Any], expected: tuple[str, str]) -> None:
    """It is the first sentence but for errors."""
    judged["enforcement"] = "observe"
    severity, text = expected
    assert (severity, WOULD + text) == found(judged)[0]
    judged["problems"] = [problem("settings", "file s.yaml"), problem("store", "away")]

    assert ["error", "note", "warning"] == [each for each, _ in found(judged)][:3]
    assert WOULD + text == found(judged)[1][1]


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        pytest.param([level(seatsInUse=19)], None, id="nothing-waits"),
        pytest.param(
            [level(seatsInUse=19, waiting=1), level("b", seatsInUse=21)], None, id="all-in-use"
        ),
        pytest.param(
            [level(seatsInUse=18, waiting=1), level("b", current=21, seatsInUse=21)],
            None,
            id="nobody-keeps-any",
        ),
        pytest.param(
            [level(seatsInUse=19, waiting=1, max=19), level("b", current=21)],
            "19 of 40 seats are in use while 1 waits: more may not be borrowed (low 19 at most)",
            id="as-many-as-it-may",
        ),
        pytest.param(
            [level(seatsInUse=35, waiting=1, current=36, max=40), level("b", current=3)],
            "35 of 40 seats are in use while 1 waits: 3 are kept for idle levels (b)",
            id="few",
        ),
        pytest.param(
            [
                level(seatsInUse=36, waiting=1, current=36),
                *(level(name, current=1) for name in "bcdef"),
            ],
            "36 of 40 seats are in use while 1 waits: 4 are kept for idle levels"
            " (b, c, d and 2 more)",
            id="more-by-rounding",
        ),
        pytest.param(
            [level(seatsInUse=39, waiting=1), level("b", current=1)],
            "39 of 40 seats are in use while 1 waits: 1 is kept for idle levels (b)",
            id="one",
        ),
        pytest.param(
            [level(seatsInUse=39, waiting=1), level("x", type="Exempt", current=9, max=None)],
            None,
            id="exempt",
        ),
    ],
)
def test_kept_seats(levels: list[dict[str, Any]], expected: str | None) -> None:
    """Seats that nobody uses while requests wait are told, with who has them."""
    texts = [text for _, text in found(state(*levels)) if "seats are in use" in text]

    assert ([] if expected is None else [expected]) == texts


def test_one_seat() -> None:
    """One seat is singular."""
    judged = state(level(current=0, waiting=1), level("b", current=1), serverConcurrencyLimit=1)

    assert "0 of 1 seat is in use while 1 waits: 1 is kept for idle levels (b)" in [
        text for _, text in found(judged)
    ]


def test_order() -> None:
    """Errors come first, then warnings, then notes; of levels the worst first."""
    judged = state(
        level("a", rejectedPerSecond={"queue-full": 1.0}),
        level("b", rejectedPerSecond={"queue-full": 9.0}),
        level("c", waiting=1, seatsInUse=40, oldestWaitSeconds=2.0),
        level("d", waiting=1, oldestWaitSeconds=5.0),
        enforcement="enforce",
        upstream=server(p99=2.0, p50=None),
        problems=[problem("limits", "late")],
    )

    assert [
        ("error", "b rejects 9/s (queues full); upstream p99 2 s"),
        ("error", "a rejects 1/s (queues full)"),
        ("warning", "health check limits fails: late"),
        ("warning", "1 waits in d, for up to 5 s"),
        ("warning", "1 waits in c, for up to 2 s"),
    ] == found(judged)


def test_hostile_names() -> None:
    """A name cannot be taken for the sentence around it."""
    holder = {**GREEDY, "flow": "nobody; all is well"}
    judged = state(level(**{**BUSY, "holder": holder}, rejectedPerSecond={"queue-full": 1.0}))

    assert (
        'low rejects 1/s (queues full): user "nobody; all is well" holds 19 of its 19 seats'
        == found(judged)[0][1]
    )


def test_worst_first() -> None:
    """The order of the severities is that of the sentences."""
    assert ["error", "warning", "note", "ok"] == [each.value for each in Severity]


@pytest.mark.parametrize(
    ("judged", "severity", "expected"),
    [
        pytest.param(
            state(proxy=proxy(refusedPerSecond={"401": 12.0})),
            "warning",
            "the proxy itself refuses 12 requests/s without valid credentials, with 401",
            id="credentials",
        ),
        pytest.param(
            state(proxy=proxy(refusedPerSecond={"connections": 0.2})),
            "error",
            "the proxy refuses 0.2 connections/s: as many are open as may be",
            id="connections",
        ),
        pytest.param(
            state(proxy=proxy(refusedPerSecond={"flood-of-window-updates": 3.0})),
            "warning",
            "the proxy ends 3 HTTP/2 connections/s that flood it with window updates",
            id="floods",
        ),
    ],
)
def test_what_no_level_tells(judged: dict[str, Any], severity: str, expected: str) -> None:
    """Nobody is rejected and nothing waits long, and yet clients get nothing."""
    assert [(severity, expected)] == found(judged)


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(
            state(upstream=server(answersPerSecond={"2xx": 11.0, "4xx": 89.0})), id="many-4xx"
        ),
        pytest.param(state(upstream=server(answersPerSecond={"4xx": 0.9})), id="rare-4xx"),
        pytest.param(
            state(
                level(dispatchedPerSecond=100.0),
                level("tiny", dispatchedPerSecond=5.0, failedPerSecond=2.0),
            ),
            id="less-than-half",
        ),
        pytest.param(
            state(level(dispatchedPerSecond=20.0, failedPerSecond=20.0)), id="no-other-level"
        ),
        pytest.param(
            state(level(dispatchedPerSecond=100.0, leftPerSecond=9.0)), id="few-departures"
        ),
        pytest.param(
            state(level(dispatchedPerSecond=130.0), proxy=proxy(refusedPerSecond={"401": 12.0})),
            id="some-without-credentials",
        ),
        pytest.param(
            state(proxy=proxy(refusedPerSecond={"400": 0.9, "loop-delay": 9.0, "404": 9.0})),
            id="few-malformed",
        ),
    ],
)
def test_what_is_no_matter(judged: dict[str, Any]) -> None:
    """A little of it is how things are."""
    assert "ok" == found(judged)[0][0]


def test_failing_server_is_said_once() -> None:
    """What follows from a server that fails is not said again."""
    failing = server(state="failing", answersPerSecond={"4xx": 9.0}, failuresPerSecond=2.0)
    judged = state(
        level(dispatchedPerSecond=9.0),
        level("tiny", dispatchedPerSecond=2.0, failedPerSecond=2.0),
        upstream=failing,
    )

    assert 1 == len(found(judged))
