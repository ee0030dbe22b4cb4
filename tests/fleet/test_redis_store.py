"""Connections to Redis: users, passwords and TLS."""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.crc import key_slot
from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from apfproxy.base.errors import OperatorError
from apfproxy.base.tasks import Backoff
from apfproxy.fleet import redis_store
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.redis_store import RedisStore, Servers, password_of
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.settings import FleetSettings
from apfproxy.settings.store_address import store_address
from tests.end_to_end.programs import free_port
from tests.fleet.agreement import Told, agrees, loses_no_write
from tests.fleet.redis_servers import HOST, RedisServer, redis_server, until_so
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis


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
    async with stores_at(server.url, 4) as stores:
        await loses_no_write([*stores])


async def test_keys_and_databases_are_apart(server: RedisServer) -> None:
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
    async with stores_at(server.url, 1) as (store,), server.client() as client:
        await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's
        for _ in range(2):
            with pytest.raises(StoreError, match=problem):
                await store.read()
        with pytest.raises(StoreError, match=problem):
            await store.swap(b"1", Stored(b"0", "seen"))
        await client.delete(store.key)

        assert NOTHING == await store.read()


async def test_given_up_and_answered(server: RedisServer) -> None:
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


PAGE = Path(__file__).parents[2] / "docs" / "fleet-stores.md"
SECRET = "s3cr3t s3cr3t"  # noqa: S105 - of no one

COMMANDS = (
    *("+evalsha", "+eval", "+hstrlen", "+hmget", "+hget", "+hset", "+expire", "+publish"),
    *("+subscribe", "+unsubscribe", "+ping", "+role", "+asking", "+cluster|slots", "+command"),
    "+select",
)
"""Holds what a member's user has to be permitted."""

ACL = ("~apfproxy:*", "resetchannels", "&apfproxy:*", "-@all", *COMMANDS)


