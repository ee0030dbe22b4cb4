"""Large bodies of several clients at once arrive as they were sent, anyone who is slow."""

from __future__ import annotations

import asyncio
import functools
import random
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.scene import Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from tests.end_to_end.peer import Peer

CLIENTS = 4
BODY_BYTES = 4 << 20
"""More than the kernel holds of a connection."""
BUFFER_BYTES = 64 * 1024
SETUP = Setup(upstream_reads=False, buffer_bytes=BUFFER_BYTES)


@functools.cache
def body_of(number: int) -> bytes:
    return random.Random(number).randbytes(BODY_BYTES)  # noqa: S311  no secret


@functools.cache
def framed(body: bytes, *, is_chunked: bool) -> bytes:
    if not is_chunked:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    sizes = random.Random(7)  # noqa: S311  no secret
    chunks = []
    at = 0
    while at < len(body):
        piece = body[at : at + sizes.randrange(1, 90_000)]
        chunks.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        at += len(piece)
    return b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % b"".join(chunks)


async def read_body(peer: Peer, *, is_chunked: bool) -> bytes:
    pieces = []
    left = BODY_BYTES
    while left:
        if is_chunked:
            size = int(await peer.read_until(b"\r\n"), 16)
            pieces.append((await peer.read_exactly(size + 2))[:-2])
        else:
            size = min(left, 100_000)
            pieces.append(await peer.read_exactly(size))
        left -= size
        await asyncio.sleep(0)
    return b"".join(pieces)


@pytest.mark.parametrize("is_chunked", [False, True])
@over_both_protocols
@on_uvloop
async def test_answers(*, is_chunked: bool) -> None:
    """Each client gets its own response, while the proxy reads those of others."""
    bodies = [body_of(number) for number in range(CLIENTS)]
    messages = [framed(body, is_chunked=is_chunked) for body in bodies]
    async with running(SETUP) as scene:
        clients, sending = [], []
        for number in range(CLIENTS):
            client = await scene.connect(buffer_bytes=BUFFER_BYTES)
            await client.send(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
            clients.append(client)
        for _ in range(CLIENTS):
            upstream = await scene.upstream.next_connection()
            number = int((await upstream.read_head()).split()[1][1:])
            answer = b"HTTP/1.1 200 OK\r\n" + messages[number]
            sending.append(asyncio.create_task(upstream.send(answer)))
        for client in clients:
            await client.read_head()
        received = await asyncio.gather(
            *(read_body(client, is_chunked=is_chunked) for client in clients)
        )
        await asyncio.gather(*sending)

        assert bodies == list(received)
        for client in clients:
            client.close()


@pytest.mark.parametrize("is_chunked", [False, True])
@on_uvloop
async def test_requests(*, is_chunked: bool) -> None:
    """The server gets each request's body as its client sent it."""
    bodies = [body_of(number) for number in range(CLIENTS)]
    messages = [framed(body, is_chunked=is_chunked) for body in bodies]
    async with running(SETUP) as scene:
        clients, sending = [], []
        for number in range(CLIENTS):
            client = await scene.connect(buffer_bytes=BUFFER_BYTES)
            request = b"POST /%d HTTP/1.1\r\nHost: a\r\n" % number
            request += messages[number]
            sending.append(asyncio.create_task(client.send(request)))
            clients.append(client)
        upstreams = {}
        for _ in range(CLIENTS):
            upstream = await scene.upstream.next_connection()
            upstreams[int((await upstream.read_head()).split()[1][1:])] = upstream
        received = await asyncio.gather(
            *(
                read_body(upstream, is_chunked=is_chunked)
                for _, upstream in sorted(upstreams.items())
            )
        )
        await asyncio.gather(*sending)

        assert bodies == list(received)
        for client in clients:
            client.close()
