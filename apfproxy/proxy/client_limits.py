"""Limits on what one client, or all of them, may take of the proxy.

1. A connection over a limit is refused as soon as it is accepted, and costs next to nothing more.
2. A client's address counts once in each of its forms: ::ffff:192.0.2.1 is 192.0.2.1.
3. What is kept per address is bounded by the connections: an address without one is forgotten.
4. The proxy takes no more connections than it has descriptors for, so that `accept` never fails.

Bytes of clients that wait in the proxy are counted, and bounded: heads and bodies of requests that
wait for anything, large heads as long as their requests last, and heads and blocks that are not
whole.  What is over a bound is refused; what is counted already stays.

5. A connection may hold so much, however many streams it has.
6. An address may hold so much; without a setting, as much as is left free.  So the first one gets
   half of it all, and two of them a third each: there is always room for one that comes later.
7. All of them together may hold so much.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from apfproxy.base.memory import default_bytes
from apfproxy.base.sockets import UNIX_PEER, reset
from apfproxy.http import own_responses
from apfproxy.proxy.counters import Bound, Refusal

if TYPE_CHECKING:
    import asyncio

    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import DownstreamSettings, LimitSettings, Settings

SPARE_DESCRIPTORS = 256
"""For files, listeners, 64 clients of the admin listener, questions to the upstream's API, and
connections that are accepted only to be refused."""
SPARE_QUESTIONS = 32
"""Descriptors of both kinds together, by default; for more of them more descriptors are spared."""
MIN_CONNECTIONS = 16
"""With fewer the proxy is of no use, whatever the system allows."""
UNLIMITED = sys.maxsize
NEVER_NS = sys.maxsize
LARGE_HEAD_BYTES: Final = 8192
"""Heads up to this size are not counted once their requests go on: most clients' have 2 KiB, those
with tokens of many groups 6."""
LARGE_PART_BYTES: Final = 4096
"""Parts of heads up to this size are not counted."""


class LimitsInForce:
    """Limits on a client, in the hot path's units; a reload replaces all at once."""

    def __init__(self, settings: Settings) -> None:
        downstream, upstream = settings.downstream, settings.upstream
        limits, http2 = downstream.limits, downstream.http2
        grace_s = limits.slow_reader_grace_s
        self.watch = settings.watch
        self.abandoned_wait_ns = round(upstream.abandoned_wait_s * 1e9)
        self.answer_timeout_ns = round(settings.answer_timeout_s * 1e9)
        self.stream_idle_ns = round(settings.stream_idle_timeout_s * 1e9)
        self.head_timeout_ns = round(downstream.head_timeout_s * 1e9)
        self.idle_timeout_ns = round(downstream.idle_timeout_s * 1e9)
        self.probe_idle_ns = round(downstream.keep_alive.idle_s * 1e9)
        self.probe_timeout_ns = round(downstream.keep_alive.timeout_s * 1e9)
        self.tunnel_idle_ns = round(settings.tunnel.idle_timeout_s * 1e9)
        self.max_head_bytes = downstream.max_head_bytes
        self.gathered_body_bytes = limits.gathered_body_bytes
        self.completion_body_bytes = limits.completion_body_bytes
        self.max_body_bytes = _or_unlimited(limits.max_body_bytes)
        self.max_pipelined_requests = _or_unlimited(limits.max_pipelined_requests)
        self.min_body_rate_bytes = limits.min_body_rate_bytes
        self.body_rate_grace_ns = round(limits.body_rate_grace_s * 1e9)
        self.slow_reader_grace_ns = NEVER_NS if grace_s is None else round(grace_s * 1e9)
        self.is_http2_cleartext = http2.is_enabled and http2.is_cleartext
        self.max_streams = http2.max_concurrent_streams
        self.goaway_chance = http2.goaway_chance


