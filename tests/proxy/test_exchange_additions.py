"""Additions to a FlowSchema or its level; flow control that is only observed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.proxy.fakes import (
    GET,
    LOG,
    OBJECTS,
    OK,
    WATCH,
    Bench,
    FakeTransport,
    body,
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


def test_flow_requests_limit() -> None:
    with Bench(seats=9, idle_upstreams=9) as bench:
        bench.annotate(b'apfproxy.io/flow-requests-limit: "1"')
        first = bench.ask(GET)
        refused = bench.ask(GET)
        answer = refused.take()
        assert b"429" == status(answer)
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert "apfproxy.io/flow-requests-limit" in message(answer)
        assert 1 == counters_of(bench).rejected_flow_requests
        bench.end(first)
        third = bench.ask(WATCH)
        assert not limits_of(bench, third).is_in_use
        fourth = bench.ask(GET)
        assert (2, 0, 0) == bench.use()

        bench.assert_at_rest(third, fourth)


@pytest.mark.parametrize("request_", [WATCH, LOG, EXEC, WATCH_UPGRADE])
def test_long_running_limit(request_: bytes) -> None:
    with Bench(seats=9, idle_upstreams=9) as bench:
        bench.annotate(b'apfproxy.io/long-running-limit: "1"')
        first = bench.ask(request_)
        limits = limits_of(bench, first)
        short = bench.ask(GET)
        assert {"": 1} == limits.long_running.counts
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
        assert {} == limits.long_running.counts
        third = bench.ask(request_)
        assert {"": 1} == limits.long_running.counts

        bench.assert_at_rest(third, short)
        assert {} == limits.long_running.counts
