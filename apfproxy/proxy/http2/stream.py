"""One stream of HTTP/2: the client of one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, report
from apfproxy.base.guarded import guarded
from apfproxy.http.chunked import ChunkedError, encode_chunk, last_chunk, passable_trailers
from apfproxy.http.head_error import HeadError
from apfproxy.http.read_buffer import MAX_LINGER_BYTES, WRITE_HIGH_WATER_BYTES
from apfproxy.http.request_body import too_long
from apfproxy.http.request_fields import CHUNKED, SIZED, VIA
from apfproxy.http.response_head import SIZED as SIZED_ANSWER
from apfproxy.proxy.client import Client
from apfproxy.proxy.http2.error_code import (
    CANCEL,
    INTERNAL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
)
from apfproxy.proxy.http2.stream_state import (
    CLOSE,
    FINISH,
    FINISHING,
    LINGER,
    LINGERING,
    OPEN,
    StreamState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.client import Served
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.counters import Bound
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.proxy.http2.multiplexer import Multiplexer
    from apfproxy.proxy.http2.nghttp2 import Session

_CONTINUE_STATUS: Final = 100
_PATIENCE_NS: Final = 1_000_000_000
"""Until a client that takes none of an answer is not waited for, where memory is short."""


class Http2Stream(Client):
    """One request's stream.

    Attributes:
        exchange: Under way; None once it is over.
        state: Where the stream stands.
        stream_id: Its number.
    """

    __slots__ = (
        "_body_left",
        "_connection",
        "_context",
        "_discarded",
        "_framing",
        "_is_read_paused",
        "_is_sized_answer",
        "_session",
        "_unconsumed",
        "exchange",
        "state",
        "stream_id",
    )

    def __init__(
        self,
        connection: Multiplexer,
        session: Session,
        stream_id: int,
        context: Context,
        head: RequestHead,
    ) -> None:
        """Take a request.

        Args:
            connection: On which it came.
            session: Of that connection.
            stream_id: The stream's number.
            context: Of the request's cluster.
            head: The request's.
        """
        super().__init__()
        self.address = connection.address
        self.forwarded_suffix = connection.forwarded_suffix
        self.callers = connection.callers
        self._connection = connection
        self._session = session
        self.stream_id = stream_id
        self._context = context
        self.exchange: Exchange | None = None
        self.state: StreamState = OPEN
        self._framing = head.framing
        is_sized = head.framing == SIZED
        self._body_left = head.body_bytes if is_sized else context.in_force.max_body_bytes
        self._is_read_paused = False
        self._unconsumed = 0
        """Bytes of the body for which the client has not been given room again."""
        self._discarded = 0
        """Bytes of the body that came when there was an answer already."""
        self._is_sized_answer = False

    @property
    def peer(self) -> Peer:
        """What is known of the client, by the rules of the request's cluster."""
        return self._connection.peer_at(self._context)

    # The request.

    def begin(self, head: RequestHead, body: bytes, *, is_last: bool) -> bytes:
        """The first of the body, as it is forwarded.

        Raises:
            HeadError: As of `frame`.
        """
        most = self._context.in_force.max_body_bytes
        if head.body_bytes > most:
            raise too_long(most)
        if len(body) >= self._context.held_bytes:
            self.pause_reading()  # until there is a connection to pass it on to
        return b"".join(self.frame(body, is_last=is_last))

    def frame(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> list[Piece]:
        """A part of the body as it is forwarded.

        Raises:
            HeadError: It is too long, not as long as the head says, or has a malformed trailer.
        """
        left = self._body_left = self._body_left - len(data)
        if self._framing == CHUNKED:
            if left < 0:
                raise too_long(self._context.in_force.max_body_bytes)
            pieces = encode_chunk([data], len(data))
            if is_last:
                names_user = self._context.client_kinds.names_user
                try:
                    pieces.append(last_chunk(passable_trailers(trailers, names_user)))
                except ChunkedError as error:
                    raise HeadError(400, str(error)) from error
            return pieces
        if self._framing == SIZED:
            if left < 0 or (is_last and left):
                raise HeadError(400, "malformed request: its body is not as long as its head says")
            return [data] if data else []
        return []

    def take_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        """Take a further part of the body."""
        exchange = self.exchange
        if exchange is None:
            self._discard(len(data))
            return
        try:
            pieces = self.frame(data, is_last=is_last, trailers=trailers)
        except HeadError as error:
            self.refuse(error, is_head=exchange.head.is_head)
        else:
            exchange.on_request_body(pieces, is_last=is_last)
        if not is_last:
            self.credit(len(data))

    def credit(self, size: int) -> None:
        """Let the client send as much again, once somebody wants it, or nobody will."""
        if self.exchange is None:
            self._discard(size)
        elif self._is_read_paused:
            self._unconsumed += size
        elif size:
            self._session.consume(self.stream_id, size)
            self._connection.flush_soon()

    def _discard(self, size: int) -> None:
        """Let the client send the rest of what nobody wants, so far as that is not too much."""
        self._discarded += size
        if size and self._discarded <= MAX_LINGER_BYTES:
            self._session.consume(self.stream_id, size)
            self._connection.flush_soon()

    def refuse(self, error: HeadError, *, is_head: bool) -> None:
        """Answer a request whose body cannot be passed on."""
        exchange = self.exchange
        has_responded = exchange is not None and exchange.has_responded
        self._finish(self._connection.now_ns())
        if exchange is not None:
            try:
                exchange.on_malformed(error.code)
            except Exception as bug:  # noqa: BLE001  as `guarded`
                self.fail(bug, exchange)
                return
        if has_responded:
            self._session.reset(self.stream_id, PROTOCOL_ERROR)
            self._connection.flush_soon()
        else:
            self._connection.refuse(
                self.stream_id,
                error,
                self._context,
                is_head=is_head,
                is_logged=exchange is not None,
            )

    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted for the connection, or less."""
        return self._connection.change_held(by)

    @property
    def can_refuse(self) -> bool:
        """RFC 9113, section 8.7: who gets REFUSED_STREAM may send the request again."""
        return True

    def refuse_unprocessed(self, now_ns: int) -> None:
        """Tell the client that nothing was done of its request."""
        self._finish(now_ns)
        self._session.reset(self.stream_id, REFUSED_STREAM)
        self._connection.flush_soon()

    def pause_reading(self) -> None:
        """Take no more of the request's body for now: the client gets no more room."""
        self._is_read_paused = True

    def resume_reading(self) -> None:
        """Take more."""
        self._is_read_paused = False
        if self._unconsumed:
            size, self._unconsumed = self._unconsumed, 0
            self.credit(size)

    # The answer.

    def send_continue(self) -> None:
        """Ask for the body."""
        self._session.interim(self.stream_id, _CONTINUE_STATUS, b"")
        self._connection.flush_soon()

    def send_interim(self, head: ResponseHead) -> None:
        """Send a 1xx answer on."""
        self._session.interim(self.stream_id, head.status, fields_of(head.lines))
        self._connection.flush_soon()

    def send_response(
        self,
        asked: RequestHead,  # noqa: ARG002  the base's signature
        head: ResponseHead,
        lines: bytes,
        body: Piece,
        *,
        is_whole: bool,
    ) -> None:
        """Send the head of the server's answer on, and the first of its body."""
        self._is_sized_answer = head.framing == SIZED_ANSWER
        fields = b"".join((fields_of(head.lines), VIA, lines))
        self._session.answer(self.stream_id, head.status, fields, bytes(body), is_whole)
        self._connection.flush_soon()
        if not is_whole:
            self._see_room()

    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        """Send a further part of the body on, of `size` bytes; `trailers` are whole lines."""
        if trailers:
            if size:
                self._session.send(self.stream_id, b"".join(pieces), False)
            self._session.end(self.stream_id, trailers)
        else:
            self._session.send(self.stream_id, b"".join(pieces), is_last)
        self._connection.flush_soon()
        if not is_last:
            self._see_room()

    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        """Send a whole answer of the proxy's own; says how long its body is."""
        answer = build(is_head=asked.is_head, extra=extra, connection=b"")
        return self._connection.send_whole(self.stream_id, answer)

    def end_early(self) -> None:
        """End the answer of a watch as if it were through."""
        if self._is_sized_answer:  # which the client must not take for whole
            self._session.break_off(self.stream_id, INTERNAL_ERROR)
        else:
            self._session.send(self.stream_id, b"", True)
        self._connection.flush_soon()

    def _see_room(self) -> None:
        """Find out whether the client takes what it gets, and hear of it if it does again."""
        session = self._session
        if session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
            self._connection.flush()
            if session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
                self.is_write_paused = True
                session.want_room(self.stream_id)

    @guarded
    def on_room(self) -> None:
        """The client has taken what was sent."""
        self.is_write_paused = False
        if self.exchange is not None:
            self.exchange.on_downstream_writable()

    # The end.

    @property
    def unanswered_since_ns(self) -> int:
        """When the request under way asked for its seats; 0 if it has not, or has its answer."""
        exchange = self.exchange
        return 0 if exchange is None or exchange.has_responded else exchange.asked_ns

    def on_exchange_end(self, exchange: Served, now_ns: int) -> None:
        """The answer is through; what is left of it is on its way."""
        if self.exchange is exchange:
            self._finish(now_ns)

    def _finish(self, now_ns: int) -> None:
        self.exchange = None
        self.state = FINISH[self.state]
        self.deadline_ns = now_ns + self._connection.idle_timeout_ns
        if self._unconsumed:
            size, self._unconsumed = self._unconsumed, 0
            self._discard(size)

    def linger(self) -> None:
        """The answer has gone out, before all of its request came: take the rest for a while."""
        self.state = LINGER[self.state]
        self.deadline_ns = self._connection.now_ns() + self._connection.linger_ns

    def on_closed(self) -> None:
        """The stream is gone: the client has reset it, or both sides are through."""
        self.state = CLOSE[self.state]
        self.deadline_ns = 0
        self._leave()

    def _leave(self) -> None:
        """End the exchange under way: the client is gone."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            try:
                exchange.on_client_left()
            except Exception as error:  # noqa: BLE001  as `guarded`
                self.fail(error, exchange)

    def abort_after_write(self) -> None:
        """Send what is buffered, then reset the stream."""
        if self.state is OPEN:
            self._finish(self._connection.now_ns())
            self._session.break_off(self.stream_id, INTERNAL_ERROR)
            self._connection.flush_soon()

    def abort(self) -> None:
        """Reset the stream at once."""
        if self.state is OPEN:
            self._finish(self._connection.now_ns())
            self._session.reset(self.stream_id, INTERNAL_ERROR)
            self._connection.flush_soon()

    def reset(self) -> None:
        """Reset the stream at once."""
        self.abort()

    def fail(self, error: Exception, exchange: Served | None = None) -> None:
        """Reset the stream after an error of the program, wherever it came up; never raises."""
        loop = self._context.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: a stream is reset", loop=loop)
        current, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.give_up()
        if current is not None and current is not exchange:
            current.give_up()
        self._connection.reset_after_error(self.stream_id)

    # What the server does.

    @guarded
    def on_deadline(self) -> None:
        """The deadline is over."""
        self.deadline_ns = 0
        if self.exchange is not None:
            self.exchange.on_deadline()
        else:
            # Again, where not even the reset can be sent.
            self.deadline_ns = self._connection.now_ns() + self._connection.idle_timeout_ns
            code = NO_ERROR if self.state is LINGERING else CANCEL
            self._connection.give_up(self.stream_id, code)

    def forget_peer(self) -> None:
        """The connection does."""

    def forget_header_blocks(self) -> None:
        """The connection does."""

    def is_serving(self, cluster: object) -> bool:
        """Whether its request is under way, of the cluster with this context."""
        return self.exchange is not None and self._context is cluster

    def hasten(self, deadline_ns: int) -> None:
        """It is never idle."""

    def relieve(self, now_ns: int) -> None:
        """Give up an answer that is through, and that its client does not take."""
        since_ns = self.deadline_ns - self._connection.idle_timeout_ns
        is_late = self.state is FINISHING and now_ns - since_ns >= _PATIENCE_NS
        if is_late and self._session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
            self.deadline_ns = now_ns

    @property
    def has_seats(self) -> bool:
        """Whether the request under way has seats."""
        return self.exchange is not None and self.exchange.passage.has_seats

    @property
    def can_end_watch(self) -> bool:
        """Whether a watch is under way that can be ended now."""
        return self.exchange is not None and self.exchange.can_end_watch

    @guarded
    def end_watch(self) -> None:
        """End it, if there is one, as if it were through; the proxy is about to stop."""
        if self.exchange is not None and self.exchange.can_end_watch:
            self.exchange.end_watch()

    @property
    def has_websocket(self) -> bool:
        """Whether it is a WebSocket, which has not been told that the proxy goes away."""
        return self.exchange is not None and self.exchange.has_websocket

    @guarded
    def close_websocket(self) -> None:
        """Tell its client that the proxy goes away, and end it."""
        if self.exchange is not None:
            self.exchange.close_websocket()

    def leave(self) -> None:
        """Reset the stream, as if the client had: the proxy stops, or its cluster is gone."""
        self._leave()
        self.abort()

    def __repr__(self) -> str:
        return f"<Http2Stream {self.stream_id}, {self.state}>"


def fields_of(lines: bytes) -> bytes:
    """The header lines of an answer, without its status line."""
    return lines[lines.index(b"\r\n") + 2 :]
