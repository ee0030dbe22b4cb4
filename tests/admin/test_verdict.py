"""Verdicts: each rule with the state that makes it, and one that just does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.admin.live_state import fleet_json
from apfproxy.admin.verdict import fleet_findings, limit_text, seats_here, verdict
from apfproxy.flowcontrol.limit_view import CurvePoint, DecisionView, LimitView
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView

NOW_S = 1000.0
DEFAULTS = yaml.safe_load("""
state: {serverConcurrencyLimit: 40, enforcement: enforce, fleet: null, clientProblems: [],
  foundLimit: null, flowSchemas: [], topFlows: []}
levels: {name: low, type: Limited, current: 19, max: 40, seatsInUse: 0, waiting: 0,
  dispatchedPerSecond: 0, rejectedPerSecond: {}, leftPerSecond: 0,
  oldestWaitSeconds: 0, holder: null}
flowSchemas: {name: ban-a, user: a, untilS: null, rejectedBy: {ban: 7}}
topFlows: {flowSchema: all, kind: user, rejected: 1}
holder: {flowSchema: all, flow: greedy, kind: user, seats: 19, waitsFor: 0}
proxy: {loopDelaySeconds: 0, sheds: [], refusedPerSecond: {}}
problems: {isBlocking: false}
upstream: {address: http://a, state: up, problem: null, since: null, failuresPerSecond: 0,
  answersPerSecond: {2xx: 100}, p99: 0.045, seatsPerEndpoint: null, endpointCount: 1,
  healthyCount: 1, silentSeconds: 0, awaiting: 0}
endpoints: {url: a, state: up, problem: null, since: null, answersPerSecond: {2xx: 100},
  failuresPerSecond: 0}
""")
"""Defaults of a case, by the part of the state; a proxy of 40 seats that does nothing."""


def with_defaults(part: str, given: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(given, list):
        return [with_defaults(part, each) for each in given]
    if not isinstance(given, dict) or part not in DEFAULTS:
        return given
    return DEFAULTS[part] | {name: with_defaults(name, value) for name, value in given.items()}


def state(text: str = "{}") -> dict[str, Any]:
    """The state of the live page, as far as a case says it."""
    idle: dict[str, Any] = {"answersPerSecond": {}, "p99": None}
    given = {"levels": [{}], "proxy": {}, "problems": [], "upstream": idle, **yaml.safe_load(text)}
    made: dict[str, Any] = with_defaults("state", given)
    upstream = made["upstream"]
    if "endpoints" in upstream:
        states = [each["state"] for each in upstream["endpoints"]]
        upstream["endpointCount"] = len(states) - states.count("draining")
        upstream["healthyCount"] = states.count("up")
    return made


def found(judged: dict[str, Any]) -> list[str]:
    return [f"{each['severity']}: {each['text']}" for each in verdict(judged, NOW_S)]


CASES = """\
levels: [{name: ban-a, rejectedPerSecond: {ban: 1200}}, {dispatchedPerSecond: 50}]
flowSchemas: [{untilS: 1795869000, rejectedBy: {ban: 1200}}, {name: all, user: '', rejectedBy: {
  rate: 5, queue-full: 3}}, {name: b, user: '', rejectedBy: {token-rate: 1}}, {rejectedBy: {}}]
topFlows: [{flow: modest, rejected: 2}, {flow: bob, rejected: 9}]
> note: user a is banned: 1,200 requests/s are rejected, until 2026-11-28T12:30:00Z
    (FlowSchema ban-a)
