"""The contexts of requests: the listener's, before they have a cluster, and each cluster's."""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import Authenticator
from apfproxy.base.faults import Part, contained, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.sockets import Disconnects
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.http import own_responses
from apfproxy.http.grammar import GrpcError, UnheldError
from apfproxy.http.read_buffer import READ_BYTES
from apfproxy.proxy.client_limits import ClientLimits, Holdings, LimitsInForce
from apfproxy.proxy.early_seats import SlowReaders
from apfproxy.proxy.pacing import Pacing
from apfproxy.proxy.reasons import Audience
from apfproxy.proxy.request import ClientKinds, MemoryBudget
from apfproxy.proxy.request_record import Failure, RequestRecord
from apfproxy.proxy.tracing import made_audit_lines
from apfproxy.settings import OBSERVE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.load_meter import LoadMeter
    from apfproxy.flowcontrol.passage import FlowControl, FlowObserver
    from apfproxy.http.grammar import HeadError
    from apfproxy.proxy.client import OpenConnection
    from apfproxy.proxy.counters import ListenerCounters, ProxyCounters
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer
    from apfproxy.settings import Settings
    from apfproxy.upstream.pool import Pool
    from apfproxy.upstream.response_sink import ResponseSink
    from apfproxy.upstream.tls import ClientTls

log = logging.getLogger(__name__)


KEPT_BYTES = 64 << 20
"""Bounds the field sections of all kinds of clients and clusters: one with the token of a service
account takes 5 KiB."""
MAX_KEPT_SUFFIXES = 4096
"""Addresses of clients as bytes, shared by their connections."""


