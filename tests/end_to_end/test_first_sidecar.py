"""README's first command keeps a modest client from a greedy one.

The server works on four requests at once, and ends one only once every client has its next request
on its way: whose requests it takes is counted, whatever else the machine has to do.  A flow is
charged for the time of its requests, so that a pause of the machine falls on the flow whose
requests are at the server: of several counts the best is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections import deque
from itertools import count, repeat
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.admin.explain_page import TOLD_APART
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.serve import read_settings, serve
from apfproxy.settings import Settings
from apfproxy.settings.contradictions import one_flow
from loadtest.processes import ROOT
from tests.end_to_end.peer import Peer, begin
from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.upstream import Arrival, Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

COMMAND = re.compile(r"### As a sidecar\n.*?```sh\napfproxy serve (.*?)```", re.DOTALL)
PLACES, GREEDY, MODEST = 4, 60, 2
STEPS, PARTS = 60, 4
FAIR, ALONE = STEPS // 4, STEPS // 10
"""Requests of a modest client at least where it has a flow; and at most where it has none."""


class Sidecar:
    def __init__(self, process: ProxyProcess, upstream: Upstream) -> None:
        self.process, self.upstream = process, upstream
        self._clients: list[asyncio.Task[None]] = []

    def start(self, path: str, requests: int, fields: Iterator[str], address: str) -> None:
        """Start a client with so many requests in flight, which have these fields in turn."""
        self._clients += [begin(self._ask(path, fields, address)) for _ in range(requests)]

    async def _ask(self, path: str, fields: Iterator[str], address: str) -> None:
        client = await Peer.connect(self.process.port, source=address)
        try:
            while True:
                request = f"GET {path} HTTP/1.1\r\nHost: a\r\n{next(fields)}\r\n\r\n"
                await client.send(request.encode())
                assert 204 == (await client.read_answer()).status
        finally:
            client.close()

    async def modest_part(self) -> int:
        """How many of the next requests that the server takes are the modest client's."""
        taken: list[bytes] = []
        busy: deque[Arrival] = deque()
        levels = self.process.cluster.controller.levels.values()
        while len(taken) < STEPS:
            while len(busy) < PLACES:
                busy.append(await self.upstream.next_request())
                taken.append(busy[-1].request.line)
            await until(
                lambda: (
                    sum(each.queue_set.requests_waiting for each in levels)
                    == len(self._clients) - PLACES
                )
            )
            await busy.popleft().peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        for each in busy:
            await each.peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        return taken.count(b"GET /modest HTTP/1.1")

    async def gets_its_part(self) -> bool:
        """Whether the modest client has its part of the next requests."""
        for _ in range(PARTS):
            if await self.modest_part() >= FAIR:
                return True
        return False

    async def page(self, path: str) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.process.admin_port}{path}") as response,
        ):
            return await response.text()

    async def stop(self) -> None:
        for each in self._clients:
            each.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self.process.stop()
        await self.upstream.stop()


@contextlib.asynccontextmanager
async def sidecar(preset: str = "http") -> AsyncIterator[Sidecar]:
    """README's command, with another preset."""
    found = COMMAND.search((ROOT / "README.md").read_text())
    assert found is not None
    upstream = Upstream()
    text = found[1].replace("\\\n", " ").replace("--preset http", f"--preset {preset}")
    for documented, port in (("8000", upstream.port), ("8080", 0), ("8081", 0)):
        assert 1 == text.count(f":{documented}")
        text = text.replace(f":{documented}", f":{port}")
    flags = serve.make_context("serve", shlex.split(text)).params
    del flags["settings_path"]
    run = Sidecar(ProxyProcess(read_settings(None, flags)), upstream)
    upstream.start()
    await run.process.start()
    try:
        yield run
    finally:
        await run.stop()


@pytest.mark.parametrize(
    ("greedy", "modest", "address"),
    [
        pytest.param("X-API-Key: g", "X-API-Key: m", "127.0.0.1", id="api-key"),
        pytest.param("Authorization: Bearer g", "Authorization: Bearer m", "127.0.0.1", id="token"),
        pytest.param("Accept: */*", "Accept: */*", "127.0.0.2", id="address"),
    ],
)
@on_uvloop
async def test_it_isolates(
    greedy: str, modest: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A modest client gets its part beside one with thirty times as many requests."""
    async with sidecar() as run:
        run.start("/greedy", GREEDY, repeat(greedy), "127.0.0.1")
        run.start("/modest", MODEST, repeat(modest), address)
        assert await run.gets_its_part()
        assert TOLD_APART in await run.page("/debug/explain?target=/x")
    assert "WARNING" not in caplog.text


@on_uvloop
async def test_preset_kubernetes() -> None:
    """One that knows no users isolates none, and the live page says so."""
    async with sidecar("kubernetes") as run:
        run.start("/greedy", GREEDY, repeat("X-API-Key: g"), "127.0.0.1")
        run.start("/modest", MODEST, repeat("X-API-Key: m"), "127.0.0.2")
        assert ALONE >= await run.modest_part()
        assert one_flow(Settings()) in await run.page("/debug/live")


@on_uvloop
async def test_names_that_are_made_up(caplog: pytest.LogCaptureFixture) -> None:
    """A new token with each request makes no many clients, and the operator hears of it."""
    async with sidecar() as run:
        tokens = (f"Authorization: Bearer secret{number}" for number in count())
        run.start("/greedy", GREEDY, tokens, "127.0.0.1")
        run.start("/modest", MODEST, repeat("Accept: */*"), "127.0.0.2")
        assert await run.gets_its_part()
        warning = "127.0.0.1 shows more than 16 API keys, tokens or names in 30 s: "
        shown = await run.page("/debug/live")
        assert warning in shown
        shown += await run.page("/debug/top_flows") + await run.page("/metrics")
    assert warning in caplog.text
    assert "secret" not in shown + caplog.text
