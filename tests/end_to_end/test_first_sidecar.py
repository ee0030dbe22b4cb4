"""README's first command, as it stands there: it keeps a modest client from a greedy one.

The server works on four requests at once, and ends one only when the test says so, once every
client has its next request on its way.  So what counts is whose requests it takes, whatever the
machine has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.admin.explain_page import TOLD_APART
from apfproxy.settings import Settings
from apfproxy.settings.contradictions import one_flow
from loadtest.processes import ROOT, Process, free_ports, python_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

COMMAND = re.compile(r"### As a sidecar\n.*?```sh\n(apfproxy serve .*?)```", re.DOTALL)
PORTS = "8000", "8080", "8081"
KUBERNETES = "--preset http", "--preset kubernetes"
PLACES, GREEDY, MODEST = 4, 60, 2
STEPS = 60
"""Of the server: of as many requests the modest client's are counted."""
FAIR, ALONE = STEPS // 4, STEPS // 10
"""What a modest client has at least where it has a flow; and at most where it has none."""
WAITING = re.compile(
    r"^apiserver_flowcontrol_current_inqueue_requests\{[^}]*\} (\d+)", re.MULTILINE
)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class Server:
    """Takes requests as they come, four at once; one is answered when the test says so."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[str, asyncio.StreamWriter]] = deque()
        self.busy: deque[asyncio.StreamWriter] = deque()
        self.taken: list[str] = []
        self.serving: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving += filter(None, (asyncio.current_task(),))
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.waiting.append((head.split(b" ", 2)[1].decode(), writer))
                self._take()
        except (asyncio.IncompleteReadError, ConnectionError):
            await closed(writer)

    def answer(self) -> None:
        self.busy.popleft().write(b"HTTP/1.1 204 No Content\r\n\r\n")
        self._take()

    def _take(self) -> None:
        while self.waiting and len(self.busy) < PLACES:
            path, writer = self.waiting.popleft()
            self.taken.append(path)
            self.busy.append(writer)


class Run:
    """Clients that have a number of requests in flight until the end."""

    def __init__(self, directory: Path, server: Server, port: int, admin: int | None) -> None:
        self.directory = directory
        self._server = server
        self._port = port
        self._admin = admin
        self._asking: list[asyncio.Task[None]] = []

    def start(self, path: str, requests: int, fields: Iterator[str], address: str) -> None:
        self._asking += [
            asyncio.create_task(self._ask(path, fields, address)) for _ in range(requests)
        ]

    async def _ask(self, path: str, fields: Iterator[str], address: str) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(address, 0)
        )
        try:
            while True:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n{next(fields)}\r\n\r\n".encode())
                assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
        finally:
            await closed(writer)

    async def modest_part(self, steps: int) -> int:
        await self._until_all_wait()
        before = len(self._server.taken)
        for _ in range(steps):
            self._server.answer()
            await self._until_all_wait()
        taken = self._server.taken[before:]
        assert steps == len(taken)
        return taken.count("/modest")

    async def _until_all_wait(self) -> None:
        while len(self._server.busy) < PLACES or await self._waiting() < (
            len(self._asking) - PLACES
        ):
            assert not any(each.done() for each in self._asking)
            await asyncio.sleep(0)

    async def _waiting(self) -> int:
        if self._admin is None:
            return len(self._server.waiting)
        return sum(map(int, WAITING.findall(await self.page("/metrics"))))

    async def page(self, path: str) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._admin}{path}") as answer,
        ):
            return await answer.text()

    async def warnings(self) -> list[str]:
        log = (self.directory / "apfproxy.log").read_text()
        verdict = json.loads(await self.page("/debug/live"))["verdict"]
        return [
            each["text"]
            for each in verdict
            if each["severity"] == "warning" and each["text"] in log
        ]

    async def end(self) -> None:
        for each in self._asking:
            each.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(
    directory: Path, command: Callable[[str], str] | None = lambda text: text
) -> AsyncIterator[Run]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with (
            proxy(directory, port, command)
            if command
            else contextlib.nullcontext((port, None)) as ports
        ):
            run = Run(directory, server, *ports)
            try:
                yield run
            finally:
                await run.end()
        await asyncio.gather(*server.serving)


@contextlib.contextmanager
def proxy(
    directory: Path, upstream: int, change: Callable[[str], str]
) -> Iterator[tuple[int, int]]:
    found = COMMAND.search((ROOT / "README.md").read_text())
    assert found is not None
    text = change(found[1].replace("\\\n", " "))
    own = upstream, *free_ports(2)
    for documented, port in zip(PORTS, own, strict=True):
        assert 1 == text.count(f":{documented}")
        text = text.replace(f":{documented}", f":{port}")
    name, *arguments = shlex.split(text)
    assert "apfproxy" == name
    argv = [*python_module("apfproxy"), *arguments]
    with Process("apfproxy", argv, port=own[1], directory=directory) as process:
        process.wait_for_port(own[2])
        yield own[1], own[2]


def always(field: str) -> Iterator[str]:
    while True:
        yield field


@pytest.mark.parametrize(
    ("greedy", "modest", "address"),
    [
        pytest.param("X-API-Key: g", "X-API-Key: m", "127.0.0.1", id="api-key"),
        pytest.param("Authorization: Bearer g", "Authorization: Bearer m", "127.0.0.1", id="token"),
        pytest.param("Accept: */*", "Accept: */*", "127.0.0.2", id="address"),
    ],
)
async def test_it_isolates(tmp_path: Path, greedy: str, modest: str, address: str) -> None:
    """A modest client gets its part beside one with thirty times as many requests."""
    async with running(tmp_path) as run:
        run.start("/greedy", GREEDY, always(greedy), "127.0.0.1")
        run.start("/modest", MODEST, always(modest), address)
        part = await run.modest_part(STEPS)
        warnings = await run.warnings()
        explained = await run.page("/debug/explain?target=/x")

    assert FAIR <= part
    assert [] == warnings
    assert TOLD_APART in explained


async def test_preset_kubernetes(tmp_path: Path) -> None:
    """One that knows nobody isolates nobody, and says so: in the log, on the page, in `top`."""
    async with running(tmp_path, lambda text: text.replace(*KUBERNETES)) as run:
        run.start("/greedy", GREEDY, always("X-API-Key: g"), "127.0.0.1")
        run.start("/modest", MODEST, always("X-API-Key: m"), "127.0.0.2")
        part = await run.modest_part(STEPS)
        warnings = await run.warnings()

    assert part <= ALONE
    assert [one_flow(Settings())] == warnings


async def test_names_that_are_made_up(tmp_path: Path) -> None:
    """A new token with each request makes nobody many clients, and the operator hears of it."""
    async with running(tmp_path) as run:
        tokens = (f"Authorization: Bearer secret{number}" for number in count())
        run.start("/greedy", GREEDY, tokens, "127.0.0.1")
        run.start("/modest", MODEST, always("Accept: */*"), "127.0.0.2")
        await run.modest_part(STEPS)
        part = await run.modest_part(STEPS)
        (warning,) = await run.warnings()
        shown = await run.page("/debug/top_flows") + await run.page("/metrics")

    assert FAIR <= part
    assert warning.startswith("127.0.0.1 shows more than 16 API keys, tokens or names in 30 s: ")
    assert "secret" not in shown + (tmp_path / "apfproxy.log").read_text()
