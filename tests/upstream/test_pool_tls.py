"""The pool's connections over TLS, to an upstream at the other end of a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from apfproxy.base.tls_files import Handshake, TlsFile
from apfproxy.proxy.tls import ServerTls, peer_certificates
from apfproxy.settings import Address, DownstreamTlsSettings, UpstreamSettings, UpstreamTlsSettings
from apfproxy.upstream.connecting import ConnectTimeoutError, connected
from apfproxy.upstream.counters import PoolCounters, UpstreamCounters, UpstreamFailure
from apfproxy.upstream.pool import Pool
from apfproxy.upstream.tls import MAX_AGE_S, ClientTls, SessionContext
from tests.end_to_end.peer import WAIT_S, begin
from tests.end_to_end.scene import on_uvloop
from tests.support.certificates import Authority
from tests.support.clocks import until
from tests.upstream.test_endpoint import Sink
from tests.upstream.test_pool import Waiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


SERVERS, PROXIES = Authority("servers"), Authority("proxies")
FIRST, SECOND = PROXIES.issue("first"), PROXIES.issue("second")


class Upstream(asyncio.Protocol):
    """Responds to each request with the name in the client's certificate."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        leaf, _ = peer_certificates(transport)
        self._client = {FIRST.der: b"first", SECOND.der: b"second", None: b"nobody"}[leaf]

    def data_received(self, data: bytes) -> None:
        assert data.endswith(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self._client)
        self._transport.write(head + self._client)


@dataclass
class Scene:
    """An upstream and a pool of connections to it."""

    folder: Path
    pool: Pool
    tls: ClientTls
    counters: UpstreamCounters

    async def ask(self) -> str:
        """The response to a request, or status and reason of a failure."""
        connection = self.pool.acquire()
        if connection is None:
            waiter = Waiter()
            self.pool.wait(waiter)
            await until(lambda: waiter.connection is not None or waiter.failure is not None)
            if waiter.failure is not None:
                return "{} {}".format(*waiter.failure)
            connection = waiter.its
        sink = Sink()
        connection.send(sink, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: sink.told[-1:] == ["end"])
        self.pool.release(connection, 1)
        return sink.body.decode()

    def asking(self, count: int) -> list[asyncio.Future[str]]:
        return [asyncio.ensure_future(self.ask()) for _ in range(count)]

    @property
    def handshakes(self) -> tuple[int, int]:
        counted = self.pool._counters.handshakes  # noqa: SLF001  a scrape reads the same
        return counted[Handshake.FULL], counted[Handshake.RESUMED]


@contextlib.asynccontextmanager
async def running(
    folder: Path, *, name: str | None = None, asks_for_certificates: bool = True
) -> AsyncIterator[Scene]:
    certificate, key = SERVERS.issue("s", usage="server").write(folder, "s")
    server_tls = ServerTls(
        DownstreamTlsSettings(certificate_file=certificate, key_file=key),
        (TlsFile("cas", PROXIES.write(folder, "proxies")),) if asks_for_certificates else (),
    )
    server_tls.load()
    certificate, key = FIRST.write(folder, "own")
    settings = UpstreamTlsSettings(certificate_file=certificate, key_file=key, server_name=name)
    client_tls = client_tls_of(folder, settings)
    loop = asyncio.get_running_loop()
    async with await loop.create_server(
        Upstream, "127.0.0.1", 0, ssl=server_tls.context
    ) as listener:
        url = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1], is_tls=True)
        pool = Pool(UpstreamSettings(url=url, max_connections=4), PoolCounters(), tls=client_tls)
        yield Scene(folder, pool, client_tls, pool.endpoints[0].counters)
        pool.close()


def client_tls_of(folder: Path, settings: UpstreamTlsSettings) -> ClientTls:
    tls = ClientTls(replace(settings, ca_file=SERVERS.write(folder, "servers")))
    tls.load()
    return tls


