"""Streams of a connection while the proxy drains or is replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.proxy.counters import GoAway
from apfproxy.settings import DrainSettings
from tests.end_to_end.http2.site import CLEARTEXT
from tests.end_to_end.http2_peer import Http2Peer
from tests.end_to_end.peer import WAIT_S, begin
from tests.end_to_end.scene import OK, Setup, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from tests.end_to_end.upstream import Arrival

WATCHES = 100
"""As many as a connection has streams."""
ANY_STREAM = 2**31 - 1

WATCH = b"GET /api/v1/pods?watch=true&n=%d HTTP/1.1\r\nHost: a\r\n\r\n"
EVENT = b'{"type":"BOOKMARK"}\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK


async def answer(arrival: Arrival) -> None:
    await arrival.peer.send(STREAM if b"watch" in arrival.request.line else OK)


@on_uvloop
async def test_a_drain_with_watches() -> None:
    """All of them end as if they were through; one GOAWAY says so before it names the last one."""
    setup = replace(
        Setup().with_downstream(http2=CLEARTEXT),
        drain=DrainSettings(timeout_s=WAIT_S, idle_grace_s=0),
    )
    async with running(setup) as scene:
        scene.upstream.answer_with(answer)
        client = Http2Peer(await scene.connect())
        for each in range(WATCHES):
            await client.send(WATCH % each)
        await until(lambda: len(scene.upstream.peers) >= WATCHES)
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