def test_documented_rights() -> None:
    (line,) = [each for each in PAGE.read_text().splitlines() if each.startswith("user apfproxy ")]
    assert f"user apfproxy on >PASSWORD {' '.join(ACL)}" == line


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A server where the user `fleet` may do what a member does, and the default user nothing."""
    user = ("--user", "fleet", "on", f">{SECRET.replace(' ', '')}", *ACL)
    async with redis_server(
        tmp_path,
        *user,
        *("--user", "default", "off"),
        username="fleet",
        password=SECRET.replace(" ", ""),
    ) as server:
        yield server


@pytest.mark.parametrize("user", ["", "fleet@", "fleet:wrong-s3cr3t@", "nobody:wrong-s3cr3t@"])
async def test_refused(guarded: RedisServer, user: str) -> None:
    store = store_at(guarded.url.replace("//", f"//{user}"))
    with pytest.raises(StoreError, match=r"^Redis refuses user or password: ") as error:
        await store.read()
    assert "s3cr3t" not in str(error.value)
    assert "s3cr3t" not in repr(store)
    await store.close()


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        pytest.param(
            RuntimeError("unable to perform operation on <TCPTransport closed=True>"),
            "Redis does not answer: the connection was reset",
            id="uvloop-has-no-error-of-the-network-for-it",
        ),
        pytest.param(
            NoPermissionError("No permissions to access a key"),
            "Redis does not permit it: No permissions to access a key; see docs/fleet-stores.md"
            " for the rights of a member's user",
            id="right",
        ),
        pytest.param(
            ResponseError(f"unknown command 'NOSUCH', with args beginning with: '{SECRET}'"),
            "Redis says: unknown command 'NOSUCH', with args beginning with: '...'",
            id="server-repeats-a-password",
        ),
        pytest.param(ReadOnlyError("x"), "Redis is a replica, which cannot be written", id="old"),
        (TypeError("x"), "Redis does not answer: its response makes no sense"),
        pytest.param(TimeoutError(), "Redis does not answer: nothing came for 5 s", id="late"),
    ],
)
def test_messages(error: Exception, shown: str, password_file: Path) -> None:
    fleet = FleetSettings(password_file=str(password_file))
    assert shown == Servers(store_address("redis://a"), fleet).explained(error)


class Tls:
    def __init__(self, folder: Path, **server: Any) -> None:  # noqa: ANN401 - `issue`'s
        self.port = free_port()
        authority = Authority("ours")
        authority.issue("server", usage="server", **server).write(folder, "server")
        authority.issue("member", usage="client").write(folder, "member")
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(authority.pem)
        self.other = folder / "other.crt"
        self.other.write_bytes(Authority("another").pem)

        cert, key = (str(folder / f"server.{end}") for end in ("crt", "key"))
        self.options = (
            *("--tls-port", str(self.port), "--tls-cert-file", cert, "--tls-key-file", key),
            *("--tls-ca-cert-file", str(self.ca), "--tls-auth-clients", "yes"),
        )
        self.settings = {
            "ca_file": str(self.ca),
            "certificate_file": str(folder / "member.crt"),
            "key_file": str(folder / "member.key"),
        }
        self.url = f"rediss://{HOST}:{self.port}"


async def test_tls(tmp_path: Path) -> None:
    """Either side shows a certificate, and only the CAs that are given count."""
    tls = Tls(tmp_path)
    async with redis_server(tmp_path, *tls.options):
        async with stores_at(tls.url, 2, **tls.settings) as stores:
            await agrees(*stores)
        store = store_at(tls.url, **(tls.settings | {"ca_file": str(tls.other)}))
        with pytest.raises(StoreError, match="certificate of Redis is not good: self-signed"):
            await store.read()
        await store.close()
        store = store_at(tls.url, ca_file=str(tls.ca))
        with pytest.raises(StoreError, match=r"Redis does not answer: "):
            await store.read()
        await store.close()


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        pytest.param({"hosts": ("another",)}, "IP address mismatch", id="name"),
        pytest.param(
            {
                "not_after": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
                "not_before": dt.datetime(2019, 1, 1, tzinfo=dt.UTC),
            },
            "expired",
            id="expired",
        ),
    ],
)
async def test_certificate_that_is_not_good(
    tmp_path: Path, server: dict[str, Any], problem: str
) -> None:
    """A certificate has to be of the host in the URL, and in force; the message says which."""
    tls = Tls(tmp_path, **server)
    async with (
        redis_server(tmp_path, *tls.options),
        stores_at(tls.url, 1, **tls.settings) as (store,),
    ):
        with pytest.raises(StoreError) as error:
            await store.read()

    text = str(error.value)
    assert text.startswith("the certificate of Redis is not good: ")
    assert problem in text
    assert text.endswith("; see the host in fleet.store, and fleet.caFile")


async def test_cluster_with_tls_and_least_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection to a node has TLS by the given files, and the user's few rights."""
    for limit in ("CONNECT_S", "RESPONSE_S"):  # a client of a cluster connects many times
        monkeypatch.setattr(redis_store, limit, 60.0)
    tls = Tls(tmp_path)
    password = SECRET.replace(" ", "")
    user = ("--user", "fleet", "on", f">{password}", *ACL)
    cluster = ("--cluster-enabled", "yes", "--tls-cluster", "yes")
    async with (
        redis_server(
            tmp_path, *tls.options, *user, *cluster, "--cluster-port", str(free_port())
        ) as server,
        server.client() as client,
    ):
        url = f"rediss+cluster://fleet:{password}@{HOST}:{tls.port}"
        async with stores_at(url, 1, **tls.settings) as (store,):
            with pytest.raises(StoreError, match="has no node with slots yet"):
                await store.read()
        await client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)  # type: ignore[no-untyped-call]  # redis-py's

        async def is_well() -> bool:
            return b"state:ok" in await client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]  # redis-py's

        await until_so(is_well)
        async with stores_at(url, 2, **tls.settings) as stores:
            told = Told(stores[1])
            await agrees(*stores)
            while not told.count:
                await stores[0].swap(b"1", await stores[0].read(), is_urgent=True)
        async with stores_at(url, 1, **(tls.settings | {"ca_file": str(tls.other)})) as (store,):
            with pytest.raises(StoreError, match="certificate of Redis is not good: self-signed"):
                await store.read()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "password"
    for data, password in ((b" a b\r\n", " a b"), ("ä\n".encode(), "ä")):
        path.write_bytes(data)
        assert password == password_of(str(path))
    for data in (b"\n", b"a\nb", b"\xff", b""):
        path.write_bytes(data)
        with pytest.raises(OperatorError, match=r"password: has no password: write one line of at"):
            password_of(str(path))
    for settings, problem in (
        ({"ca_file": str(path)}, "is no PEM of certificates"),
        ({"password_file": str(tmp_path / "none")}, "cannot be read: No such file"),
    ):
        with pytest.raises(OperatorError, match=problem):
            store_at("rediss://a", **settings)


