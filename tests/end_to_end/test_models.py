"""Tenants of a model server, who speak to it by OpenAI's client through a real proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

import aiohttp
import openai
import pytest

from tests.end_to_end.test_any_http_api import proxy
from tests.support.clocks import until
from tests.support.model_server import MODELS, ModelServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    Ask = Callable[[openai.AsyncOpenAI, int], Awaitable[list[str]]]

pytestmark = pytest.mark.e2e

SLOTS = 8


class Tenants:
    """Tenants of a server behind a proxy, each with a client of its own."""

    def __init__(self, server: ModelServer, port: int) -> None:
        self.server, self.port = server, port
        self._clients: list[openai.AsyncOpenAI] = []
        self._loops: list[asyncio.Task[None]] = []
        self._is_over = False

    def client(self, key: str, **fields: str) -> openai.AsyncOpenAI:
        url = f"http://127.0.0.1:{self.port}/v1"
        client = openai.AsyncOpenAI(
            base_url=url, api_key=key, max_retries=0, default_headers=fields
        )
        self._clients.append(client)
        return client

    def start(self, client: openai.AsyncOpenAI, ask: Ask, count: int, tokens: int) -> None:
        """Keep so many requests for so many tokens in flight."""
        for _ in range(count):
            self._loops.append(asyncio.create_task(self._ask_on(client, ask, tokens)))

    async def _ask_on(self, client: openai.AsyncOpenAI, ask: Ask, tokens: int) -> None:
        while not self._is_over:
            assert tokens == len(await ask(client, tokens))

    async def close(self) -> None:
        """Have all requests end."""
        self._is_over = True
        await asyncio.gather(*self._loops)
        for client in self._clients:
            await client.close()


async def words(client: openai.AsyncOpenAI, tokens: int, model: str = "talker") -> list[str]:
    """The tokens of a response without a stream."""
    whole = await client.chat.completions.create(model=model, messages=[], max_tokens=tokens)
    assert whole.usage is not None
    assert tokens == whole.usage.completion_tokens
    return str(whole.choices[0].message.content).split()


async def texts(client: openai.AsyncOpenAI, tokens: int, model: str = "talker") -> list[str]:
    """The tokens of a stream that has ended with its usage."""
    stream = await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
    )
    found, usage = [], None
    async for chunk in stream:
        found += [each.delta.content for each in chunk.choices if each.delta.content]
        usage = chunk.usage or usage
    assert usage is not None
    assert tokens == usage.completion_tokens
    return found


@contextlib.asynccontextmanager
async def tenants(
    directory: Path, *flags: str, slots: int = SLOTS, round_s: float = 0.001
) -> AsyncIterator[Tenants]:
    server = ModelServer(slots, round_s)
    async with server.serving() as upstream:
        arguments = ["--preset", "llm", "--upstream", f"http://127.0.0.1:{upstream}"]
        arguments += ["--server-concurrency-limit", str(slots), *flags]
        with proxy(directory, arguments) as (port, _):
            found = Tenants(server, port)
            try:
                yield found
            finally:
                await found.close()


async def test_small_tenant_is_not_behind_a_large_one(tmp_path: Path) -> None:
    """With two streams in flight beside fifty it has 4 % of all in the order of arrival."""
    async with tenants(tmp_path) as found:
        server = found.server
        found.start(found.client("large"), texts, 50, 10)
        found.start(found.client("small"), texts, 2, 10)
        await until(lambda: server.ended.total() >= 300)

        assert server.ended["small"] > 0.12 * server.ended.total()
        assert SLOTS == server.most


async def test_tenants_share_tokens_and_not_requests(tmp_path: Path) -> None:
    """They have the same number of requests under way, short ones and long ones."""
    async with tenants(tmp_path, round_s=0.0002) as found:
        tokens = found.server.tokens
        clients = {found.client("brief"): 200, found.client("verbose"): 2000}
        for client, count in clients.items():  # how long they are is known then
            for _ in range(2):
                await words(client, count)
        for client, count in clients.items():
            found.start(client, words, 24, count)
        before = tokens.copy()
        await until(lambda: (tokens - before).total() >= 240_000)
        counts = tokens - before

        assert 0.9 < counts["brief"] / counts["verbose"] < 1.1


async def test_all_levels_together_have_the_slots_of_the_server(tmp_path: Path) -> None:
    """Requests that take no slot are served meanwhile."""
    async with tenants(tmp_path) as found:
        server = found.server
        client = found.client("people")
        found.start(client, texts, 10, 20)
        found.start(found.client("jobs", **{"X-Priority": "batch"}), texts, 10, 20)
        await until(lambda: server.started.total() > SLOTS)
        for _ in range(5):
            assert list(MODELS) == [each.id async for each in client.models.list()]
        await until(lambda: server.ended["jobs"] > 5)

        assert SLOTS == server.most


async def test_each_of_several_servers_has_as_many_requests_as_slots(tmp_path: Path) -> None:
    servers = [ModelServer(3), ModelServer(3)]
    async with servers[0].serving() as first, servers[1].serving() as second:
        arguments = ["--preset", "llm", "--per-endpoint", "3"]
        for each in (first, second):
            arguments += ["--upstream", f"http://127.0.0.1:{each}"]
        with proxy(tmp_path, arguments) as (port, _):
            found = Tenants(servers[0], port)
            found.start(found.client("brief"), texts, 8, 5)
            found.start(found.client("verbose"), texts, 8, 40)
            await until(lambda: all(each.ended.total() > 80 for each in servers))
            await found.close()

    assert [3, 3] == [each.most for each in servers]


async def test_client_that_leaves(tmp_path: Path) -> None:
    """The server learns it, and the slot is the next one's."""
    async with tenants(tmp_path, slots=1) as found:
        server, client = found.server, found.client("a")
        stream = await client.chat.completions.create(
            model="talker", messages=[], max_tokens=1_000_000, stream=True
        )
        assert (await anext(aiter(stream))).choices
        next_one = asyncio.create_task(texts(found.client("b"), 3))
        await asyncio.sleep(0.05)
        assert 0 == server.started["b"]
        await stream.close()
        await server.left.wait()

        assert 3 == len(await next_one)
        assert {"b": 1} == server.ended
        assert 1 == server.most


@pytest.mark.parametrize("model", MODELS)
async def test_whole_responses(tmp_path: Path, model: str) -> None:
    """A response without a stream, after any thinking, is as without a proxy."""
    async with tenants(tmp_path) as found:
        client = found.client("a")
        assert ["token"] * 7 == await words(client, 7, model)
        assert 5 == len(await texts(client, 5, model))


async def test_lines_of_json(tmp_path: Path) -> None:
    """A stream of NDJSON has its slot to its end, too."""
    async with tenants(tmp_path, slots=1) as found, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{found.port}/api/chat"
        body = {"model": "talker", "messages": [], "options": {"num_predict": 30}}

        async def lines() -> list[bool]:
            async with session.post(url, json=body) as response:
                assert "application/x-ndjson" == response.content_type
                return [json.loads(line)["done"] async for line in response.content]

        for found_lines in await asyncio.gather(*(lines() for _ in range(4))):
            assert [False] * 30 + [True] == found_lines
        assert 1 == found.server.most
