"""Connections that wait to be accepted when the listener closes."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

from apfproxy.proxy.server import take_backlog
from tests.end_to_end.scene import GET, OK, on_uvloop, running

PROC = Path("/proc/net/tcp")
LISTENING = " 0A "
"""The state of a socket there."""


def test_takes_all_that_wait() -> None:
    """It ends when there are no more, and can be asked again."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = listener.getsockname()
        for _ in range(3):
            stack.enter_context(socket.create_connection(address))
        accepted = [stack.enter_context(each) for each in take_backlog(listener)]

        assert 3 == len(accepted)
        assert [] == take_backlog(listener)


def accept_backlog(port: int) -> int:
    """How many connections to a port of the loopback address wait to be accepted."""
    address = f"0100007F:{port:04X} "
    rows = [row for row in PROC.read_text().splitlines() if address in row and LISTENING in row]
    return int(rows[0].split()[4].split(":")[1], 16)


@on_uvloop
async def test_drain_answers_those_that_wait_to_be_accepted() -> None:
    """Whose connection the kernel has accepted gets an answer."""
    with ExitStack() as stack:
        async with running() as scene:
            address = ("127.0.0.1", scene.process.port)
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(3)]
            for client in clients:
                client.sendall(GET)
                client.setblocking(False)
            # The loop has had no turn so far: all of them wait in the kernel, or soon will.
            while accept_backlog(scene.process.port) < len(clients):
                pass
            draining = asyncio.ensure_future(scene.process.server.drain())
            for _ in clients:
                await (await scene.upstream.next_request()).peer.send(OK)
            loop = asyncio.get_running_loop()
            answers = [await loop.sock_recv(client, 1000) for client in clients]
            await draining

    assert [b"HTTP/1.1 200 OK"] * 3 == [answer.partition(b"\r\n")[0] for answer in answers]
