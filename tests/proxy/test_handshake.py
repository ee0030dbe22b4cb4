"""TLS towards clients: what passes the gate, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.base import sockets
from apfproxy.base.faults import Part
from apfproxy.base.tls_files import Handshake
from apfproxy.proxy import handshake as handshake_module
from apfproxy.proxy.counters import HandshakeFailure, Refusal
from apfproxy.proxy.handshake import (
    TLS_BUFFER_BYTES,
    failure_of,
    map_tls_buffers,
)
from apfproxy.settings import AuthenticationSettings, DownstreamTlsSettings, LimitSettings
from loadtest.certificates import Authority
from tests.end_to_end.peer import WAIT_S, begin
from tests.end_to_end.scene import GET, OK, Scene, Setup, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from apfproxy.proxy.counters import ProxyCounters

LARGE = b"x" * 300_000
SMALL_BODY = LimitSettings(max_connections=300, max_body_bytes=1000)


@dataclass
class Site:
    """A proxy that speaks TLS, and the authority that signs all certificates."""

    scene: Scene
    authority: Authority

    @property
    def counters(self) -> ProxyCounters:
        return self.scene.process.cluster.counters

    def trusting(self, maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        context.maximum_version = maximum
        return context

    async def connect(
        self, context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.scene.process.port, ssl=context or self.trusting()
        )

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.scene.process.port)

    def failures(self) -> dict[str, int]:
        return {
            reason.value: number
            for reason, number in self.counters.listener.handshake_failures.items()
            if number
        }


@contextlib.asynccontextmanager
async def tls_site(
    folder: Path,
    setup: Setup | None = None,
    *,
    handshake_timeout_s: float = WAIT_S,
    requires_certificate: bool = False,
) -> AsyncIterator[Site]:
    authority = Authority("site")
    certificate, key = authority.issue("server", usage="server").write(folder, "server")
    setup = setup or Setup()
    tls = DownstreamTlsSettings(
        certificate_file=certificate,
        key_file=key,
        handshake_timeout_s=handshake_timeout_s,
        require_client_certificate=requires_certificate,
    )
    authentication = AuthenticationSettings(
        client_ca_file=authority.write(folder) if requires_certificate else None
    )
    setup = replace(
        setup, downstream=structs.replace(setup.downstream, tls=tls), authentication=authentication
    )
    async with running(setup) as scene:
        yield Site(scene, authority)


def reconnect(
    site: Site, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLSession | None:
    """Ask once on a new connection with a session: blocking, for a thread; the session after."""
    with (
        socket.create_connection(("127.0.0.1", site.scene.process.port or 0), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(1)
        return client.session


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(WAIT_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return int(head.split(b" ")[1]), await reader.readexactly(length)


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """All that comes, up to an end that TLS announces."""
    async with asyncio.timeout(WAIT_S):
        return await reader.read()


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@on_uvloop
async def test_serves_over_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Requests come through one after the other; the connection counts once."""
    async with tls_site(tmp_path) as site:
        reader, writer = await site.connect(site.trusting(version))
        for _ in range(2):
            writer.write(GET)
            await (await site.scene.upstream.next_request()).peer.send(OK)
            assert (200, b"ok") == await answer_of(reader)

        assert (1, 1) == (
            site.counters.listener.connections_accepted,
            site.counters.listener.connections_open,
        )
        assert 1 == site.scene.process.server.connection_count
        await close(writer)
        await until(lambda: not site.counters.listener.connections_open)
    assert {} == site.failures()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", HandshakeFailure.PROTOCOL, id="plain-http"),
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\xff" * 99, HandshakeFailure.PROTOCOL, id="junk"),
        pytest.param(b"", HandshakeFailure.CLOSED, id="nothing"),
        pytest.param(b"\x16\x03\x01\x00\xc8", HandshakeFailure.CLOSED, id="a-start"),
    ],
)
@on_uvloop
async def test_handshake_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, reason: HandshakeFailure
) -> None:
    """It is counted by its reason and forgotten; nothing is logged."""
    async with tls_site(tmp_path) as site:
        _, writer = await site.plain()
        writer.write(sent)
        if reason is HandshakeFailure.CLOSED:
            await until(lambda: site.counters.listener.connections_open)
            writer.write_eof()
        await until(site.failures)

        assert {reason.value: 1} == site.failures()
        await until(lambda: not site.scene.process.server.connection_count)
        assert 0 == site.counters.listener.connections_open
        await close(writer)
    assert [] == caplog.messages


