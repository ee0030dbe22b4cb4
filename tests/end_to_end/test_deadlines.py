"""What happens when a client, the upstream or a queue takes too long, and what is malformed."""

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
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import GET, NARROW, OK, Setup, on_uvloop, over_both_protocols, running
from tests.support.clocks import until

SHORT_S = 0.01
PODS = b"/api/v1/pods"


def get(target: bytes) -> bytes:
    """A request."""
    return b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target


@pytest.mark.parametrize("start", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
@on_uvloop
async def test_a_head_that_takes_too_long(start: bytes) -> None:
    """A client that began a head and does not end it in time gets a 408 and is closed."""
    async with running(Setup().with_downstream(head_timeout_s=SHORT_S)) as scene:
        client = await scene.ask(start)
        answer = await client.read_answer()

        assert (408, b"close") == (answer.status, answer.value(b"connection"))
        assert "Timeout" == json.loads(answer.body)["reason"]
        assert await client.is_at_end()
        assert [] == scene.upstream.peers


@on_uvloop
async def test_more_bytes_do_not_put_the_deadline_off() -> None:
    """A head that comes drop by drop is as late as one that stops."""
    async with running(Setup().with_downstream(head_timeout_s=SHORT_S)) as scene:
        client = await scene.connect()
        await scene.deliver(client, get(b"/"))
        await (await scene.upstream.next_request()).peer.send(OK)
        await client.read_answer()
        counters = scene.process.cluster.counters
        await scene.deliver(client, b"GET / HTTP/1.1\r\n")
        while not counters.requests_by_status.get(408):
            await scene.deliver(client, b"X: 1\r\n")
            await until(lambda: True)

        assert 408 == (await client.read_answer()).status


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
    setup = Setup(objects=NARROW, seats=1).with_downstream(request_timeout_s=SHORT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat(get(PODS))
        answer = await hold.client.read_answer()
        await until(lambda: scene.upstream.ended)

        assert (504, "Timeout") == (answer.status, json.loads(answer.body)["reason"])
        assert "(downstream.requestTimeout)" in json.loads(answer.body)["message"]
        assert 0 == scene.level().queue_set.seats_in_use
        assert 1 == scene.process.cluster.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]


@over_both_protocols
@on_uvloop
async def test_the_connection_goes_on_after_a_504() -> None:
    """A client whose request took too long may ask again."""
    async with running() as scene:
        client = await scene.ask(get(PODS + b"?timeout=10ms"))
        await scene.upstream.next_request()
        assert 504 == (await client.read_answer()).status
        await client.send(GET)
        await (await scene.upstream.next_request()).peer.send(OK)

        assert 200 == (await client.read_answer()).status


@pytest.mark.parametrize(
    ("parameter", "seconds"),
    [
        pytest.param(b"", 60, id="none"),
        pytest.param(b"?timeout=10s", 10, id="shorter"),
        pytest.param(b"?timeout=1h", 60, id="longer"),
        pytest.param(b"?timeout=0s", 60, id="zero"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_the_timeout_parameter_shortens_the_wait(parameter: bytes, seconds: int) -> None:
    """A queued request waits for a quarter of its time at most."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        hold = await scene.take_seat()
        await scene.ask(get(PODS + parameter))
        queue_set = scene.level().queue_set
        await until(lambda: queue_set.requests_waiting)
        (ticket,) = queue_set.queues[0].tickets()
        digest = ticket.details.digest

        assert seconds * 1_000_000_000 == digest.timeout_ns
        await hold.end()


@over_both_protocols
@on_uvloop
async def test_a_wait_that_takes_too_long() -> None:
    """A request that waits in its queue for a quarter of its time gets a 429."""
    async with running(Setup(objects=NARROW, seats=1)) as scene:
        hold = await scene.take_seat()
        answer = await (await scene.ask(get(PODS + b"?timeout=20ms"))).read_answer()

        assert 429 == answer.status
        assert (0, 1) == (
            scene.level().queue_set.requests_waiting,
            scene.level().queue_set.timed_out_total,
        )
        await hold.end()


@pytest.mark.parametrize("parameter", [b"x", b"10", b"-1"])
@over_both_protocols
@on_uvloop
async def test_a_timeout_that_is_none(parameter: bytes) -> None:
    """A `timeout` that Kubernetes does not understand is a 400."""
    async with running() as scene:
        answer = await (await scene.ask(get(PODS + b"?timeout=" + parameter))).read_answer()

        assert (400, True) == (answer.status, scene.upstream.is_quiet)


@over_both_protocols
@on_uvloop
async def test_an_answer_that_takes_too_long() -> None:
    """An answer that has begun and does not end in time is cut, so that the client can tell."""
    setup = Setup().with_downstream(request_timeout_s=SHORT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat(get(PODS))
        await hold.arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        assert b" 200 OK\r\n" in await hold.client.read_head()
        assert b"hello" == await hold.client.read_exactly(5)

        assert await hold.client.is_at_end()
        await until(lambda: scene.upstream.ended)


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


@pytest.mark.parametrize(
    "target",
    [
        b"/api/v1/namespaces/a/pods/b/log?follow=true",
        b"/api/v1/pods?watch=true",
    ],
)
@over_both_protocols
@on_uvloop
async def test_long_running_requests_have_no_deadline(target: bytes) -> None:
    """A watch, or a log that is followed, goes on for as long as both sides like."""
    setup = Setup().with_downstream(request_timeout_s=SHORT_S, idle_timeout_s=SHORT_S)
    async with running(setup) as scene:
        # The sweeps that end this request look at the other one too.
        late = await scene.take_seat(get(PODS))
        hold = await scene.take_seat(get(target))
        await hold.arrival.peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await hold.client.read_head()
        assert 504 == (await late.client.read_answer()).status
        late = await scene.take_seat(get(PODS))
        assert 504 == (await late.client.read_answer()).status
        await hold.arrival.peer.send(b"2\r\nok\r\n0\r\n\r\n")

        assert b"ok" == await hold.client.read_chunk()


EXEC = (
    b"GET /api/v1/namespaces/a/pods/b/exec?command=ls HTTP/1.1\r\nHost: a\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(get(b"/debug/pprof/profile?seconds=70"), id="profile"),
        pytest.param(get(b"/api/v1/nodes/n/proxy/debug/pprof/profile"), id="proxy-of-a-node"),
        pytest.param(get(b"/api/v1/namespaces/a/services/s/proxy/x"), id="proxy-of-a-service"),
        pytest.param(get(b"/api/v1/proxy/nodes/n"), id="proxy-verb"),
        pytest.param(get(b"/api/v1/pods?watch=true"), id="watch"),
        pytest.param(get(b"/api/v1/namespaces/a/pods/b/log"), id="log"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_long_running_requests_that_are_answered_late(request_: bytes) -> None:
    """Their server may take as long as it likes to begin, as in kube-apiserver."""
    setup = Setup(objects=NARROW, seats=3).with_upstream(answer_timeout_s=SHORT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat(request_)
        for _ in range(2):  # the sweeps that end these look at the other one, too
            late = await scene.take_seat(get(PODS))
            assert 504 == (await late.client.read_answer()).status
        await until(lambda: not scene.level().queue_set.seats_in_use)

        assert 200 == (await hold.end()).status
        assert 2 == scene.process.cluster.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]


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
            KUBERNETES_API,
            LongRunningSettings(path_prefixes=("/apis/subresources.kubevirt.io",)),
            get(KUBEVIRT),
            "its path begins with /apis/subresources.kubevirt.io"
            " (request.longRunning.pathPrefixes)",
            id="path-of-a-resource",
        ),
        pytest.param(
            HTTP_API,
            LongRunningSettings(path_prefixes=("/events",)),
            get(b"/events?since=9"),
            "its path begins with /events (request.longRunning.pathPrefixes)",
            id="path",
        ),
        pytest.param(
            HTTP_API,
            LongRunningSettings(verbs=("report",)),
            b"REPORT /a HTTP/1.1\r\nHost: a\r\n\r\n",
            "its verb is report (request.longRunning.verbs)",
            id="verb",
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


@over_both_protocols
@on_uvloop
async def test_a_named_request_that_is_an_event_stream() -> None:
    """It has no seats to give back when its answer says so."""
    named = LongRunningSettings(path_prefixes=("/events",))
    setup = Setup(preset=HTTP_API, request=RequestSettings(long_running=named))
    async with running(setup) as scene:
        hold = await scene.take_seat(get(b"/events"))
        await hold.arrival.peer.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n3\r\na:b\r\n0\r\n\r\n"
        )

        assert b"a:b" == (await hold.client.read_answer()).body


@on_uvloop
async def test_upgrades_that_are_answered_late() -> None:
    """The same of a request that becomes a tunnel."""
    setup = Setup(upstream_reads=False).with_upstream(answer_timeout_s=SHORT_S)
    async with running(setup) as scene:
        client = await scene.ask(EXEC)
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        for _ in range(2):
            late = await scene.ask(get(PODS))
            assert 504 == (await late.read_answer()).status
        await upstream.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )

        assert (await client.read_head()).startswith(b"HTTP/1.1 101 ")


@over_both_protocols
@on_uvloop
async def test_what_flows_has_no_deadline_before_plain_apis() -> None:
    """An upload and a feed go on for as long as they move; what stands still beside them ends."""
    setup = Setup(preset="http", upstream_reads=False).with_downstream(request_timeout_s=1.0)
    async with running(setup) as scene:
        uploader = await scene.ask(
            b"PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        upload = await scene.upstream.next_connection()
        await upload.read_head()
        reader = await scene.ask(get(b"/feed"))
        feed = await scene.upstream.next_connection()
        await feed.read_head()
        await feed.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await reader.read_head()
        for _ in range(2):  # each of which takes all of the time that there is
            late = begin((await scene.ask(get(b"/late"))).read_answer())
            await scene.upstream.next_connection()
            while not late.done():
                await uploader.send(b"2\r\nab\r\n")
                assert b"ab" == await upload.read_chunk()
                await feed.send(b"2\r\ncd\r\n")
                assert b"cd" == await reader.read_chunk()
            assert 504 == late.result().status
        await uploader.send(b"0\r\n\r\n")
        assert b"" == await upload.read_chunk()
        await upload.send(OK)
        await feed.send(b"0\r\n\r\n")

        assert 200 == (await uploader.read_answer()).status
        assert b"" == await reader.read_chunk()


MALFORMED = {
    "no-http": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "no-target": b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
    "no-host": b"GET / HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "bare-lf": b"GET / HTTP/1.1\nHost: a\n\n",
    "a-space-before-the-colon": b"GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n",
    "a-continued-line": b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n",
    "a-nul": b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "two-framings": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a-malformed-chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
    "a-signed-length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
}


@pytest.mark.parametrize("form", MALFORMED)
@on_uvloop
async def test_malformed_requests(form: str) -> None:
    """A malformed request gets a 400, is not forwarded, and nothing behind it is taken for one."""
    async with running() as scene:
        client = await scene.ask(MALFORMED[form] + GET)
        answer = await client.read_answer()

        assert (400, b"close") == (answer.status, answer.value(b"connection"))
        assert "BadRequest" == json.loads(answer.body)["reason"]
        assert await client.is_at_end()
        assert [] == scene.upstream.peers
        assert 1 == scene.process.cluster.counters.listener.malformed_requests


@on_uvloop
async def test_a_malformed_request_behind_a_good_one() -> None:
    """The good one is answered before the 400."""
    async with running() as scene:
        client = await scene.ask(GET + MALFORMED["no-host"])
        await (await scene.upstream.next_request()).peer.send(OK)

        assert [200, 400] == [(await client.read_answer()).status for _ in range(2)]
        assert await client.is_at_end()
        assert scene.upstream.is_quiet


@on_uvloop
async def test_a_body_that_becomes_malformed() -> None:
    """The request is cancelled at the upstream, and its client gets a 400."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" % PODS
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        assert b"abc" == await upstream.read_chunk()
        await client.send(b"zz\r\n")

        assert 400 == (await client.read_answer()).status
        assert await client.is_at_end()
        assert b"" == await upstream.read_to_end()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(get(b"/" + b"x" * 20_000), 414, id="target"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 256 + b"\r\n", 431, id="fields"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, 431, id="head"),
        pytest.param(b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 400, id="version"),
        pytest.param(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405, id="trace"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 405, id="connect"),
    ],
)
@on_uvloop
async def test_what_is_not_served(request_: bytes, code: int) -> None:
    """What is over a limit, or of no use to an API, is refused and not forwarded."""
    async with running() as scene:
        client = await scene.ask(request_)

        assert code == (await client.read_answer()).status
        assert await client.is_at_end()
        assert [] == scene.upstream.peers
