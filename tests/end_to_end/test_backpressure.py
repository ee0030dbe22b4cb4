"""How much the proxy holds while one side is slow: 128 KiB in each direction at most.

What has left one side and not arrived at the other is in the proxy, or in the kernel on either
side of it.  The kernel says what it holds in /proc/net/tcp.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.scene import (
    GATHERED_BYTES,
    GET,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.peer import Peer

MOST_HELD_BYTES = 128 * 1024
BUFFER_BYTES = 16 * 1024
TOTAL_BYTES = 8 << 20
PIECE = bytes(range(256)) * 64
PROC = Path("/proc/net/tcp")
POST = b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\n"
SMALL = Setup(upstream_reads=False, buffer_bytes=BUFFER_BYTES)


def kernel_bytes(receiver_port: int) -> int:
    """Bytes on their way to a port, at most: those count twice that have come unacknowledged."""
    total = 0
    for line in PROC.read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(fields[at].partition(":")[2], 16) for at in (1, 2))
        sending, received = (int(part, 16) for part in fields[4].split(":"))
        if fields[3] == "0A":
            continue  # a listener counts connections there
        if remote == receiver_port:
            total += sending
        if local == receiver_port:
            total += received
    return total


class Flood:
    """Somebody who sends the same again and again, for as long as it is taken."""

    def __init__(self, sender: Peer, data: bytes, has_read: Callable[[], int]) -> None:
        self._sender = sender
        self._data = data
        self._has_read = has_read
        self.sent = 0

    async def rise(self) -> None:
        state = (-1, -1)
        while state != (self.sent, self._has_read()) and self.sent < TOTAL_BYTES:
            state = (self.sent, self._has_read())
            while taken := self._sender.send_now(self._data[self.sent % len(self._data) :]):
                self.sent += taken
            await asyncio.sleep(0.005)  # the kernel moves what it has in its own time


def framed(form: str) -> tuple[bytes, bytes]:
    if form == "sized":
        return b"Content-Length: %d\r\n\r\n" % TOTAL_BYTES, PIECE
    return b"Transfer-Encoding: chunked\r\n\r\n", b"20\r\n%b\r\n" % PIECE[:32] * 500


@pytest.mark.parametrize("form", ["sized", "small-chunks"])
@on_uvloop
async def test_a_slow_upstream(form: str) -> None:
    """A client is stopped once the proxy holds enough for an upstream that takes little."""
    framing, data = framed(form)
    async with running(SMALL) as scene:
        counters = scene.process.cluster.counters
        client = await scene.connect(buffer_bytes=BUFFER_BYTES)
        first = GATHERED_BYTES // len(data) * data if form == "sized" else b""
        await client.send(POST + framing + first)
        upstream = await scene.upstream.next_connection()
        taken = len(await upstream.read_head())
        held = []
        flood = Flood(client, data, lambda: counters.listener.bytes_from_clients)
        for _ in range(4):
            await flood.rise()
            passed_on = taken + kernel_bytes(upstream.port)
            held.append(counters.pool.bytes_sent - passed_on)
            taken += len(await upstream.read_exactly(50_000))

        assert flood.sent < TOTAL_BYTES
        assert max(held) <= MOST_HELD_BYTES
        assert (0, 0) == (
            counters.listener.malformed_requests,
            counters.upstream.failures[UpstreamFailure.BROKEN_ANSWER],
        )
        client.close()


@pytest.mark.parametrize("form", ["sized", "small-chunks", "until-close"])
@over_both_protocols
@on_uvloop
async def test_a_slow_client(form: str) -> None:
    """An upstream is stopped once the proxy holds enough for a client that takes little."""
    framing, data = framed(form) if form != "until-close" else (b"\r\n", PIECE)
    async with running(SMALL) as scene:
        counters = scene.process.cluster.counters
        client = await scene.connect(buffer_bytes=BUFFER_BYTES)
        await client.send(GET)
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        await upstream.send(b"HTTP/1.1 200 OK\r\n" + framing)
        taken = len(await client.read_head())
        held = []
        flood = Flood(upstream, data, lambda: counters.pool.bytes_received)
        for _ in range(4):
            await flood.rise()
            held.append(counters.listener.bytes_to_clients - taken - kernel_bytes(client.port))
            taken += len(await client.read_exactly(50_000))

        assert flood.sent < TOTAL_BYTES
        assert max(held) <= MOST_HELD_BYTES
        assert (0, 0) == (
            counters.listener.malformed_requests,
            counters.upstream.failures[UpstreamFailure.BROKEN_ANSWER],
        )
        client.close()