@on_uvloop
async def test_client_without_its_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_site(tmp_path, requires_certificate=True) as site:
        caplog.clear()  # of what is said of the settings
        reader, writer = await site.connect()
        with contextlib.suppress(OSError):  # no event loop sends the alert that would say why
            assert b"" == await end_of(reader)
        await until(site.failures)

        assert {"certificate": 1} == site.failures()
        await close(writer)
    assert [] == caplog.messages


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x00\xc8"], ids=["silent", "started"])
@on_uvloop
async def test_handshake_that_stalls_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """It counts as a connection until it has taken too long."""
    async with tls_site(tmp_path, handshake_timeout_s=0.05) as site:
        reader, writer = await site.plain()
        writer.write(sent)
        await until(lambda: site.counters.listener.connections_open)
        assert b"" == await end_of(reader)

        assert {"timeout": 1} == site.failures()
        await until(lambda: not site.counters.listener.connections_open)
        await close(writer)
    assert [] == caplog.messages


@on_uvloop
async def test_handshakes_count_towards_the_limit(tmp_path: Path) -> None:
    """One too many is cut before any of it is computed."""
    setup = Setup()
    downstream = structs.replace(setup.downstream, limits=LimitSettings(max_connections=1))
    async with tls_site(tmp_path, replace(setup, downstream=downstream)) as site:
        _, first = await site.plain()
        await until(lambda: site.counters.listener.connections_open)
        with pytest.raises(ConnectionError):
            await site.connect()

        assert 1 == site.counters.listener.connections_refused[Refusal.CONNECTIONS]
        await close(first)
        await until(lambda: not site.counters.listener.connections_open)
        _, third = await site.connect()
        await close(third)


@on_uvloop
async def test_stop_ends_handshakes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All at once, and they are no failures of their own."""
    async with tls_site(tmp_path) as site:
        clients = [await site.plain() for _ in range(3)]
        await until(lambda: len(clients) == site.counters.listener.connections_open)
        await site.scene.process.server.stop()

        assert 0 == site.scene.process.server.connection_count
        assert 0 == site.counters.listener.connections_open
        for reader, writer in clients:
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await end_of(reader)
            await close(writer)
    assert [] == caplog.messages


@on_uvloop
async def test_drain_waits_for_handshakes(tmp_path: Path) -> None:
    async with tls_site(tmp_path) as site:
        connecting = begin(site.connect())
        await asyncio.sleep(0)
        draining = begin(site.scene.process.server.drain())
        reader, writer = await connecting
        writer.write(GET)
        await (await site.scene.upstream.next_request()).peer.send(OK)

        assert (200, b"ok") == await answer_of(reader)
        assert b"" == await end_of(reader)
        await close(writer)
        async with asyncio.timeout(WAIT_S):
            await draining


@on_uvloop
async def test_last_answer_ends_with_the_end_of_tls(tmp_path: Path) -> None:
    """A client that asked for it can tell that nothing is missing."""
    async with tls_site(tmp_path) as site:
        reader, writer = await site.connect()
        writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        arrival = await site.scene.upstream.next_request()
        await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE))
        await arrival.peer.send(LARGE)

        assert (await end_of(reader)).endswith(b"\r\n\r\n" + LARGE)
        await close(writer)


@on_uvloop
async def test_refusal_reaches_a_client_that_sends_on(tmp_path: Path) -> None:
    """The rest of what it sends is read, since a reset would overtake the answer."""
    setup = Setup()
    downstream = structs.replace(setup.downstream, limits=SMALL_BODY)
    async with tls_site(tmp_path, replace(setup, downstream=downstream)) as site:
        reader, writer = await site.connect()
        writer.write(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(LARGE))
        writer.write(LARGE)

        assert 413 == (await answer_of(reader))[0]
        await close(writer)
        await until(lambda: not site.counters.listener.connections_open)


@on_uvloop
async def test_no_descriptor_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Accepting pauses, since the connection would be offered again and again; said once."""
    monkeypatch.setattr(sockets, "PAUSE_S", 0.01)
    full = OSError(errno.EMFILE, "Too many open files")
    errors = [full, full, OSError(errno.ECONNABORTED, "gone")]
    accept = socket.socket.accept

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop(0)
        return accept(listener)

    async with tls_site(tmp_path) as site:
        monkeypatch.setattr(socket.socket, "accept", failing)
        _, writer = await site.connect()
        await close(writer)

    assert ["no connection can be accepted: Too many open files"] == caplog.messages


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionAbortedError("it took too long"), HandshakeFailure.TIMEOUT),
        (ConnectionResetError(), HandshakeFailure.CLOSED),
        (BrokenPipeError(), HandshakeFailure.CLOSED),
        (ssl.SSLError(1, "no reason"), HandshakeFailure.PROTOCOL),
        (ssl.SSLEOFError(8, "EOF"), HandshakeFailure.CLOSED),
        (ssl.SSLCertVerificationError(1, "bad"), HandshakeFailure.CERTIFICATE),
    ],
)
def test_failure_of(error: OSError, reason: HandshakeFailure) -> None:
    assert reason is failure_of(error)


