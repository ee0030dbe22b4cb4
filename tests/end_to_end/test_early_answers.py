"""Servers that answer before they have read a body, and close."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.http2_peer import Http2Peer
from tests.end_to_end.peer import EndOfStreamError
from tests.end_to_end.scene import Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from tests.end_to_end.peer import Peer

UPLOAD = b"POST /upload HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 8\r\n\r\nat most\n"


def send_now(client: Peer, data: bytes) -> None:
    if isinstance(client, Http2Peer):
        client.translation.request(data)
        data = client.translation.output()
    assert len(data) == client.send_now(data)


@pytest.mark.parametrize("cut", [0, 4, len(TOO_LARGE)], ids=["whole", "line", "all-before"])
@over_both_protocols
@on_uvloop
async def test_an_answer_before_a_reset(cut: int) -> None:
    """It reaches the client, though what the proxy writes in that moment meets the reset."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(UPLOAD)
        upstream_side = await scene.upstream.next_connection()
        await scene.deliver(client, PIECE)
        if cut:
            await scene.deliver_answer(upstream_side, TOO_LARGE[:cut])
        # The loop hears of the client first, so it writes before it reads.
        send_now(client, PIECE)
        await upstream_side.send(TOO_LARGE[cut:])
        upstream_side.close()  # with a body that is not read, so the kernel resets
        answer = await client.read_answer()

        assert (413, b"at most\n") == (answer.status, answer.body)


@over_both_protocols
@on_uvloop
async def test_an_answer_that_a_reset_cuts() -> None:
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(UPLOAD)
        upstream_side = await scene.upstream.next_connection()
        await scene.deliver(client, PIECE)
        send_now(client, PIECE)
        await upstream_side.send(TOO_LARGE[:-1])
        upstream_side.close()

        with pytest.raises(EndOfStreamError):
            await client.read_answer()


@over_both_protocols
@on_uvloop
async def test_a_server_that_refuses_large_bodies() -> None:
    """All of many clients that send more than it reads get what it says."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(TOO_LARGE)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, running(upstream_port=port) as scene:

        async def upload() -> tuple[int, bytes]:
            client = await scene.ask(UPLOAD)
            with contextlib.suppress(OSError):
                for _ in range(20):
                    await client.send(PIECE)
            answer = await client.read_answer()
            return answer.status, answer.body

        assert [(413, b"at most\n")] * 30 == await asyncio.gather(*(upload() for _ in range(30)))
