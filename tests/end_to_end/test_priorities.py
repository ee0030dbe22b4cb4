"""Tests of who gets the seats of the preset `http`, counted at the server by whole processes.

The server holds what it has, and ends the oldest request once all seats are in use: so it is
counted which levels the freed seats go to, and no time is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.peer import WAIT_S
from tests.end_to_end.served import command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

LEVELS = ("interactive", "default", "batch", "background")
LISTENS = r"listens on 127\.0\.0\.1:(\d+)"
TURNS = 10
"""For the loop, in which all that was accepted has come and gone."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Server:
    """Holds requests, of which the path is the level, until all seats are in use."""

    def __init__(self) -> None:
        self.held: deque[tuple[str, asyncio.Transport]] = deque()
        self.ended: Counter[str] = Counter()
        self.most = 0
        self.connections: set[asyncio.Transport] = set()
        self._came = asyncio.Event()

    def take(self, level: str, connection: asyncio.Transport) -> None:
        self.held.append((level, connection))
        self.most = max(self.most, len(self.held))
        self._came.set()

    async def until_all_are_in_use(self, seats: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.held) < seats:
                self._came.clear()
                await self._came.wait()

    def end_oldest(self) -> str:
        level, connection = self.held.popleft()
        connection.write(OK)
        self.ended[level] += 1
        return level

    async def count(self, seats: int, requests: int) -> Counter[str]:
        for _ in range(2 * seats):  # what came before there was a choice
            await self.until_all_are_in_use(seats)
            self.end_oldest()
        self.ended.clear()
        for _ in range(requests):
            await self.until_all_are_in_use(seats)
            self.end_oldest()
        return Counter(self.ended)


class Connection(asyncio.Protocol):
    """A connection of the proxy's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._received = (self._received + data).split(b"\r\n\r\n")
        for head in heads:
            level = head.split(b" ", 2)[1].decode().lstrip("/")
            if level in LEVELS:
                self._server.take(level, self._transport)
            else:
                self._transport.write(OK)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.connections.discard(self._transport)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def keep_asking(port: int, user: str, level: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    group = "" if level == "default" else f"X-Remote-Group: {level}\r\n"
    request = f"GET /{level} HTTP/1.1\r\nHost: a.test\r\nX-Remote-User: {user}\r\n{group}\r\n"
    try:
        while True:
            writer.write(request.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"200" in head.split(b"\r\n", 1)[0]
    finally:
        await closed(writer)


@contextlib.asynccontextmanager
async def proxied(seats: int, *flags: str) -> AsyncIterator[tuple[Server, int]]:
    server = Server()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    arguments = ["serve", "--preset", "http", "--upstream", upstream, "--listen", "127.0.0.1:0"]
    arguments += ["--admin", "none", "--identity-headers-from", "127.0.0.0/8"]
    arguments += ["--server-concurrency-limit", str(seats), *flags]
    try:
        with command(*arguments) as served:
            line = await asyncio.to_thread(served.line, LISTENS)
            yield server, int(line[1])
    finally:
        # A closed listener never closes what it has accepted, but not yet made a transport of.
        for _ in range(TURNS):
            await asyncio.sleep(0)
        listener.close()
        for connection in [*server.connections]:
            connection.abort()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def asking(port: int, **in_flight: int) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(keep_asking(port, level, level))
        for level, count in in_flight.items()
        for _ in range(count)
    ]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_all_levels_at_once() -> None:
    """In the order of their names, and none starves; rounding makes none of them alike."""
    seats = 20
    async with proxied(seats) as (server, port), asking(port, **dict.fromkeys(LEVELS, 40)):
        served = await server.count(seats, 1000)
        assert seats == server.most

    assert list(LEVELS) == [level for level, _ in served.most_common()]
    assert len(LEVELS) == len(set(served.values()))
    assert min(served.values()) >= 50
    assert served["interactive"] >= 750


@pytest.mark.parametrize("in_flight", [2, 25])
async def test_interactive_beside_batch(in_flight: int) -> None:
    """Few requests wait for one seat each; many have nearly all seats, and batch has its part."""
    seats = 8
    async with proxied(seats) as (server, port), asking(port, batch=100):
        await server.until_all_are_in_use(seats)
        async with asking(port, interactive=in_flight):
            served = await server.count(seats, 500)
            assert seats == server.most

    # In turn with all others each would wait for a hundred requests, not for `seats` of them.
    most = 500 * min(in_flight / (seats + in_flight), 0.94)
    assert served["interactive"] >= 0.85 * most
    assert served["batch"] >= 0.05 * 500


WEIGHED = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: of-NAME, annotations: {apfproxy.io/weight: "WEIGHT", MORE}}
spec:
  priorityLevelConfiguration: {name: default}
  matchingPrecedence: 2
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects: [{kind: User, user: {name: NAME}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
---
"""
ONE = "apfproxy.io/flow-requests-limit: '1'"


async def test_weights_and_a_limit_of_users(tmp_path: Path) -> None:
    """Flows of one level are served by their weights, however many requests they have."""
    seats, weights = 8, {"interactive": 5, "default": 2, "batch": 1}
    text = "".join(
        WEIGHED.replace("NAME", name).replace("WEIGHT", str(weight)).replace(", MORE", "")
        for name, weight in weights.items()
    )
    text += WEIGHED.replace("NAME", "limited").replace("WEIGHT", "9").replace("MORE", ONE)
    (tmp_path / "objects.yaml").write_text(text)
    in_flight = {"interactive": 20, "default": 40, "batch": 60}
    async with (
        proxied(seats, "--objects", str(tmp_path)) as (server, port),
        asking(port, **in_flight),
    ):
        served = await server.count(seats, 800)
        two = [asyncio.create_task(keep_asking(port, "limited", "batch")) for _ in range(2)]
        [refused], [other] = await asyncio.wait(two, return_when=asyncio.FIRST_COMPLETED)
        other.cancel()
        await asyncio.gather(*two, return_exceptions=True)
        assert " 429 " in str(refused.exception())

    assert [500, 200, 100] == pytest.approx([served[name] for name in weights], rel=0.2)
