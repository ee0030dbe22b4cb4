"""The listener: it accepts, watches the deadlines, and stops without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import resource
import socket
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from apfproxy.base.faults import Part, contained
from apfproxy.base.memory import MemoryTrimmer, overload_bytes
from apfproxy.base.sockets import port_of, probe_clients, serve_on
from apfproxy.base.tasks import Recurring
from apfproxy.proxy.client_limits import MIN_CONNECTIONS
from apfproxy.proxy.handshake import HandshakeListener
from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.proxy.http2.stream import Http2Stream
from apfproxy.proxy.overload import Overload
from apfproxy.settings import LimitSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.proxy.client import OpenConnection
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import Context, ListenerContext
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.proxy.tls import ServerTls
    from apfproxy.settings import OverloadSettings, Settings

log = logging.getLogger(__name__)

SWEEP_PERIOD_S = 0.2
"""How often deadlines are looked at, all in one pass: 0.3 ms for 8 000 connections."""
STALE_SWEEP_S = 5.0
"""Then no deadline is kept, and nothing but a new process may help."""
BACKLOG = 4096
"""Connections that the kernel holds for us; it cuts this to net.core.somaxconn."""
STOP_S = 5.0
"""For connections that were cut to be gone: some turns of the loop, unless an error lost one."""
RESETS_S = 1.0
"""For clients of HTTP/2 to take the resets of their streams, before their connections are cut."""
WATCH_END_PERIOD_S = 0.05
MIN_WATCHES_ENDED_PER_S = 200
"""kube-apiserver's own floor."""
GOODBYE_S = 3.0
"""For clients of WebSockets to answer the close frame; they have `ListenerContext.linger_ns`."""


