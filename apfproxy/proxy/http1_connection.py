"""A client's connection of HTTP/1.1: its requests, taken apart and begun one after the other.

    NEW -> OPEN -> LINGERING -> CLOSED
             `---> TUNNEL ------^

While it is open it reads a head, then it has an exchange; what is left of a request's body when its
response is through is discarded.  Pipelined requests get their responses in their order: while one
is under way, what follows it waits unparsed, up to a read's worth, and beyond that in the kernel.
"""

from __future__ import annotations

import enum
import re
import select
from typing import TYPE_CHECKING, Final, cast

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.sockets import address_of, hold_reset, reset
from apfproxy.base.transitions import Event
from apfproxy.http import own_responses
from apfproxy.http.chunked import ChunkedError, chunk_frame, encode_chunk, last_chunk
from apfproxy.http.grammar import HeadError, UnheldError, head_too_long
from apfproxy.http.read_buffer import (
    LARGE_BYTES,
    MAX_LINGER_BYTES,
    NOBODY,
    NOWHERE,
    READS,
    WRITE_HIGH_WATER_BYTES,
    write_pieces,
)
from apfproxy.http.request_body import RequestBody, too_long
from apfproxy.http.request_fields import SIZED, VIA
from apfproxy.http.request_head import HeadProbe
from apfproxy.http.response_head import CHUNKED
from apfproxy.http.upgrade import switch_lines
from apfproxy.proxy.client import Client
from apfproxy.proxy.client_limits import LARGE_PART_BYTES, Holding
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.head_reader import HeadReader
from apfproxy.proxy.http2.available import BINDING
from apfproxy.proxy.http2.connection import PREFACE, Http2Connection
from apfproxy.proxy.reasons import UNHELD
from apfproxy.proxy.tls import speaks_http2

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import ListenerContext
    from apfproxy.proxy.counters import Bound
    from apfproxy.proxy.request import Request

_EMPTY_LINES: Final = re.compile(rb"\A(?:\r\n)+")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

MIN_PREFACE_BYTES: Final = 3
"""Bytes of the preface of HTTP/2: no method of HTTP/1.1 begins so."""


class Http1State(enum.StrEnum):
    NEW = "new"
    OPEN = "open"
    TUNNEL = "tunnel"
    LINGERING = "lingering"
    """Our side has ended; what still comes is thrown away."""
    CLOSED = "closed"
    """It is closed, or will be once what was written is through; or it speaks HTTP/2."""


NEW: Final = Http1State.NEW
OPEN: Final = Http1State.OPEN
TUNNEL: Final = Http1State.TUNNEL
LINGERING: Final = Http1State.LINGERING
CLOSED: Final = Http1State.CLOSED

TRANSITIONS = {
    NEW: {"open": OPEN, "close": CLOSED},
    OPEN: {"hand over": TUNNEL, "linger": LINGERING, "close": CLOSED},
    TUNNEL: {"close": CLOSED},
    LINGERING: {"close": CLOSED},
    CLOSED: {"close": CLOSED},
}

_OPEN_UP: Final = Event("open", TRANSITIONS)
_HAND_OVER: Final = Event("hand over", TRANSITIONS)
_LINGER: Final = Event("linger", TRANSITIONS)
_CLOSE: Final = Event("close", TRANSITIONS)


