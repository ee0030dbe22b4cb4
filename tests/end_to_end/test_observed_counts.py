"""What observing says and what enforcing does, of the same clients before the same server."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.served import command
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SEATS, PLACES, SERVICE_S = 4, 40, 1.0
OBJECTS = f"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {{name: all}}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1000
    lendablePercent: 0
    limitResponse: {{type: Queue, queuing: {{queues: 1, handSize: 1, queueLengthLimit: {PLACES}}}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: all}}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {{name: all}}
  rules:
  - subjects: [{{kind: Group, group: {{name: "system:unauthenticated"}}}}]
    nonResourceRules: [{{verbs: ["*"], nonResourceURLs: ["*"]}}]
"""
REQUEST = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SAYS = "flow control only observes: enforcing would reject "
LISTENS = r"listens on 127\.0\.0\.1:(\d+),.* admin on 127\.0\.0\.1:(\d+)"


class Proxy:
    """A proxy in a process of its own, and how many responses came through it."""

    def __init__(self, port: int, admin_port: int) -> None:
        self.port = port
        self.served = self.refused = 0
        self._page = f"http://127.0.0.1:{admin_port}/debug/live"

    async def page(self) -> dict[str, Any]:
        """The live page."""
        request = urllib.request.Request(self._page, headers={"Accept": "application/json"})  # noqa: S310  it is http

        def read() -> dict[str, Any]:
            with urllib.request.urlopen(request) as response:  # noqa: S310  as above
                found: dict[str, Any] = json.load(response)
                return found

        return await asyncio.to_thread(read)

    async def said(self) -> str:
        """What enforcing would do, in words."""
        texts: list[str] = [each["text"] for each in (await self.page())["verdict"]]
        return next(text for text in texts if text.startswith(SAYS))

    async def level(self) -> dict[str, Any]:
        """The level of all requests, by the page."""
        levels = (await self.page())["levels"]
        found: dict[str, Any] = next(level for level in levels if level["name"] == "all")
        return found

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a request, and wait for its response."""
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
        if b" 200 " in head:
            self.served += 1
        else:
            assert b" 429 " in head
            self.refused += 1
            await asyncio.sleep(SERVICE_S)  # it asks again as soon as if it had been served


class Connection(asyncio.Protocol):
    """Of a server that takes the same time for each request, however many there are."""

    there: ClassVar[set[asyncio.BaseTransport]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note it."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self.there.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  as asyncio has it
        """Forget it."""
        self.there.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """Take a request: they are small, and the proxy sends one after the other."""
        assert data.endswith(b"\r\n\r\n")
        asyncio.get_running_loop().call_later(SERVICE_S, self._transport.write, RESPONSE)


async def wait_for_responses(proxy: Proxy) -> None:
    """Have one connection, and ask again once the response is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        while True:
            await proxy.ask(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def ask_once(proxy: Proxy) -> None:
    """Have a connection for one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        await proxy.ask(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def proxies(folder: Path) -> AsyncIterator[tuple[Proxy, Proxy]]:
    """A server with two proxies before it: one enforces, the other one observes."""
    objects = folder / "objects.yaml"
    objects.write_text(OBJECTS)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    flags = ["--server-concurrency-limit", str(SEATS), "--no-suggested-objects"]
    flags += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--objects", str(objects)]
    with ExitStack() as stack:
        started = [
            stack.enter_context(command("serve", "--upstream", url, "--enforcement", mode, *flags))
            for mode in ("enforce", "observe")
        ]
        found = [await asyncio.to_thread(each.line, LISTENS) for each in started]
        one, other = (Proxy(int(each[1]), int(each[2])) for each in found)
        yield one, other
    server.close()
    await until(lambda: not Connection.there)


@pytest.mark.e2e
@on_uvloop
async def test_clients_that_wait_for_their_responses(tmp_path: Path) -> None:
    """As many as there are seats and places: nothing is rejected, and the others wait."""
    async with proxies(tmp_path) as both:
        enforced, observed = both
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(wait_for_responses(proxy))
                for proxy in both
                for _ in range(SEATS + PLACES)
            ]
            await until(
                lambda: enforced.served > 2 * SEATS and observed.served > 3 * (SEATS + PLACES)
            )
            levels = [await proxy.level() for proxy in both]
            said = await observed.said()
            for each in asking:
                each.cancel()

    rejected = [level["rejected"] for level in levels]
    assert [0, 0] == rejected == [proxy.refused for proxy in both]
    assert all(PLACES - 1 <= level["waiting"] <= PLACES for level in levels), levels
    assert SEATS == levels[1]["executing"]
    assert re.match(
        SAYS + rf"nothing; ({PLACES - 1}|{PLACES}) requests would wait, [\d.]+ m?s each",
        said,
    )


@pytest.mark.e2e
@on_uvloop
async def test_clients_that_do_not_wait(tmp_path: Path) -> None:
    """Requests that come nine times as often as they can go on are rejected alike.

    So few of them can go on that it makes no difference if the machine stands still for a while.
    """
    number = 200
    async with proxies(tmp_path) as both:
        _, observed = both
        async with asyncio.TaskGroup() as group:
            asking = []
            for _ in range(number):
                asking += [group.create_task(ask_once(proxy)) for proxy in both]
                await asyncio.sleep(SERVICE_S / SEATS / 9)
            levels = [await proxy.level() for proxy in both]
            said = await observed.said()
            for each in asking:
                each.cancel()

    rejected = [level["rejected"] for level in levels]
    assert rejected[0] > number / 2
    assert observed.refused == 0
    assert rejected[1] == pytest.approx(rejected[0], rel=0.2)
    assert re.match(SAYS + r"[\d.]+/s in all; \d+ requests would wait", said)