@on_uvloop
async def test_renewal_under_load_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        await asyncio.gather(*scene.asking(4))
        under_way = scene.asking(20)
        await asyncio.sleep(0)
        at_once = len(under_way) - scene.pool.waiting_count
        SECOND.write(scene.folder, "own")
        scene.tls.load()
        scene.pool.renew()
        later = scene.asking(20)
        before = {await each for each in under_way[:at_once]}
        after = {await each for each in (*under_way[at_once:], *later)}

        assert ({"first"}, {"second"}) == (before, after)
        assert 4 >= scene.pool.open_count


@on_uvloop
async def test_sessions_are_taken_up_until_the_files_are_loaded_again(tmp_path: Path) -> None:
    async with running(tmp_path, asks_for_certificates=False) as scene:
        await scene.ask()
        held = scene.pool.acquire()
        assert held is not None
        await scene.ask()
        scene.pool.release(held, 1)
        assert (1, 1) == scene.handshakes
        scene.pool.close_idle(1)
        assert 0 == scene.pool.open_count
        await scene.ask()
        assert (1, 2) == scene.handshakes
        scene.tls.load()
        scene.pool.renew()
        await scene.ask()

        assert (2, 2) == scene.handshakes


@on_uvloop
async def test_certificate_of_another_name(tmp_path: Path) -> None:
    async with running(tmp_path, name="example.org") as scene:
        answer = await scene.ask()

    assert answer.startswith("502 the upstream's certificate is not valid: Hostname mismatch")
    assert 1 == scene.counters.failures[UpstreamFailure.TLS]
    assert scene.counters.last_problem.endswith("; upstream.tls.serverName")


@pytest.mark.parametrize(("backlog", "error"), [(0, ConnectTimeoutError), (1, OSError)])
@on_uvloop
async def test_handshake_that_fails_ends_earlier_sessions(
    tmp_path: Path, backlog: int, error: type[Exception]
) -> None:
    tls = client_tls_of(tmp_path, UpstreamTlsSettings(handshake_timeout_s=5 if backlog else 0.001))
    sessions, protocol = SessionContext(tls.context), asyncio.BufferedProtocol()
    begun_s = time.time()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = Address(host="127.0.0.1", port=listener.getsockname()[1], is_tls=True)
        connecting = begin(connected(protocol, address, WAIT_S, tls, sessions, "a"))
        if backlog:
            client, _ = await asyncio.get_running_loop().sock_accept(listener)
            client.close()
        with pytest.raises(error):
            await connecting
    old = transport_of(
        tls.context, session=session_of(begun_s=begun_s), valid_until_s=begun_s + MAX_AGE_S
    )
    sessions.remember(old, time.time())

    assert None is remembered(sessions)


NOW_S = 1_700_000_000.0


def transport_of(
    context: object,
    *,
    session: object,
    valid_until_s: float = NOW_S + 10 * MAX_AGE_S,
    is_resumed: bool = False,
) -> asyncio.BaseTransport:
    expiry = dt.datetime.fromtimestamp(valid_until_s, dt.UTC).strftime("%b %d %H:%M:%S %Y GMT")
    tls = SimpleNamespace(
        context=context,
        session=session,
        session_reused=is_resumed,
        getpeercert=lambda: {"notAfter": expiry},
    )
    return asyncio.BaseTransport({"ssl_object": tls})


def session_of(*, begun_s: float = NOW_S, has_ticket: bool = True) -> SimpleNamespace:
    return SimpleNamespace(time=begun_s, has_ticket=has_ticket)


def remembered(context: SessionContext) -> object:
    return context._session  # noqa: SLF001  OpenSSL takes no session but its own


@pytest.fixture
def context() -> SessionContext:
    return SessionContext(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


@pytest.mark.parametrize(("valid_s", "most_s"), [(10 * MAX_AGE_S, MAX_AGE_S), (5, 5)])
def test_whole_handshake_is_remembered_for_an_hour_or_as_long_as_its_certificate(
    context: SessionContext, valid_s: float, most_s: float
) -> None:
    session = session_of()
    connection = transport_of(context.shared, session=session, valid_until_s=NOW_S + valid_s)
    context.remember(connection, NOW_S)
    context.expire(NOW_S + most_s - 1)
    assert session is remembered(context)
    context.expire(NOW_S + most_s)
    context.remember(connection, NOW_S + most_s)

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