class PendingBytes:
    """Bytes that have come and are not taken: the start of a head, or what follows a request.

    `data` is an array once it has come in more than one piece.
    """

    __slots__ = ("_probe", "_probed_bytes", "data")

    def __init__(self) -> None:
        self.data: bytes | bytearray = b""
        self._probe: HeadProbe | None = None
        self._probed_bytes = 0

    @property
    def is_probing(self) -> bool:
        """Whether a head has begun and is not whole."""
        return self._probe is not None

    def append(self, data: Piece) -> None:
        if not self.data:
            self.data = bytes(data)
        else:
            if type(self.data) is bytes:
                self.data = bytearray(self.data)
            self.data += data

    def take_all(self) -> bytes:
        data, self.data = bytes(self.data), b""
        return data

    def skip_empty_lines(self) -> None:
        """Drop empty lines before a request line, which RFC 9112, section 2.2, has ignored."""
        self.data = data = _EMPTY_LINES.sub(b"", self.data)
        if data[:1] in (b"\r", b"\n") and data != b"\r":
            raise HeadError(400, "malformed request: no request line")

    def find_end_of_head(self) -> int:
        return self.data.find(b"\r\n\r\n", max(0, self._probed_bytes - 3)) + 4

    def probe(self) -> None:
        """Judge the start of a head, so that what is no HTTP is refused at once."""
        if self._probe is None:
            self._probe = HeadProbe()
        self._probe.feed(bytes(self.data[self._probed_bytes :]))
        self._probed_bytes = len(self.data)

    def take_head(self, end: int, *, is_one_of_many: bool) -> bytes:
        self._probe = None
        self._probed_bytes = 0
        data = self.data
        head = bytes(data[:end])
        if end == len(data):
            self.data = b""
        elif is_one_of_many:
            # An array gives up its start at no cost, however many requests there are.
            self.data = data if isinstance(data, bytearray) else bytearray(data)
            del self.data[:end]
        else:
            self.data = data[end:]
        return head