class NotedBackoff:
    def __init__(self, backoff: Backoff, found: list[float]) -> None:
        self._backoff = backoff
        self._found = found

    def next_s(self) -> float:
        self._found.append(self._backoff.next_s())
        return 0.0

    def reset(self) -> None:
        self._backoff.reset()


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
    store = store_at(server.url)
    Told(store)
    await store.close()
    Told(store)
    async with server.client() as client:
        await subscribed(client, store, 1)
        await store.close()
        await subscribed(client, store, 0)


PASSWORD = "s3cr3t"  # noqa: S105 - of no one
KEY = b"apfproxy:{a}"
OTHER_SLOT = 1


async def said(server: RedisServer, *command: str | int, **arguments: Any) -> Any:  # noqa: ANN401 - redis-py's
    async with server.client(**arguments) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's


class Watched:
    def __init__(self, folder: Path, primary: RedisServer) -> None:
        self.primary = primary
        link = ("--replicaof", f"{HOST} {primary.port}", "--masterauth", PASSWORD)
        self.replica = RedisServer(folder, *link, "--requirepass", PASSWORD)
        self.sentinel = RedisServer(
            folder,
            f"sentinel monitor ours {HOST} {primary.port} 1",
            f"sentinel auth-pass ours {PASSWORD}",
            "sentinel down-after-milliseconds ours 60000",
            "sentinel failover-timeout ours 60000",
            f"requirepass {PASSWORD}-sentinel",
            program="redis-sentinel",
        )
        files = folder / "password", folder / "sentinel-password"
        for file, end in zip(files, ("", "-sentinel"), strict=True):
            file.write_text(f"{PASSWORD}{end}")
        self.settings = {
            "password_file": str(files[0]),
            "sentinel_password_file": str(files[1]),
        }
        self.url = f"redis+sentinel://{HOST}:{free_port()},{HOST}:{self.sentinel.port}/ours"

    async def start(self) -> None:
        await self.replica.start(password=PASSWORD)
        await self.sentinel.start(password=f"{PASSWORD}-sentinel")

        async def is_known() -> bool:
            return len(await self.of_sentinel("REPLICAS", "ours")) == 1

        async def follows() -> bool:
            role = await said(self.replica, "ROLE", password=PASSWORD)
            return bool(role[3] == b"connected")

        await until_so(is_known)
        await until_so(follows)

    async def of_sentinel(self, *command: str) -> Any:  # noqa: ANN401 - redis-py's
        return await said(self.sentinel, "SENTINEL", *command, password=f"{PASSWORD}-sentinel")

    def kill(self) -> None:
        for each in (self.primary, self.replica, self.sentinel):
            each.kill()


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    options = (
        "--requirepass",
        PASSWORD,
        "--masterauth",
        PASSWORD,
        "--repl-diskless-sync-delay",
        "0",
    )
    async with redis_server(tmp_path, *options, password=PASSWORD) as primary:
        watched = Watched(tmp_path, primary)
        try:
            await watched.start()
            yield watched
        finally:
            watched.kill()


@pytest.mark.e2e
async def test_failover(watched: Watched) -> None:
    async with stores_at(watched.url, 2, **watched.settings) as stores:
        told = Told(stores[1])
        await agrees(*stores)
        seen = await stores[0].read()
        assert 1 == await said(watched.primary, "WAIT", 1, 0, password=PASSWORD)
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
    for url, settings, problem in (
        (watched.url.replace("/ours", "/theirs"), watched.settings, "watches no theirs"),
        (
            watched.url,
            {"password_file": watched.settings["password_file"]},
            "Redis refuses user or password: .*; see fleet.sentinelPasswordFile",
        ),
        (f"redis+sentinel://{HOST}:{free_port()}/ours", {}, "Redis does not answer: "),
        (
            f"redis+sentinel://{HOST}:{watched.primary.port}/ours",
            {"sentinel_password_file": watched.settings["password_file"]},
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