@pytest.mark.parametrize(
    ("has_options", "expected"),
    [
        pytest.param(True, {-3: TLS_BUFFER_BYTES, -1: 2 * TLS_BUFFER_BYTES}, id="glibc"),
        pytest.param(False, {}, id="other-library"),
    ],
)
def test_buffers_are_mapped_where_the_allocator_can(
    monkeypatch: pytest.MonkeyPatch, has_options: bool, expected: dict[int, int]
) -> None:
    options: dict[int, int] = {}
    library = SimpleNamespace(mallopt=options.__setitem__) if has_options else SimpleNamespace()
    monkeypatch.setattr("ctypes.CDLL", lambda _: library)

    map_tls_buffers()

    assert expected == options


@on_uvloop
async def test_an_error_while_accepting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the client that it came up with; the others are accepted."""
    async with tls_site(tmp_path) as site:
        site.scene.expects_errors = True
        with monkeypatch.context() as patch:
            patch.setattr(handshake_module, "folded", lambda _address: 1 // 0)
            reader, writer = await site.plain()
            assert b"" == await end_of(reader)
        await close(writer)
        _, writer = await site.connect()
        await close(writer)
        totals = site.scene.process.faults.totals

        assert {Part.LISTENER: 1} == {part: total for part, total in totals.items() if total}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("asks_for_certificate", [False, True])
def test_sessions(tmp_path: Path, version: ssl.TLSVersion, *, asks_for_certificate: bool) -> None:
    """A client takes up a session where it is asked for no certificate, until the next reload."""

    @on_uvloop
    async def run() -> None:
        async with tls_site(tmp_path, requires_certificate=asks_for_certificate) as site:
            site.scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
            context = site.trusting(version)
            if asks_for_certificate:
                own = site.authority.issue("jane").write(tmp_path, "jane")
                context.load_cert_chain(*own)
            counted = site.counters.listener.handshakes
            session = await asyncio.to_thread(reconnect, site, context, None)
            await asyncio.to_thread(reconnect, site, context, session)
            before = dict(counted)
            server_tls = site.scene.process.cluster.identities.server_tls
            assert server_tls is not None
            server_tls.load()
            await asyncio.to_thread(reconnect, site, context, session)

            resumed = 0 if asks_for_certificate else 1
            assert {Handshake.FULL: 2 - resumed, Handshake.RESUMED: resumed} == before
            assert {Handshake.FULL: 3 - resumed, Handshake.RESUMED: resumed} == counted

    run()
