"""A client's connection as exchange and server see it: it is sent to, paused and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, contained, report
from apfproxy.base.guarded import guarded
from apfproxy.base.sockets import hold_reset, reset
from apfproxy.http.chunked import chunk_frame, encode_chunk, last_chunk
from apfproxy.http.read_buffer import LARGE_BYTES, NOWHERE, write_pieces
from apfproxy.http.request_fields import VIA
from apfproxy.http.response_head import CHUNKED
from apfproxy.http.upgrade import switch_lines
from apfproxy.proxy import own_responses
from apfproxy.proxy.client import Client
from apfproxy.proxy.header_blocks import HeadReader

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_body import RequestBody
    from apfproxy.http.request_head import HeadProbe, RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.client import Served
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.counters import Bound
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.proxy.holdings import Holding
    from apfproxy.proxy.listener_context import ListenerContext

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


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
        "_counted_as",
        "_discards_body",
        "_exchange",
        "_held_pending",
        "_holding",
        "_is_chunked",
        "_is_closed",
        "_is_handed_over",
        "_is_lingering",
        "_is_read_paused",
        "_is_unframed",
        "_linger_bytes",
        "_may_be_http2",
        "_pending",
        "_pipelined",
        "_probe",
        "_probed_bytes",
        "_reader",
        "_router",
        "_shared",
        "_transport",
        "was_made",
        "write",
    )

    def __init__(
        self,
        shared: ListenerContext,
        router: ClusterRouter,
        counted_as: str = "",
        address: str = "",
    ) -> None:
        """Take a connection.

        Args:
            shared: What it shares with all others.
            router: Says which cluster its requests are of.
            counted_as: Its address if the limits know of it.
            address: Of the client, if another one's than the connection has.
        """
        super().__init__()
        self.address = address
        self._shared = shared
        self._router = router
        self._reader = HeadReader(router)
        self._counted_as = counted_as
        """The address under which the limits count this connection; "" while they do not."""
        self._transport = NOWHERE
        self.write = NOWHERE.write
        self._exchange: Exchange | None = None
        self._body: RequestBody | None = None
        """Of the last request, until it is through."""
        self._discards_body = False
        self._pending: bytes | bytearray = b""
        """What has come and is not taken; once there is more of it than a read, in an array."""
        self._holding: Holding | None = None
        """What is counted of it; made once anything is."""
        self._held_pending = 0
        """What is counted of `_pending`."""
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
        self._may_be_http2 = False
        """Whether its first bytes may be those of HTTP/2."""
        self._is_chunked = False
        """Whether the answer under way is sent in chunks."""
        self._is_unframed = False
        """Whether only the connection's end is the end of what is under way."""
        self.was_made = False

    def forget_peer(self) -> None:
        """Find out anew what kind of client this is, when its next request comes."""
        self._reader.forget_peer()

    def forget_header_blocks(self) -> None:
        """Forget by what the connection is known."""
        self._reader.forget_header_blocks()

    @property
    def peer(self) -> Peer:
        """What is known of the client, by the cluster of its last request."""
        context = self._reader.context
        assert context is not None
        return self._reader.peer_at(context)

    def send_interim(self, head: ResponseHead) -> None:
        """Send a 1xx answer on."""
        self.send(head.lines + b"\r\n")

    def send_continue(self) -> None:
        """Ask for the body."""
        self.send(_CONTINUE)

    def send_response(
        self, asked: RequestHead, head: ResponseHead, lines: bytes, body: Piece, *, is_whole: bool
    ) -> None:
        """Send the head of the server's answer on, and the first of its body."""
        keep_alive = self.may_keep_alive()
        framing = start = end = b""
        self._is_chunked = False
        if head.framing >= CHUNKED:
            if asked.is_http_10:
                keep_alive = self.keep_alive = False
                self._is_unframed = True
                hold_reset(self._transport)
            else:
                self._is_chunked = True
                framing = b"Transfer-Encoding: chunked\r\n"
                start, end = chunk_frame(len(body), is_whole=is_whole)
        if keep_alive:
            connection = b"Connection: keep-alive\r\n\r\n" if asked.is_http_10 else b"\r\n"
        else:
            connection = b"Connection: close\r\n\r\n"
        before = (head.lines, VIA, lines, framing, connection, start)
        if len(body) < LARGE_BYTES:
            self.send(b"".join((*before, body, end)))
        else:
            self._send_large(b"".join(before), body, end)

    def _send_large(self, start: bytes, body: Piece, end: bytes) -> None:
        pieces = (start, body, end) if end else (start, body)
        self.send_pieces(pieces, sum(map(len, pieces)))

    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        """Send a further part of the body on, of `size` bytes; `trailers` are whole lines."""
        if self._is_chunked:
            pieces = framed = encode_chunk(pieces, size)
            if is_last:
                framed.append(last_chunk(trailers))
            size = sum(map(len, framed))
        if size:
            self.send_pieces(pieces, size)

    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        """Send a whole answer of the proxy's own; says how long its body is."""
        connection = b""
        if not self.may_keep_alive():
            connection = b"Connection: close\r\n"
        elif asked.is_http_10:
            connection = b"Connection: keep-alive\r\n"
        answer = build(is_head=asked.is_head, extra=extra, connection=connection)
        self.send(answer)
        return own_responses.body_bytes(answer)

    def end_early(self) -> None:
        """End the answer of a watch as if it were through, and the connection."""
        if self._is_chunked:
            self.send(last_chunk(b""))
        self.keep_alive = False

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

    def _take_all_pending(self) -> bytes:
        """What has come and was not taken, which is not kept here any more."""
        pending, self._pending = bytes(self._pending), b""
        if self._held_pending:
            self.change_held(-self._held_pending)
            self._held_pending = 0
        return pending

    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted, or less."""
        if self._holding is None:
            if not by:
                return None
            self._holding = self._shared.holdings.holding(self._counted_as)
        return self._holding.change(by)

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

    @property
    def can_half_close(self) -> bool:
        """Whether the client can be told that no more comes: not by TLS."""
        return self._transport.can_write_eof()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Let another protocol have the transport, for good: what has come and was not taken."""
        pending = self._take_all_pending()
        self._is_handed_over = self._is_unframed = True
        self._transport.set_protocol(protocol)
        return pending

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:
        """Send the answer 101 on, and the first bytes behind it."""
        self.send(b"".join((switch_lines(head.lines + VIA + lines, protocol), b"\r\n", data)))

    def half_close(self) -> None:
        """Tell the client that no more comes."""
        self._transport.write_eof()

    def end_tunnel(self) -> None:
        """End the tunnel behind what is unsent."""
        self._is_unframed = False
        self.abort_after_write()

    def count_tunnelled(self, size: int) -> None:
        """The tunnel has read of the transport."""
        self._shared.counters.bytes_from_clients += size

    def may_keep_alive(self) -> bool:
        """Whether the connection goes on after the answer that is about to start; decides it."""
        body = self._body
        if self._shared.is_draining or (body is not None and not body.is_worth_discarding):
            self.keep_alive = False
        return self.keep_alive

    def abort(self) -> None:
        """Close at once, with a reset where an end could be taken for that of an answer."""
        if self._is_unframed or self._transport.get_write_buffer_size():
            self.reset()
            return
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
        if self._is_unframed:
            self.reset()
            return
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
        return self._exchange is not None and self._reader.context is cluster

    @property
    def has_seats(self) -> bool:
        """Whether the request under way has seats."""
        return self._exchange is not None and self._exchange.passage.has_seats

    @property
    def can_end_watch(self) -> bool:
        """Whether a watch is under way that can be ended now."""
        return self._exchange is not None and self._exchange.can_end_watch

    @guarded
    def end_watch(self) -> None:
        """End it, if there is one, as if it were through; the proxy is about to stop."""
        if self._exchange is not None and self._exchange.can_end_watch:
            self._exchange.end_watch()

    @property
    def has_websocket(self) -> bool:
        """Whether it is a WebSocket, which has not been told that the proxy goes away."""
        return self._exchange is not None and self._exchange.has_websocket

    @guarded
    def close_websocket(self) -> None:
        """Tell its client that the proxy goes away, and end it."""
        if self._exchange is not None:
            self._exchange.close_websocket()

    def relieve(self, now_ns: int) -> None:
        """Close, if it is idle: memory is short."""
        self.hasten(now_ns)

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
        if self._is_unframed:
            self._is_unframed = False
            hold_reset(self._transport, is_held=False)
        # Without a half-close (TLS has none) all that can be done is to read on, which is of use
        # only where more is to come: else the client must see the end at once.
        if not self._transport.can_write_eof() and self._body is None and not self._pending:
            self.resume_reading()
            self.abort_after_write()
            return
        self.keep_alive = False
        self._take_all_pending()
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
