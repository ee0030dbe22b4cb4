"""A listener whose connections come about once their handshakes are through: PROXY headers and TLS.

1. A handshake counts as a connection, takes the certificate of the moment, and is cut if it stalls.
2. Where PROXY headers are wanted, a connection is no one's until its header is there: it counts
   within the limit of all connections, and then for the address that the header has.

It accepts by itself since an event loop's own servers have one context for good, and since there is
no time between a connection and its handshake in which uvloop would not read.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import ssl
from typing import TYPE_CHECKING, Any, cast

from apfproxy.base.address import address_from
from apfproxy.base.faults import Part, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.sockets import UNIX_PEER, Acceptor, folded, reset_socket
from apfproxy.base.tasks import spawn
from apfproxy.base.tls_files import handshake_of
from apfproxy.http.request_fields import is_among
from apfproxy.proxy.counters import HandshakeFailure, ProxyHeaderFailure, Refusal
from apfproxy.proxy.http1_connection import NEW, Http1Connection
from apfproxy.proxy.proxy_protocol import ProxyHeaderError, read_source

if TYPE_CHECKING:
    import socket
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
