"""Additions to objects, on the wire."""

from __future__ import annotations

import json

import pytest

from apfproxy.settings import WatchSettings
from tests.end_to_end.scene import (
    GET,
    NARROW,
    REJECTING,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.support.clocks import until

SCHEMA = "metadata: {name: everybody, uid: 00000000-0000-0000-0000-00000000bbbb"
LEVEL = "metadata: {name: narrow, uid: 00000000-0000-0000-0000-00000000aaaa"
WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: a\r\n\r\n"
LOG = b"GET /api/v1/namespaces/a/pods/b/log?follow=true HTTP/1.1\r\nHost: a\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def annotated(place: str, annotations: str, objects: str = NARROW) -> str:
    """The objects, one of them with annotations."""
    assert 1 == objects.count(place)
    return objects.replace(place, f"{place}, annotations: {{{annotations}}}")


def of_tenant(name: bytes) -> bytes:
    """A request that names its tenant."""
    return GET.replace(b"Host", b"X-Tenant: " + name + b"\r\nHost")


@over_both_protocols
@on_uvloop
async def test_rate_of_a_header() -> None:
    """Each tenant has its own rate, whoever else asks; who is over it is told when to return."""
    annotations = (
        'apfproxy.io/distinguisher: "header:X-Tenant", apfproxy.io/request-rate: "0.01",'
        ' apfproxy.io/request-burst: "2"'
    )
    async with running(Setup(objects=annotated(SCHEMA, annotations), seats=9)) as scene:
        for tenant in (b"blue", b"red"):
            for _ in range(2):
                hold = await scene.take_seat(of_tenant(tenant))
                assert 200 == (await hold.end()).status
            client = await scene.ask(of_tenant(tenant))
            refused = await client.read_answer()
            assert 429 == refused.status
            assert int(dict(refused.fields)[b"retry-after"]) > 1
            assert "TooManyRequests" == json.loads(refused.body)["reason"]
        assert 2 == scene.level().queue_set.rejected_total


@pytest.mark.parametrize("request_", [WATCH, LOG], ids=["watch", "log"])
@over_both_protocols
@on_uvloop
async def test_long_running_limit(request_: bytes) -> None:
    """The second one is refused until the first one ends, whatever ends it."""
    setup = Setup(
        objects=annotated(SCHEMA, 'apfproxy.io/long-running-limit: "1"'),
        seats=9,
        watch=WatchSettings(silence_s=0.01),
    )
    async with running(setup) as scene:
        hold = await scene.take_seat(request_)
        await hold.arrival.peer.send(STREAM)
        refused = await (await scene.ask(request_)).read_answer()
        assert 429 == refused.status
        assert b"the flow has 1 long-running request under way" in refused.body
        await hold.client.leave()
        counters = scene.process.cluster.counters
        await until(lambda: counters.client_aborts == 1)
        again = await scene.take_seat(request_)
        assert 200 == (await again.end()).status


@over_both_protocols
@on_uvloop
async def test_ban() -> None:
    """A level that bans lets nothing through, idle as it is; and its connection goes on."""
    objects = annotated(LEVEL, 'apfproxy.io/ban: "true"', REJECTING)
    objects = objects.replace("nominalConcurrencyShares: 1000", "nominalConcurrencyShares: 0")
    async with running(Setup(objects=objects)) as scene:
        client = await scene.ask(GET)
        for _ in range(2):
            refused = await client.read_answer()
            assert (403, "Forbidden") == (refused.status, json.loads(refused.body)["reason"])
            await client.send(LOG)
        assert scene.upstream.is_quiet
