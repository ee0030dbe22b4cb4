"""The pool's connections over TLS, to an upstream at the other end of a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from apfproxy.base.tls_files import Handshake, TlsFile
from apfproxy.proxy.tls import ServerTls, peer_certificates
from apfproxy.settings import Address, DownstreamTlsSettings, UpstreamSettings, UpstreamTlsSettings
from apfproxy.upstream.counters import PoolCounters, UpstreamCounters, UpstreamFailure
from apfproxy.upstream.pool import Pool
from apfproxy.upstream.tls import MAX_AGE_S, ClientTls, SessionContext
from loadtest.certificates import Authority
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until
from tests.upstream.test_endpoint import Sink
from tests.upstream.test_pool import Waiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


NOW = dt.datetime.now(dt.UTC)
SERVERS, PROXIES = Authority("servers"), Authority("proxies")
FIRST, SECOND = PROXIES.issue("first"), PROXIES.issue("second")


async def ask(pool: Pool) -> str:
    """The response to a request, or status and reason of a failure."""
    connection = pool.acquire()
    if connection is None:
        waiter = Waiter()
        pool.wait(waiter)
        await until(lambda: waiter.connection is not None or waiter.failure is not None)
        if waiter.failure is not None:
            return "{} {}".format(*waiter.failure)
        connection = waiter.its
    sink = Sink()
    connection.send(sink, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: sink.told[-1:] == ["end"])
    pool.release(connection, 1)
    return sink.body.decode()


def asking(pool: Pool, count: int) -> list[asyncio.Future[str]]:
    return [asyncio.ensure_future(ask(pool)) for _ in range(count)]


class Upstream(asyncio.Protocol):
    """Answers each request with the number of its connection and who the client is."""

    def __init__(self, opened: list[Upstream]) -> None:
        opened.append(self)
        self._number = len(opened)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        leaf, _ = peer_certificates(transport)
        self._client = {FIRST.der: b"first", SECOND.der: b"second", None: b"nobody"}[leaf]

    def data_received(self, data: bytes) -> None:
        assert data.endswith(b"\r\n\r\n")
        body = b"%d %b" % (self._number, self._client)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )


@dataclass
class Scene:
    """An upstream and a pool of connections to it."""

    folder: Path
    pool: Pool
    tls: ClientTls
    opened: list[Upstream]
    counters: UpstreamCounters
    settings: UpstreamSettings

    async def ask(self) -> str:
        return await ask(self.pool)


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    *,
    server: str = "good",
    name: str | None = None,
    ca: Authority = SERVERS,
    asks_for_certificates: bool = True,
) -> AsyncIterator[Scene]:
    expired = NOW - dt.timedelta(hours=1) if server == "expired" else None
    certificate, key = SERVERS.issue("s", usage="server", not_after=expired).write(folder, "s")
    server_tls = ServerTls(
        DownstreamTlsSettings(certificate_file=certificate, key_file=key),
        (TlsFile("cas", PROXIES.write(folder, "proxies")),) if asks_for_certificates else (),
    )
    server_tls.load()
    certificate, key = FIRST.write(folder, "own")
    client_tls = ClientTls(
        UpstreamTlsSettings(
            ca_file=ca.write(folder, "servers"),
            certificate_file=certificate,
            key_file=key,
            server_name=name,
        )
    )
    client_tls.load()
    opened: list[Upstream] = []
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: Upstream(opened), "127.0.0.1", 0, ssl=server_tls.context
    )
    port = listener.sockets[0].getsockname()[1]
    counters = PoolCounters()
    settings = UpstreamSettings(
        url=Address(host="127.0.0.1", port=port, is_tls=True), max_connections=4
    )
    pool = Pool(settings, counters, tls=client_tls)
    try:
        yield Scene(folder, pool, client_tls, opened, pool.endpoints[0].counters, settings)
    finally:
        pool.close()
        listener.close()
        await listener.wait_closed()


@on_uvloop
async def test_renewal_under_load_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        await asyncio.gather(*asking(scene.pool, 4))
        under_way = asking(scene.pool, 20)
        await asyncio.sleep(0)
        at_once = len(under_way) - scene.pool.waiting_count
        SECOND.write(scene.folder, "own")
        scene.tls.load()
        scene.pool.renew()
        later = asking(scene.pool, 20)
        before = {(await each).split()[1] for each in under_way[:at_once]}
        after = {(await each).split()[1] for each in (*under_way[at_once:], *later)}

        assert ({"first"}, {"second"}) == (before, after)
        assert 4 >= scene.pool.open_count


def kinds(scene: Scene) -> tuple[int, int]:
    counted = scene.pool._counters.handshakes  # noqa: SLF001  a scrape reads the same
    return counted[Handshake.FULL], counted[Handshake.RESUMED]


@on_uvloop
async def test_sessions_are_taken_up(tmp_path: Path) -> None:
    async with running(tmp_path, asks_for_certificates=False) as scene:
        await scene.ask()
        held = scene.pool.acquire()
        assert held is not None
        await scene.ask()
        scene.pool.release(held, 1)
        beside = kinds(scene)
        scene.pool.close_idle(1)
        assert 0 == scene.pool.open_count
        await scene.ask()

        assert ((1, 1), (1, 2)) == (beside, kinds(scene))


@on_uvloop
async def test_reload_ends_sessions(tmp_path: Path) -> None:
    async with running(tmp_path, asks_for_certificates=False) as scene:
        await scene.ask()
        scene.tls.load()
        scene.pool.renew()
        await scene.ask()

        assert (2, 0) == kinds(scene)


@on_uvloop
async def test_failed_handshake_ends_sessions(tmp_path: Path) -> None:
    async with running(tmp_path, asks_for_certificates=False) as scene:
        await scene.ask()
        held = scene.pool.acquire()
        settings = scene.settings
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            other = Address(host="127.0.0.1", port=port, is_tls=True)
            scene.pool.configure(replace(settings, url=other), scene.tls)
            asking = asyncio.create_task(scene.ask())
            listener.setblocking(False)
            client, _ = await asyncio.get_running_loop().sock_accept(listener)
            client.close()
            refused = await asking
        scene.pool.configure(settings, scene.tls)
        await scene.ask()

        assert held is not None
        assert refused.startswith("502 ")
        assert (2, 0) == kinds(scene)


@pytest.mark.parametrize(
    ("server", "name", "ca", "problem", "setting"),
    [
        pytest.param(
            *("good", None, PROXIES),
            *("unable to get local issuer", "upstream.tls.caFile"),
            id="other-ca",
        ),
        pytest.param(
            *("good", "example.org", SERVERS),
            *("Hostname mismatch", "upstream.tls.serverName"),
            id="other-name",
        ),
        pytest.param(
            *("expired", None, SERVERS),
            *("certificate has expired", "certificate has expired"),
            id="expired",
        ),
    ],
)
def test_certificate_that_is_no_good(
    tmp_path: Path, server: str, name: str | None, ca: Authority, problem: str, setting: str
) -> None:

    @on_uvloop
    async def ask() -> None:
        async with running(tmp_path, server=server, name=name, ca=ca) as scene:
            answer = await scene.ask()

        assert answer.startswith("502 the upstream's certificate is not valid: ")
        assert problem in answer
        assert 1 == scene.counters.failures[UpstreamFailure.TLS]
        assert scene.counters.last_problem.startswith(f"certificate verify failed: {problem}")
        assert scene.counters.last_problem.endswith(setting)

    ask()


@on_uvloop
async def test_handshake_that_stalls(tmp_path: Path) -> None:
    client_tls = ClientTls(
        UpstreamTlsSettings(ca_file=SERVERS.write(tmp_path), handshake_timeout_s=0.001)
    )
    client_tls.load()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(host="127.0.0.1", port=listener.getsockname()[1], is_tls=True)
        pool = Pool(UpstreamSettings(url=address), PoolCounters(), tls=client_tls)
        answer = await ask(pool)

    assert (
        "504 no TLS handshake with the upstream within 0.001 s (upstream.tls.handshakeTimeout)"
        == answer
    )


@on_uvloop
async def test_upstream_that_speaks_no_tls(tmp_path: Path) -> None:
    client_tls = ClientTls(UpstreamTlsSettings(ca_file=SERVERS.write(tmp_path)))
    client_tls.load()

    async def answer_plainly(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_plainly, "127.0.0.1", 0) as listener:
        address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1], is_tls=True)
        pool = Pool(UpstreamSettings(url=address), PoolCounters(), tls=client_tls)
        answer = await ask(pool)

    assert answer.startswith("502 no TLS with the upstream: ")


NOW_S = 1_700_000_000.0


def text_of(unix_s: float) -> str:
    return dt.datetime.fromtimestamp(unix_s, dt.UTC).strftime("%b %d %H:%M:%S %Y GMT")


def transport_of(
    context: object,
    *,
    session: object,
    valid_until_s: float = NOW_S + 10 * MAX_AGE_S,
    is_resumed: bool = False,
) -> asyncio.BaseTransport:
    tls = SimpleNamespace(
        context=context,
        session=session,
        session_reused=is_resumed,
        getpeercert=lambda: {"notAfter": text_of(valid_until_s)},
    )
    return asyncio.BaseTransport({"ssl_object": tls})


def session_of(*, begun_s: float = NOW_S, has_ticket: bool = True) -> SimpleNamespace:
    return SimpleNamespace(time=begun_s, has_ticket=has_ticket)


def remembered(context: SessionContext) -> object:
    return context._session  # noqa: SLF001  OpenSSL takes no session but its own


@pytest.fixture
def context() -> SessionContext:
    return SessionContext(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def test_whole_handshake_is_remembered_for_an_hour(context: SessionContext) -> None:
    session = session_of()
    context.remember(transport_of(context.shared, session=session), NOW_S)
    assert session is remembered(context)
    context.expire(NOW_S + MAX_AGE_S - 1)
    assert session is remembered(context)
    context.expire(NOW_S + MAX_AGE_S)

    assert None is remembered(context)


def test_certificate_that_expires_ends_its_session(context: SessionContext) -> None:
    connection = transport_of(context.shared, session=session_of(), valid_until_s=NOW_S + 5)
    context.remember(connection, NOW_S + 4)
    assert None is not remembered(context)
    context.expire(NOW_S + 5)

    assert None is remembered(context)


def test_failed_handshake_ends_all_sessions_before(context: SessionContext) -> None:
    before, later = session_of(), session_of(begun_s=NOW_S + 2)
    context.remember(transport_of(context.shared, session=before), NOW_S)
    context.forget(NOW_S + 1)
    assert None is remembered(context)
    context.remember(transport_of(context.shared, session=before), NOW_S + 2)
    assert None is remembered(context)
    context.remember(transport_of(context.shared, session=later), NOW_S + 2)

    assert later is remembered(context)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"session": None}, id="none"),
        pytest.param({"session": session_of(has_ticket=False)}, id="no-ticket"),
        pytest.param({"session": session_of(begun_s=NOW_S - MAX_AGE_S)}, id="old"),
        pytest.param({"session": session_of(), "is_resumed": True}, id="resumed"),
        pytest.param({"session": session_of(), "context": None}, id="other-context"),
    ],
)
def test_what_is_not_remembered(context: SessionContext, changed: dict[str, Any]) -> None:
    arguments = {"context": context.shared, **changed}
    context.remember(transport_of(**arguments), NOW_S)

    assert None is remembered(context)
