"""Servers that keep idle connections for less time than `upstream.idleTimeout`."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from apfproxy.upstream.idle_limit import MIN_AGE_NS
from tests.end_to_end.scene import GET, OK, Scene, on_uvloop, over_both_protocols, running
from tests.support.clocks import until

if TYPE_CHECKING:
    import pytest

    from tests.end_to_end.peer import Peer

ANNOUNCING = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=9\r\nContent-Length: 2\r\n\r\nok"
LAST_WORDS = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


async def asked(scene: Scene, answer: bytes = OK) -> Peer:
    client = await scene.ask(GET)
    arrival = await scene.upstream.next_request()
    await arrival.peer.send(answer)
    assert 200 == (await client.read_answer()).status
    client.close()
    return arrival.peer


@over_both_protocols
@on_uvloop
async def test_a_server_that_closes_idle_connections(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running() as scene:
        pool = scene.process.cluster.served.pool
        first = await asked(scene)
        idle_since_ns = time.monotonic_ns()
        await until(lambda: time.monotonic_ns() - idle_since_ns > 2 * MIN_AGE_NS)
        await first.send(LAST_WORDS)
        first.close()
        await until(lambda: not pool.open_count)
        second = await asked(scene)

        assert second is not first
        await until(lambda: second in scene.upstream.ended)
    assert 1 == caplog.text.count("closes idle connections: none is used again after")


@over_both_protocols
@on_uvloop
async def test_a_server_that_says_for_how_long() -> None:
    async with running() as scene:
        peer = await asked(scene, ANNOUNCING)
        assert peer is await asked(scene, ANNOUNCING)

        await until(lambda: peer in scene.upstream.ended)