class ProxyServer:
    def __init__(self, settings: Settings, shared: ListenerContext, router: ClusterRouter) -> None:
        self._settings = settings
        self._shared = shared
        self._clock = shared.clock
        self._loop = shared.loop
        self._router = router
        self._clusters: dict[Context, None] = {}
        self._memory_trimmer = MemoryTrimmer()
        self._overload = Overload(_marks(settings), shared.limits, shared.counters)
        self._servers: list[asyncio.Server] = []
        self._own_listener: HandshakeListener | None = None
        self.sweep = Recurring(Part.SWEEP, self._loop, SWEEP_PERIOD_S, STALE_SWEEP_S, self._sweep)
        self._sweep_due_ns = self._clock.now_ns()

    def add(self, cluster: Context) -> None:
        self._clusters[cluster] = None
        self.refit()

    def refit(self) -> None:
        """Bound connections by open files again: a pool has the settings' bound."""
        if self.sockets:
            self._fit_descriptors()

    def discard(self, cluster: Context) -> None:
        self._clusters.pop(cluster, None)

    def configure(self, settings: Settings, server_tls: ServerTls | None) -> None:
        """Put settings in force; whether clients speak TLS, and where, are the same."""
        before, self._settings = self._settings, settings
        if settings.downstream.overload != before.downstream.overload:
            self._overload.configure(_marks(settings))
        self._shared.configure(settings)
        if self._own_listener is not None:
            self._own_listener.configure(settings, server_tls)
        if settings.downstream.keep_alive != before.downstream.keep_alive:
            self._probe_clients(self.sockets)
        self._fit_descriptors()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        if self._own_listener is not None:
            return tuple(self._own_listener.sockets)
        return tuple(listener for server in self._servers for listener in server.sockets)

    @property
    def port(self) -> int | None:
        return port_of(self.sockets)

    @property
    def max_connections(self) -> int | None:
        return self._shared.limits.max_connections

    @property
    def connection_count(self) -> int:
        """Clients' connections, those in their TLS handshake included."""
        handshakes = 0 if self._own_listener is None else len(self._own_listener.handshakes)
        shared = self._shared
        return len(shared.connections) - shared.counters.http2.streams_open + handshakes

    async def start(
        self, listeners: Sequence[socket.socket], server_tls: ServerTls | None = None
    ) -> None:
        """Accept what comes to listening sockets, which are closed at the end."""
        if server_tls is not None or self._settings.downstream.proxy_protocol:
            self._own_listener = HandshakeListener(
                self._shared, self._router, self._settings, server_tls
            )
        self._fit_descriptors()
        # Who connected before has what the socket had by then: it may be of systemd's.
        self._probe_clients(listeners)
        for listener in listeners:
            accepted = take_backlog(listener)
            self._probe_clients(accepted)
            for client in accepted:
                await self._take(client)
        if self._own_listener is not None:
            self._own_listener.listen(listeners)
        else:
            self._servers = await serve_on(listeners, self._new_protocol, backlog=BACKLOG)
        self._sweep_due_ns = self._clock.now_ns() + round(SWEEP_PERIOD_S * 1e9)
        self.sweep.start()

    def _probe_clients(self, sockets: Iterable[socket.socket]) -> None:
        settings = self._settings.downstream.keep_alive
        for each in sockets:
            with contextlib.suppress(OSError):  # it may be gone
                probe_clients(each, settings.idle_s, settings.timeout_s)

    async def _take(self, client: socket.socket) -> None:
        if self._own_listener is not None:
            self._own_listener.take(client)
        else:
            await self._loop.connect_accepted_socket(self._new_protocol, client)

    def _new_protocol(self) -> asyncio.BufferedProtocol:
        return cast("asyncio.BufferedProtocol", Http1Connection(self._shared, self._router))

    def _fit_descriptors(self) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return
        wanted, limits = self._settings.downstream.limits.max_connections, self._shared.limits
        of_clusters = [each.settings for each in self._clusters]
        reviews = [
            review
            for each in (settings.authentication for settings in of_clusters)
            for review in (each.token_review, each.impersonation.access_review)
        ]
        questions = sum(each.max_concurrent for each in reviews if each.is_enabled)
        upstream = sum(each.upstream.max_connections for each in of_clusters)
        most = limits.fit(descriptors, upstream, questions)
        left = limits.left(descriptors, questions) // max(len(of_clusters), 1)
        for cluster in self._clusters:
            if max(left, MIN_CONNECTIONS) < cluster.settings.upstream.max_connections:
                cluster.pool.limit(max(left, MIN_CONNECTIONS))
        # No one has asked for the default, nor for a number where there is to be no limit.
        if most is not None and wanted not in (None, LimitSettings().max_connections):
            text = (
                "at most %d connections of clients at once, not %d: the process may have"
                " %d open files; raise that (ulimit -n, LimitNOFILE=) or lower"
                " downstream.limits.maxConnections"
            )
            log.warning(text, most, wanted, descriptors)

    def _sweep(self) -> None:
        """Look at all deadlines; an error ends one connection, or one part, alone."""
        shared, loop = self._shared, self._loop
        now_ns = self._clock.now_ns()
        period_ns = round(SWEEP_PERIOD_S * 1e9)
        late_ns = now_ns - self._sweep_due_ns
        self._sweep_due_ns = now_ns + period_ns
        with contained(Part.SWEEP, loop):
            self._overload.on_sweep(late_ns)
            shared.holdings.set_short(is_short=self._overload.is_memory_short)
        for cluster in list(self._clusters):
            cluster.on_sweep(now_ns, period_ns)
        if self._overload.is_memory_short:
            for connection in shared.connections:
                connection.relieve(now_ns)
        due = [c for c in shared.connections if 0 < c.deadline_ns <= now_ns]
        for connection in due:
            # The end of one may have given another its turn, and with it time.
            if 0 < connection.deadline_ns <= now_ns:
                connection.on_deadline()  # which raises nothing
        with contained(Part.SWEEP, loop):
            # Streams of HTTP/2 count, too: one holds as much as a connection.
            self._memory_trimmer.on_sweep(len(shared.connections))

    async def drain(self, *, is_succeeded: bool = False) -> None:
        """Stop without losing a request.

        Further responses say `Connection: close`; idle connections are closed after a grace,
        watches are ended bit by bit, and what is left after the settings' limit is broken.  With a
        successor, another process goes on to accept from the listener's sockets.
        """
        settings = self._settings.drain
        self._shared.is_draining = True
        try:
            async with asyncio.timeout(settings.timeout_s):
                if is_succeeded:
                    self._leave_listeners()
                else:
                    await self._stop_listening()
                await asyncio.gather(self._all_closed(), self._end_watches())
        except TimeoutError:
            log.warning("draining: %d connections are cut", self.connection_count)
            await close_websockets(self._shared.connections)
        finally:
            await self.stop()

    async def _stop_listening(self) -> None:
        """Close the listener, but serve whom the kernel has accepted already."""
        listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in self.sockets]
        self._leave_listeners()
        for listener in listeners:
            with listener:
                accepted = take_backlog(listener)
            for client in accepted:
                await self._take(client)

    def _leave_listeners(self) -> None:
        if self._own_listener is not None:
            self._own_listener.stop_accepting()
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def stop(self) -> None:
        self._leave_listeners()
        if self._own_listener is not None:
            self._own_listener.cancel()
        self.sweep.stop()
        self._leave_all()
        for cluster in self._clusters:
            cluster.stop()
        if not await self._closes_within(RESETS_S):
            self._leave_all()
            if not await self._closes_within(STOP_S):
                text = "stopping without %d connections that do not end"
                log.warning(text, self.connection_count)
        self._shared.disconnects.close()

    def _leave_all(self) -> None:
        # Those that wait first: no seat that comes back may send one of them to the upstream yet.
        for connection in sorted(self._shared.connections, key=lambda each: each.has_seats):
            connection.leave()

    async def _closes_within(self, time_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(time_s):
                await self._all_closed()
        return not self.connection_count

    async def _all_closed(self) -> None:
        closed = asyncio.Event()

        def check() -> None:
            if not self.connection_count:
                closed.set()

        self._shared.on_connection_closed = check
        check()
        await closed.wait()

    async def _end_watches(self) -> None:
        settings = self._settings.drain
        grace_ns = round(min(settings.idle_grace_s, settings.timeout_s / 2) * 1e9)
        while True:
            close_ns = self._clock.now_ns() + grace_ns
            for connection in self._shared.connections:
                connection.close_when_idle(close_ns)
            under_way = exchanges(self._shared.connections)
            has_ended = end_watches(under_way, settings.timeout_s / 2 / WATCH_END_PERIOD_S)
            if not has_ended and not self.connection_count:
                return
            await asyncio.sleep(WATCH_END_PERIOD_S)


def _marks(settings: Settings) -> OverloadSettings:
    overload = settings.downstream.overload
    return replace(overload, memory_bytes=overload_bytes(overload.memory_bytes))


def take_backlog(listener: socket.socket) -> list[socket.socket]:
    """Accept all connections that wait to be accepted, without waiting for more."""
    listener.setblocking(False)
    accepted: list[socket.socket] = []
    # An error says that there are no more, or that this process may have no more.
    with contextlib.suppress(OSError):
        while len(accepted) < BACKLOG:
            accepted.append(listener.accept()[0])
    return accepted


def exchanges(
    connections: Iterable[OpenConnection], context: Context | None = None
) -> list[Exchange]:
    found = [
        each.exchange for each in connections if isinstance(each, Http1Connection | Http2Stream)
    ]
    return [
        each for each in found if each is not None and (context is None or each.context is context)
    ]


def ended_at_once(watches: int, rounds: float) -> int:
    """How many to end now, where all have to be ended within so many rounds; >= 1."""
    least = round(MIN_WATCHES_ENDED_PER_S * WATCH_END_PERIOD_S)
    return max(math.ceil(watches / max(rounds, 1)), least)


def end_watches(under_way: Iterable[Exchange], rounds: float) -> int:
    """End some watches, so that all are ended within so many rounds; says how many."""
    watches = [each for each in under_way if each.can_end_watch]
    ended = watches[: ended_at_once(len(watches), rounds)]
    for each in ended:
        try:
            each.end_watch()
        except Exception as error:  # noqa: BLE001  it is of this one alone
            each.fail(error)
    return len(ended)


async def drain(context: Context) -> int:
    """Let requests of a cluster end, and break the rest after a while; says how many."""
    cut = 0
    settings, connections = context.settings.drain, context.listener.connections
    try:
        async with asyncio.timeout(settings.timeout_s):
            while busy := exchanges(connections, context):
                end_watches(busy, settings.timeout_s / 2 / WATCH_END_PERIOD_S)
                await asyncio.sleep(WATCH_END_PERIOD_S)
    except TimeoutError:
        cut = len(exchanges(connections, context))
        await close_websockets(connections, context)
    finally:
        for each in exchanges(connections, context):
            if each.client in connections:
                each.client.leave()
        context.stop()
    return cut


async def close_websockets(
    connections: Mapping[OpenConnection, None], context: Context | None = None
) -> None:
    """Tell clients of WebSockets, among those still there, to go, and give them a while for it."""
    told: list[OpenConnection] = []
    for each in exchanges(connections, context):
        if each.has_websocket:
            told.append(each.client)
            try:
                each.close_websocket()
            except Exception as error:  # noqa: BLE001  it is of this one alone
                each.fail(error)
    for _ in range(round(GOODBYE_S / WATCH_END_PERIOD_S)):
        if connections.keys().isdisjoint(told):
            return
        await asyncio.sleep(WATCH_END_PERIOD_S)
