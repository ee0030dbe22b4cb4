"""TLS towards clients: what passes the gate; clients that leave while nothing is read."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec import structs

from apfproxy.base import sockets
from apfproxy.base.faults import Part
from apfproxy.base.sockets import Disconnects
from apfproxy.base.tls_files import Handshake
from apfproxy.proxy import handshake as handshake_module
from apfproxy.proxy.counters import Refusal
from apfproxy.settings import AuthenticationSettings, DownstreamTlsSettings, LimitSettings
from tests.end_to_end.peer import WAIT_S, begin
from tests.end_to_end.scene import GET, NARROW, OK, Scene, Setup, on_uvloop, running
from tests.end_to_end.secure_peer import SecurePeer, client_context
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from apfproxy.proxy.counters import ProxyCounters
    from tests.end_to_end.peer import Peer


@dataclass
class Site:
    scene: Scene
    authority: Authority

    @property
    def counters(self) -> ProxyCounters:
        return self.scene.process.cluster.counters

    def trusting(self, maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        context.maximum_version = maximum
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.scene.process.port, ssl=self.trusting()
        )

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.scene.process.port)

    async def until_open(self, count: int) -> None:
        await until(lambda: self.counters.listener.connections_open == count)

    def failures(self) -> dict[str, int]:
        found = self.counters.listener.handshake_failures
        return {reason.value: number for reason, number in found.items() if number}


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
    address = "127.0.0.1", site.scene.process.port or 0
    with (
        socket.create_connection(address, WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(1)
        return client.session


async def end_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(WAIT_S):
        return await reader.read()


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@on_uvloop
async def test_handshakes_that_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_site(tmp_path) as site:
        for sent, is_end in (
            *((b"GET / HTTP/1.1\r\n\r\n", False), (b"\x16\x03\x01\xff\xff" + b"\xff" * 99, False)),
            *((b"", True), (b"\x16\x03\x01\x00\xc8", True)),
        ):
            _, writer = await site.plain()
            writer.write(sent)
            if is_end:
                await site.until_open(1)
                writer.write_eof()
            await until(lambda: not site.scene.process.server.connection_count)
            await close(writer)
        await site.until_open(0)

        assert {"protocol": 2, "closed": 2} == site.failures()
    assert [] == caplog.messages


@on_uvloop
async def test_handshake_that_stalls_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_site(tmp_path, handshake_timeout_s=0.05) as site:
        reader, writer = await site.plain()
        writer.write(b"\x16\x03\x01\x00\xc8")
        await site.until_open(1)
        assert b"" == await end_of(reader)

        assert {"timeout": 1} == site.failures()
        await site.until_open(0)
        await close(writer)
    assert [] == caplog.messages


@on_uvloop
async def test_handshakes_count_towards_the_limit(tmp_path: Path) -> None:
    setup = Setup().with_downstream(limits=LimitSettings(max_connections=1))
    async with tls_site(tmp_path, setup) as site:
        _, first = await site.plain()
        await site.until_open(1)
        with pytest.raises(ConnectionError):
            await site.connect()

        assert 1 == site.counters.listener.connections_refused[Refusal.CONNECTIONS]
        await close(first)
        await site.until_open(0)
        _, third = await site.connect()
        await close(third)


@on_uvloop
async def test_stop_ends_handshakes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_site(tmp_path) as site:
        clients = [await site.plain() for _ in range(3)]
        await site.until_open(3)
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
        assert (await end_of(reader)).endswith(b"\r\n\r\nok")
        await close(writer)
        async with asyncio.timeout(WAIT_S):
            await draining


@on_uvloop
async def test_no_descriptor_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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


@on_uvloop
async def test_an_error_while_accepting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
@on_uvloop
async def test_sessions(
    tmp_path: Path, version: ssl.TLSVersion, *, asks_for_certificate: bool
) -> None:
    async with tls_site(tmp_path, requires_certificate=asks_for_certificate) as site:
        site.scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        context = site.trusting(version)
        if asks_for_certificate:
            context.load_cert_chain(*site.authority.issue("jane").write(tmp_path, "jane"))
        session = await asyncio.to_thread(reconnect, site, context, None)
        await asyncio.to_thread(reconnect, site, context, session)
        server_tls = site.scene.process.cluster.identities.server_tls
        assert server_tls is not None
        server_tls.load()
        await asyncio.to_thread(reconnect, site, context, session)

        resumed = 0 if asks_for_certificate else 1
        expected = {Handshake.FULL: 3 - resumed, Handshake.RESUMED: resumed}
        assert expected == site.counters.listener.handshakes


POST = b"POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3000000\r\n\r\n"


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("way", ["close", "reset", "end_sending"])
@on_uvloop
async def test_queued_request(way: str, *, is_tls: bool, tmp_path: Path) -> None:
    authority = Authority("ca")
    setup = Setup(objects=NARROW, seats=1)
    if is_tls:
        certificate, key = authority.issue("server", usage="server").write(tmp_path, "server")
        tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
        setup = replace(setup, downstream=structs.replace(setup.downstream, tls=tls))
        way = way.replace("end_sending", "close")
    async with running(setup) as scene:
        queue_set = scene.level().queue_set
        holder, client = await scene.connect(), await scene.connect()
        if is_tls:
            peers = [
                await SecurePeer.of(each, client_context(authority)) for each in (holder, client)
            ]
            holder, client = cast("list[Peer]", peers)
        await holder.send(GET)
        await scene.upstream.next_request()
        # More than is held of a client; a TLS transport reads half a mebibyte in advance.
        await client.send(POST + bytes(1_000_000 if is_tls else 100_000))
        await until(lambda: queue_set.requests_waiting == 1)

        getattr(client, way)()

        await until(lambda: queue_set.requests_waiting == 0)
        assert 1 == scene.process.cluster.counters.client_aborts


class Client:
    """A transport that is not read, and its other end."""

    def __init__(self) -> None:
        self.socket, self.other = socket.socketpair()
        self.disconnects = 0

    def get_extra_info(self, name: str) -> object:
        return {"socket": self.socket}[name]

    def on_disconnect(self) -> None:
        self.disconnects += 1


@pytest.fixture
def clients() -> Iterator[tuple[Any, Any]]:
    both = Client(), Client()
    yield both
    for client in both:
        client.socket.close()
        client.other.close()


@pytest.mark.parametrize("has_another", [True, False], ids=["has-another-by-now", "is-closed"])
def test_a_descriptor(clients: tuple[Any, Any], *, has_another: bool) -> None:
    readers: dict[int, Any] = {}
    loop = SimpleNamespace(add_reader=readers.__setitem__, remove_reader=readers.__delitem__)
    disconnects = Disconnects(cast("asyncio.AbstractEventLoop", loop))
    old, new = clients
    disconnects.watch(old, old.on_disconnect)
    descriptor = old.socket.fileno()
    old.socket.close()
    if has_another:
        os.dup2(new.socket.fileno(), descriptor)
        new.socket.close()
        new.socket = socket.socket(fileno=descriptor)
    else:
        disconnects.forget(old)
        disconnects.watch(old, old.on_disconnect)
    disconnects.watch(new, new.on_disconnect)
    if has_another:
        disconnects.forget(old)
    new.other.close()
    for callback in list(readers.values()):
        callback()

    assert (0, 1) == (old.disconnects, new.disconnects)
    disconnects.close()
    assert {} == readers
