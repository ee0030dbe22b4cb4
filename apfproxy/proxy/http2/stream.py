"""One stream of HTTP/2: the client of one exchange.

    OPEN -> FINISHING -> LINGERING -> CLOSED

All that the streams of a connection send within a turn of the loop goes out in one write, and no
more than the transport takes: the rest waits in the streams, each of which is bounded.

A response may go out before all of its request has come.  The rest is taken for a while and thrown
away: a reset would now and then overtake the response on its way through the client's program.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.transitions import Event
from apfproxy.http.chunked import ChunkedError, encode_chunk, last_chunk, passable_trailers
from apfproxy.http.grammar import HeadError, UnheldError
from apfproxy.http.read_buffer import (
    MAX_LINGER_BYTES,
    NOWHERE,
    READ_BYTES,
    READS,
    WRITE_HIGH_WATER_BYTES,
)
from apfproxy.http.request_body import too_long
from apfproxy.http.request_fields import CHUNKED, SIZED, VIA
from apfproxy.http.response_head import SIZED as SIZED_ANSWER
from apfproxy.http.upgrade import UPGRADE_LINES, connect_lines
from apfproxy.proxy.client import Client
from apfproxy.proxy.client_limits import Holding
from apfproxy.proxy.head_reader import HeadReader
from apfproxy.proxy.http2.available import BINDING
from apfproxy.proxy.reasons import UNHELD

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.flowcontrol.observed_passage import Caller
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import Context, ListenerContext
    from apfproxy.proxy.counters import Bound
    from apfproxy.proxy.exchange import Exchange

_CONTINUE_STATUS: Final = 100
_OK: Final = 200
_PATIENCE_NS: Final = 1_000_000_000
"""Until a client that takes none of a response is not waited for, where memory is short."""

# Codes of RST_STREAM and GOAWAY; RFC 9113, section 7.
NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
INTERNAL_ERROR: Final = 2
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
ENHANCE_YOUR_CALM: Final = 11

OUTPUT_BYTES: Final = 65536


class Http2Output:
    """Holds what the streams of a connection share; `flush` is the connection's."""

    def __init__(
        self,
        shared: ListenerContext,
        router: ClusterRouter,
        counted_as: str,
        flush: Callable[[], None],
    ) -> None:
        assert BINDING is not None, "no one may agree on HTTP/2 without it"
        self.shared = shared
        self.reader = HeadReader(router, is_http2=True)
        in_force = shared.in_force
        self.session = BINDING.Session(
            in_force.max_streams, READ_BYTES, in_force.max_head_bytes, WRITE_HIGH_WATER_BYTES, True
        )
        self.address = ""
        self.callers: list[Caller] = []
        self.forwarded_suffix = b""
        self.flush = flush
        self.transport = NOWHERE
        self.write = NOWHERE.write
        self.is_paused = False
        self.paused_ns = 0
        self._is_flush_due = False
        self._is_writing = False
        self._holding = Holding(shared.holdings, counted_as)

    def flush_soon(self) -> None:
        """Send what streams have to send, all of it at once when this turn of the loop is over."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.shared.loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        if self._is_flush_due:
            self.flush()

    def write_all(self) -> bool:
        """Write as much as the transport takes; False from within another call, which goes on."""
        if self._is_writing:
            return False
        self._is_writing, self._is_flush_due = True, False
        session, counters = self.session, self.shared.counters
        try:
            while not self.is_paused:
                data = session.output(OUTPUT_BYTES)
                if not data:
                    break
                counters.bytes_to_clients += len(data)
                self.write(data)
        finally:
            self._is_writing = False
        return True

    def give_up(self, stream_id: int, code: int) -> None:
        """Reset a stream whose client does not take the rest of a response, or end its request."""
        since_ns = self.shared.clock.now_ns() - self.paused_ns
        if self.is_paused and since_ns >= self.shared.in_force.idle_timeout_ns:
            self.transport.abort()  # it does not take anything
        else:
            self.reset(stream_id, code)

    def reset(self, stream_id: int, code: int) -> None:
        self.session.reset(stream_id, code)
        self.flush_soon()

    def reset_after_error(self, stream_id: int) -> None:
        with contained(Part.CONNECTION, self.shared.loop):
            self.reset(stream_id, INTERNAL_ERROR)

    def change_held(self, by: int) -> Bound | None:
        return self._holding.change(by)

    def refuse(
        self,
        stream_id: int,
        error: HeadError,
        context: Context | None,
        *,
        is_head: bool,
        is_logged: bool = False,
    ) -> None:
        response = self.shared.refuse(
            context, self.address, error, is_head=is_head, is_logged=is_logged
        )
        for lines in (b"Connection: close\r\n", UPGRADE_LINES):
            response = response.replace(lines, b"", 1)
        self.send_whole(stream_id, response)

    def send_whole(self, stream_id: int, response: bytes) -> int:
        """Send a response that is written as HTTP/1.1's; returns the length of its body."""
        end = response.index(b"\r\n\r\n") + 4
        fields = fields_of(response[: end - 2])
        self.session.answer(stream_id, int(response[9:12]), fields, response[end:], True)
        self.flush_soon()
        return len(response) - end