class Http1Connection(Client):
    def __init__(
        self,
        shared: ListenerContext,
        router: ClusterRouter,
        counted_as: str = "",
        address: str = "",
    ) -> None:
        """`address` is the client's, if that is another one's than the connection has."""
        super().__init__()
        self.exchange: Exchange | None = None
        self.address = address
        self._shared = shared
        self._router = router
        self._reader = HeadReader(router)
        self._counted_as = counted_as
        """The address under which the limits count this connection; "" while they do not."""
        self.transport = NOWHERE
        self.write = NOWHERE.write
        self._body: RequestBody | None = None
        self._pending = PendingBytes()
        self._holding: Holding | None = None
        self._held_pending = 0
        self._pipelined = 0
        """Requests begun, one after the other, from what had come before the one before ended."""
        self.state: Http1State = NEW
        self._linger_bytes = 0
        self._is_read_paused = self._may_be_http2 = self._is_chunked = self._is_unframed = False
        """`_is_unframed`: whether only the connection's end is the end of what is under way."""

    def forget_peer(self) -> None:
        self._reader.forget_peer()

    def forget_header_blocks(self) -> None:
        self._reader.forget_header_blocks()

    @property
    def peer(self) -> Peer:
        context = self._reader.context
        assert context is not None
        return self._reader.peer_at(context)

    def send_interim(self, head: ResponseHead) -> None:
        self.send(head.lines + b"\r\n")

    def send_continue(self) -> None:
        self.send(_CONTINUE)

    def send_response(
        self, asked: RequestHead, head: ResponseHead, lines: bytes, body: Piece, *, is_whole: bool
    ) -> None:
        keep_alive = self.may_keep_alive()
        framing = start = end = b""
        self._is_chunked = False
        if head.framing >= CHUNKED:
            if asked.is_http_10:
                keep_alive = self.keep_alive = False
                self._is_unframed = True
                hold_reset(self.transport)
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
            pieces = (b"".join(before), body, end) if end else (b"".join(before), body)
            self.send_pieces(pieces, sum(map(len, pieces)))

    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        if self._is_chunked:
            pieces = framed = encode_chunk(pieces, size)
            if is_last:
                framed.append(last_chunk(trailers))
            size = sum(map(len, framed))
        if size:
            self.send_pieces(pieces, size)

    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        connection = b"Connection: keep-alive\r\n" if asked.is_http_10 else b""
        if not self.may_keep_alive():
            connection = b"Connection: close\r\n"
        response = build(is_head=asked.is_head, extra=extra, connection=connection)
        self.send(response)
        return own_responses.body_bytes(response)

    def end_early(self) -> None:
        if self._is_chunked:
            self.send(last_chunk(b""))
        self.keep_alive = False

    def send(self, data: bytes) -> None:
        if self.state is not CLOSED:
            self._shared.counters.bytes_to_clients += len(data)
            self.write(data)

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        if self.state is not CLOSED:
            self._shared.counters.bytes_to_clients += size
            write_pieces(self.transport, pieces, size)

    def _take_all_pending(self) -> bytes:
        if self._held_pending:
            self.change_held(-self._held_pending)
            self._held_pending = 0
        return self._pending.take_all()

    def change_held(self, by: int) -> Bound | None:
        if self._holding is None:
            if not by:
                return None
            self._holding = Holding(self._shared.holdings, self._counted_as)
        return self._holding.change(by)

    def pause_reading(self) -> None:
        if not self._is_read_paused and self.state is not CLOSED:
            self._is_read_paused = True
            self.transport.pause_reading()
            if self.state is not TUNNEL:
                self._shared.disconnects.watch(self.transport, self.on_disconnect)

    def resume_reading(self) -> None:
        if self._is_read_paused and self.state is not CLOSED:
            self._is_read_paused = False
            self._shared.disconnects.forget(self.transport)
            self.transport.resume_reading()

    @property
    def can_half_close(self) -> bool:
        return self.transport.can_write_eof()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        pending = self._take_all_pending()
        self.state = _HAND_OVER[self.state]
        self._is_unframed = True
        self._shared.disconnects.forget(self.transport)  # its end may be one of two halves now
        self.transport.set_protocol(protocol)
        return pending

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:
        self.send(b"".join((switch_lines(head.lines + VIA + lines, protocol), b"\r\n", data)))

    def half_close(self) -> None:
        self.transport.write_eof()

    def end_tunnel(self) -> None:
        self._is_unframed = False
        self.abort_after_write()

    def count_tunnelled(self, size: int) -> None:
        self._shared.counters.bytes_from_clients += size

    @property
    def has_seats(self) -> bool:
        return self.exchange is not None and self.exchange.passage.has_seats

    def _leave(self, refused_with: int = 0) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.leave(refused_with)

    def may_keep_alive(self) -> bool:
        """Whether the connection goes on after the response that is about to start; decides it."""
        body = self._body
        if self._shared.is_draining or (body is not None and not body.is_worth_discarding):
            self.keep_alive = False
        return self.keep_alive

    def abort(self) -> None:
        """Close at once, with a reset where an end could be taken for that of a response."""
        if self._is_unframed or self.transport.get_write_buffer_size():
            self.reset()
            return
        self.exchange = None
        self.state = _CLOSE[self.state]
        self.transport.abort()

    def reset(self) -> None:
        self.exchange = None
        self.state = _CLOSE[self.state]
        reset(self.transport)

    def fail(self, error: Exception) -> None:
        loop, exchange = self._shared.loop, self.exchange
        report(Part.CONNECTION, error, "an error of the proxy itself: closed", loop=loop)
        self.exchange = None
        if exchange is not None:
            exchange.give_up()
        with contained(Part.CONNECTION, loop):
            self.abort()

    def abort_after_write(self) -> None:
        if self._is_unframed:
            self.reset()
            return
        self.exchange = None
        if self.state is not CLOSED:
            self.state = _CLOSE[self.state]
            # The transport itself would wait without end for a client that takes nothing.
            self.deadline_ns = self._shared.clock.now_ns() + self._shared.in_force.idle_timeout_ns
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether it has no request, not even the start of one."""
        return self.exchange is None and not self._pending.data and self._body is None

    def close_when_idle(self, deadline_ns: int) -> None:
        if self.is_idle and self.deadline_ns > deadline_ns:
            self.deadline_ns = deadline_ns

    @guarded
    def on_disconnect(self) -> None:
        self._leave()
        self.abort_after_write()

    def leave(self) -> None:
        self._leave()
        self.abort()

    def _wait_for_client(self) -> None:
        if self._body is None and self.state is not LINGERING:
            self.pause_reading()

    def _linger(self) -> None:
        """End our side and read on for a while: a reset would overtake the response."""
        if self.state is CLOSED:
            return
        if self._is_unframed:
            self._is_unframed = False
            hold_reset(self.transport, is_held=False)
        # Without a half-close (TLS has none) all that can be done is to read on, which is of use
        # only where more is to come: else the client must see the end at once.
        if not self.transport.can_write_eof() and self._body is None and not self._pending.data:
            self.resume_reading()
            self.abort_after_write()
            return
        self.keep_alive = False
        self._take_all_pending()
        self._body = None
        self.state = _LINGER[self.state]
        self.deadline_ns = self._shared.clock.now_ns() + self._shared.linger_ns
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.resume_reading()

    @guarded
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        shared = self._shared
        self.transport = cast("asyncio.Transport", transport)
        self.state = _OPEN_UP[self.state]
        if self._counted_as and speaks_http2(transport):
            self._speak_http2(b"")
            return
        if not self._counted_as:
            self._may_be_http2 = shared.in_force.is_http2_cleartext and BINDING is not None
            address = self.address or address_of(transport)
            refusal = shared.limits.admit(address)
            if refusal is not None:
                self.state = _CLOSE[self.state]
                shared.limits.refuse(self.transport, refusal, is_plain=shared.is_plain)
                return
            self._counted_as = address
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.write = self.transport.write
        self._reader.begin(self.transport, self.address)
        self.address = address = self._reader.address
        self.forwarded_suffix = shared.intern(address.encode() + b"\r\n\r\n")
        self.deadline_ns = shared.clock.now_ns() + shared.in_force.head_timeout_ns
        shared.connections[self] = None

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the protocol's signature
        return READS.start

    def buffer_updated(self, nbytes: int) -> None:
        self._shared.counters.bytes_from_clients += nbytes
        try:  # as `guarded`, at no cost
            if nbytes >= LARGE_BYTES:  # too much for a request that is like one before
                self._receive(READS.view[:nbytes])
                return
            data = READS.view[:nbytes].tobytes()
            if self.exchange is None and not self._pending.data and self._body is None:
                # Most requests are one read, and some clients repeat one: no parsing then.
                reader = self._reader
                request, context = reader.last_request, reader.context
                if (
                    request is not None
                    and context is not None
                    and data == reader.last_head
                    and self.state is OPEN
                ):
                    # As `_begin`, where there is no body.
                    self.keep_alive = request.head.keep_alive
                    exchange = self.exchange = Exchange(context, self, request, b"", True)
                    exchange.start()
                    return
            self._receive(data)
        except Exception as error:  # noqa: BLE001  as there
            self.fail(error)

    @guarded
    def eof_received(self) -> None:
        """Take it, as kube-apiserver does, that the client is gone: it may only be half-closed."""
        self._leave()
        self.abort_after_write()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is gone
        self.state = _CLOSE[self.state]
        self._leave()  # which raises nothing
        self._take_all_pending()
        self.deadline_ns = 0
        try:
            self._shared.disconnects.forget(self.transport)
            self.transport.set_protocol(NOBODY)
        finally:  # whatever happens: one that is gone must not count, nor hold up the end
            if self._counted_as:
                self._reader.end()
                self._shared.connections.pop(self, None)
                self._shared.limits.release(self._counted_as)
                self._counted_as = ""
                self._shared.on_connection_closed()

    @guarded
    def pause_writing(self) -> None:
        self.is_write_paused = True
        if self.exchange is None:
            self._wait_for_client()

    @guarded
    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self.exchange is not None:
            self.exchange.on_downstream_writable()
        else:
            if len(self._pending.data) < self._shared.held_bytes:
                self.resume_reading()
            self._take_pending()

    def _take_preface(self) -> bool:
        begin = bytes(self._pending.data[: len(PREFACE)])
        self._may_be_http2 = PREFACE.startswith(begin)
        if self._may_be_http2 and len(begin) == len(PREFACE):
            self._speak_http2(bytes(self._pending.data))
        return self._may_be_http2 and len(begin) >= MIN_PREFACE_BYTES

    def _speak_http2(self, data: bytes) -> None:
        counted_as, self._counted_as = self._counted_as, ""
        self._shared.connections.pop(self, None)
        self._reader.end()
        self.state = _CLOSE[self.state]
        connection = Http2Connection(self._shared, self._router, counted_as, self.address)
        self.transport.set_protocol(cast("asyncio.BufferedProtocol", connection))
        connection.connection_made(self.transport)
        if data:
            connection.receive(data)

    def on_exchange_end(self, exchange: object, now_ns: int) -> None:
        if self.exchange is not exchange:
            return
        self.exchange = None
        if self._body is not None:
            self.keep_alive = self.keep_alive and self._body.is_worth_discarding
        if not self.keep_alive:
            self._linger()
            return
        self.deadline_ns = now_ns + self._shared.in_force.idle_timeout_ns
        if self.is_write_paused:
            self._wait_for_client()
            return
        if self._is_read_paused and len(self._pending.data) < self._shared.held_bytes:
            self.resume_reading()
        if self._pending.data:
            # Not from inside the event that ended the response: many pipelined requests that are
            # answered at once would otherwise nest as deeply.
            self._shared.loop.call_soon(self._take_pending)

    def meet_deadline(self) -> None:
        if self.exchange is not None:
            self.exchange.on_deadline()
        elif self.state is CLOSED or (self.state is LINGERING and self._is_read_paused):
            self.abort()  # the client does not take the rest, or sends on and on
        elif self.state is LINGERING or self.is_write_paused:
            self.abort_after_write()
        elif self.is_idle:
            if not self._is_read_paused and has_unread(self.transport):
                # A request that came in this moment: closing would reset the connection instead.
                self.deadline_ns = self._shared.clock.now_ns() + self._shared.linger_ns
            else:
                self.abort_after_write()
        else:
            setting = "headTimeout" if self._body is None else "idleTimeout"
            text = f"the request did not arrive in time (downstream.{setting})"
            self._refuse(HeadError(408, text))

    def _receive(self, data: Piece) -> None:
        if self.state is LINGERING:
            self._linger_bytes += len(data)
            if self._linger_bytes > MAX_LINGER_BYTES:
                # Closing is a reset then, so not before the client could read the response.
                self.pause_reading()
            return
        try:
            body, pending = self._body, self._pending
            if body is not None:
                self._take_body(body, data)
            else:
                pending.append(data)
                if self._may_be_http2 and self._take_preface():
                    return
                if self.exchange is None:
                    self._parse_pending()
                if len(pending.data) >= self._shared.held_bytes and not pending.is_probing:
                    self.pause_reading()  # until there is less; but a head may need more
            if self._held_pending or len(pending.data) > LARGE_PART_BYTES:
                self._hold_pending()
        except (HeadError, ChunkedError) as error:
            self._fail(error)

    @guarded
    def _take_pending(self) -> None:
        if self.exchange is None and self._pending.data and self.state is not CLOSED:
            try:
                self._parse_pending(is_pipelined=True)
                if self._held_pending or len(self._pending.data) > LARGE_PART_BYTES:
                    self._hold_pending()
            except (HeadError, ChunkedError) as error:
                self._fail(error)

    def _hold_pending(self) -> None:
        """Count what has come and is not taken, if it is much; `UnheldError` without room."""
        size = len(self._pending.data)
        if size <= LARGE_PART_BYTES or self.state is CLOSED or self.state is LINGERING:
            size = 0
        bound = self.change_held(size - self._held_pending)
        if bound is None:
            self._held_pending = size
        elif self.exchange is None:
            raise UnheldError(UNHELD[bound])
        else:
            self.pause_reading()  # what follows a request waits in the kernel then

    def _parse_pending(self, *, is_pipelined: bool = False) -> None:
        if self.is_write_paused:
            self._wait_for_client()
            return
        in_force, pending = self._shared.in_force, self._pending
        data = pending.data
        if data[:1] in (b"\r", b"\n"):
            pending.skip_empty_lines()
            data = pending.data
            if data in (b"", b"\r"):
                self.resume_reading()
                return
        block, end, body_bytes = self._reader.match(data)
        if block is None:
            end = pending.find_end_of_head()
        if (end if end > 3 else len(data)) > in_force.max_head_bytes:
            raise head_too_long(in_force.max_head_bytes)
        if end <= 3:
            if not pending.is_probing:
                # The deadline is for the whole head: more bytes do not put it off.
                self.deadline_ns = self._shared.clock.now_ns() + in_force.head_timeout_ns
            pending.probe()
            self.resume_reading()
            return
        if is_pipelined:
            self._pipelined += 1
            most = in_force.max_pipelined_requests
            if self._pipelined >= most:
                text = f"more than {most} requests were sent without waiting for their answers"
                raise HeadError(400, f"{text} (downstream.limits.maxPipelinedRequests)")
        raw = pending.take_head(end, is_one_of_many=is_pipelined)
        request = self._reader.read(raw, block, body_bytes)
        if not pending.data and not request.head.framing:
            self._reader.remember(raw, request)
        self._begin(request)
        if not pending.data:
            self._pipelined = 0

    def _begin(self, request: Request) -> None:
        head = request.head
        self.keep_alive = head.keep_alive
        context, data, is_whole = self._reader.context, b"", True
        assert context is not None
        if head.framing:
            data = self._pending.take_all()
            max_bytes = context.in_force.max_body_bytes
            # Most bodies: all of it with the head, and nothing behind it.
            if head.framing != SIZED or not head.body_bytes == len(data) <= max_bytes:
                body = self._body = RequestBody(head, max_bytes, context.client_kinds.names_user)
                if head.body_bytes > max_bytes:
                    raise too_long(max_bytes)
                data = b"".join(body.take(data)) if data else b""
                is_whole = body.is_whole
                if is_whole:
                    self._body = None
                    self._pending.data = body.rest
                elif len(data) >= context.held_bytes:
                    self.pause_reading()  # until there is a connection to pass it on to
                else:
                    self.resume_reading()  # which its start, and the head, may have stopped
        exchange = self.exchange = Exchange(context, self, request, data, is_whole)
        exchange.start()

    def _take_body(self, body: RequestBody, data: Piece) -> None:
        framed = body.take(data)
        if body.is_whole:
            self._body = None
            self._pending.data = body.rest
        if self.exchange is not None:
            self.exchange.on_request_body(framed, is_last=body.is_whole)
        elif body.is_whole and self._pending.data:
            self._parse_pending()

    def _fail(self, error: HeadError | ChunkedError) -> None:
        refused = error if isinstance(error, HeadError) else HeadError(400, str(error))
        exchange = self.exchange
        if exchange is not None:
            # The body broke off after the request was admitted.
            has_responded = exchange.has_responded
            self._leave(refused.code)
            if has_responded:
                self.abort_after_write()
                return
        self._refuse(refused, is_logged=exchange is not None)

    def _refuse(self, error: HeadError, *, is_logged: bool = False) -> None:
        context = self._reader.context
        self.send(self._shared.refuse(context, self.address, error, is_logged=is_logged))
        self._linger()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'idle' if self.is_idle else self.exchange}>"


def has_unread(transport: asyncio.Transport) -> bool:
    """Whether the kernel has something of the peer's that the event loop has not read yet."""
    connection = transport.get_extra_info("socket")
    descriptor = -1 if connection is None else connection.fileno()
    if descriptor < 0:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
