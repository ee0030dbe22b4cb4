"""Upgraded connections over real sockets: every byte, every way to end, and nothing left."""

from __future__ import annotations

import asyncio
import random
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from msgspec import structs

from apfproxy.http.websocket_frames import GOING_AWAY
from apfproxy.settings import (
    DownstreamTlsSettings,
    DrainSettings,
)
from tests.end_to_end.peer import WAIT_S, Peer, begin
from tests.end_to_end.scene import AGREED, EXEC, Scene, Setup, on_uvloop, running
from tests.end_to_end.test_backpressure import BUFFER_BYTES, SMALL, TOTAL_BYTES, Flood, kernel_bytes
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

POD = b"/api/v1/namespaces/a/pods/b"
SPDY = (
    b"POST " + POD + b"/portforward HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
    b"Upgrade: SPDY/3.1\r\n\r\n"
)
AGREED_TO_SPDY = AGREED.replace(b"websocket", b"SPDY/3.1")
RAW = Setup(upstream_reads=False)
TWICE_THE_MARK = 2 * 49152


async def opened(scene: Scene, *, buffer_bytes: int | None = None) -> tuple[Peer, Peer]:
    client = await scene.connect(buffer_bytes=buffer_bytes)
    await client.send(EXEC)
    upstream = await scene.upstream.next_connection()
    await upstream.read_head()
    await upstream.send(AGREED)
    assert (await client.read_head()).startswith(b"HTTP/1.1 101 ")
    return client, upstream


async def over(scene: Scene) -> None:
    counters = scene.process.cluster.counters
    await until(
        lambda: (
            not counters.listener.connections_open
            and not scene.process.cluster.served.pool.open_count
        )
    )
    assert 0 == counters.tunnels_open


def sides(pair: tuple[Peer, Peer], first: str) -> tuple[Peer, Peer]:
    client, upstream = pair
    return (client, upstream) if first == "client" else (upstream, client)


async def send_in_pieces(sender: Peer, data: bytes, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  reproducible sizes, no secret
    start = 0
    while start < len(data):
        size = rng.choice([1, 2, 1000, 65_536, 65_537, 200_000])
        await sender.send(data[start : start + size])
        start += size
    sender.end_sending()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(EXEC, AGREED, id="websocket"),
        pytest.param(SPDY, AGREED_TO_SPDY, id="spdy"),
    ],
)
@on_uvloop
async def test_every_byte(request_: bytes, answer: bytes) -> None:
    """Both ways at once, with what came beside the heads, until both sides have ended."""
    there, back = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(3_000_000)  # noqa: S311  as above
    async with running(RAW) as scene:
        client = await scene.ask(request_ + there[:5000])
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        await upstream.send(answer + back[:5000])
        senders = [
            begin(send_in_pieces(client, there[5000:], 3)),
            begin(send_in_pieces(upstream, back[5000:], 4)),
        ]
        head = begin(client.read_head())
        assert b"101" == (await head)[9:12]
        got = await asyncio.gather(upstream.read_to_end(), client.read_to_end())
        await asyncio.gather(*senders)
        await over(scene)

    assert [True, True] == [there == got[0], back == got[1]]


@pytest.mark.parametrize("first", ["client", "upstream"])
@on_uvloop
async def test_half_close(first: str) -> None:
    """One side's end arrives after its bytes, and it goes on to receive."""
    async with running(RAW) as scene:
        one, other = sides(await opened(scene), first)
        await one.send(b"last")
        one.end_sending()
        assert b"last" == await other.read_to_end()
        await other.send(b"still")
        assert b"still" == await one.read_exactly(5)
        await other.send(b"there")
        other.end_sending()

        assert b"there" == await one.read_to_end()
        await over(scene)
        assert 0 == scene.process.cluster.counters.client_aborts


@pytest.mark.parametrize("first", ["client", "upstream"])
@on_uvloop
async def test_reset(first: str) -> None:
    """A reset of one side is a reset of the other, not an end."""
    async with running(RAW) as scene:
        one, other = sides(await opened(scene), first)
        one.reset()
        with pytest.raises(ConnectionResetError):
            await other.receive()
        await over(scene)