> note: user bob is limited (rate): 5 requests/s are rejected (FlowSchema all)
> note: a client is limited (token-rate): 1 requests/s are rejected (FlowSchema b)
levels: [{name: ban-a, rejectedPerSecond: {ban: 7}}]
flowSchemas: [{}]
enforcement: observe
proxy: {refusedPerSecond: {'403': 2}}
> note: flow control only observes: enforcing would reject 7/s in ban-a; nothing would wait
> warning: the proxy itself refuses 2 requests/s of users who may not, with 403
> note: user a would be banned: 7 requests/s are rejected (FlowSchema ban-a)
levels: [{rejectedPerSecond: {queue-full: 1}}]
flowSchemas: [{}]
> error: low rejects 1/s (queues full)
> note: user a is banned: 7 requests/s are rejected (FlowSchema ban-a)
{}
> ok: all is well: no requests just now, nothing waits
levels: [{dispatchedPerSecond: 119.6}, {dispatchedPerSecond: 0.4}]
> ok: all is well: 120 requests/s, nothing waits
upstream: {state: unknown, answersPerSecond: {}, p99: null}
> ok: all is well: no requests just now, nothing waits
upstream: {answersPerSecond: {2xx: 100, 5xx: 0.2}}
> ok: all is well: no requests just now, nothing waits, upstream p99 45 ms, 0.2 errors/s
upstream: {silentSeconds: 4.9, awaiting: 20}
> ok: all is well: no requests just now, nothing waits, upstream p99 45 ms
levels: [{seatsInUse: 19, waiting: 19, dispatchedPerSecond: 120, oldestWaitSeconds: 0.99, holder:
  {}}, {name: other, current: 21, max: 21, seatsInUse: 21}]
> ok: all is well: 120 requests/s, 19 wait a moment
problems: [{check: enforcement, problem: x}, {check: upstream, problem: y}, {check: servers,
  problem: z}]
> ok: all is well: no requests just now, nothing waits
upstream: {state: failing, problem: connection refused, since: 988, failuresPerSecond: 245.3}
> error: the server behind, http://a, has been failing for 12 s: connection
    refused; 245 requests/s fail
upstream: {silentSeconds: 12, awaiting: 20}
> warning: the server behind has answered nothing for 12 s: 20 requests wait for it
levels: [{seatsInUse: 19, waiting: 287, dispatchedPerSecond: 120, rejectedPerSecond: {queue-full:
  240, time-out: 5}, holder: {waitsFor: 200}}, {name: other, current: 21, max: 21, seatsInUse:
  21}]
upstream: {answersPerSecond: {2xx: 1500, 5xx: 10}, failuresPerSecond: 2}
> error: low rejects 245/s (queues full), 287 wait: user greedy holds 19 of the level's 19 seats and
    waits for 200; upstream p99 45 ms, 12 errors/s
levels: [{seatsInUse: 19, waiting: 20, leftPerSecond: 2.5, dispatchedPerSecond: 120}]
> warning: 20 wait in low, 2.5/s left before they had seats
levels: [{seatsInUse: 19, dispatchedPerSecond: 120, rejectedPerSecond: {time-out: 1}, holder:
  {seats: 9}}]
> error: low rejects 1/s (waited too long)
levels: [{seatsInUse: 19, dispatchedPerSecond: 120, rejectedPerSecond: {time-out: 1}, holder:
  {flow: ''}}]
> error: low rejects 1/s (waited too long): FlowSchema all holds 19 of the level's 19 seats
levels: [{seatsInUse: 19, waiting: 2, dispatchedPerSecond: 120, oldestWaitSeconds: 1, holder: {}},
  {name: other, current: 21, max: 21, seatsInUse: 21}]
> warning: 2 wait in low, for up to 1 s: user greedy holds 19 of the level's 19 seats
levels: [{current: 0, waiting: 12, dispatchedPerSecond: 1, oldestWaitSeconds: 3, holder: {seats: 0,
  waitsFor: 12}}, {name: other, current: 40, seatsInUse: 40}]
> warning: 12 wait in low, for up to 3 s: user greedy waits for 12, and the level has no seat now
levels: [{seatsInUse: 9, waiting: 19}, {name: idle, current: 4}]
> warning: 9 of 40 seats are in use while 19 wait: 4 are kept for idle levels (idle)
problems: [{check: configuration, problem: 'the last change is not in force: a.yaml'}]
> error: the objects: the last change is not in force: a.yaml
problems: [{check: settings, problem: 's.yaml:3: drain: expected a mapping'}]
> error: the settings are not in force: s.yaml:3: drain: expected a mapping
problems: [{check: shutdown, problem: the process is shutting down}]
> warning: the process is shutting down
problems: [{check: limits, problem: not done for 40 s}]
> warning: health check limits fails: not done for 40 s
clientProblems: [authentication says nothing]
> warning: authentication says nothing
proxy: {loopDelaySeconds: 0.1}
> warning: the proxy itself is 100 ms late: it needs more processor time
proxy: {loopDelaySeconds: 2.5, sheds: [loop-delay]}
> error: the proxy is 2.5 s late, it has too much to do: new connections are refused
proxy: {sheds: [memory]}
> error: the proxy is short of memory: new connections are refused
upstream: {answersPerSecond: {2xx: 99, 5xx: 0.6}, failuresPerSecond: 0.4}
> warning: the server behind fails 1 % of its requests: 0.6/s are answers 5xx, 0.4/s get no
    answer
