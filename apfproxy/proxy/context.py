"""What all connections of one listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy.keeping import Kept
from apfproxy.proxy.read_buffer import READ_BYTES
from apfproxy.proxy.request_fields import OriginHosts
from apfproxy.proxy.request_head import HeadLimits, HeadParser

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.clock import Clock
    from apfproxy.proxy.admission import Admission
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.downstream import DownstreamConnection
    from apfproxy.proxy.pool import Pool
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.settings import Settings

MAX_KEPT_HEADS = 4096
"""Heads by their bytes, per kind of client (trusted to assert identities, or not)."""
MAX_KEPT_HEAD_BYTES = 2048
"""Longer heads are parsed each time, so that the bound above is one in bytes too."""


class Heads:
    """The heads of one kind of client: those that come again are kept whole.

    Attributes:
        kept: Heads without a body, which stood alone in a read, by their bytes.
    """

    __slots__ = ("_admission", "_kept", "_parser", "kept")

    def __init__(self, parser: HeadParser, admission: Admission) -> None:
        self._parser = parser
        self._admission = admission
        self._kept: Kept[bytes, RequestHead] = Kept(MAX_KEPT_HEADS)
        self.kept = self._kept.values

    def read(self, data: bytes, *, is_alone: bool) -> RequestHead:
        """Parse, check, prepare and perhaps keep one head.

        Args:
            data: The head's bytes.
            is_alone: Whether nothing stood behind it, as with most requests without a body.

        Raises:
            HeadError: It must not be forwarded.
        """
        head = self._parser.parse(data)
        self._admission.prepare(head)
        if is_alone and not head.framing and len(data) <= MAX_KEPT_HEAD_BYTES:
            self._kept.offer(data, head)
        return head

    def __repr__(self) -> str:
        return f"<Heads, {len(self.kept)} kept>"


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        connections: Clients' connections that are open.
        heads, trusted_heads: Of clients that are not trusted to assert identities, and of those
            that are.
        is_draining: Whether answers say that their connection closes.
        sweep_now_ns: The time of the last sweep, for deadlines that need no better.
    """

    __slots__ = (
        "_on_connection_closed",
        "_suffixes",
        "admission",
        "answer_timeout_ns",
        "clock",
        "connections",
        "counters",
        "head_timeout_ns",
        "heads",
        "held_bytes",
        "idle_timeout_ns",
        "is_draining",
        "linger_ns",
        "loop",
        "max_head_bytes",
        "pool",
        "sweep_now_ns",
        "trusted_heads",
        "trusted_networks",
        "watch_settings",
    )

    def __init__(
        self,
        settings: Settings,
        admission: Admission,
        pool: Pool,
        counters: ProxyCounters,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        downstream, upstream = settings.downstream, settings.upstream
        self.admission = admission
        self.pool = pool
        self.counters = counters
        self.clock = clock
        self.loop = loop
        self.watch_settings = settings.watch
        self.answer_timeout_ns = round(upstream.answer_timeout_s * 1e9)
        self.head_timeout_ns = round(downstream.head_timeout_s * 1e9)
        self.idle_timeout_ns = round(downstream.idle_timeout_s * 1e9)
        self.linger_ns = 2_000_000_000
        self.max_head_bytes = downstream.max_head_bytes
        self.held_bytes = READ_BYTES // 2
        self.trusted_networks = downstream.identity_headers_from
        self.is_draining = False
        self.sweep_now_ns = clock.now_ns()
        self._suffixes: dict[bytes, bytes] = {}
        self._on_connection_closed: Callable[[], None] | None = None
        self.connections: set[DownstreamConnection] = set()
        limits = HeadLimits(downstream.max_header_fields, downstream.max_target_bytes)
        host, port = upstream.address.host, upstream.address.port
        hosts = OriginHosts(
            (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode(),
            (upstream.host_header or "").encode(),
        )
        self.heads = Heads(HeadParser(limits, hosts, trusts_identity=False), admission)
        self.trusted_heads = Heads(HeadParser(limits, hosts, trusts_identity=True), admission)

    def intern(self, suffix: bytes) -> bytes:
        """The same bytes, one object for all connections of a client."""
        if len(self._suffixes) >= MAX_KEPT_HEADS:
            self._suffixes.clear()
        return self._suffixes.setdefault(suffix, suffix)

    def when_connections_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each connection that closes from now on."""
        self._on_connection_closed = callback

    def on_connection_closed(self) -> None:
        """A client's connection is gone."""
        if self._on_connection_closed is not None:
            self._on_connection_closed()

    def __repr__(self) -> str:
        return f"<Context with {len(self.connections)} connections>"