@pytest.mark.parametrize("slow", ["client", "upstream"])
@on_uvloop
async def test_a_slow_reader(slow: str) -> None:
    """A side is stopped once the proxy holds enough for the other one."""
    async with running(SMALL) as scene:
        counters = scene.process.cluster.counters
        reader, writer = sides(await opened(scene, buffer_bytes=BUFFER_BYTES), slow)
        is_client = slow == "client"

        def passed_on() -> int:
            return counters.listener.bytes_to_clients if is_client else counters.pool.bytes_sent

        def has_read() -> int:
            return (
                counters.pool.bytes_received if is_client else counters.listener.bytes_from_clients
            )

        before = taken = passed_on()
        held = []
        flood = Flood(writer, bytes(range(256)) * 64, has_read)
        for _ in range(4):
            await flood.rise()
            held.append(passed_on() - taken - kernel_bytes(reader.port))
            taken += len(await reader.read_exactly(50_000))

        assert flood.sent < TOTAL_BYTES
        assert before < taken
        assert max(held) <= TWICE_THE_MARK
        assert 1 == counters.tunnels_open


@on_uvloop
async def test_draining_ends_tunnels() -> None:
    """They go on within the drain's time; then the client of a WebSocket is told, and goes."""
    frame = b"\x82\x04last"
    async with running(replace(RAW, drain=DrainSettings(timeout_s=0.2, idle_grace_s=0))) as scene:
        client, upstream = await opened(scene)
        await upstream.send(frame)
        assert frame == await client.read_exactly(len(frame))
        draining = begin(scene.process.drain())
        assert GOING_AWAY == await client.read_exactly(len(GOING_AWAY))
        await client.send(b"reply")
        assert b"reply" == await upstream.read_exactly(5)
        client.close()
        await draining

        assert 0 == scene.process.cluster.counters.tunnels_open


async def opened_over_tls(
    scene: Scene, authority: Authority
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Peer]:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.process.port, ssl=context)
    writer.write(EXEC)
    upstream = await scene.upstream.next_connection()
    await upstream.read_head()
    await upstream.send(AGREED)
    async with asyncio.timeout(WAIT_S):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer, upstream


def over_tls(folder: Path, authority: Authority) -> Setup:
    certificate, key = authority.issue("server", usage="server").write(folder, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    return replace(RAW, downstream=structs.replace(RAW.downstream, tls=tls))


@on_uvloop
async def test_every_byte_over_tls(tmp_path: Path) -> None:
    """Both ways at once; the upstream's end is that of both, after all that it sent."""
    there, back = random.Random(1).randbytes(2_000_000), random.Random(2).randbytes(2_000_000)  # noqa: S311  as above
    authority = Authority("site")
    async with running(over_tls(tmp_path, authority)) as scene:
        reader, writer, upstream = await opened_over_tls(scene, authority)
        sender = begin(upstream.send(back))
        got = begin(reader.readexactly(len(back) + 4))
        for start in range(0, len(there), 70_001):
            writer.write(there[start : start + 70_001])
        assert there == await upstream.read_exactly(len(there))
        await sender
        await upstream.send(b"last")
        upstream.end_sending()
        assert back + b"last" == await got
        assert b"" == await reader.read()
        writer.close()
        await over(scene)


@on_uvloop
async def test_client_ends_over_tls(tmp_path: Path) -> None:
    """The upstream gets all that the client sent, and then the end."""
    authority = Authority("site")
    async with running(over_tls(tmp_path, authority)) as scene:
        _, writer, upstream = await opened_over_tls(scene, authority)
        data = b"x" * 300_000
        writer.write(data)
        writer.close()

        assert data == await upstream.read_to_end()
        upstream.close()
        await over(scene)


@on_uvloop
async def test_a_slow_reader_over_tls(tmp_path: Path) -> None:
    """The upstream is stopped as well where its bytes are encrypted before they wait."""
    authority = Authority("site")
    setup = replace(over_tls(tmp_path, authority), buffer_bytes=BUFFER_BYTES)
    async with running(setup) as scene:
        counters = scene.process.cluster.counters
        reader, writer, upstream = await opened_over_tls(scene, authority)
        cast("asyncio.ReadTransport", writer.transport).pause_reading()
        flood = Flood(upstream, bytes(range(256)) * 64, lambda: counters.pool.bytes_received)
        await flood.rise()
        stopped_at = flood.sent
        assert stopped_at < TOTAL_BYTES
        cast("asyncio.ReadTransport", writer.transport).resume_reading()
        async with asyncio.timeout(WAIT_S):
            await reader.readexactly(stopped_at)
        writer.close()
        upstream.close()
        await over(scene)
