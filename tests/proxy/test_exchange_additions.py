"""Additions to a FlowSchema or its level; flow control that is only observed."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.flowcontrol.observed_passage import ObservedPassage
from apfproxy.settings import ENFORCE, OBSERVE, AccessLogSettings
from tests.proxy.fakes import (
    GET,
    LOG,
    OBJECTS,
    OK,
    WATCH,
    Bench,
    FakeTransport,
    body,
    broken,
    connection_of,
    status,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.flow_limits import FlowLimits
    from apfproxy.flowcontrol.meters import FlowSchemaCounters
    from tests.proxy.fakes import FakeTransport

EXEC = (
    b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
    b"Upgrade: SPDY/3.1\r\n\r\n"
)
WATCH_UPGRADE = (
    b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def banning() -> Bench:
    log = AccessLogSettings(path="-")
    bench = Bench(idle_upstreams=9, access_log=log)
    objects = OBJECTS.replace(b"Configuration: {name: queued}", b"Configuration: {name: banned}")
    objects += (
        b"---\napiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\n"
        b'metadata: {name: banned, annotations: {apfproxy.io/ban: "true"}}\nspec:\n'
        b"  type: Limited\n"
        b"  limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}\n"
    )
    bench.apply(objects)
    return bench


def counters_of(bench: Bench) -> FlowSchemaCounters:
    return [c for c in bench.controller.flow_schema_counters() if c.flow_schema == "queued"][-1]


def limits_of(bench: Bench, client: FakeTransport) -> FlowLimits:
    exchange = connection_of(client).exchange
    assert exchange is not None
    classification = bench.flow_control.classify(exchange.request)
    assert classification.limits is not None
    return classification.limits


def message(answer: bytes) -> str:
    return str(json.loads(body(answer))["message"])


@pytest.mark.parametrize("request_", [GET, LOG, WATCH, EXEC, WATCH_UPGRADE])
def test_ban(request_: bytes) -> None:
    with banning() as bench:
        client = bench.ask(request_)
        answer = client.take()

        assert b"403" == status(answer)
        assert b"Retry-After" not in answer
        assert (
            "priority level 'banned', where FlowSchema 'queued' leads, rejects all requests"
            " (apfproxy.io/ban)"
        ) == message(answer)
        assert 1 == counters_of(bench).rejected_ban
        assert 1 == bench.controller.levels["banned"].queue_set.rejected_total
        assert (b"Upgrade" in request_) == (b"\r\nConnection: close\r\n" in answer)
        assert [] == [upstream for upstream in bench.upstreams if upstream.written]
        seats = int(request_ in (GET, WATCH, WATCH_UPGRADE))
        assert [("ban", seats)] == [(line["reason"], line["seats"]) for line in bench.logged()]
        bench.assert_at_rest()


def test_rate() -> None:
    with Bench(seats=9, idle_upstreams=9) as bench:
        bench.annotate(
            b'apfproxy.io/request-rate: "0.5", apfproxy.io/request-burst: "2",'
            b" apfproxy.io/distinguisher: header:x-tenant"
        )
        blue = GET.replace(b"Host", b"X-Tenant: blue\r\nHost")
        answers = []
        for _ in range(3):
            client = bench.ask(blue)
            for upstream in bench.upstreams:
                if upstream.take():
                    bench.send(upstream, OK)
            answers.append(client.take())
        assert [b"200", b"200", b"429"] == list(map(status, answers))
        assert b"\r\nRetry-After: 2\r\n" in answers[2]
        assert b"\r\nX-Kubernetes-PF-FlowSchema-UID: " in answers[2]
        assert (
            "the flow makes more than 0.5 requests a second, the most that FlowSchema 'queued'"
            " allows (apfproxy.io/request-rate); try again later"
        ) == message(answers[2])
        assert 1 == counters_of(bench).rejected_rate
        other = bench.ask(blue.replace(b"blue", b"red"))
        assert (1, 0, 0) == bench.use()
        bench.end(other)
        bench.wait(2)
        again = bench.ask(blue)
        assert (1, 0, 0) == bench.use()
        bench.assert_at_rest(again)


@pytest.mark.parametrize("request_", [WATCH, LOG, EXEC, WATCH_UPGRADE])
def test_long_running_limit(request_: bytes) -> None:
    with Bench(seats=9, idle_upstreams=9) as bench:
        bench.annotate(b'apfproxy.io/long-running-limit: "1"')
        first = bench.ask(request_)
        limits = limits_of(bench, first)
        short = bench.ask(GET)
        assert {"": 1} == limits.long_running
        refused = bench.ask(request_)
        answer = refused.take()
        assert b"429" == status(answer)
        assert b"Retry-After" not in answer
        assert (
            "the flow has 1 long-running request under way, and FlowSchema 'queued' allows 1"
            " (apfproxy.io/long-running-limit); end one of them"
        ) == message(answer)
        assert 1 == counters_of(bench).rejected_long_running
        bench.end(refused)
        bench.end(first)
        assert {} == limits.long_running
        third = bench.ask(request_)
        assert {"": 1} == limits.long_running

        bench.assert_at_rest(third, short)
        assert {} == limits.long_running


REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"
HURRIED = GET.replace(b" HTTP", b"?timeout=2200ms HTTP")
"""Waits for 550 ms at most."""
TICK_S = 0.1
ADDITIONS = [
    b"",
    b'apfproxy.io/long-running-limit: "1"',
    b'apfproxy.io/request-rate: "2", apfproxy.io/request-burst: "2"',
]


def counts(bench: Bench) -> dict[str, object]:
    [counters] = [c for c in bench.controller.flow_schema_counters() if c.flow_schema == "queued"]
    names = [each.name for each in fields(counters) if not each.name.startswith("_")]
    found = {name: getattr(counters, name) for name in names}
    found["wait_executed_ns"] = counters.wait_executed_ns
    found["queue_length_after_enqueue"] = counters.queue_length_after_enqueue
    del found["dispatched_at_once"]  # not yet sorted into these two
    return {
        name: (each.counts, each.sum) if hasattr(each, "counts") else each
        for name, each in found.items()
    }


def run(
    arrivals: list[tuple[int, int, bytes]], annotations: bytes, enforcement: str
) -> tuple[dict[str, object], list[bytes]]:
    """The counts and statuses that a mix of requests comes to.

    Args:
        arrivals: Ticks since the one before, for which the upstream works at it, and the request.
        annotations: Of the FlowSchema.
        enforcement: Of the proxy.

    Returns:
        What is counted, and what each client got.
    """
    at: dict[int, list[bytes]] = {}
    now = 0
    for gap, duration, request in arrivals:
        now += gap
        at.setdefault(now, []).append(request.replace(b"Host", b"Duration: %d\r\nHost" % duration))
    with Bench(idle_upstreams=len(arrivals), enforcement=enforcement) as bench:
        bench.annotate(annotations)
        due: dict[int, int] = {}
        clients = []
        for tick in range(now + 20 * len(arrivals) + 20):
            for index in [index for index, end in due.items() if end == tick]:
                del due[index]
                bench.send(bench.upstreams[index], OK)
            clients += [bench.ask(request) for request in at.get(tick, ())]
            for index, upstream in enumerate(bench.upstreams):
                sent = upstream.take()
                if sent:
                    duration = int(sent.partition(b"Duration: ")[2].partition(b"\r\n")[0])
                    due[index] = tick + duration
            bench.wait(TICK_S)
        bench.assert_at_rest()
        return counts(bench), [status(client.take()) for client in clients]


WAITING_WATCHES = [(0, 5, HURRIED), (0, 3, WATCH), (4, 3, WATCH)]


@example([*WAITING_WATCHES, (0, 1, WATCH)], ADDITIONS[1])
@example([*[(0, 9, HURRIED)] * 4, (0, 9, WATCH), (1, 1, LOG)], ADDITIONS[1])
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 9), st.sampled_from([HURRIED, WATCH, LOG])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(ADDITIONS),
)
def test_agrees_with_enforcement(
    arrivals: list[tuple[int, int, bytes]], annotations: bytes
) -> None:
    enforced, _ = run(arrivals, annotations, ENFORCE)
    observed, answers = run(arrivals, annotations, OBSERVE)

    assert enforced == observed
    assert [b"200"] * len(arrivals) == answers


@pytest.mark.interpreted
def test_an_error_of_a_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    with Bench(idle_upstreams=5, enforcement=OBSERVE) as bench:
        clients = [bench.ask(GET), bench.ask(GET)]
        upstreams = list(bench.upstreams)
        assert (1, 1, 0) == bench.use()
        with monkeypatch.context() as patch:
            patch.setattr(ObservedPassage, "on_seats", broken)
            for upstream in upstreams:
                if upstream.take():
                    bench.send(upstream, OK)
            bench.wait(1)

        assert [b"200", b"200"] == [status(client.take()) for client in clients]
        assert [ZeroDivisionError] == [type(error) for error in bench.passage_errors]
        bench.wait(100)
        bench.assert_at_rest()