class ListenerContext:
    """Holds what connections need before they know whose request it is.

    Attributes:
        access_log: Gets what is refused before it is any cluster's request; None for no log.
        connections: Clients' connections that are open, and streams of HTTP/2, in their order.
        held_bytes: Of a connection at most, before it is read no more.
        linger_ns: Until a connection closes whose last response is through.
    """

    def __init__(
        self,
        settings: Settings,
        counters: ListenerCounters,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.counters = counters
        self.clock = clock
        self.loop = loop
        self.access_log: RequestLog | None = None
        self.disconnects = Disconnects(loop)
        self.audit_lines = made_audit_lines()
        self.chance: Callable[[], float] = random.random
        self.floods = RareLog(log, clock.now_ns)
        self.linger_ns = 2_000_000_000
        self.held_bytes = READ_BYTES // 2
        self.holdings = Holdings(settings.downstream, counters)
        self.is_draining = False
        self._suffixes: dict[bytes, bytes] = {}
        self.on_connection_closed: Callable[[], None] = lambda: None
        self.connections: dict[OpenConnection, None] = {}
        self.room = MemoryBudget(KEPT_BYTES, self._forget_header_blocks)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.limits = ClientLimits(settings.downstream.limits, counters)
        self.in_force = LimitsInForce(settings)

    def configure(self, settings: Settings) -> None:
        self.in_force = LimitsInForce(settings)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.limits.configure(settings.downstream.limits)
        self.holdings.configure(settings.downstream)

    def forget_peers(self) -> None:
        """Find the cluster of each connection, and its user, again at its next request."""
        for connection in self.connections:
            connection.forget_peer()

    def intern(self, suffix: bytes) -> bytes:
        if len(self._suffixes) >= MAX_KEPT_SUFFIXES:
            self._suffixes.clear()
        return self._suffixes.setdefault(suffix, suffix)

    def _forget_header_blocks(self) -> None:
        for connection in self.connections:
            connection.forget_header_blocks()

    def refuse(
        self,
        context: Context | None,
        address: str,
        error: HeadError,
        *,
        is_head: bool = False,
        is_logged: bool = False,
    ) -> bytes:
        """The response to what is no request of a cluster; HTTP/1.1 closes behind it."""
        if error.code == 400:
            self.counters.malformed_requests += 1
        elif error.code == 404:
            self.counters.unrouted_requests += 1
        self.counters.count_own(error.code)
        is_plain = self.is_plain if context is None else context.is_plain
        build = own_responses.plain_response if is_plain else own_responses.status_response
        if isinstance(error, GrpcError):
            build = own_responses.grpc_response
        close = b"Connection: close\r\n"
        why, lines = str(error), error.lines
        response = build(error.code, why, is_head=is_head, extra=lines, connection=close)
        access_log = self.access_log if context is None else context.access_log
        if access_log is not None and not is_logged:
            reason = Failure.NO_CLUSTER if error.code in (404, 421, 503) else Failure.MALFORMED
            if error.code == 408:
                reason = Failure.CLIENT_TIMEOUT
            if isinstance(error, UnheldError):
                reason = Failure.MEMORY
            code, size = error.code, own_responses.body_bytes(response)
            now = self.clock.now_ns()
            record = RequestRecord(
                None, None, None, None, None, address, 0, now, 0, now, 0, code, 0, size, reason, why
            )
            access_log.take(record)
        return response

    def __repr__(self) -> str:
        return f"<ListenerContext: {len(self.connections)} connections>"


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        abandoned: Responses that no one waits for, but that seats are kept for; what ends each.
        connection_count: Clients' connections whose last request was of it.
    """

    def __init__(
        self,
        settings: Settings,
        listener: ListenerContext,
        flow_control: FlowControl,
        pool: Pool,
        counters: ProxyCounters,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.settings = settings
        self.listener = listener
        self.clock = listener.clock
        self.loop = listener.loop
        self.audit_lines = listener.audit_lines
        self.held_bytes = listener.held_bytes
        self.holdings = listener.holdings
        self.access_log: RequestLog | None = None
        self.tracer: Tracer | None = None
        self.load_meter: LoadMeter | None = None  # while the server limit is to be found
        self.authenticator = authenticator or Authenticator(self.clock)
        self.flow_control = flow_control
        self.client_kinds = ClientKinds(settings, flow_control, self.authenticator, listener.room)
        self.connection_count = 0
        self.date_line = own_responses.DateLine()
        self.pool = pool
        self.counters = counters
        counters.is_observing = flow_control.is_observing
        self.refusals = RareLog(log, self.clock.now_ns)
        self.abandoned: dict[ResponseSink, Callable[[], None]] = {}
        self.pacing = Pacing(self.clock)
        self.slow_readers = SlowReaders(counters, settings.downstream.limits.slow_readers_per_level)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.in_force = LimitsInForce(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)

    def observe(
        self, access_log: RequestLog | None, top_flows: FlowObserver | None, tracer: Tracer | None
    ) -> None:
        self.access_log = access_log
        self.tracer = tracer
        self.flow_control.top_flows = top_flows

    def configure(
        self,
        settings: Settings,
        authenticator: Authenticator | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        if settings.flow_control.enforcement != self.settings.flow_control.enforcement:
            # Requests under way go on as they began.
            self.flow_control = self.flow_control.replace(passage_errors(settings, self.loop))
            self.counters.is_observing = self.flow_control.is_observing
        before, self.settings = self.settings, settings
        self.pool.slots = settings.slots
        self.pool.configure(settings.upstream, client_tls)
        self.authenticator = authenticator or Authenticator(self.clock)
        self.in_force = LimitsInForce(settings)
        self.has_audit_ids = has_audit_ids(settings)
        if settings.downstream.explain_answers_to != before.downstream.explain_answers_to:
            self.audience = Audience(settings.downstream.explain_answers_to)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.slow_readers.per_level = settings.downstream.limits.slow_readers_per_level
        # What is kept of heads has the limits in it, and who may assert an identity.
        self.client_kinds = ClientKinds(
            settings, self.flow_control, self.authenticator, self.listener.room
        )
        self.listener.forget_peers()

    def forget_authentications(self) -> None:
        self.client_kinds.forget()
        self.listener.forget_peers()

    def on_sweep(self, now_ns: int, period_ns: int) -> None:
        with contained(Part.SWEEP, self.loop):
            self.slow_readers.on_sweep(period_ns)
        with contained(Part.SWEEP, self.loop):
            idle_ns = round(self.settings.upstream.idle_timeout_s * 1e9)
            self.pool.close_idle(now_ns, idle_ns, period_ns)

    def stop(self) -> None:
        """Close all connections to the servers at once; those of clients are closed by now."""
        for response, end in list(self.abandoned.items()):
            try:
                end()
            except Exception as error:  # noqa: BLE001  it is of this one alone
                response.fail(error)
        self.pool.close()


def passage_errors(
    settings: Settings, loop: asyncio.AbstractEventLoop
) -> Callable[[Exception], None] | None:
    if settings.flow_control.enforcement != OBSERVE:
        return None
    message = "an error of the proxy itself: a passage ends"
    return partial(report, Part.CONNECTION, message=message, loop=loop)


def has_audit_ids(settings: Settings) -> bool:
    """Whether every request has an Audit-ID: only the access log needs it."""
    return settings.access_log.path is not None and settings.access_log.audit_ids
