"""What other members say is urgent, by Redis."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.tasks import Backoff
from apfproxy.fleet import redis_store
from tests.fleet.agreement import Told
from tests.fleet.redis_servers import HOST, RedisServer, redis_server, until_so
from tests.fleet.test_redis_store import NOTHING, store_at, stores_at
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from redis.asyncio import Redis

    from apfproxy.fleet.redis_store import RedisStore


class NotedBackoff:
    def __init__(self, backoff: Backoff, found: list[float]) -> None:
        self._backoff = backoff
        self._found = found

    def next_s(self) -> float:
        self._found.append(self._backoff.next_s())
        return 0.0

    def reset(self) -> None:
        self._backoff.reset()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as server:
        yield server


@asynccontextmanager
async def listened_to(answer: bytes) -> AsyncIterator[tuple[RedisStore, list[None]]]:
    """A store at a server that answers so to each subscription; and these, as they come."""
    asked: list[None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if b"SUBSCRIBE" in data:
                asked.append(None)
                writer.write(answer)
            else:
                writer.write(b"+OK\r\n" * data.count(b"CLIENT\r\n"))
        writer.close()

    listening = await asyncio.start_server(serve, HOST, 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, stores_at(f"redis://{HOST}:{port}", 1) as (store,):
        yield store, asked


async def subscribed(client: Redis, store: RedisStore, count: int) -> None:
    async def is_so() -> bool:
        return [(store.channel.encode(), count)] == await client.pubsub_numsub(store.channel)

    await until_so(is_so)


async def test_urgent_after_a_restart(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A listener connects again, and looks at once, as it may have missed something."""
    async with stores_at(server.url, 1) as (store,):
        told = Told(store)
        async with server.client() as client:
            await subscribed(client, store, 1)
        server.kill()
        await until(lambda: "urgent changes of other members are seen only" in caplog.text)
        await server.start()
        await told.reaches(1)


async def test_urgent(server: RedisServer) -> None:
    """The other members are told, the writer is not."""
    async with stores_at(server.url, 3) as (one, other, third), server.client() as client:
        told = [Told(one), Told(other)]
        await subscribed(client, one, 2)
        first = await one.swap(b"1", NOTHING, is_urgent=True)
        second = await one.swap(b"2", first.stored)
        # Messages come in order, so when this one has come there was no other.
        await third.swap(b"3", second.stored, is_urgent=True)
        await told[0].reaches(1)
        await told[1].reaches(2)

        assert [1, 2] == [each.count for each in told]


async def test_server_that_hangs(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that does not answer when it is asked is away."""
    monkeypatch.setattr(redis_store, "SILENCE_S", 0.001)
    async with stores_at(server.url, 1) as (store,):
        Told(store)
        async with server.client() as client:
            await subscribed(client, store, 1)
        with server.paused():
            await until(lambda: "Redis does not answer; urgent changes" in caplog.text)


async def test_wrong_types(caplog: pytest.LogCaptureFixture) -> None:
    """A server that answers what no Redis does is away, and is asked again."""
    async with listened_to(b"*3\r\n$7\r\nmessage\r\n*0\r\n*0\r\n") as (store, asked):
        Told(store)
        await until(lambda: len(asked) > 1)

    assert "Redis does not answer: its response makes no sense; urgent changes" in caplog.text


@pytest.mark.parametrize(("well_s", "pauses"), [(10.0, [0.2, 0.4, 0.8]), (0.0, [0.2, 0.2, 0.2])])
async def test_pauses(monkeypatch: pytest.MonkeyPatch, well_s: float, pauses: list[float]) -> None:
    """A server that takes subscriptions and ends them at once is asked less and less often."""
    found: list[float] = []
    backoff = Backoff(0.2, 10.0, lambda: 1.0)
    monkeypatch.setattr(redis_store, "Backoff", lambda *_: NotedBackoff(backoff, found))
    monkeypatch.setattr(redis_store, "LONGEST_PAUSE_S", well_s)

    async with listened_to(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n:1\r\n") as (store, _):
        Told(store)
        await until(lambda: len(found) == len(pauses))

    assert pauses == pytest.approx(found)


async def test_close(server: RedisServer) -> None:
    """Closing ends the subscription, wherever it is."""
    store = store_at(server.url)
    Told(store)
    await store.close()
    Told(store)
    async with server.client() as client:
        await subscribed(client, store, 1)
        await store.close()
        await subscribed(client, store, 0)
