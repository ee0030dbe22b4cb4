"""Many requests over connections to the upstream that fail in all ways, clients that leave.

The requests, the upstream that answers them and the link that fails are those of the load tests.
"""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    DownstreamTlsSettings,
    HealthCheckSettings,
    Http2Settings,
    OverloadSettings,
    UpstreamSettings,
    WatchSettings,
)
from loadtest.echo import Habits
from loadtest.echo_clients import EchoClients
from loadtest.faults import Faults
from loadtest.faulty_link import GOOD, FaultyLink
from loadtest.origin import Origin
from tests.end_to_end.scene import EXEC, NARROW, Scene, Setup, on_uvloop, running
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 60
"""A run that takes longer has failed."""
CLIENTS = 40
HTTP2_CLIENTS = 6
"""As many requests are under way on their streams."""
SETUP = Setup(
    objects=NARROW.replace("queueLengthLimit: 2", "queueLengthLimit: 1000"),
    seats=30,
    downstream=DownstreamSettings(
        listen=Address(host="127.0.0.1", port=0),
        request_timeout_s=2.0,
        head_timeout_s=5.0,
        overload=OverloadSettings(loop_delay_s=None),
        http2=Http2Settings(is_cleartext=True),
    ),
    upstream=UpstreamSettings(
        connect_timeout_s=0.3,
        answer_timeout_s=0.3,
        max_connections=20,
        health_check=HealthCheckSettings(interval_s=None),
    ),
    watch=WatchSettings(silence_s=0.1, limit_s=1.0),
)


def assert_nothing_is_held(scene: Scene) -> None:
    pool = scene.process.cluster.served.pool
    assert (0, 0) == (pool.open_count - pool.idle_count, pool.waiting_count)
    for level in scene.process.cluster.controller.levels.values():
        queue_set = level.queue_set
        in_use = (queue_set.requests_waiting, queue_set.requests_executing, queue_set.seats_in_use)
        assert (0, 0, 0) == in_use, level.name


@pytest.mark.parametrize(("http2", "count"), [(False, 1000), (True, 600)], ids=["http/1.1", "h2"])
@on_uvloop
async def test_random_faults(http2: bool, count: int) -> None:
    """Under all of them at random responses keep to their requests, and all is given back."""
    seed = 3 if http2 else 1
    dice, upstream = random.Random(seed), Origin()  # noqa: S311  no secret
    await upstream.start()
    link, faults = FaultyLink(upstream.port, dice), Faults(dice)
    await link.listen()
    link.choose = faults.anything
    try:
        async with running(SETUP, upstream_port=link.port) as scene:
            habits = Habits(abort_share=0.03, http2=http2)
            clients = EchoClients(scene.process.port, seed, habits)
            async with asyncio.timeout(LIMIT_S):
                await clients.run(count, HTTP2_CLIENTS if http2 else CLIENTS)
            link.choose = lambda: GOOD
            await until(lambda: not scene.process.server.connection_count)

            tally = clients.tally
            assert ([], 0, 0, []) == (tally.wrong, tally.mispaired, tally.hung, upstream.seen.wrong)
            assert (count, count) == (tally.asked, tally.ended)
            assert tally.answered > 0
            assert_nothing_is_held(scene)
            link.drop()
            await until(lambda: not link.wires)
    finally:
        link.stop()
        upstream.stop()


@pytest.mark.parametrize("fails", [FaultyLink.refuse, FaultyLink.swallow])
@on_uvloop
async def test_unreachable(fails: Callable[[FaultyLink], None]) -> None:
    """Requests to an upstream that cannot be reached are all answered with 502 or 504."""
    link = FaultyLink(0, random.Random(1))  # noqa: S311  no secret
    await link.listen()
    fails(link)
    try:
        async with running(SETUP, upstream_port=link.port) as scene:
            clients = EchoClients(scene.process.port, 1, Habits(abort_share=0))
            await clients.run(50, CLIENTS)
            await until(lambda: not scene.process.server.connection_count)

            tally = clients.tally
            assert ([], 0, 50) == (tally.wrong, tally.answered, tally.ended)
            assert {502, 504, 429} >= tally.by_status.keys()
            assert_nothing_is_held(scene)
    finally:
        link.stop()


def connections() -> set[int]:
    return {id(each) for each in gc.get_objects() if type(each) is Http1Connection}


@on_uvloop
async def test_lost_connections_are_forgotten(tmp_path: Path) -> None:
    """Closed TLS connections leave no cycle of references: the collector comes hardly ever."""
    authority = Authority("forgotten")
    certificate, key = authority.issue(usage="server").write(tmp_path, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    context = ssl.create_default_context(cadata=authority.pem.decode())
    upstream = Origin()
    await upstream.start()
    async with running(SETUP.with_downstream(tls=tls), upstream_port=upstream.port) as scene:
        gc.collect()
        before = connections()  # that a failed test's traceback still holds
        gc.disable()
        try:
            habits = Habits(abort_share=0.3, tls=[context])
            await EchoClients(scene.process.port, 1, habits).run(60, 1)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", scene.process.port, ssl=context, server_hostname="localhost"
            )
            writer.write(EXEC)
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"echo")
            assert (b"101", b"echo") == (head.split()[1], await reader.readexactly(4))
            writer.close()
            await writer.wait_closed()
            await until(lambda: not scene.process.server.connection_count)
            found = connections() - before
        finally:
            gc.enable()
    upstream.stop()

    assert set() == found
