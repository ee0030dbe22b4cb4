"""A listener whose connections come about once their handshakes are through: PROXY headers and TLS.

1. A handshake counts as a connection, takes the certificate of the moment, and is cut if it stalls.
2. Where PROXY headers are wanted, a connection is no one's until its header is there: it counts
   within the limit of all connections, and then for the address that the header has.

3. A PROXY header (versions 1 and 2) stands before everything else, TLS included.  It is read to its
   last byte and no further.  What it is not for a client (LOCAL of a health check, UNKNOWN, another
   family) leaves the connection the address that it has; what else it carries is skipped.
   https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt

It accepts by itself since an event loop's own servers have one context for good, and since there is
no time between a connection and its handshake in which uvloop would not read.
"""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from apfproxy.base.address import address_from
from apfproxy.base.faults import Part, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.sockets import UNIX_PEER, Acceptor, folded, reset_socket
from apfproxy.base.tasks import spawn
from apfproxy.base.tls_files import handshake_of
from apfproxy.http.request_fields import is_among
from apfproxy.proxy.counters import HandshakeFailure, ProxyHeaderFailure, Refusal
from apfproxy.proxy.http1_connection import NEW, Http1Connection

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import ListenerContext
    from apfproxy.proxy.tls import ServerTls
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 30.0
"""For the client to take what is left, and to say that it saw the end; the loop's own default."""
TLS_BUFFER_BYTES = 256 * 1024
"""Allocated by uvloop for each TLS connection; a request fills the first page or so."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Holds what glibc's <malloc.h> calls them."""

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
TEXT: Final = b"PROXY "
"""The begin of version 1, whose shortest line is longer than the signature."""
MAX_LINE_BYTES: Final = 107
"""Bounds version 1, as its specification has it."""
HEAD_BYTES: Final = 16
MAX_REST_BYTES: Final = 4096
"""Bounds version 2 behind its head: addresses take 36 bytes, balancers add a few hundred."""
_VERSION, _LOCAL, _PROXY = 0x20, 0, 1
_ADDRESS_BYTES: Final = {0x1: 4, 0x2: 16}
_PORTS_BYTES: Final = 4
_STREAM, _UNSPECIFIED = 0x1, 0x0
_MAX_PORT: Final = 65535


