"""What one client, or all of them, may take of the proxy.

1. A connection over a limit is refused as soon as it is accepted, and costs next to nothing more.
2. A client's address counts once in each of its forms: ::ffff:192.0.2.1 is 192.0.2.1.
3. What is kept per address is bounded by the connections: an address without one is forgotten.
4. The proxy takes no more connections than it has descriptors for, so that `accept` never fails
   for want of one while there is something to do about it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.base.sockets import UNIX_PEER, reset
from apfproxy.proxy import own_responses
from apfproxy.proxy.counters import Refusal
from apfproxy.settings import WatchSettings  # noqa: TC001  compiled, the class has it at run time

if TYPE_CHECKING:
    import asyncio

    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import LimitSettings, Settings

SPARE_DESCRIPTORS = 256
"""For files, listeners, 64 clients of the admin listener, questions to the upstream's API, and
connections that are accepted only to be refused."""
SPARE_QUESTIONS = 32
"""Of both kinds together, by default; for more of them more descriptors are spared."""
MIN_CONNECTIONS = 16
"""With fewer the proxy is of no use, whatever the system allows."""
UNLIMITED = sys.maxsize
NEVER_NS = sys.maxsize


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """What the settings let a client take, in the hot path's units; a reload replaces all at once.

    Attributes:
        abandoned_wait_ns: How long seats are kept for an answer that nobody waits for any more; 0
            if they go back at once.
        goaway_chance: Of a request, that its connection of HTTP/2 is ended.
        probe_idle_ns: How long a client of HTTP/2 is silent before it is probed.
        probe_timeout_ns: After which one that does not answer is gone.
        is_http2_cleartext: Whether clients without TLS may speak HTTP/2, if the build does.
        max_streams: Requests at once on a connection of HTTP/2.
        slow_reader_grace_ns: `NEVER_NS` where seats are kept.
    """

    watch: WatchSettings
    abandoned_wait_ns: int
    answer_timeout_ns: int
    head_timeout_ns: int
    idle_timeout_ns: int
    probe_idle_ns: int
    probe_timeout_ns: int
    tunnel_idle_ns: int
    max_head_bytes: int
    gathered_body_bytes: int
    max_body_bytes: int
    max_pipelined_requests: int
    min_body_rate_bytes: int
    body_rate_grace_ns: int
    slow_reader_grace_ns: int
    is_http2_cleartext: bool
    max_streams: int
    goaway_chance: float

    @classmethod
    def of(cls, settings: Settings) -> LimitsInForce:
        """Those of the process's settings."""
        downstream, upstream = settings.downstream, settings.upstream
        limits = downstream.limits
        grace_s = limits.slow_reader_grace_s
        return cls(
            watch=settings.watch,
            abandoned_wait_ns=round(upstream.abandoned_wait_s * 1e9),
            answer_timeout_ns=round(upstream.answer_timeout_s * 1e9),
            head_timeout_ns=round(downstream.head_timeout_s * 1e9),
            idle_timeout_ns=round(downstream.idle_timeout_s * 1e9),
            probe_idle_ns=round(downstream.keep_alive.idle_s * 1e9),
            probe_timeout_ns=round(downstream.keep_alive.timeout_s * 1e9),
            tunnel_idle_ns=round(settings.tunnel.idle_timeout_s * 1e9),
            max_head_bytes=downstream.max_head_bytes,
            gathered_body_bytes=limits.gathered_body_bytes,
            max_body_bytes=_or_unlimited(limits.max_body_bytes),
            max_pipelined_requests=_or_unlimited(limits.max_pipelined_requests),
            min_body_rate_bytes=limits.min_body_rate_bytes,
            body_rate_grace_ns=round(limits.body_rate_grace_s * 1e9),
            is_http2_cleartext=downstream.http2.is_enabled and downstream.http2.is_cleartext,
            max_streams=downstream.http2.max_concurrent_streams,
            goaway_chance=downstream.http2.goaway_chance,
            slow_reader_grace_ns=NEVER_NS if grace_s is None else round(grace_s * 1e9),
        )


