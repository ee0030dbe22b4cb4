from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.redis_store import RedisStore
from apfproxy.fleet.store import Stored, StoreError
from apfproxy.settings import FleetSettings
from apfproxy.settings.store_address import store_address
from tests.fleet.agreement import agrees, loses_no_write
from tests.fleet.redis_servers import HOST, RedisServer, redis_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOTHING = Stored(None, "")


def store_at(url: str, key: str = "a", **settings: str) -> RedisStore:
    return RedisStore(store_address(url), FleetSettings(store=url, **settings), key)  # type: ignore[arg-type]  # texts only


@asynccontextmanager
async def stores_at(url: str, count: int, **settings: str) -> AsyncIterator[list[RedisStore]]:
    stores = [store_at(url, **settings) for _ in range(count)]
    yield stores
    for each in stores:
        await each.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as server:
        yield server


async def test_agreement(server: RedisServer) -> None:
    async with stores_at(server.url, 2) as stores:
        await agrees(*stores)


async def test_swaps_at_once(server: RedisServer) -> None:
    """Of many members' writes none is lost."""
    async with stores_at(server.url, 4) as stores:
        await loses_no_write([*stores])


async def test_keys_and_databases_are_apart(server: RedisServer) -> None:
    """Each cluster has a record of its own, and so has each database."""
    places = (server.url, "a/b"), (server.url, "a/c"), (f"{server.url}/1", "a/b")
    one, other, third = (store_at(*place) for place in places)
    await one.swap(b"1", NOTHING)
    with pytest.raises(StoreError, match="more than"):
        await other.swap(b"x" * (MAX_RECORD_BYTES + 1), NOTHING)  # it would not be read

    assert "apfproxy:{a/b}" == one.key
    async with server.client() as client:  # removed when no member writes for a day
        assert b"1" == await client.hget(one.key, "data")
        assert 86300 < await client.ttl(one.key) <= 86400
    assert [NOTHING] * 2 == [await other.read(), await third.read()]
    for each in (one, other, third):
        await each.close()


async def test_nothing_is_written_by_who_may_not_write_all(server: RedisServer) -> None:
    """A write that fails would be tried again and again, and others take it for true."""
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        first = await store.swap(b"1", NOTHING)
        await client.execute_command("ACL", "SETUSER", "default", "-expire")  # type: ignore[no-untyped-call]  # redis-py's
        with pytest.raises(StoreError, match="Redis"):
            await store.swap(b"2", first.stored)

        assert b"1" == await client.hget(store.key, "data")


@pytest.mark.parametrize("may_not", ["-publish", "resetchannels"])
async def test_who_may_not_tell_others_writes(
    server: RedisServer, may_not: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the right to publish all else goes on, and the log says once what is missing."""
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        await client.execute_command("ACL", "SETUSER", "default", may_not)  # type: ignore[no-untyped-call]  # redis-py's
        seen = NOTHING
        for data in (b"1", b"2", b"3"):
            swapped = await store.swap(data, seen, is_urgent=True)
            assert swapped.is_done
            seen = swapped.stored

        assert seen == await store.read()
    assert 1 == caplog.text.count("Redis does not tell other members of urgent changes")


async def test_lost_write(server: RedisServer) -> None:
    """A version of a write that the server has lost, as in a failover, is that of no other one."""
    async with stores_at(server.url, 2) as (one, other), server.client() as client:
        first = await one.swap(b"1", NOTHING)
        lost = await one.swap(b"2", first.stored)
        await client.hset(one.key, mapping={"version": first.stored.version, "data": "1"})
        again = await other.swap(b"3", first.stored)

        assert again.is_done
        assert not (await one.swap(b"4", lost.stored)).is_done


async def test_forgotten(server: RedisServer) -> None:
    """What the server has forgotten, scripts and keys alike, is nothing, and can be written."""
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        seen = await store.swap(b"1", NOTHING)
        await client.flushall()
        await client.script_flush()
        late = await store.swap(b"2", seen.stored)

        assert not late.is_done
        assert NOTHING == late.stored
        assert (await store.swap(b"2", late.stored)).is_done


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("SET", "apfproxy:{a}", "x"), "has something else than a record: delete it"),
        (("LPUSH", "apfproxy:{a}", "x"), "has something else than a record: delete"),
        (("HSET", "apfproxy:{a}", "data", "x"), "has something else than a record"),
        pytest.param(
            ("HSET", "apfproxy:{a}", "data", "x" * (MAX_RECORD_BYTES + 1), "version", "x"),
            f"has more than {MAX_RECORD_BYTES} bytes: delete it",
            id="long",
        ),
    ],
)
async def test_garbage(server: RedisServer, command: tuple[str, ...], problem: str) -> None:
    """A key that somebody else has written is named; once it is deleted all goes on."""
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's
        for _ in range(2):
            with pytest.raises(StoreError, match=problem):
                await store.read()
        with pytest.raises(StoreError, match=problem):
            await store.swap(b"1", Stored(b"0", "seen"))
        await client.delete(store.key)

        assert NOTHING == await store.read()


async def test_name_that_is_not_found_for_a_while(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that fails is an error that names the host; a connection needs none."""
    loop, is_known = asyncio.get_running_loop(), True
    resolve = loop.getaddrinfo

    async def answer(host: str, *rest: Any, **others: Any) -> Any:  # noqa: ANN401 - asyncio's
        if host == "store.test" and not is_known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await resolve(HOST if host == "store.test" else host, *rest, **others)

    monkeypatch.setattr(loop, "getaddrinfo", answer)
    async with stores_at(f"redis://store.test:{server.port}", 1) as (store,):
        assert NOTHING == await store.read()
        is_known = False
        assert NOTHING == await store.read()
        server.kill()
        for _ in range(3):
            with pytest.raises(StoreError, match=r"^Redis does not answer: "):
                await store.read()
        with pytest.raises(StoreError, match=r"store\.test.* Name or service not known"):
            await store.read()
        await server.start()
        is_known = True

        assert NOTHING == await store.read()


async def test_given_up_and_answered(server: RedisServer) -> None:
    """An answer that comes late is nobody's, and the connection goes on."""
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        seen = await store.swap(b"1", NOTHING)
        before = (await client.info("stats"))["total_connections_received"]
        await client.execute_command("CLIENT", "PAUSE", "100000", "WRITE")  # type: ignore[no-untyped-call]  # redis-py's
        asked = asyncio.create_task(store.swap(b"2", seen.stored))
        for _ in range(100):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        await client.execute_command("CLIENT", "UNPAUSE")  # type: ignore[no-untyped-call]  # redis-py's

        assert b"2" == (await store.read()).data
        assert before == (await client.info("stats"))["total_connections_received"]


async def test_cancelled_anywhere(server: RedisServer) -> None:
    """Whoever cancels a question ends it, however far it is."""
    async with stores_at(server.url, 1) as (store,):
        seen = await store.read()
        for steps in range(40):
            asked = asyncio.create_task(store.swap(b"1", seen))
            for _ in range(steps):
                await asyncio.sleep(0)
            is_in_time = asked.cancel()
            (outcome,) = await asyncio.gather(asked, return_exceptions=True)
            assert isinstance(outcome, asyncio.CancelledError) == is_in_time
            seen = await store.read()
