"""What all connections of one listener share, whichever cluster their requests are of."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from apfproxy.base.rare_log import RareLog
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.http.read_buffer import READ_BYTES
from apfproxy.proxy.client_limits import ClientLimits, Holdings, LimitsInForce
from apfproxy.proxy.disconnects import Disconnects
from apfproxy.proxy.request import MemoryBudget
from apfproxy.proxy.tracing import made_audit_lines

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.base.clock import Clock
    from apfproxy.proxy.client import OpenConnection
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20
"""Of all field sections, of all kinds of clients of all clusters: one with the token of a service
account takes 5 KiB."""
MAX_KEPT_SUFFIXES = 4096
"""Addresses of clients as bytes, shared by their connections."""


class ListenerContext:
    """What connections need before they know whose request it is, and what exists once.

    Attributes:
        chance: Draws a number from 0 up to 1, for what is done now and then.
        access_log: Gets what is refused before it is any cluster's request; None for no log.
        connections: Clients' connections that are open, and streams of HTTP/2, in the order in
            which they came.
        floods: Of frames of HTTP/2 that bring nothing, a line of each kind a minute.
        held_bytes: Of a connection at most, before it is read no more.
        is_plain: Whether own responses to what is no cluster's request are not Kubernetes'.
        linger_ns: Until a connection closes whose last response is through.
        room: For what is kept of heads.
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
        """Find the cluster of each connection, and its user, anew at its next request."""
        for connection in self.connections:
            connection.forget_peer()

    def intern(self, suffix: bytes) -> bytes:
        """The same bytes, one object for all connections of a client."""
        if len(self._suffixes) >= MAX_KEPT_SUFFIXES:
            self._suffixes.clear()
        return self._suffixes.setdefault(suffix, suffix)

    def _forget_header_blocks(self) -> None:
        for connection in self.connections:
            connection.forget_header_blocks()

    def __repr__(self) -> str:
        return f"<ListenerContext: {len(self.connections)} connections>"
