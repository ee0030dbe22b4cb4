"""Clients, as server and exchange see them, and what all connections of a listener share.

An exchange has a `Client`: a connection of HTTP/1.1, or a stream of HTTP/2.  How a response is
framed, and whether more may come behind it, is the protocol's.  Base classes, not a `Protocol`:
compiled code calls their methods as fast as functions.
"""

from __future__ import annotations

import logging
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from apfproxy.base.faults import guarded
from apfproxy.base.rare_log import RareLog
from apfproxy.base.sockets import Disconnects
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.http.read_buffer import READ_BYTES
from apfproxy.proxy.client_limits import ClientLimits, Holdings, LimitsInForce
from apfproxy.proxy.request import MemoryBudget
from apfproxy.proxy.tracing import made_audit_lines

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.observed_passage import Caller
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.counters import Bound, ListenerCounters
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20
"""Bounds the field sections of all kinds of clients and clusters: one with the token of a service
account takes 5 KiB."""
MAX_KEPT_SUFFIXES = 4096
"""Addresses of clients as bytes, shared by their connections."""


class OpenConnection(ABC):
    """A client's connection, or a stream of one, as the server sees it.

    Attributes:
        deadline_ns: When `on_deadline` is due, or 0.
        exchange: Under way; a connection of HTTP/2 has none, since its streams have them.
    """

    def __init__(self) -> None:
        self.deadline_ns = 0
        self.exchange: Exchange | None = None

    @guarded
    def on_deadline(self) -> None:
        """The deadline is over; raises nothing."""
        self.deadline_ns = 0
        self.meet_deadline()

    @abstractmethod
    def meet_deadline(self) -> None:
        """Do what is due when the deadline is over."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Close after an error of the program, wherever it came up; never raises."""

    def forget_peer(self) -> None:  # noqa: B027  nor has a stream anything to do here
        """Find out again what kind of client this is, when its next request comes."""

    def forget_header_blocks(self) -> None:  # noqa: B027
        """Forget the header blocks by which it is known: its kind has forgotten some."""

    def close_when_idle(self, deadline_ns: int) -> None:  # noqa: B027
        """Let the connection, if it is idle, close by then at the latest."""

    def relieve(self, now_ns: int) -> None:
        """Let go of what is of no use right now: memory is short."""
        self.close_when_idle(now_ns)

    def is_serving(self, cluster: object) -> bool:
        """Whether a request is under way on it of the cluster with this context."""
        return self.exchange is not None and self.exchange.context is cluster

    @property
    def has_seats(self) -> bool:
        return self.exchange is not None and self.exchange.passage.has_seats

    @property
    def can_end_watch(self) -> bool:
        return self.exchange is not None and self.exchange.can_end_watch

    @guarded
    def end_watch(self) -> None:
        """End the watch, if there is one, as if it were through; raises nothing."""
        if self.exchange is not None and self.exchange.can_end_watch:
            self.exchange.end_watch()

    @property
    def has_websocket(self) -> bool:
        """Whether it is a WebSocket, which has not been told that the proxy goes away."""
        return self.exchange is not None and self.exchange.has_websocket

    @guarded
    def close_websocket(self) -> None:
        """Tell the client of a WebSocket that the proxy goes away, and end it; raises nothing."""
        if self.exchange is not None and self.exchange.has_websocket:
            self.exchange.close_websocket()

    @abstractmethod
    def leave(self) -> None:
        """Break the response under way and close: the proxy stops.  Asked again, close at once."""


