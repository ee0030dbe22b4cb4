"""Which Redis server has the record: after a failover, and in a cluster."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from redis.crc import key_slot

from apfproxy.fleet.store import StoreError, Swapped
from tests.end_to_end.programs import free_port
from tests.fleet.agreement import Told, agrees
from tests.fleet.redis_servers import HOST, RedisServer, redis_server, until_so
from tests.fleet.test_redis_listener import subscribed
from tests.fleet.test_redis_store import NOTHING, store_at, stores_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SECRET = "s3cr3t"  # noqa: S105 - of nobody
KEY = b"apfproxy:{a}"
OTHER_SLOT = 1


async def said(server: RedisServer, *command: str | int, **arguments: Any) -> Any:  # noqa: ANN401 - redis-py's
    async with server.client(**arguments) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's


class Watched:
    def __init__(self, folder: Path, primary: RedisServer) -> None:
        self.primary = primary
        link = ("--replicaof", f"{HOST} {primary.port}", "--masterauth", SECRET)
        self.replica = RedisServer(folder, *link, "--requirepass", SECRET)
        self.sentinel = RedisServer(
            folder,
            f"sentinel monitor ours {HOST} {primary.port} 1",
            f"sentinel auth-pass ours {SECRET}",
            "sentinel down-after-milliseconds ours 60000",
            "sentinel failover-timeout ours 60000",
            f"requirepass {SECRET}-sentinel",
            program="redis-sentinel",
        )
        self.password_file = folder / "password"
        self.password_file.write_text(SECRET)
        self.sentinel_password_file = folder / "sentinel-password"
        self.sentinel_password_file.write_text(f"{SECRET}-sentinel")

    @property
    def settings(self) -> dict[str, str]:
        return {
            "password_file": str(self.password_file),
            "sentinel_password_file": str(self.sentinel_password_file),
        }

    @property
    def url(self) -> str:
        return f"redis+sentinel://{HOST}:{free_port()},{HOST}:{self.sentinel.port}/ours"

    async def start(self) -> None:
        await self.replica.start(password=SECRET)
        await self.sentinel.start(password=f"{SECRET}-sentinel")

        async def is_known() -> bool:
            return len(await self.of_sentinel("REPLICAS", "ours")) == 1

        async def follows() -> bool:
            role = await said(self.replica, "ROLE", password=SECRET)
            return bool(role[3] == b"connected")

        await until_so(is_known)
        await until_so(follows)

    async def of_sentinel(self, *command: str) -> Any:  # noqa: ANN401 - redis-py's
        return await said(self.sentinel, "SENTINEL", *command, password=f"{SECRET}-sentinel")

    def kill(self) -> None:
        for each in (self.primary, self.replica, self.sentinel):
            each.kill()


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    options = ("--requirepass", SECRET, "--masterauth", SECRET, "--repl-diskless-sync-delay", "0")
    async with redis_server(tmp_path, *options, password=SECRET) as primary:
        watched = Watched(tmp_path, primary)
        try:
            await watched.start()
            yield watched
        finally:
            watched.kill()


@pytest.mark.e2e
async def test_failover(watched: Watched) -> None:
    """Members follow the Sentinel from a dead server to its replica."""
    async with stores_at(watched.url, 2, **watched.settings) as stores:
        told = Told(stores[1])
        await agrees(*stores)
        seen = await stores[0].read()
        assert 1 == await said(watched.primary, "WAIT", 1, 0, password=SECRET)
        watched.primary.kill()
        for _ in range(2):
            with pytest.raises(StoreError, match="Redis does not answer: "):
                await stores[0].read()
        await until_so(partial(failed_over, watched))
        done: list[Swapped] = []

        async def is_promoted() -> bool:
            with suppress(StoreError):
                done.append(await stores[0].swap(b"after", seen))
            return bool(done)

        await until_so(is_promoted)
        assert done[0].is_done
        assert done[0].stored == await stores[1].read()
        await told.reaches(1)  # it connected again


async def failed_over(watched: Watched) -> bool:
    try:
        await watched.of_sentinel("FAILOVER", "ours")
    except Exception as error:  # noqa: BLE001 - INPROG, NOGOODSLAVE
        return "INPROG" in str(error)
    return True


@pytest.mark.e2e
async def test_sentinels_that_do_not_know(watched: Watched) -> None:
    """What Sentinels say is passed on."""
    for url, settings, problem in (
        (watched.url.replace("/ours", "/theirs"), watched.settings, "watches no theirs"),
        (
            watched.url,
            {"password_file": str(watched.password_file)},
            "Redis refuses user or password: .*; see fleet.sentinelPasswordFile",
        ),
        (f"redis+sentinel://{HOST}:{free_port()}/ours", {}, "Redis does not answer: "),
        (
            f"redis+sentinel://{HOST}:{watched.primary.port}/ours",
            {"sentinel_password_file": str(watched.password_file)},
            "unknown command",
        ),
    ):
        store = store_at(url, **settings)
        with pytest.raises(StoreError, match=f"no Sentinel knows the server .*: .*{problem}"):
            await store.read()
        await store.close()


async def is_well(node: RedisServer) -> bool:
    return b"cluster_state:ok" in await said(node, "CLUSTER", "INFO")


class Cluster:
    """Two nodes, of which the first has all slots but one."""

    def __init__(self, *nodes: RedisServer) -> None:
        self.nodes = nodes

    async def ids(self) -> list[str]:
        return [(await said(each, "CLUSTER", "MYID")).decode() for each in self.nodes]

    async def join(self) -> None:
        first, second = self.nodes
        await said(first, "CLUSTER", "ADDSLOTSRANGE", 0, 0, OTHER_SLOT + 1, 16383)
        await said(second, "CLUSTER", "ADDSLOTS", OTHER_SLOT)
        # The port of the cluster's own connections follows the other one.
        bus = int((await said(second, "CONFIG", "GET", "cluster-port"))[1])
        await said(first, "CLUSTER", "MEET", HOST, second.port, bus)
        for node in self.nodes:
            await until_so(partial(is_well, node))

        async def is_known() -> bool:
            slots = [str(await said(each, "CLUSTER", "SLOTS")) for each in self.nodes]
            return all(each in known for each in await self.ids() for known in slots)

        await until_so(is_known)


@asynccontextmanager
async def node_of(folder: Path, name: str) -> AsyncIterator[RedisServer]:
    bus = ("--cluster-port", str(free_port()))
    own = folder / name
    own.mkdir()
    async with redis_server(own, "--cluster-enabled", "yes", *bus) as server:
        yield server


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with node_of(tmp_path, "one") as one, node_of(tmp_path, "two") as two:
        cluster = Cluster(one, two)
        await cluster.join()
        yield cluster


@pytest.mark.e2e
async def test_cluster(cluster: Cluster) -> None:
    """Any node may be named; a redirect leads to the one that has the record."""
    one, two = cluster.nodes
    nodes = f"{HOST}:{two.port},{HOST}:{one.port}"
    async with stores_at(f"redis+cluster://{nodes}", 2) as stores:
        told = Told(stores[1])
        async with two.client() as client:
            await subscribed(client, stores[1], 1)
        await agrees(*stores)
        # Whichever node it listens to.
        await stores[0].swap(b"1", await stores[0].read(), is_urgent=True)
        await told.reaches(1)


@pytest.mark.e2e
async def test_slot_moves(cluster: Cluster) -> None:
    """Members follow a slot to another node, while it moves and then."""
    one, two = cluster.nodes
    first, second = await cluster.ids()
    slot = key_slot(KEY)
    async with stores_at(f"redis+cluster://{HOST}:{one.port}", 2) as stores:
        written = await stores[0].swap(b"1", NOTHING)
        await said(two, "CLUSTER", "SETSLOT", slot, "IMPORTING", first)
        await said(one, "CLUSTER", "SETSLOT", slot, "MIGRATING", second)
        assert written.stored == await stores[1].read()
        await said(one, "MIGRATE", HOST, two.port, KEY.decode(), 0, 10_000)
        assert written.stored == await stores[1].read()  # ASK
        again = await stores[0].swap(b"2", written.stored)
        assert again.is_done
        for node in (two, one):
            await said(node, "CLUSTER", "SETSLOT", slot, "NODE", second)
        assert again.stored == await stores[1].read()  # MOVED
        assert again.stored == await stores[1].read()