upstream: {answersPerSecond: {2xx: 90}, failuresPerSecond: 10}
> error: the server behind fails 10 % of its requests: 10/s get no answer
upstream: {p99: null, silentSeconds: 5, awaiting: 1}
> ok: all is well: no requests just now, nothing waits
> note: the server behind has answered nothing for 5 s: 1 request waits for it
proxy: {refusedPerSecond: {'401': 12}}
> warning: the proxy itself refuses 12 requests/s without valid credentials, with 401
proxy: {refusedPerSecond: {connections: 0.2}}
> error: the proxy refuses 0.2 connections/s: as many are open as may be
upstream: {answersPerSecond: {2xx: 11, 4xx: 89}}
> ok: all is well: no requests just now, nothing waits, upstream p99 45 ms
levels: [{dispatchedPerSecond: 130}]
proxy: {refusedPerSecond: {'401': 12}}
> ok: all is well: 130 requests/s, nothing waits
proxy: {refusedPerSecond: {'400': 0.9, loop-delay: 9, '404': 9}}
> ok: all is well: no requests just now, nothing waits
levels: [{waiting: 50, dispatchedPerSecond: 62.5}]
enforcement: observe
> ok: flow control only observes: enforcing would reject nothing; 50 requests would wait, 800
    ms each
> note: 50 would wait in low
levels: [{waiting: 1, dispatchedPerSecond: 1, rejectedPerSecond: {queue-full: 1}}, {name: b,
  rejectedPerSecond: {rate: 2}}]
enforcement: observe
> note: flow control only observes: enforcing would reject 2/s in b, 1/s in low; 1 request
    would wait, 1 s each
> note: low would reject 1/s (queues full), 1 would wait
> note: 0 of 40 seats are in use while 1 would wait: 19 are kept for idle levels (b)
levels: [{dispatchedPerSecond: 63}]
enforcement: observe
upstream: {}
> ok: flow control only observes: enforcing would reject nothing; nothing would wait; 63 of
    100 requests/s would go on, if each took as long as now
levels: [{seatsInUse: 19, waiting: 1}, {name: b, seatsInUse: 21}]
> ok: all is well: no requests just now, 1 waits a moment
levels: [{seatsInUse: 18, waiting: 1}, {name: b, current: 21, seatsInUse: 21}]
> ok: all is well: no requests just now, 1 waits a moment
levels: [{max: 19, seatsInUse: 19, waiting: 1}, {name: b, current: 21}]
> ok: all is well: no requests just now, 1 waits a moment
> note: 19 of 40 seats are in use while 1 waits: more may not be borrowed (low 19 at most)
levels: [{current: 36, seatsInUse: 35, waiting: 1}, {name: b, current: 3}]
> ok: all is well: no requests just now, 1 waits a moment
> note: 35 of 40 seats are in use while 1 waits: 3 are kept for idle levels (b)
levels: [{current: 36, seatsInUse: 36, waiting: 1}, {name: b, current: 1}, {name: c, current: 1},
  {name: d, current: 1}, {name: e, current: 1}, {name: f, current: 1}]
> warning: 36 of 40 seats are in use while 1 waits: 4 are kept for idle levels (b, c, d and 2
    more)
upstream: {seatsPerEndpoint: 200, endpoints: [{}, {state: failing, url: b, problem: no route}, {
  state: ejected, url: c, since: 988}]}
> warning: 2 of 3 servers behind are out: b (failing: no route), c (ejected for 12 s); the limit
    is 200 seats instead of 600
upstream: {state: failing, failuresPerSecond: 40, seatsPerEndpoint: 100, endpoints: [
  {state: failing}, {state: failing}, {state: failing}, {state: failing}]}
> error: all 4 servers behind are out, so each still gets requests: a (failing), a (failing),
    a (failing) and 1 more; the limit is 100 seats instead of 400; 40 requests/s fail
upstream: {state: unknown, endpoints: []}
> error: no endpoint is known, so no request can be forwarded
upstream: {answersPerSecond: {2xx: 270, 5xx: 20}, failuresPerSecond: 10, endpoints: [{url: b},
  {answersPerSecond: {5xx: 20}, failuresPerSecond: 10}]}