def fields_of(lines: bytes) -> bytes:
    return lines[lines.index(b"\r\n") + 2 :]


class StreamState(enum.StrEnum):
    OPEN = "open"
    FINISHING = "finishing"
    """The exchange is over; what is left of the response, or a reset, is on its way."""
    LINGERING = "lingering"
    """The response has gone out; what still comes of the request is thrown away."""
    CLOSED = "closed"


OPEN: Final = StreamState.OPEN
FINISHING: Final = StreamState.FINISHING
LINGERING: Final = StreamState.LINGERING
CLOSED: Final = StreamState.CLOSED

TRANSITIONS = {
    OPEN: {"finish": FINISHING, "close": CLOSED},
    FINISHING: {"finish": FINISHING, "linger": LINGERING, "close": CLOSED},
    LINGERING: {"close": CLOSED},
    CLOSED: {},
}

FINISH: Final = Event("finish", TRANSITIONS)
LINGER: Final = Event("linger", TRANSITIONS)
CLOSE: Final = Event("close", TRANSITIONS)


class Http2Stream(Client):
    def __init__(
        self, output: Http2Output, stream_id: int, context: Context, head: RequestHead
    ) -> None:
        super().__init__()
        self.exchange: Exchange | None = None
        self.address = output.address
        self.forwarded_suffix = output.forwarded_suffix
        self.callers = output.callers
        self._output = output
        self._session = output.session
        self.stream_id = stream_id
        self._context = context
        self.state: StreamState = OPEN
        self._framing = head.framing
        is_sized = head.framing == SIZED
        self._body_left = head.body_bytes if is_sized else context.in_force.max_body_bytes
        self._is_read_paused = False
        self._unconsumed = 0
        """Bytes of the body for which the client has not been given room again."""
        self._discarded = 0
        self._is_sized_answer = False

    @property
    def peer(self) -> Peer:
        return self._output.reader.peer_at(self._context)

    def begin(self, head: RequestHead, body: bytes, *, is_last: bool) -> bytes:
        most = self._context.in_force.max_body_bytes
        if head.body_bytes > most:
            raise too_long(most)
        if len(body) >= self._context.held_bytes:
            self.pause_reading()  # until there is a connection to pass it on to
        return b"".join(self.frame(body, is_last=is_last))

    def frame(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> list[Piece]:
        """A part of the body as it is forwarded; HeadError if it is too long or malformed."""
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
        if self._framing != SIZED:
            return []
        if left < 0 or (is_last and left):
            raise HeadError(400, "malformed request: its body is not as long as its head says")
        return [data] if data else []

    def take_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        exchange = self.exchange
        if exchange is None:
            self.credit(len(data))
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
        """Let the client send as much again, once it is wanted, or never will be."""
        if self.exchange is None:
            self._discarded += size
            if self._discarded > MAX_LINGER_BYTES:
                return
        elif self._is_read_paused:
            self._unconsumed += size
            return
        if size:
            self._session.consume(self.stream_id, size)
            self._output.flush_soon()

    def refuse(self, error: HeadError, *, is_head: bool) -> None:
        exchange = self.exchange
        has_responded = exchange is not None and exchange.has_responded
        self._finish(self._now_ns())
        if exchange is not None and not exchange.leave(error.code):
            return  # it has failed, and the stream with it
        if has_responded:
            self._output.reset(self.stream_id, PROTOCOL_ERROR)
        else:
            is_logged = exchange is not None
            self._output.refuse(
                self.stream_id, error, self._context, is_head=is_head, is_logged=is_logged
            )

    def change_held(self, by: int) -> Bound | None:
        return self._output.change_held(by)

    @property
    def can_refuse(self) -> bool:
        return True  # RFC 9113, section 8.7: who gets REFUSED_STREAM may send the request again

    def refuse_unprocessed(self, now_ns: int) -> None:
        self._finish(now_ns)
        self._output.reset(self.stream_id, REFUSED_STREAM)

    def pause_reading(self) -> None:
        self._is_read_paused = True

    def resume_reading(self) -> None:
        self._is_read_paused = False
        self._credit_unconsumed()

    def _credit_unconsumed(self) -> None:
        if self._unconsumed:
            size, self._unconsumed = self._unconsumed, 0
            self.credit(size)

    def send_continue(self) -> None:
        self._session.interim(self.stream_id, _CONTINUE_STATUS, b"")
        self._output.flush_soon()

    def send_interim(self, head: ResponseHead) -> None:
        self._session.interim(self.stream_id, head.status, fields_of(head.lines))
        self._output.flush_soon()

    def send_response(
        self, asked: RequestHead, head: ResponseHead, lines: bytes, body: Piece, *, is_whole: bool
    ) -> None:
        del asked
        self._is_sized_answer = head.framing == SIZED_ANSWER
        fields = b"".join((fields_of(head.lines), VIA, lines))
        self._session.answer(self.stream_id, head.status, fields, bytes(body), is_whole)
        self._output.flush_soon()
        if not is_whole:
            self._see_room()

    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        if trailers:
            if size:
                self._session.send(self.stream_id, b"".join(pieces), False)
            self._session.end(self.stream_id, trailers)
        else:
            self._session.send(self.stream_id, b"".join(pieces), is_last)
        self._output.flush_soon()
        if not is_last:
            self._see_room()

    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        response = build(is_head=asked.is_head, extra=extra, connection=b"")
        return self._output.send_whole(self.stream_id, response)

    def end_early(self) -> None:
        if self._is_sized_answer:  # which the client must not take for whole
            self._session.break_off(self.stream_id, INTERNAL_ERROR)
        else:
            self._session.send(self.stream_id, b"", True)
        self._output.flush_soon()

    def _see_room(self) -> None:
        session = self._session
        if session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
            self._output.flush()
            if session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
                self.is_write_paused = True
                session.want_room(self.stream_id)

    @guarded
    def on_room(self) -> None:
        self.is_write_paused = False
        if self.exchange is not None:
            self.exchange.on_downstream_writable()

    def on_exchange_end(self, exchange: object, now_ns: int) -> None:
        if self.exchange is exchange:
            self._finish(now_ns)

    def _finish(self, now_ns: int) -> None:
        self.exchange = None
        self.state = FINISH[self.state]
        self.deadline_ns = now_ns + self._output.shared.in_force.idle_timeout_ns
        self._credit_unconsumed()  # to throw it away

    def linger(self) -> None:
        """The response has gone out, before all of its request came: take the rest for a while."""
        self.state = LINGER[self.state]
        self.deadline_ns = self._now_ns() + self._output.shared.linger_ns

    def on_closed(self) -> None:
        """The client has reset the stream, or both sides are through."""
        self.state = CLOSE[self.state]
        self.deadline_ns = 0
        self._leave()

    def abort_after_write(self) -> None:
        if self.state is OPEN:
            self._finish(self._now_ns())
            self._session.break_off(self.stream_id, INTERNAL_ERROR)
            self._output.flush_soon()

    def abort(self) -> None:
        if self.state is OPEN:
            self._finish(self._now_ns())
            self._output.reset(self.stream_id, INTERNAL_ERROR)

    def reset(self) -> None:
        self.abort()

    @property
    def has_seats(self) -> bool:
        return self.exchange is not None and self.exchange.passage.has_seats

    def _leave(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.leave()

    def fail(self, error: Exception) -> None:
        loop, exchange = self._context.loop, self.exchange
        report(Part.CONNECTION, error, "an error of the proxy itself: a stream is reset", loop=loop)
        self.exchange = None
        if exchange is not None:
            exchange.give_up()
        self._output.reset_after_error(self.stream_id)

    def _now_ns(self) -> int:
        return self._output.shared.clock.now_ns()

    def meet_deadline(self) -> None:
        if self.exchange is not None:
            self.exchange.on_deadline()
        else:
            # Again, where not even the reset can be sent.
            self.deadline_ns = self._now_ns() + self._output.shared.in_force.idle_timeout_ns
            code = NO_ERROR if self.state is LINGERING else CANCEL
            self._output.give_up(self.stream_id, code)

    def relieve(self, now_ns: int) -> None:
        """Give up a response that is through, and that its client does not take."""
        since_ns = self.deadline_ns - self._output.shared.in_force.idle_timeout_ns
        is_late = self.state is FINISHING and now_ns - since_ns >= _PATIENCE_NS
        if is_late and self._session.unsent(self.stream_id) > WRITE_HIGH_WATER_BYTES:
            self.deadline_ns = now_ns

    def leave(self) -> None:
        """Reset the stream, as if the client had: the proxy stops, or its cluster is gone."""
        self._leave()
        self.abort()

    def __repr__(self) -> str:
        return f"<Http2Stream {self.stream_id}, {self.state}>"


class TunnelStream(Http2Stream):
    """The stream of a request with CONNECT.

    What the client sends before there is a tunnel is held: as much as its window allows, which is
    given back when the server can get it.  An end of either side is END_STREAM, a break RST_STREAM.
    """

    def __init__(
        self,
        output: Http2Output,
        stream_id: int,
        context: Context,
        head: RequestHead,
        early: bytes,
        has_ended: bool,
    ) -> None:
        """`early` came behind the head.  HeadError: no tunnel is served, or no room."""
        super().__init__(output, stream_id, context, head)
        if head.upgrade is None:
            raise HeadError(405, "CONNECT is not served there: no WebSocket is (upstream.upgrades)")
        bound = self.change_held(len(early))
        if bound is not None:
            raise UnheldError(UNHELD[bound])
        self._held_early = len(early)
        self._is_read_paused = True
        self._unconsumed = len(early)
        self._early = bytearray(early)
        self._has_early_end = has_ended
        self._is_half_closed = False
        self._end: asyncio.BufferedProtocol | None = None

    @property
    def makes_handshakes(self) -> bool:
        return True  # HTTP/2 has no response 101

    @property
    def can_half_close(self) -> bool:
        return True

    def take_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        end = self._end
        if self.exchange is None:
            return  # its end is on its way
        if trailers:  # RFC 9113, section 8.5
            self._output.reset(self.stream_id, PROTOCOL_ERROR)
        elif end is None:
            if self.change_held(len(data)) is not None:
                self._output.reset(self.stream_id, ENHANCE_YOUR_CALM)
                return
            self._held_early += len(data)
            self._early += data
            self._unconsumed += len(data)
            self._has_early_end = is_last
        else:
            if data:
                READS.view[: len(data)] = data  # as any transport hands it over
                end.buffer_updated(len(data))
                self.credit(len(data))
            if is_last:
                end.eof_received()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        self._end = protocol
        early, self._early = bytes(self._early), bytearray()
        self._uncount_early()
        return early

    def _uncount_early(self) -> None:
        self.change_held(-self._held_early)
        self._held_early = 0

    def resume_reading(self) -> None:
        end = self._end
        if end is None:
            return
        super().resume_reading()
        if self._has_early_end:
            self._has_early_end = False
            end.eof_received()

    def count_tunnelled(self, size: int) -> None:
        """The connection has counted it."""

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:  # noqa: ARG002  the base's signature
        fields = b"".join((connect_lines(fields_of(head.lines)), VIA, lines))
        self._session.answer(self.stream_id, _OK, fields, data, False)
        self._output.flush_soon()
        self._see_room()

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        self.send_body(pieces, size, is_last=False)

    def _see_room(self) -> None:
        super()._see_room()
        if self.is_write_paused and self._end is not None:
            self._end.pause_writing()

    def on_room(self) -> None:
        if self._end is None:
            super().on_room()
        else:
            self._end.resume_writing()

    def half_close(self) -> None:
        self._is_half_closed = True
        self._session.half_close(self.stream_id)
        self._output.flush_soon()

    def linger(self) -> None:
        """Tell the client at once that no one takes what it sends any more."""
        self._output.reset(self.stream_id, NO_ERROR)

    def end_tunnel(self) -> None:
        if self.state is OPEN:
            self._finish(self._now_ns())
            if self._is_half_closed:
                self._session.break_off(self.stream_id, NO_ERROR)
            else:
                self._session.send(self.stream_id, b"", True)
            self._output.flush_soon()

    def abort(self) -> None:
        if self._end is None:
            super().abort()
        elif self.state is OPEN:
            self._finish(self._now_ns())
            self._output.reset(self.stream_id, CANCEL)

    def on_closed(self) -> None:
        end, self._end = self._end, None
        self._uncount_early()
        if end is not None:
            end.connection_lost(ConnectionResetError())
        super().on_closed()

    def connection_lost(self, exc: Exception | None) -> None:
        """The tunnel knows."""
