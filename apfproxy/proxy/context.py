"""What all connections of one listener share."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import Authenticator
from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.authn.credentials import TRUSTED_PEER, UNKNOWN_PEER
from apfproxy.proxy.absences import Absences
from apfproxy.proxy.bounded_cache import BoundedCache, MemoryBudget
from apfproxy.proxy.cache_sizes import of_head
from apfproxy.proxy.client_limits import ClientLimits
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.identification import NO_IDENTIFICATION
from apfproxy.proxy.observed_exchange import ObservedExchange
from apfproxy.proxy.read_buffer import READ_BYTES
from apfproxy.proxy.request_fields import FieldRules, OriginHosts
from apfproxy.proxy.request_head import HeadLimits, HeadParser
from apfproxy.rare_log import RareLog
from apfproxy.settings import IMPERSONATE, OBSERVE, PASS_THROUGH

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.clock import Clock
    from apfproxy.proxy.abandoned import AbandonedAnswer
    from apfproxy.proxy.admission import Admission
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.downstream import DownstreamConnection
    from apfproxy.proxy.identification import Identification
    from apfproxy.proxy.pool import Pool
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.seat_holder import FlowObserver
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)

MAX_KEPT_HEADS = 4096
"""Heads by their bytes, per kind of client without a certificate."""
MAX_KEPT_HEADS_OF_ONE = 256
"""The same of one certificate's clients: mostly of one program."""
MAX_KINDS = 4096
"""Kinds of clients whose heads are kept; beyond, certificates that have been met start anew."""
MAX_KEPT_HEAD_BYTES = 2048
"""Longer heads are parsed each time: they would take the room of many."""
KEPT_BYTES = 64 << 20
"""Of all heads and field sections, of all kinds of clients together: a typical head takes 3 KiB,
one with the token of a service account 9."""


