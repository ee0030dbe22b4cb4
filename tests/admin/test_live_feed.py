"""Tests of who listens to the live page's events, and who gets what."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin import live_feed
from apfproxy.admin.live_feed import LiveFeed
from tests.admin.scene import Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

S = 1_000_000_000
FIRST = {"n": 0}


class Source:
    def __init__(self) -> None:
        self.scene = Scene(())
        self.feed = LiveFeed()
        self.first: dict[str, Any] = FIRST
        self.client: TestClient[web.Request, web.Application]

    def second(self, number: int) -> None:
        state = self.scene.state()
        self.feed.history.take(state.listener, state.clusters[0], number * S, float(number))

    async def send(self, request: web.Request) -> web.StreamResponse:
        return await self.feed.send(request, self.first)

    async def listen(self) -> aiohttp.ClientResponse:
        response = await self.client.get("/")
        assert b"retry: 1000\n" == await response.content.readline()
        await response.content.readline()
        assert "history" == (await read(response))[0]
        assert ("state", FIRST) == await read(response)
        return response


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    source = Source()
    app = web.Application()
    app.router.add_get("/", source.send)
    async with TestClient(TestServer(app)) as source.client:
        yield source
        source.feed.close()


async def read(response: aiohttp.ClientResponse) -> tuple[str, Any]:
    name, data, _ = [(await response.content.readline()).decode() for _ in range(3)]
    return name[len("event: ") : -1], json.loads(data[len("data: ") :])


async def test_states_and_seconds(source: Source) -> None:
    source.second(0)
    early = await source.listen()
    source.feed.offer({"n": 1}, 5.0)
    first = await read(early)
    source.feed.offer({"n": 1}, 6.0)
    source.feed.offer({"n": 2}, 7.0)
    source.feed.offer({"n": 3}, 8.0)
    last = await read(early)
    late = await source.listen()
    source.feed.offer({"n": 3}, 9.0)
    states = [first, last, await read(late)]
    for number in (1, 2):
        source.second(number)
    source.feed.offer({"n": 3}, 10.0)
    await read(early)
    name, columns = await read(early)

    assert [{"time": 5.0, "n": 1}, {"time": 8.0, "n": 3}, {"time": 9.0, "n": 3}] == [
        state for _, state in states
    ]
    assert ("seconds", [1.0, 2.0]) == (name, columns["times"])


async def test_close(source: Source) -> None:
    """At the end all get their end, and who is being written to is cut."""
    waiting = await source.listen()
    source.first = {"n": "x" * 50_000_000}
    writing = await source.client.get("/")
    source.feed.close()
    await source.client.get("/")

    assert b"" == await waiting.content.read()
    with contextlib.suppress(aiohttp.ClientPayloadError):
        assert len(await writing.content.read()) < 50_000_000
    assert source.feed.is_closed
    while not source.feed.is_empty:  # noqa: ASYNC110 - their handlers end by then
        await asyncio.sleep(0)


async def test_stalled(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "STALLED_S", 0.01)
    source.first = {"n": "x" * 50_000_000}
    response = await source.client.get("/")
    while not source.feed.is_empty:  # noqa: ASYNC110 - it has no event for a test
        await asyncio.sleep(0)
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()


async def test_full(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "MAX_LISTENERS", 1)
    await source.listen()
    refused = await source.client.get("/")

    assert (503, "10") == (refused.status, refused.headers["Retry-After"])
