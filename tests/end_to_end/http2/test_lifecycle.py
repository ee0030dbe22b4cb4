"""What becomes of the streams of a connection when the proxy or the server changes or ends."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.proxy.counters import GoAway
from apfproxy.settings import DrainSettings, Http2Settings
from tests.end_to_end.gateway import gateway, get
from tests.end_to_end.http2.site import CLEARTEXT
from tests.end_to_end.http2_peer import Http2Peer
from tests.end_to_end.peer import WAIT_S, Peer, begin
from tests.end_to_end.scene import OK, Scene, Setup, on_uvloop, running
from tests.end_to_end.served import command
from tests.end_to_end.test_restart import SUCCEEDED
from tests.end_to_end.upstream import Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

WATCHES = 100
"""As many as a connection has streams."""
LISTENS = r"listens on 127\.0\.0\.1:(\d+)"
ANY_STREAM = 2**31 - 1
SPEAKS = Setup().with_downstream(http2=CLEARTEXT)

WATCH = b"GET /api/v1/pods?watch=true&n=%d HTTP/1.1\r\nHost: a\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
EVENT = b'{"type":"BOOKMARK"}\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK


async def answer(arrival: Arrival) -> None:
    """Begin a watch, or answer whole."""
    await arrival.peer.send(STREAM if b"watch" in arrival.request.line else OK)


async def connect(scene: Scene) -> Http2Peer:
    """A client that speaks HTTP/2."""
    return Http2Peer(await scene.connect())


async def watch(scene: Scene, client: Http2Peer, number: int) -> None:
    """Have watches under way."""
    for each in range(number):
        await client.send(WATCH % each)
    await until(lambda: len(scene.upstream.peers) >= number)


@on_uvloop
async def test_a_drain_with_watches() -> None:
    """All of them end as if they were through; one GOAWAY says so before it names the last one."""
    setup = replace(SPEAKS, drain=DrainSettings(timeout_s=WAIT_S, idle_grace_s=0))
    async with running(setup) as scene:
        scene.upstream.answer_with(answer)
        client = await connect(scene)
        await watch(scene, client, WATCHES)
        draining = begin(scene.process.drain())
        first = await client.read_answer()
        announced = client.translation.goaway
        others = [await client.read_answer() for _ in range(WATCHES - 1)]
        assert await client.is_at_end()
        await draining

        assert {(200, EVENT)} == {(each.status, each.body) for each in (first, *others)}
        assert (ANY_STREAM, 0) == announced
        assert (2 * WATCHES - 1, 0) == client.translation.goaway
        assert 1 == scene.process.cluster.counters.listener.http2.goaways[GoAway.DRAIN]


@on_uvloop
async def test_requests_during_a_drain() -> None:
    """One that is under way is answered, and so is one that comes before the client knows."""
    async with running(SPEAKS) as scene:
        client = await connect(scene)
        await client.send(GET)
        held = await scene.upstream.next_request()
        draining = begin(scene.process.drain())
        await until(lambda: scene.process.cluster.served.listener.is_draining)
        await client.send(GET)
        late = await scene.upstream.next_request()
        for arrival in (held, late):
            await arrival.peer.send(OK)
        answers = [await client.read_answer() for _ in "12"]
        assert await client.is_at_end()
        await draining

    assert [(200, b"ok")] * 2 == [(each.status, each.body) for each in answers]


@on_uvloop
async def test_a_server_that_dies() -> None:
    """Each stream learns of it by itself: the connection goes on."""
    async with running(SPEAKS) as scene:
        client = await connect(scene)
        await watch(scene, client, 3)
        arrivals = [await scene.upstream.next_request() for _ in "123"]
        await arrivals[0].peer.send(STREAM)
        begun = await client.read_until(EVENT)
        for arrival in arrivals:
            arrival.peer.close()
        assert b"\r\n" == await client.receive()  # behind the chunk
        assert b"" == await client.receive()
        unanswered = [await client.read_answer() for _ in "12"]
        await client.send(GET)
        await (await scene.upstream.next_request()).peer.send(OK)
        answered = await client.read_answer()

        assert begun.startswith(b"HTTP/1.1 200 ")
        assert [502, 502, 200] == [each.status for each in (*unanswered, answered)]
        assert None is client.translation.goaway


@on_uvloop
async def test_a_chance_that_comes_each_time() -> None:
    """The request with which it comes is served, and so are those before; a new one connects."""
    setup = SPEAKS.with_downstream(http2=Http2Settings(is_cleartext=True, goaway_chance=0.02))
    async with running(setup) as scene:
        scene.upstream.answer_with(answer)
        scene.process.cluster.served.listener.chance = lambda: 0.01
        client = await connect(scene)
        await client.send(GET)
        assert 200 == (await client.read_answer()).status
        await client.send(GET)
        assert 200 == (await client.read_answer()).status
        assert await client.is_at_end()
        other = await connect(scene)
        await other.send(GET)

        assert 200 == (await other.read_answer()).status
        assert (3, 0) == client.translation.goaway


@on_uvloop
async def test_a_reload_with_streams(tmp_path: Path) -> None:
    """A watch goes on, and the next request on the connection is of the new settings."""
    a, b = {"name": "a", "hosts": ["a"]}, {"name": "b", "hosts": ["b"]}
    async with gateway(tmp_path, a) as scene:
        begun = []

        async def begin_watch(arrival: Arrival) -> None:
            begun.append(arrival.peer)
            await answer(arrival)

        scene.upstreams["a"].answer_with(begin_watch)
        client = Http2Peer(await scene.connect())
        await client.send(WATCH % 0)
        await client.read_until(EVENT + b"\r\n")
        missing = Http2Peer(await scene.connect())
        unknown = await scene.ask(get("b"), missing)
        await scene.reload(a, b)
        known = await scene.ask(get("b"), missing)
        await begun[0].send(CHUNK + b"0\r\n\r\n")
        rest = await client.read_until(b"0\r\n\r\n")

    assert [404, 200] == [unknown.status, known.status]
    assert CHUNK + b"0\r\n\r\n" == rest


@on_uvloop
async def test_a_restart_with_streams(tmp_path: Path) -> None:
    """Another process has new connections at once; watches of the one before end in order."""
    behind = Upstream()
    behind.answer_with(answer)
    behind.start()
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "downstream: {listen: '127.0.0.1:0', http2: {cleartext: true}}\ndrain: {timeout: 10s}\n"
        f"upstream: {{url: 'http://127.0.0.1:{behind.port}'}}\nadmin: null\nworkers: 1\n"
    )
    with command("serve", "--settings", str(settings)) as served:
        port = int((await asyncio.to_thread(served.line, LISTENS))[1])
        client, other = Http2Peer(await Peer.connect(port)), None
        await client.send(WATCH % 0)
        await client.read_until(EVENT + b"\r\n")
        served.send(signal.SIGUSR2)
        await asyncio.to_thread(served.line, SUCCEEDED)
        try:
            other = Http2Peer(await Peer.connect(port))
            await other.send(GET)
            answered = await other.read_answer()
            rest = await client.read_to_end()
        finally:
            served.send(signal.SIGTERM)
            for each in (client, other):
                if each is not None:
                    each.close()
            await asyncio.to_thread(served.rest)
            await behind.stop()

    assert 200 == answered.status
    assert b"0\r\n\r\n" == rest
    assert (1, 0) == client.translation.goaway
