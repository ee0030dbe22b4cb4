"""Clients and upstreams that take too long."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import aiohttp
import pytest

from apfproxy.settings import (
    HTTP_API,
    KUBERNETES_API,
    Address,
    LongRunningSettings,
    RequestSettings,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.scene import GET, NARROW, OK, Setup, on_uvloop, over_both_protocols, running
from tests.support.clocks import until

SHORT_S = 0.01
PODS = b"/api/v1/pods"


def get(target: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target


@over_both_protocols
@on_uvloop
async def test_idle_connections_of_clients_are_closed() -> None:
    """A client that asks nothing more for the limit is closed without a word."""
    async with running(Setup().with_downstream(idle_timeout_s=SHORT_S)) as scene:
        client = await scene.ask(GET)
        await (await scene.upstream.next_request()).peer.send(OK)
        assert 200 == (await client.read_answer()).status

        assert await client.is_at_end()


@over_both_protocols
@on_uvloop
async def test_the_upstream_takes_too_long() -> None:
    """A request that is not answered in time is a 504, and is cancelled at the upstream."""
    setup = Setup(objects=NARROW, seats=1).with_downstream(request_timeout_s=0.2)
    async with running(setup) as scene:
        hold = await scene.take_seat(get(PODS))
        answer = await hold.client.read_answer()
        await until(lambda: scene.upstream.ended)

        assert (504, "Timeout") == (answer.status, json.loads(answer.body)["reason"])
        assert "(downstream.requestTimeout)" in json.loads(answer.body)["message"]
        assert 0 == scene.level().queue_set.seats_in_use
        assert 1 == scene.process.cluster.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
        await hold.client.send(GET)
        await (await scene.upstream.next_request()).peer.send(OK)
        assert 200 == (await hold.client.read_answer()).status


@on_uvloop
async def test_an_answer_to_http_10_that_takes_too_long() -> None:
    """A normal end of the connection would say that the answer is whole."""
    setup = Setup().with_downstream(request_timeout_s=SHORT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat(b"GET %b HTTP/1.0\r\n\r\n" % PODS)
        await hold.arrival.peer.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        )
        assert b" 200 OK\r\n" in await hold.client.read_head()
        assert b"hello" == await hold.client.read_exactly(5)

        with pytest.raises(ConnectionResetError):
            await hold.client.receive()


KUBEVIRT = b"/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/v"


@pytest.mark.parametrize(
    ("preset", "named", "request_", "why"),
    [
        pytest.param(
            KUBERNETES_API,
            LongRunningSettings(subresources=("memorydump",)),
            get(KUBEVIRT + b"/memorydump"),
            "its subresource is memorydump (request.longRunning.subresources)",
            id="subresource",
        ),
        pytest.param(
            HTTP_API,
            LongRunningSettings(path_prefixes=("/events",)),
            get(b"/events?since=9"),
            "its path begins with /events (request.longRunning.pathPrefixes)",
            id="path",
        ),
    ],
)
@over_both_protocols
@on_uvloop
async def test_long_running_requests_that_are_named(
    preset: str, named: LongRunningSettings, request_: bytes, why: str
) -> None:
    """They wait as long as those that Kubernetes names, without seats, and `explain` says why."""
    setup = Setup(
        objects=NARROW,
        seats=3,
        preset=preset,
        request=RequestSettings(long_running=named),
        admin=Address(host="127.0.0.1", port=0),
    ).with_upstream(answer_timeout_s=SHORT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat(request_)
        late = await scene.take_seat(get(b"/eventsource"))
        assert 504 == (await late.client.read_answer()).status
        late = await scene.take_seat(get(b"/events/..%2fa"))
        assert 504 == (await late.client.read_answer()).status
        assert 0 == scene.level().queue_set.seats_in_use
        method, target, _ = request_.decode().split(" ", 2)
        asked = urlencode({"method": method, "target": target})
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{scene.process.admin_port}") as session,
            session.get(f"/debug/explain?{asked}") as explained,
        ):
            assert why == (await explained.json())["request"]["longRunningBy"]

        assert 200 == (await hold.end()).status