class Client(OpenConnection):
    """Takes one response after the other.

    Attributes:
        forwarded_suffix: Ends the head of a forwarded request: the client's address.
        held: Bytes that are counted for the request under way.
        is_write_paused: Whether the client is slow to take a response.
        keep_alive: Whether another request may follow the one under way.
        callers: As of `ObservedPassage`; None before there was one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self.forwarded_suffix = b""
        self.held = 0
        self.is_write_paused = False
        self.keep_alive = True
        self.callers: list[Caller] | None = None

    @property
    @abstractmethod
    def peer(self) -> Peer: ...

    @abstractmethod
    def send_continue(self) -> None:
        """Ask for the request's body."""

    @abstractmethod
    def send_interim(self, head: ResponseHead) -> None:
        """Send a 1xx response on."""

    @abstractmethod
    def send_response(
        self, asked: RequestHead, head: ResponseHead, lines: bytes, body: Piece, *, is_whole: bool
    ) -> None:
        """Send the upstream's response on: its head, with `lines` added, and the first of its body.

        `body` is valid for the time of the call; `is_whole` says whether it is all of it.
        """

    @abstractmethod
    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        """Send a further part of the body on: `pieces` of `size` bytes, valid during the call.

        `trailers` are whole lines.
        """

    @abstractmethod
    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        """Send a response of the proxy's own; returns the length of its body.

        `build` is one of `own_responses`, and `extra` more header lines for it.
        """

    @abstractmethod
    def end_early(self) -> None:
        """End the response to a watch as if it were through: the proxy stops."""

    def hold(self, size: int) -> Bound | None:
        """Count `size` bytes for the request under way, or as many as before over this bound."""
        bound = self.change_held(size - self.held)
        if bound is None:
            self.held = size
        return bound

    @abstractmethod
    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted for the connection, or less; as of `Holding.change`."""

    @property
    def can_refuse(self) -> bool:
        """Whether the client can be told, without a response, that nothing was done."""
        return False

    def refuse_unprocessed(self, now_ns: int) -> None:
        """Tell it so: it may send the request again."""
        raise NotImplementedError

    @abstractmethod
    def pause_reading(self) -> None:
        """Take no more of the request's body for now."""

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def on_exchange_end(self, exchange: Exchange, now_ns: int) -> None:
        """The response is through."""

    def _leave(self, refused_with: int = 0) -> None:
        """End the exchange under way: the client is gone, or is refused with a code."""
        exchange = self.exchange
        if exchange is not None:
            self.exchange = None
            try:
                if refused_with:
                    exchange.on_malformed(refused_with)
                else:
                    exchange.on_client_left()
            except Exception as error:  # noqa: BLE001  as `guarded`
                self.fail(error, exchange)

    @abstractmethod
    def abort_after_write(self) -> None:
        """Send what is buffered, then close without ending the response."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once, so that no one takes what is cut short for the whole."""

    @abstractmethod
    def reset(self) -> None:
        """Close at once, with a reset whatever is unsent."""

    @abstractmethod
    def fail(self, error: Exception, exchange: Exchange | None = None) -> None:
        """Do the same; `exchange` is where it came up, if that is not here any more."""

    def _give_up(self, exchange: Exchange | None) -> None:
        """End the exchange under way, and another one, after an error in either; never raises."""
        current, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.give_up()
        if current is not None and current is not exchange:
            current.give_up()

    # Tunnels: of clients that can ask for one.

    @property
    def makes_handshakes(self) -> bool:
        """Whether the handshake is the proxy's: the client has none, and takes success for it."""
        return False

    @property
    def can_half_close(self) -> bool:
        """Whether the client can be told that no more comes, and go on itself."""
        raise NotImplementedError

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Have another protocol take what comes, for good: what has come and was not taken."""
        raise NotImplementedError

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:
        """Send the upstream's response 101, with `lines` added, and the first bytes behind it."""
        raise NotImplementedError

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        """Send `size` bytes of the tunnel."""
        raise NotImplementedError

    def half_close(self) -> None:
        """Tell the client that no more comes, behind what is unsent."""
        raise NotImplementedError

    def end_tunnel(self) -> None:
        """End the tunnel behind what is unsent."""
        raise NotImplementedError

    def count_tunnelled(self, size: int) -> None:
        """The tunnel has taken bytes from the client."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was handed over: it is gone."""
        raise NotImplementedError


class ListenerContext:
    """Holds what connections need before they know whose request it is, and what exists once.

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
        """Find the cluster of each connection, and its user, again at its next request."""
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