class ClientLimits:
    """Counts connections, and refuses those over a limit; `shed` says why all are refused."""

    def __init__(self, settings: LimitSettings, counters: ListenerCounters) -> None:
        self._settings = settings
        self._max_connections = _or_unlimited(settings.max_connections)
        self._counters = counters
        self._open = 0
        self._by_address: dict[str, int] = {}
        self.shed: Refusal | None = None

    def configure(self, settings: LimitSettings) -> None:
        self._settings = settings
        self._max_connections = _or_unlimited(settings.max_connections)

    @property
    def max_connections(self) -> int | None:
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
        """Whether one more may come beside those of which no one knows yet for whom they are."""
        return self.shed is None and self._open + waiting < self._max_connections

    def release(self, address: str) -> None:
        self._open -= 1
        self._counters.connections_open -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

    def refuse(self, transport: asyncio.Transport, refusal: Refusal, *, is_plain: bool) -> None:
        """End a connection over plain TCP; with a word, unless the proxy has too much to do."""
        if refusal is Refusal.CONNECTIONS:
            message = (
                f"the proxy has {self._max_connections} connections, the most that it takes"
                " (downstream.limits.maxConnections); try again later"
            )
        elif refusal is Refusal.CONNECTIONS_OF_ADDRESS:
            message = (
                f"this address has {self._settings.max_connections_per_address} connections, the"
                " most that it may (downstream.limits.maxConnectionsPerAddress); use one of them"
            )
        else:
            reset(transport)
            return
        self._counters.count_own(503)
        build = own_responses.plain_response if is_plain else own_responses.status_response
        lines, connection = b"Retry-After: 1\r\n", b"Connection: close\r\n"
        transport.write(build(503, message, extra=lines, connection=connection))
        transport.close()

    def fit(self, descriptors: int, upstream_connections: int, questions: int = 0) -> int | None:
        """Take no more connections than there are descriptors for: the limit, if it is lower."""
        room = descriptors - spared(questions)
        most = max(room // 2, room - upstream_connections, MIN_CONNECTIONS)
        if most >= self._max_connections:
            return None
        self._max_connections = most
        return most

    def left(self, descriptors: int, questions: int = 0) -> int:
        """Connections to the upstream for which descriptors are left beside all clients'."""
        return max(descriptors - spared(questions) - self._max_connections, MIN_CONNECTIONS)


SPARED_PART = 4
"""This part of the room is for bytes that need not be held.  One address may hold half of it all,
so there is room left for its other requests."""


class Holding:
    __slots__ = ("_address", "_all", "held")

    def __init__(self, holdings: Holdings, address: str) -> None:
        self._all = holdings
        self._address = address
        self.held = 0

    def change(self, by: int) -> Bound | None:
        """Hold so much more, or less; or nothing more where that is over a bound: that bound."""
        holdings, address = self._all, self._address
        if by > 0:
            bound = holdings.bound_on(self.held, address, by)
            if bound is not None:
                holdings.counters.held_refusals[bound] += 1
                return bound
        self.held += by
        holdings.counters.held_bytes += by
        of_address = holdings.by_address.get(address, 0) + by
        if of_address:
            holdings.by_address[address] = of_address
        else:
            holdings.by_address.pop(address, None)
        return None


class Holdings:
    """The bytes that are held for all connections of a listener, and by address.

    A head of `free_bytes` is not counted where its request goes on at once; -1 while memory is
    short, since every request is refused then.
    """

    def __init__(self, settings: DownstreamSettings, counters: ListenerCounters) -> None:
        self.counters = counters
        self.by_address: dict[str, int] = {}
        self.free_bytes = LARGE_HEAD_BYTES
        self._most = 0
        self._most_of_address: int | None = None
        self.most_of_connection = 0
        self.configure(settings)

    def configure(self, settings: DownstreamSettings) -> None:
        limits = settings.limits
        most = limits.max_held_bytes
        self._most = default_bytes(settings.overload.memory_bytes) if most is None else most
        self._most_of_address = limits.max_held_bytes_per_address
        self.most_of_connection = limits.max_held_bytes_per_connection

    def set_short(self, *, is_short: bool) -> None:
        self.free_bytes = -1 if is_short else LARGE_HEAD_BYTES

    def can_spare(self, size: int) -> bool:
        """Whether so much may be held that need not be: most of the room is for what must."""
        return self.counters.held_bytes + size <= self._most // SPARED_PART

    def bound_on(self, held: int, address: str, more: int) -> Bound | None:
        """The bound over which a connection would be that holds more; None if it may."""
        if self.free_bytes < 0:
            return Bound.OVERLOAD
        if held + more > self.most_of_connection:
            return Bound.CONNECTION
        left = self._most - self.counters.held_bytes
        if more > left:
            return Bound.PROCESS
        if address != UNIX_PEER:
            most = left - more if self._most_of_address is None else self._most_of_address
            if self.by_address.get(address, 0) + more > most:
                return Bound.ADDRESS
        return None

    def __repr__(self) -> str:
        return f"<Holdings: {self.counters.held_bytes} of {self._most} bytes>"


def spared(questions: int) -> int:
    """Descriptors for all but clients and the upstream, with so many questions at most."""
    return SPARE_DESCRIPTORS + max(0, questions - SPARE_QUESTIONS)


def _or_unlimited(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit
