"""Connections to Redis: users, passwords and TLS."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from apfproxy.base.errors import OperatorError
from apfproxy.fleet.redis_store import Servers, password_of
from apfproxy.fleet.store import StoreError
from apfproxy.settings import FleetSettings
from apfproxy.settings.store_address import store_address
from loadtest.certificates import Authority
from tests.end_to_end.programs import free_port
from tests.fleet.agreement import Told, agrees
from tests.fleet.redis_servers import HOST, RedisServer, redis_server, until_so
from tests.fleet.test_redis_store import store_at, stores_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = Path(__file__).parents[2] / "docs" / "fleet-stores.md"
SECRET = "s3cr3t s3cr3t"  # noqa: S105 - of nobody

COMMANDS = (
    *("+evalsha", "+eval", "+hstrlen", "+hmget", "+hget", "+hset", "+expire", "+publish"),
    *("+subscribe", "+unsubscribe", "+ping", "+role", "+asking", "+cluster|slots", "+command"),
    "+select",
)
"""What a member's user has to be permitted."""

ACL = ("~apfproxy:*", "resetchannels", "&apfproxy:*", "-@all", *COMMANDS)


def test_documented_rights() -> None:
    """The page has the rights that the tests below give."""
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
    """Whoever is refused is told so, and no message has the password."""
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
    """What is wrong is said in one line, and without the password."""
    fleet = FleetSettings(password_file=str(password_file))

    assert shown == Servers(store_address("redis://a"), fleet).explained(error)


class Tls:
    def __init__(self, folder: Path, **server: Any) -> None:  # noqa: ANN401 - `issue`'s
        self.folder = folder
        self.port = free_port()
        authority = Authority("ours")
        authority.issue("server", usage="server", **server).write(folder, "server")
        authority.issue("member", usage="client").write(folder, "member")
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(authority.pem)
        self.other = folder / "other.crt"
        self.other.write_bytes(Authority("another").pem)

    @property
    def options(self) -> tuple[str, ...]:
        files = ("server.crt", "server.key", "ca.crt")
        cert, key, ca = (str(self.folder / each) for each in files)
        return (
            *("--tls-port", str(self.port), "--tls-cert-file", cert, "--tls-key-file", key),
            *("--tls-ca-cert-file", ca, "--tls-auth-clients", "yes"),
        )

    @property
    def settings(self) -> dict[str, str]:
        return {
            "ca_file": str(self.ca),
            "certificate_file": str(self.folder / "member.crt"),
            "key_file": str(self.folder / "member.key"),
        }

    @property
    def url(self) -> str:
        return f"rediss://{HOST}:{self.port}"


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


async def test_cluster_with_tls_and_least_rights(tmp_path: Path) -> None:
    """Each connection to a node has TLS by the given files, and the user's few rights."""
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
    """All but the end of the line is a password; a file of no use is an error by its name."""
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
