"""A client's connection as exchange and server see it: it is sent to, paused and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.faults import Part, contained, report
from apfproxy.proxy.client import Client
from apfproxy.proxy.client_limits import reset
from apfproxy.proxy.guarded import guarded
from apfproxy.proxy.head_error import HeadError
from apfproxy.proxy.read_buffer import NOWHERE, write_pieces
from apfproxy.proxy.tls import peer_certificates

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.proxy.client import Served
    from apfproxy.proxy.client_kinds import Heads
    from apfproxy.proxy.cluster_router import ClusterRouter, Route
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.proxy.listener_context import ListenerContext
    from apfproxy.proxy.read_buffer import Piece
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.request_body import RequestBody
    from apfproxy.proxy.request_head import HeadProbe
    from apfproxy.proxy.sender import Sender


class ClientConnection(Client):
    """One client's connection.

    Attributes:
        address: The client's; "" until the connection has come about.
        deadline_ns: When `on_deadline` is due, or 0; the server's sweep looks at it.
        keep_alive: Whether another request may follow the one under way.
        forwarded_suffix: Ends the head of every forwarded request: the client's address.
        is_write_paused: Whether the client is slow to take an answer.
        was_made: Whether the connection has come about; then it says itself when it is gone.
    """

    __slots__ = (
        "_body",
        "_context",
        "_counted_as",
        "_discards_body",
        "_exchange",
        "_heads",
        "_is_closed",
        "_is_handed_over",
        "_is_lingering",
        "_is_read_paused",
        "_known",
        "_last_head",
        "_last_request",
        "_linger_bytes",
        "_pending",
        "_pipelined",
        "_probe",
        "_probed_bytes",
        "_router",
        "_shared",
        "_tls_group",
        "_transport",
        "was_made",
        "write",
    )

    def __init__(
        self, shared: ListenerContext, router: ClusterRouter, counted_as: str = ""
    ) -> None:
        """Take a connection.

        Args:
            shared: What it shares with all others.
            router: Says which cluster its requests are of.
            counted_as: Its address if the limits know of it.
        """
        super().__init__()
        self._shared = shared
        self._router = router
        self._context: Context | None = router.only
        """Of the cluster that its last request was of; None before that is known."""
        self._tls_group: Hashable = None
        """Of the clusters that its handshake was for; None if it was for any."""
        self._counted_as = counted_as
        """The address under which the limits count this connection; "" while they do not."""
        self._transport = NOWHERE
        self.write = NOWHERE.write
        self._heads: Heads | None = None
        self._known: list[Sender] = []
        """By what it is known: the senders of its last requests."""
        self._last_head = b""
        """The last head that stood alone in a read, if it was short."""
        self._last_request: Request | None = None
        """The request of that head, if it came twice."""
        self._exchange: Exchange | None = None
        self._body: RequestBody | None = None
        """Of the last request, until it is through."""
        self._discards_body = False
        self._pending: bytes | bytearray = b""
        """What has come and is not taken; once there is more of it than a read, in an array."""
        self._pipelined = 0
        """Requests begun, one after the other, from what had come before the one before ended."""
        self._probe: HeadProbe | None = None
        self._probed_bytes = 0
        self._is_closed = False
        self._is_handed_over = False
        self._is_read_paused = False
        self._is_lingering = False
        self._linger_bytes = 0
        """Bytes thrown away since the last answer."""
        self.was_made = False

    def forget_peer(self) -> None:
        """Find out anew what kind of client this is, when its next request comes.

        Not at once: for many connections, each with a certificate of its own, that takes seconds.
        """
        self._heads = None
        self.forget_senders()

    def forget_senders(self) -> None:
        """Forget by what the connection is known."""
        self._known.clear()
        self._last_request = None

    def _enter(self, route: Route | None) -> None:
        """Be a connection to another cluster, or to none, and know nothing of the one before.

        Raises:
            HeadError: The cluster has no room for it, or wants a connection of its own.
        """
        if self._context is not None:
            self._context.connection_count -= 1
            self._context = None
        self.forget_peer()
        if route is None:
            return
        context = route.context
        assert context is not None
        if self._tls_group is not None and route.tls_group != self._tls_group:
            # Its client was asked for a certificate of other CAs, and may have another one here.
            raise HeadError(
                421,
                f"the cluster {route.name} has another certificate, or other clients', than the"
                " host of the TLS handshake: open another connection for it",
            )
        if route.max_connections is not None and context.connection_count >= route.max_connections:
            raise HeadError(
                503,
                f"the cluster {route.name} has {context.connection_count} connections, the most"
                " that it takes (maxConnections); use one of them, or try again later",
                b"Retry-After: 1\r\n",
            )
        context.connection_count += 1
        self._context = context

    def _heads_of_peer(self, context: Context) -> Heads:
        return self._heads or self._learn_peer(context)

    def _learn_peer(self, context: Context) -> Heads:
        """Find out what kind of client this is, and how its requests are to be read."""
        is_tls = self._transport.get_extra_info("ssl_object") is not None
        leaf, chain = peer_certificates(self._transport) if is_tls else (None, ())
        heads = context.client_kinds.heads_of(self.address, leaf, chain, is_tls=is_tls)
        self._heads = heads
        return heads

    @property
    def peer(self) -> Peer:
        """What is known of the client, by the cluster of its last request."""
        assert self._context is not None
        return self._heads_of_peer(self._context).peer

    def send(self, data: bytes) -> None:
        """Send a part of an answer."""
        if not self._is_closed:
            self._shared.counters.bytes_to_clients += len(data)
            self.write(data)

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        """Send pieces of an answer, of `size` bytes together."""
        if not self._is_closed:
            self._shared.counters.bytes_to_clients += size
            write_pieces(self._transport, pieces, size)

    def pause_reading(self) -> None:
        """Take no more of the request's body for now."""
        if not self._is_read_paused and not self._is_closed:
            self._is_read_paused = True
            self._transport.pause_reading()
            if not self._is_handed_over:
                self._shared.absences.watch(self)

    def resume_reading(self) -> None:
        """Take more."""
        if self._is_read_paused and not self._is_closed:
            self._is_read_paused = False
            self._shared.absences.forget(self)
            self._transport.resume_reading()

    @property
    def transport(self) -> asyncio.Transport:
        """The client's."""
        return self._transport

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Let another protocol have the transport, for good: what has come and was not taken."""
        pending, self._pending = bytes(self._pending), b""
        self._is_handed_over = True
        self._transport.set_protocol(protocol)
        return pending

    def may_keep_alive(self) -> bool:
        """Whether the connection goes on after the answer that is about to start; decides it."""
        body = self._body
        if self._shared.is_draining or (body is not None and not body.is_worth_discarding):
            self.keep_alive = False
        return self.keep_alive

    def abort(self) -> None:
        """Close at once, with a reset if anything is unsent."""
        self._exchange = None
        self._is_closed = True
        self._transport.abort()

    def reset(self) -> None:
        """Close at once, with a reset whatever is unsent."""
        self._exchange = None
        self._is_closed = True
        reset(self._transport)

    def fail(self, error: Exception, exchange: Served | None = None) -> None:
        """Close after an error of the program, wherever it came up; never raises."""
        loop = self._shared.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: closed", loop=loop)
        current, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.give_up()
        if current is not None and current is not exchange:
            current.give_up()
        with contained(Part.CONNECTION, loop):
            self.abort()

    def abort_after_write(self) -> None:
        """Send what is buffered, then close without ending the answer."""
        self._exchange = None
        if not self._is_closed:
            self._is_closed = True
            # The transport itself would wait without end for a client that takes nothing.
            self.deadline_ns = self._shared.clock.now_ns() + self._shared.in_force.idle_timeout_ns
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether it has no request, not even the start of one."""
        return self._exchange is None and not self._pending and self._body is None

    @property
    def exchange(self) -> Exchange | None:
        """The exchange under way."""
        return self._exchange

    def is_serving(self, cluster: object) -> bool:
        """Whether a request is under way on it of the cluster with this context."""
        return self._exchange is not None and self._context is cluster

    @property
    def has_seats(self) -> bool:
        """Whether the request under way has seats."""
        return self._exchange is not None and self._exchange.passage.has_seats

    @property
    def has_long_answer(self) -> bool:
        """Whether the answer of a long-running request is under way."""
        exchange = self._exchange
        return exchange is not None and exchange.is_long_running and exchange.has_answered

    @guarded
    def end_long_answer(self) -> None:
        """End it, if there is one, as if it were through; the proxy is about to stop."""
        if self._exchange is not None and self.has_long_answer:
            self._exchange.end_long_answer()

    def hasten(self, deadline_ns: int) -> None:
        """Let the connection, if it is idle, close by then at the latest."""
        if self.is_idle and self.deadline_ns > deadline_ns:
            self.deadline_ns = deadline_ns

    @guarded
    def on_absence(self) -> None:
        """The client has ended or broken its connection, of which nothing is read for now."""
        self._leave()
        self.abort_after_write()

    def leave(self) -> None:
        """Close at once, as if the client had: the proxy stops."""
        self._leave()
        self.abort()

    def _wait_for_client(self) -> None:
        """Take no more requests from a client that does not take the answers to those it made."""
        if self._body is None and not self._is_lingering:
            self.pause_reading()

    def _linger(self) -> None:
        """Close so that the client gets the last answer: end our side, read on for a while.

        A connection closed with bytes unread is reset, and a reset overtakes the answer.
        """
        if self._is_closed:
            return
        # Without a half-close (TLS has none) all that can be done is to read on, which is of use
        # only where more is to come: else the client must see the end at once.
        if not self._transport.can_write_eof() and self._body is None and not self._pending:
            self.resume_reading()
            self.abort_after_write()
            return
        self.keep_alive = False
        self._pending = b""
        self._body = None
        self._is_lingering = True
        self.deadline_ns = self._shared.clock.now_ns() + self._shared.linger_ns
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.resume_reading()

    def _leave(self, refused_with: int = 0) -> None:
        """End the exchange under way: the client is gone, or is refused with a code."""
        exchange = self._exchange
        if exchange is not None:
            self._exchange = None
            try:
                if refused_with:
                    exchange.on_malformed(refused_with)
                else:
                    exchange.on_client_left()
            except Exception as error:  # noqa: BLE001  as `guarded`
                self.fail(error, exchange)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'idle' if self.is_idle else self._exchange}>"