> error: the servers behind fail 10 % of their requests: 20/s are answers 5xx, 10/s get no
    answer, most of them at a
upstream: {answersPerSecond: {2xx: 300}, failuresPerSecond: 10, endpoints: [{failuresPerSecond: 5},
  {failuresPerSecond: 5}]}
> warning: the servers behind fail 3.2 % of their requests: 10/s get no answer
upstream: {endpoints: [{}, {state: draining}, {}]}
> ok: all is well: no requests just now, nothing waits, upstream p99 45 ms
upstream: {state: failing, answersPerSecond: {4xx: 9}, failuresPerSecond: 2}
> error: the server behind, http://a, has been failing: it gives no answers; 2 requests/s fail
levels: [{name: a, rejectedPerSecond: {queue-full: 1}}, {name: b, rejectedPerSecond: {
  queue-full: 9}}, {name: c, waiting: 1, seatsInUse: 40, oldestWaitSeconds: 2}, {name: d,
  waiting: 1, oldestWaitSeconds: 5}]
upstream: {p99: 2}
problems: [{check: limits, problem: late}]
> error: b rejects 9/s (queues full); upstream p99 2 s
> error: a rejects 1/s (queues full)
> warning: health check limits fails: late
> warning: 1 waits in d, for up to 5 s
> warning: 1 waits in c, for up to 2 s
levels: [{seatsInUse: 19, holder: {flow: no one; all is well}, rejectedPerSecond: {queue-full: 1}}]
> error: low rejects 1/s (queues full): user "no one; all is well" holds 19 of the level's 19 seats
levels: [{name: a, seatsInUse: 5, waiting: 3, oldestWaitSeconds: 9, holder: {seats: 5,
  waitsFor: 3}}, {name: b, rejectedPerSecond: {queue-full: 2, ban: 1}}]
enforcement: observe
problems: [{check: settings, problem: file s.yaml}, {check: store, problem: away}]
> error: the settings are not in force: file s.yaml
> note: flow control only observes: enforcing would reject 3/s in b; 3 requests would wait
> warning: health check store fails: away
> note: b would reject 2/s (queues full)
> note: 3 would wait in a, for up to 9 s: user greedy holds 5 of the level's 19 seats and would wait
    for 3
> note: 5 of 40 seats are in use while 3 would wait: 19 are kept for idle levels (b)
levels: [{dispatchedPerSecond: 9}]
enforcement: observe
upstream: {}
foundLimit: {limit: 100, found: 84, initial: 100}
> ok: flow control only observes: enforcing would reject nothing; nothing would wait; 9 of 100
    requests/s would go on, if each took as long as now; 84 seats would have been chosen; the
    settings begin with 100 (flowControl.autoLimit.initial)
levels: [{seatsInUse: 19, waiting: 20}]
foundLimit: {limit: 40, max: 40, decisions: []}
> warning: 20 wait in low; the limit may not exceed 40 seats (flowControl.autoLimit.max)
levels: [{seatsInUse: 19, waiting: 20}]
foundLimit: {limit: 39, max: 40, decisions: []}
> warning: 20 wait in low
upstream: {answersPerSecond: {2xx: 90}, failuresPerSecond: 10}
foundLimit: {limit: 28, decisions: [{kind: distress, time: 900, limit: 28}, {kind: more}]}
> error: the server behind fails 10 % of its requests: 10/s get no answer; the limit went down to 28
    seats for it 100 s ago