class HandshakeListener:
    """Accepts connections, and shakes hands with those that are within the limits."""

    def __init__(
        self,
        shared: ListenerContext,
        router: ClusterRouter,
        settings: Settings,
        server_tls: ServerTls | None,
    ) -> None:
        self._shared = shared
        self._router = router
        self._server_tls = server_tls
        self._wants_headers = settings.downstream.proxy_protocol
        self._proxies = settings.downstream.trusted_proxies
        self._loop = shared.loop
        self.handshakes: set[asyncio.Task[None]] = set()
        self._log = RareLog(log, shared.clock.now_ns)
        self._acceptor = Acceptor(self._loop, self.take, shared.clock.now_ns)

    def configure(self, settings: Settings, server_tls: ServerTls | None) -> None:
        self._server_tls = server_tls
        self._proxies = settings.downstream.trusted_proxies

    @property
    def sockets(self) -> list[socket.socket]:
        return self._acceptor.sockets

    def listen(self, listeners: Iterable[socket.socket]) -> None:
        map_tls_buffers()
        self._acceptor.listen(listeners)

    def take(self, client: socket.socket) -> None:
        try:
            self._take(client)
        except Exception as error:  # noqa: BLE001  whatever it is, others wait to be accepted
            report(Part.LISTENER, error, "an error of the proxy itself: closed", loop=self._loop)
            client.close()

    def _take(self, client: socket.socket) -> None:
        try:
            address = folded(client.getpeername())
        except OSError:
            client.close()
            return
        client.setblocking(False)
        if self._wants_headers:
            self._take_from_proxy(client, address)
        elif self._server_tls is not None and self._is_admitted(client, address):
            self._go_about(self._shake_hands(client, self._server_tls, address), "TLS handshake")

    def _is_admitted(self, client: socket.socket, address: str) -> bool:
        if self._shared.limits.admit(address) is None:
            return True
        # There is no way to say why before the handshake, which is what costs most.
        reset_socket(client)
        client.close()
        return False

    def _go_about(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = spawn(work, name=name)
        self.handshakes.add(task)
        task.add_done_callback(self._on_done)

    def _take_from_proxy(self, client: socket.socket, proxy: str) -> None:
        if proxy != UNIX_PEER and not is_among(address_from(proxy), self._proxies):
            why = "it is not in downstream.trustedProxies"
            self._refuse(client, proxy, ProxyHeaderFailure.UNTRUSTED, why)
        elif not self._shared.limits.has_room(len(self.handshakes)):
            self._shared.counters.connections_refused[Refusal.CONNECTIONS] += 1
            reset_socket(client)
            client.close()
        else:
            self._go_about(self._read_header(client, proxy), "PROXY header")

    async def _read_header(self, client: socket.socket, proxy: str) -> None:
        within_s = self._shared.in_force.head_timeout_ns / 1e9
        try:
            async with asyncio.timeout(within_s):
                source = await read_source(self._loop, client)
        except ProxyHeaderError as error:
            self._refuse(client, proxy, ProxyHeaderFailure.MALFORMED, f"{error}")
        except TimeoutError:
            why = f"none came within {within_s:g} s"
            self._refuse(client, proxy, ProxyHeaderFailure.TIMEOUT, why)
        except (OSError, EOFError):
            self._shared.counters.proxy_header_failures[ProxyHeaderFailure.CLOSED] += 1
            client.close()
        except BaseException:
            client.close()
            raise
        else:
            await self._begin(client, source, source or proxy)

    async def _begin(self, client: socket.socket, source: str, address: str) -> None:
        if self._server_tls is not None:
            if self._is_admitted(client, address):
                await self._shake_hands(client, self._server_tls, address, source)
            return
        connection = Http1Connection(self._shared, self._router, address=source)
        try:
            await self._loop.connect_accepted_socket(
                lambda: cast("asyncio.BufferedProtocol", connection), client
            )
        except OSError as error:
            log.debug("no connection with %s: %s", address, error)

    def _refuse(
        self, client: socket.socket, proxy: str, reason: ProxyHeaderFailure, why: str
    ) -> None:
        self._shared.counters.proxy_header_failures[reason] += 1
        text = "a connection of %s is closed for its PROXY header (downstream.proxyProtocol): %s"
        self._log.log(logging.WARNING, reason, text, proxy, why)
        client.close()

    async def _shake_hands(
        self, client: socket.socket, server_tls: ServerTls, address: str, source: str = ""
    ) -> None:
        connection = Http1Connection(self._shared, self._router, address, source)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: cast("asyncio.BufferedProtocol", connection),
                client,
                ssl=server_tls.context,
                ssl_handshake_timeout=server_tls.settings.handshake_timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
            self._shared.counters.handshakes[handshake_of(transport)] += 1
        except OSError as error:
            reason = failure_of(error)
            self._shared.counters.handshake_failures[reason] += 1
            log.debug("no TLS with %s: %s: %s", address, reason, error)
        finally:
            if connection.state is NEW:
                self._shared.limits.release(address)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.handshakes.discard(task)
        self._shared.on_connection_closed()

    def stop_accepting(self) -> None:
        for listener in self._acceptor.stop():
            listener.close()

    def cancel(self) -> None:
        for task in self.handshakes:
            task.cancel()


def map_tls_buffers() -> None:
    """Let the allocator map each connection's buffer by itself: pages never touched cost nothing.

    Left alone, glibc cuts them from pages of the heap that others had used: a connection then holds
    35 KiB instead of 21.  Other allocators have no such switch, and do without.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, TLS_BUFFER_BYTES)
        set_option(M_TRIM_THRESHOLD, 2 * TLS_BUFFER_BYTES)  # as far as glibc would go by itself


def failure_of(error: OSError) -> HandshakeFailure:
    if isinstance(error, ConnectionAbortedError):
        return HandshakeFailure.TIMEOUT  # so the event loop names it
    if not isinstance(error, ssl.SSLError):
        return HandshakeFailure.CLOSED
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE" in reason:
        return HandshakeFailure.CERTIFICATE
    if isinstance(error, ssl.SSLEOFError) or "EOF" in reason:
        return HandshakeFailure.CLOSED
    return HandshakeFailure.PROTOCOL


class ProxyHeaderError(Exception): ...


async def read_source(loop: asyncio.AbstractEventLoop, client: socket.socket) -> str:
    """The address that a new connection is for; "" where it is for no one else.

    ProxyHeaderError: what comes is no PROXY header; EOFError: the connection ends before.
    """
    start = await _take(loop, client, len(SIGNATURE))
    if start == SIGNATURE:
        head = start + await _take(loop, client, HEAD_BYTES - len(start))
        return source_of_v2(head, await _take(loop, client, rest_bytes(head)))
    if not start.startswith(TEXT):
        raise ProxyHeaderError("it begins with something else")
    return source_of_v1(await _take_line(loop, client, start))


async def _take(loop: asyncio.AbstractEventLoop, client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(client, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


async def _take_line(loop: asyncio.AbstractEventLoop, client: socket.socket, start: bytes) -> bytes:
    if b"\r\n" in start:
        raise ProxyHeaderError("its line is shorter than any")
    line = start
    while not line.endswith(b"\r\n"):
        if len(line) >= MAX_LINE_BYTES:
            raise ProxyHeaderError(f"its line is longer than {MAX_LINE_BYTES} bytes")
        await _wait(loop, client)
        try:
            seen = client.recv(MAX_LINE_BYTES - len(line), socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            continue
        if not seen:
            raise EOFError
        end = (line + seen).find(b"\r\n")
        line += client.recv(len(seen) if end < 0 else end + 2 - len(line))
    return line


async def _wait(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
    ready = loop.create_future()

    def be_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(client, be_ready)
    try:
        await ready
    finally:
        loop.remove_reader(client)


def source_of_v1(line: bytes) -> str:
    """The client's address by a whole line of version 1; "" if that names none."""
    words = line[:-2].split(b" ")
    if words[1] == b"UNKNOWN":
        return ""
    if words[1] not in (b"TCP4", b"TCP6") or len(words) != 6:
        raise ProxyHeaderError("its line is not PROXY, a protocol, two addresses and two ports")
    version = 4 if words[1] == b"TCP4" else 6
    source, _ = (_address(word, version) for word in words[2:4])
    for port in words[4:]:
        if not port.isdigit() or len(port) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT:
            raise ProxyHeaderError("a port is none")
    return source


def _address(word: bytes, version: int) -> str:
    address = None if b"%" in word else address_from(word.decode("latin-1"))
    if address is None or (version == 4) == (b":" in word):
        raise ProxyHeaderError(f"an address is none of IPv{version}")
    return str(address)


def rest_bytes(head: bytes) -> int:
    """How many bytes follow the head of version 2."""
    if head[12] & 0xF0 != _VERSION or head[12] & 0x0F not in (_LOCAL, _PROXY):
        raise ProxyHeaderError("its version or command is unknown")
    size = int.from_bytes(head[14:16], "big")
    if size > MAX_REST_BYTES:
        raise ProxyHeaderError(f"it is longer than {HEAD_BYTES + MAX_REST_BYTES} bytes")
    return size


def source_of_v2(head: bytes, rest: bytes) -> str:
    """The client's address by a header of version 2; "" if that names none."""
    if head[12] & 0x0F == _LOCAL:
        return ""
    family, transport = head[13] >> 4, head[13] & 0x0F
    if transport not in (_STREAM, _UNSPECIFIED):
        raise ProxyHeaderError("it is not of a connection")
    size = _ADDRESS_BYTES.get(family)
    if size is None or transport == _UNSPECIFIED:
        return ""
    if len(rest) < 2 * size + _PORTS_BYTES:
        raise ProxyHeaderError("it ends within its addresses")
    address = ipaddress.ip_address(rest[:size])
    return str(getattr(address, "ipv4_mapped", None) or address)