class Heads:
    """The heads of one kind of client: those that come again are kept whole.

    Attributes:
        peer: What is known of such clients.
        kept: Heads without a body, which stood alone in a read, by their bytes.
    """

    __slots__ = ("_admission", "_kept", "_parser", "kept", "peer")

    def __init__(
        self,
        peer: Peer,
        parser: HeadParser,
        admission: Admission,
        room: MemoryBudget,
        max_kept: int = MAX_KEPT_HEADS,
    ) -> None:
        self.peer = peer
        self._parser = parser
        self._admission = admission
        self._kept: BoundedCache[bytes, RequestHead] = BoundedCache(max_kept, room, _bytes_of)
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
        if head.fields.identity is not None:
            head.identify(head.fields.identity)
        if is_alone and not head.framing and len(data) <= MAX_KEPT_HEAD_BYTES:
            self._kept.offer(data, head)
        return head

    def __repr__(self) -> str:
        return f"<Heads, {len(self.kept)} kept>"


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        abandoned: Answers that nobody waits for any more, but that seats are kept for.
        abandoned_wait_ns: How long they are; 0 if seats go back at once.
        absences: Hears of clients that leave while nothing is read of them.
        access_log: Gets each request at its end; None for no log.
        connections: Clients' connections that are open.
        authenticator: Finds out who asks.
        exchange_type: Of each request: it enforces the flow control, or only observes it.
        is_claim: Whether a field, by its name in lower case, is for front proxies only.
        is_draining: Whether answers say that their connection closes.
        limits: What clients may take.
        refusals: Why requests were refused without being classified, a line of each a minute.
        top_flows: Gathers what flows take; None for nobody.
    """

    __slots__ = (
        "_certificates",
        "_field_rules",
        "_head_limits",
        "_heads",
        "_on_connection_closed",
        "_room",
        "_suffixes",
        "abandoned",
        "abandoned_wait_ns",
        "absences",
        "access_log",
        "admission",
        "answer_timeout_ns",
        "authenticator",
        "clock",
        "connections",
        "counters",
        "exchange_type",
        "head_timeout_ns",
        "held_bytes",
        "idle_timeout_ns",
        "is_claim",
        "is_draining",
        "limits",
        "linger_ns",
        "loop",
        "max_head_bytes",
        "pool",
        "refusals",
        "top_flows",
        "trusted_networks",
        "tunnel_idle_ns",
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
        identification: Identification = NO_IDENTIFICATION,
    ) -> None:
        self.access_log: RequestLog | None = None
        self.top_flows: FlowObserver | None = None
        downstream, upstream = settings.downstream, settings.upstream
        self.authenticator = identification.authenticator or Authenticator(clock)
        self._certificates = identification.certificates
        self.admission = admission
        self.pool = pool
        self.counters = counters
        counters.is_observing = settings.flow_control.enforcement == OBSERVE
        self.exchange_type: type[Exchange] = Exchange
        if counters.is_observing:
            self.exchange_type = ObservedExchange
        self.clock = clock
        self.refusals = RareLog(log, clock.now_ns)
        self.loop = loop
        self.absences = Absences(loop)
        self.linger_ns = 2_000_000_000
        self.held_bytes = READ_BYTES // 2
        self.is_draining = False
        self._suffixes: dict[bytes, bytes] = {}
        self._on_connection_closed: Callable[[], None] | None = None
        self.connections: set[DownstreamConnection] = set()
        self.abandoned: set[AbandonedAnswer] = set()
        self.limits = ClientLimits(downstream.limits, counters)
        host, port = upstream.address.host, upstream.address.port
        self._field_rules = FieldRules(
            OriginHosts(
                (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode(),
                (upstream.host_header or "").encode(),
            ),
            CredentialRules.of(settings.authentication.front_proxy),
            forwards_credentials=upstream.identity == PASS_THROUGH,
            forwards_impersonation=upstream.identity != IMPERSONATE,
        )
        self.is_claim = self._field_rules.credentials.is_claim
        self._heads: dict[tuple[Peer, bool], Heads] = {}
        self._room = MemoryBudget(KEPT_BYTES)
        self._set(settings)

    def _set(self, settings: Settings) -> None:
        """Set what of the settings may change later."""
        downstream, upstream = settings.downstream, settings.upstream
        self.watch_settings = settings.watch
        self.abandoned_wait_ns = round(upstream.abandoned_wait_s * 1e9)
        self.answer_timeout_ns = round(upstream.answer_timeout_s * 1e9)
        self.head_timeout_ns = round(downstream.head_timeout_s * 1e9)
        self.idle_timeout_ns = round(downstream.idle_timeout_s * 1e9)
        self.tunnel_idle_ns = round(settings.tunnel.idle_timeout_s * 1e9)
        self.max_head_bytes = downstream.max_head_bytes
        self.trusted_networks = downstream.identity_headers_from
        self._head_limits = HeadLimits(downstream.max_header_fields, downstream.max_target_bytes)

    def configure(self, settings: Settings) -> None:
        """Put limits and time-outs in force, for requests that come from now on."""
        self._set(settings)
        self.limits.configure(settings.downstream.limits)
        self.admission.configure(
            request_timeout_s=settings.downstream.request_timeout_s,
            answer_timeout_s=settings.upstream.answer_timeout_s,
        )
        # What is kept of heads has the limits in it, and who may say who asks.
        self.forget_identities()

    def heads_of(
        self,
        address: str,
        certificate: bytes | None = None,
        chain: Sequence[bytes] = (),
        *,
        is_tls: bool = False,
    ) -> Heads:
        """The heads of a client's kind.

        Args:
            address: Of the client.
            certificate: Its own, in DER; None if it showed none.
            chain: All that it sent, likewise.
            is_tls: Whether it speaks TLS.
        """
        peer = TRUSTED_PEER if self._is_trusted(address) else UNKNOWN_PEER
        if certificate is not None and self._certificates is not None:
            judged = self._certificates.judge(certificate, chain)
            peer = replace(judged, is_front_proxy=True) if peer.is_front_proxy else judged
        heads = self._heads.get((peer, is_tls))
        if heads is None:
            if len(self._heads) >= MAX_KINDS:
                self._heads.clear()
            rules = replace(self._field_rules, believes_claims=peer.is_front_proxy, is_tls=is_tls)
            max_kept = MAX_KEPT_HEADS_OF_ONE if peer.has_certificate else MAX_KEPT_HEADS
            heads = self._heads[peer, is_tls] = Heads(
                peer,
                HeadParser(self._head_limits, rules, self._room, 4 * max_kept),
                self.admission,
                self._room,
                max_kept,
            )
        return heads

    def forget_identities(self) -> None:
        """Find out anew who asks, from the next request on: what tells it has changed."""
        self._heads.clear()
        for connection in self.connections:
            connection.forget_peer()

    def _is_trusted(self, address: str) -> bool:
        """Whether a client at this address may assert identities."""
        if not self.trusted_networks:
            return False
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = parsed.ipv4_mapped if parsed.version == 6 else None
        return any((mapped or parsed) in network for network in self.trusted_networks)

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


def _bytes_of(data: bytes, head: RequestHead) -> int:
    """The memory that a kept head takes."""
    texts = (head.target, head.line, head.forward)
    return of_head(data, texts, head.attributes, head.fields)