upstream: {answersPerSecond: {2xx: 90}, failuresPerSecond: 10}
foundLimit: {limit: 28, decisions: [{kind: distress, time: 600, limit: 28}]}
> error: the server behind fails 10 % of its requests: 10/s get no answer
upstream: {answersPerSecond: {2xx: 90}, failuresPerSecond: 10}
foundLimit: {limit: 28, decisions: [{kind: probe, time: 999, limit: 28}]}
> error: the server behind fails 10 % of its requests: 10/s get no answer
"""
"""States, and after each, marked by `>`, all sentences about it."""


@pytest.mark.parametrize(
    ("text", "expected"), re.findall(r"((?:^[^>].*\n)+)((?:^(?:>|    ).*\n)+)", CASES, re.MULTILINE)
)
def test_verdict(text: str, expected: str) -> None:
    sentences = " ".join(expected.split())[2:].split(" > ")

    assert sentences == found(state(text))


SELF = member("a", is_self=True)
RECORD = "the fleet's record"
REFUSED = "redis://10.0.0.5:6379: connection refused; this member uses its safe share, 120 seats"
WORKERS = "the parent process"
IDLE = "300 seats may be idle until their leases end"
LOST = "it was killed, hangs or lost the store; the others share its seats"


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (
            fleet(state="joining", age_s=None, claim=0, in_force=0),
            f"warning: {RECORD} has not been written: the proxy uses 0 of 600 seats",
        ),
        (
            fleet(problem="no answer", age_s=2.4, store=WORKERS),
            "warning: the workers' record has not been written for 2 s: no answer",
        ),
        (
            fleet(SELF, member("b", age_s=4.1), member("c", 100, age_s=4.9)),
            f"warning: nothing is heard of b for 4 s, c for 4 s: {IDLE}",
        ),
        (
            fleet(SELF, member("b", age_s=60.0), problem="no", age_s=60.0, lost_age_s=9.0),
            f"warning: {RECORD} has not been written for 60 s: no",
        ),
        (
            fleet(lost=2, lost_age_s=20.0),
            f"note: the lease of a member of the fleet ended 20 s ago: {LOST}",
        ),
        (
            fleet(lost=2, lost_age_s=20.0, store=WORKERS),
            f"note: the lease of a worker ended 20 s ago: {LOST}",
        ),
        *((each, "") for each in (fleet(), fleet(claims=600), fleet(lost=1, lost_age_s=301.0))),
        (fleet(member("a", is_self=True, age_s=9.0)), ""),
    ],
)
def test_fleet(view: FleetView, expected: str) -> None:
    """Each has its sentence, which the live page has as well; its health check says no more."""
    shown = fleet_json(view)
    judged = {**state("problems: [{check: fleet, problem: x}]"), "fleet": shown}

    assert expected == "".join(f"{severity}: {text}" for severity, text in fleet_findings(shown))
    assert expected in ("", *found(judged))
    assert (view.in_force, 40) == (seats_here(judged), seats_here(state()))


SET = "set 12 s ago: requests wait"
CURVE = tuple(CurvePoint(concurrency, 1.0, 0.0, 0) for concurrency in (12.4, 84.0, 120.7))
INITIAL = "(flowControl.autoLimit.initial)"
NONE_TOO_MANY = "none known as too many"
BEGINS = f"the settings begin with 600 {INITIAL}"
MORE = DecisionView(988.0, 84, "more", "requests wait")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (
            LimitView(50, min=2, max=50, initial=100),
            f"the limit is 50 seats, where the search begins {INITIAL}",
        ),
        (
            LimitView(40, min=2, max=50, initial=100),
            "the limit is 40 seats, where the search begins (as before other settings)",
        ),
        (
            LimitView(84, "holding", 84, decisions=(MORE,)),
            f"the limit finds itself: 84 seats, holding; {SET}",
        ),
        (
            LimitView(84, "probing", 70, decisions=(MORE,)),
            f"the limit finds itself: 84 seats (70 best so far), probing; {SET}",
        ),
        (
            LimitView(84, is_leading=False, decisions=(MORE,)),
            "the limit is found by another proxy that shares it: 84 seats now",
        ),
        (
            LimitView(84, is_observing=True, initial=600, decisions=(MORE,)),
            f"84 seats would have been chosen; {BEGINS}",
        ),
        (
            LimitView(100, found=84, is_observing=True, initial=600, curve=CURVE),
            f"84 seats would have been chosen, of the 12 to 121 that were in use; {BEGINS}",
        ),
        (
            LimitView(600, is_observing=True, initial=600),
            f"no limit can be chosen yet: none was in use; {BEGINS}",
        ),
        (
            LimitView(600, is_observing=True, initial=600, curve=CURVE),
            f"no limit can be chosen yet: up to 121 seats were in use, {NONE_TOO_MANY}; {BEGINS}",
        ),
        (
            LimitView(100, found=184, is_observing=True, initial=600, curve=CURVE),
            f"184 seats would have been chosen; {BEGINS}",
        ),
    ],
)
def test_limit_text(view: LimitView, expected: str) -> None:
    assert expected == limit_text(view, 1000.0)
