"""A slow side of one stream: little of it is held, and the connection's other streams go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.end_to_end.http2.site import CLEARTEXT
from tests.end_to_end.http2_peer import Http2Peer
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import OK, on_uvloop, running
from tests.end_to_end.test_backpressure import (
    BUFFER_BYTES,
    MOST_HELD_BYTES,
    PIECE,
    SMALL,
    TOTAL_BYTES,
    Flood,
    kernel_bytes,
)
from tests.http2_translation import WINDOW_BYTES
from tests.support.clocks import until

if TYPE_CHECKING:
    from tests.end_to_end.peer import Peer
    from tests.end_to_end.scene import Scene

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % TOTAL_BYTES
BODY_BYTES = 6 << 20
STALLED = 5
"""Streams at once of which one side takes nothing more."""
SPEAKS = SMALL.with_downstream(http2=CLEARTEXT)


async def connect(scene: Scene) -> Http2Peer:
    return Http2Peer(await scene.connect(buffer_bytes=BUFFER_BYTES))


async def next_upstream_side(scene: Scene) -> Peer:
    peer = await scene.upstream.next_connection()
    await peer.read_head()
    return peer


@on_uvloop
async def test_answers_that_are_not_taken() -> None:
    """Each holds its own upstream up; what is asked for beside them comes."""
    async with running(SPEAKS) as scene:
        counters = scene.process.cluster.counters
        client = await connect(scene)
        translation = client.translation
        hearing = begin(client.read_to_end())
        held = []
        for number in range(STALLED):
            translation.withheld.add(1 + 2 * number)
            await client.send(GET % number)
            upstream = await next_upstream_side(scene)
            before = counters.pool.bytes_received
            await upstream.send(ANSWER)
            flood = Flood(upstream, PIECE, lambda: counters.pool.bytes_received)
            await flood.rise()
            assert flood.sent < TOTAL_BYTES
            held.append(counters.pool.bytes_received - before - len(ANSWER) - WINDOW_BYTES)
        await client.send(GET % STALLED)
        upstream = await next_upstream_side(scene)
        await upstream.send(OK)
        last = translation.streams[1 + 2 * STALLED]
        await until(lambda: last.is_over)

        assert b"ok" == bytes(last.answer[-2:])
        assert 0 < min(held)
        assert max(held) <= MOST_HELD_BYTES
        client.close()
        await hearing


@on_uvloop
async def test_bodies_that_are_not_taken() -> None:
    """Each holds its own client's stream up; what is sent beside them arrives."""
    async with running(SPEAKS) as scene:
        counters = scene.process.cluster.counters
        client = await connect(scene)
        streams = client.translation.streams
        sending = []
        held = []
        for number in range(STALLED):
            data = POST % (number, BODY_BYTES) + bytes(BODY_BYTES)
            sending.append(begin(client.send(data)))
            upstream = await next_upstream_side(scene)
            before, state = (0, 0, 0), (-1, -1, -1)
            while before != state:
                before = state
                await asyncio.sleep(0.005)  # the kernel moves what it has in its own time
                in_kernel = kernel_bytes(upstream.port)
                state = (counters.listener.bytes_from_clients, counters.pool.bytes_sent, in_kernel)
            unsent = len(streams[1 + 2 * number].unsent)
            assert 0 < unsent
            held.append(BODY_BYTES - unsent - in_kernel - len(upstream.pending))
        sending.append(begin(client.send(POST % (STALLED, 2) + b"ab")))
        upstream = await next_upstream_side(scene)
        assert b"ab" == await upstream.read_exactly(2)
        await upstream.send(OK)
        last = streams[1 + 2 * STALLED]
        await until(lambda: last.is_over)

        assert b"ok" == bytes(last.answer[-2:])
        assert max(held) <= MOST_HELD_BYTES
        for each in sending:
            each.cancel()  # of some a frame may be on its way still
        await asyncio.wait(sending)
        client.close()
