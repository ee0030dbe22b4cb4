"""A model server of few slots, whose tenants stream their responses through a real proxy."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from tests.end_to_end.test_any_http_api import proxy

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SLOTS = 8
WAITING = re.compile(r"(?m)^apiserver_flowcontrol_current_inqueue_requests\{.*\} (\S+)$")


class ModelServer:
    """Streams one token, and the last one when the test lets it.

    Attributes:
        started: The tenants' requests in the order in which they came.
        most: Streams under way at once.
        left: Is set when a client has gone before its stream's end.
    """

    def __init__(self) -> None:
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.under_way: list[asyncio.Event] = []
        self.most = 0
        self.left = asyncio.Event()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        may_end = asyncio.Event()
        self.under_way.append(may_end)
        self.most = max(self.most, len(self.under_way))
        self.started.put_nowait(request.headers["Authorization"].removeprefix("Bearer "))
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: first\n\n")
            await may_end.wait()
            await response.write(b"data: [DONE]\n\n")
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        finally:
            if may_end in self.under_way:
                self.under_way.remove(may_end)
        return response

    def end_oldest(self) -> None:
        self.under_way.pop(0).set()


async def ask(session: aiohttp.ClientSession, port: int, tenant: str) -> bytes:
    url, body = f"http://127.0.0.1:{port}/v1/chat/completions", b'{"stream": true}'
    fields = {"Authorization": f"Bearer {tenant}"}
    async with session.post(url, data=body, headers=fields) as response:
        assert response.status == 200
        return await response.read()


async def until_waiting(session: aiohttp.ClientSession, admin: int, count: int) -> None:
    waiting = -1.0
    while waiting != count:
        async with session.get(f"http://127.0.0.1:{admin}/metrics") as response:
            waiting = sum(map(float, WAITING.findall(await response.text())))


async def test_streams_have_slots_in_fair_turns(tmp_path: Path) -> None:
    """No more of them than seats are at the server; a small tenant is not behind a large one."""
    server, runner = ModelServer(), None
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.stream)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [(_, upstream)] = runner.addresses
    flags = ["--preset", "http", "--upstream", f"http://127.0.0.1:{upstream}"]
    flags += ["--server-concurrency-limit", f"{SLOTS}", "--response-timeout", "10m"]
    connector = aiohttp.TCPConnector(limit=0)
    try:
        with proxy(tmp_path, flags) as (port, admin):
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                asyncio.TaskGroup() as g,
            ):

                def send(tenant: str, count: int) -> list[asyncio.Task[bytes]]:
                    return [g.create_task(ask(session, port, tenant)) for _ in range(count)]

                large = send("large", 50)
                for _ in range(SLOTS):
                    assert "large" == await server.started.get()
                small = send("small", 2)
                await until_waiting(session, admin, 50 - SLOTS + 2)
                next_ones = []
                # A queue is charged for what it runs when that ends, so all that run may have to.
                for _ in range(SLOTS + 4):
                    server.end_oldest()
                    next_ones.append(await server.started.get())
                assert 2 == next_ones.count("small")

                leaver = send("leaver", 1)[0]
                tenant = ""
                while tenant != "leaver":
                    server.end_oldest()
                    tenant = await server.started.get()
                leaver.cancel()  # its seat is the next one's
                await server.left.wait()
                assert "large" == await server.started.get()
                while not all(each.done() for each in large + small):
                    if server.under_way:
                        server.end_oldest()
                    await asyncio.sleep(0)
                assert all(each.result().endswith(b"[DONE]\n\n") for each in large + small)
        assert SLOTS == server.most
    finally:
        await runner.cleanup()