class ClientLimits:
    """Counts connections, and refuses those over a limit.

    Attributes:
        shed: Why no new connection is taken, whatever the limits; None if it is.
    """

    def __init__(
        self, settings: LimitSettings, counters: ListenerCounters, *, is_plain: bool = False
    ) -> None:
        self._settings = settings
        self._max_connections = _or_unlimited(settings.max_connections)
        self._counters = counters
        self._open = 0
        self._is_plain = is_plain
        self._by_address: dict[str, int] = {}
        self.shed: Refusal | None = None

    def configure(self, settings: LimitSettings, *, is_plain: bool) -> None:
        """Put limits in force, for whatever comes from now on; `is_plain` as of the listener."""
        self._settings = settings
        self._is_plain = is_plain
        self._max_connections = _or_unlimited(settings.max_connections)

    @property
    def max_connections(self) -> int | None:
        """The most connections that are taken; None for no limit."""
        return None if self._max_connections == UNLIMITED else self._max_connections

    def admit(self, address: str) -> Refusal | None:
        """Count a new connection of a folded address, or say why it cannot be taken."""
        refusal = self.shed
        if refusal is None:
            most = _or_unlimited(self._settings.max_connections_per_address)
            if self._open >= self._max_connections:
                refusal = Refusal.CONNECTIONS
            elif self._by_address.get(address, 0) >= most and address != UNIX_PEER:
                refusal = Refusal.CONNECTIONS_OF_ADDRESS
        if refusal is not None:
            self._counters.connections_refused[refusal] += 1
            return refusal
        self._open += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1
        self._counters.connections_accepted += 1
        self._counters.connections_open += 1
        return None

    def has_room(self, waiting: int) -> bool:
        """Whether one more may come beside those of which nobody knows yet for whom they are."""
        return self.shed is None and self._open + waiting < self._max_connections

    def release(self, address: str) -> None:
        """A connection that was admitted is gone."""
        self._open -= 1
        self._counters.connections_open -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

    def refuse(self, transport: asyncio.Transport, refusal: Refusal) -> None:
        """End a connection over plain TCP that was not admitted.

        With a word where a limit is reached; without one where the proxy has too much to do.
        """
        if refusal is Refusal.CONNECTIONS:
            message = (
                f"the proxy has {self._max_connections} connections, the most that it takes"
                " (downstream.limits.maxConnections); try again later"
            )
        elif refusal is Refusal.CONNECTIONS_OF_ADDRESS:
            message = (
                f"this address has {self._settings.max_connections_per_address} connections,"
                " the most that it may"
                " (downstream.limits.maxConnectionsPerAddress); use one of them"
            )
        else:
            reset(transport)
            return
        self._counters.count_own(503)
        transport.write(
            (own_responses.plain_response if self._is_plain else own_responses.status_response)(
                503, message, extra=b"Retry-After: 1\r\n", connection=b"Connection: close\r\n"
            )
        )
        transport.close()

    def fit(self, descriptors: int, upstream_connections: int, questions: int = 0) -> int | None:
        """Take no more connections than there are descriptors for.

        Args:
            descriptors: Files that the process may have open.
            upstream_connections: The most that there may be towards the upstream; each needs one
                too, and those of clients that are there are no more than these.
            questions: The most that may be under way to the upstream's API.

        Returns:
            The new limit, if there must be one.
        """
        room = descriptors - spared(questions)
        most = max(room // 2, room - upstream_connections, MIN_CONNECTIONS)
        if most >= self._max_connections:
            return None
        self._max_connections = most
        return most

    def left(self, descriptors: int, questions: int = 0) -> int:
        """Connections to the upstream for which descriptors are left, if all clients' are there.

        Clients that are there have no more; but answers that nobody waits for any more may.
        """
        return max(descriptors - spared(questions) - self._max_connections, MIN_CONNECTIONS)


def spared(questions: int) -> int:
    """Descriptors for all but clients and the upstream, with so many questions at most."""
    return SPARE_DESCRIPTORS + max(0, questions - SPARE_QUESTIONS)


def _or_unlimited(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit
