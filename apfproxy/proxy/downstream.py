"""The requests on a client's connection: taken apart, and begun one after the other.

Pipelined requests are answered in their order: while one is under way, what follows it waits
unparsed, up to a read's worth, and beyond that in the kernel.
"""

from __future__ import annotations

import re
import select
from typing import TYPE_CHECKING, Final, cast

from apfproxy.base.guarded import guarded
from apfproxy.base.sockets import address_of
from apfproxy.http.chunked import ChunkedError
from apfproxy.http.head_error import HeadError, UnheldError, head_too_long
from apfproxy.http.read_buffer import (
    LARGE_BYTES,
    MAX_LINGER_BYTES,
    NOBODY,
    READS,
    WRITE_HIGH_WATER_BYTES,
)
from apfproxy.http.request_body import RequestBody, too_long
from apfproxy.http.request_fields import SIZED
from apfproxy.http.request_head import HeadProbe
from apfproxy.proxy.client_connection import ClientConnection
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.exchange_base import UNHELD
from apfproxy.proxy.holdings import LARGE_PART_BYTES
from apfproxy.proxy.http2.connection import PREFACE, Http2Connection
from apfproxy.proxy.refused import refused
from apfproxy.proxy.tls import speaks_http2

if TYPE_CHECKING:
    import asyncio

    from apfproxy.http.read_buffer import Piece
    from apfproxy.proxy.client import Served
    from apfproxy.proxy.request import Request

_EMPTY_LINES: Final = re.compile(rb"\A(?:\r\n)+")

MIN_PREFACE_BYTES: Final = 3
"""Of the preface of HTTP/2: no method of HTTP/1.1 begins so."""


class DownstreamConnection(ClientConnection):
    """One client's connection, and the requests that come on it."""

    __slots__ = ()

    # What the transport says.

    @guarded
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        shared = self._shared
        self.was_made = True
        self._transport = cast("asyncio.Transport", transport)
        if self._counted_as and speaks_http2(transport):
            self._speak_http2(b"")
            return
        if not self._counted_as:
            self._may_be_http2 = shared.in_force.is_http2_cleartext
            address = self.address or address_of(transport)
            refusal = shared.limits.admit(address)
            if refusal is not None:
                self._is_closed = True
                shared.limits.refuse(self._transport, refusal)
                return
            self._counted_as = address
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.write = self._transport.write
        self._reader.begin(self._transport, self.address)
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
            if self._exchange is None and not self._pending and self._body is None:
                # Most requests are one read, and some clients repeat one: no parsing then.
                reader = self._reader
                request, context = reader.last_request, reader.context
                if (
                    request is not None
                    and context is not None
                    and data == reader.last_head
                    and not self._is_lingering
                ):
                    # As `_begin`, where there is no body.
                    self.keep_alive = request.head.keep_alive
                    exchange = Exchange(context, self, request, b"", True)
                    self._exchange = exchange
                    exchange.start()
                    return
            self._receive(data)
        except Exception as error:  # noqa: BLE001  as there
            self.fail(error)

    @guarded
    def eof_received(self) -> None:
        """The client sends no more.

        As kube-apiserver does, this takes it that the client is gone: there is no telling a
        closed connection from a half-closed one.
        """
        self._leave()
        self.abort_after_write()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is gone
        self._is_closed = True
        self._leave()  # which raises nothing
        self._take_all_pending()
        self.deadline_ns = 0
        try:
            self._shared.absences.forget(self)
            self._transport.set_protocol(NOBODY)
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
        if self._exchange is None:
            self._wait_for_client()

    @guarded
    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self._exchange is not None:
            self._exchange.on_downstream_writable()
        else:
            if len(self._pending) < self._shared.held_bytes:
                self.resume_reading()
            self._take_pending()

    def _sees_preface(self) -> bool:
        """Whether what has come is the begin of HTTP/2; once it is whole, HTTP/2 goes on."""
        begin = bytes(self._pending[: len(PREFACE)])
        self._may_be_http2 = PREFACE.startswith(begin)
        if self._may_be_http2 and len(begin) == len(PREFACE):
            self._speak_http2(bytes(self._pending))
        return self._may_be_http2 and len(begin) >= MIN_PREFACE_BYTES

    def _speak_http2(self, data: bytes) -> None:
        """Let HTTP/2 have the transport, and what has come on it."""
        counted_as, self._counted_as = self._counted_as, ""
        self._shared.connections.pop(self, None)
        self._reader.end()
        self._is_closed = True
        connection = Http2Connection(self._shared, self._router, counted_as, self.address)
        self._transport.set_protocol(cast("asyncio.BufferedProtocol", connection))
        connection.connection_made(self._transport)
        if data:
            connection.receive(data)

    # What the exchange does.

    def on_exchange_end(self, exchange: Served, now_ns: int) -> None:
        """The answer is through: go on to the next request, or close."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        if self._body is not None:
            self.keep_alive = self.keep_alive and self._body.is_worth_discarding
            self._discards_body = True
        if not self.keep_alive:
            self._linger()
            return
        self.deadline_ns = now_ns + self._shared.in_force.idle_timeout_ns
        if self.is_write_paused:
            self._wait_for_client()
            return
        if self._is_read_paused and len(self._pending) < self._shared.held_bytes:
            self.resume_reading()
        if self._pending:
            # Not from inside the event that ended the answer: many pipelined requests that are
            # answered at once would otherwise nest as deeply.
            self._shared.loop.call_soon(self._take_pending)

    # What the server does.

    @guarded
    def on_deadline(self) -> None:
        """The deadline is over."""
        self.deadline_ns = 0
        if self._exchange is not None:
            self._exchange.on_deadline()
        elif self._is_closed:
            self.abort()
        elif self._is_reading_idly and has_unread(self._transport):
            # A request that came in this moment: closing would reset the connection instead.
            self.deadline_ns = self._shared.clock.now_ns() + self._shared.linger_ns
        elif self._is_lingering and self._is_read_paused:
            self.abort()  # the client sends on and on
        elif self._is_lingering or self.is_idle or self.is_write_paused:
            self.abort_after_write()
        else:
            setting = "idleTimeout" if self._discards_body else "headTimeout"
            text = f"the request did not arrive in time (downstream.{setting})"
            self._refuse(HeadError(408, text))

    @property
    def _is_reading_idly(self) -> bool:
        """Whether the next thing to come is a request, which will be read as soon as it is here."""
        paused = self.is_write_paused or self._is_read_paused
        return self.is_idle and not self._is_lingering and not paused

    # Requests.

    def _receive(self, data: Piece) -> None:
        if self._is_lingering:
            self._linger_bytes += len(data)
            if self._linger_bytes > MAX_LINGER_BYTES:
                # Unread bytes make closing a reset, so not before the client could read the answer.
                self.pause_reading()
            return
        try:
            body = self._body
            if body is not None and (self._exchange is not None or self._discards_body):
                self._take_body(body, data)
            else:
                if not self._pending:
                    self._pending = bytes(data)
                else:
                    if type(self._pending) is bytes:
                        self._pending = bytearray(self._pending)
                    self._pending += data
                if self._may_be_http2 and self._sees_preface():
                    return
                if self._exchange is None:
                    self._parse_pending()
                if len(self._pending) >= self._shared.held_bytes and self._probe is None:
                    self.pause_reading()  # until there is less; but a head may need more
            if self._held_pending or len(self._pending) > LARGE_PART_BYTES:
                self._hold_pending()
        except (HeadError, ChunkedError) as error:
            self._fail(error)

    @guarded
    def _take_pending(self) -> None:
        """Go on with requests that came while another one was under way."""
        if self._exchange is None and self._pending and not self._is_closed:
            try:
                self._parse_pending(is_pipelined=True)
                if self._held_pending or len(self._pending) > LARGE_PART_BYTES:
                    self._hold_pending()
            except (HeadError, ChunkedError) as error:
                self._fail(error)

    def _hold_pending(self) -> None:
        """Have what has come and is not taken counted, if it is much.

        Raises:
            UnheldError: There is no room for it.
        """
        size = 0 if self._is_closed or self._is_lingering else len(self._pending)
        if size <= LARGE_PART_BYTES:
            size = 0
        bound = self.change_held(size - self._held_pending)
        if bound is None:
            self._held_pending = size
        elif self._exchange is None:
            raise UnheldError(UNHELD[bound])
        else:
            self.pause_reading()  # what follows a request waits in the kernel then

    def _parse_pending(self, *, is_pipelined: bool = False) -> None:
        """Start the next request if its head is there.

        Raises:
            HeadError: It is malformed.
            ChunkedError: The start of its body is.
        """
        if self.is_write_paused:
            self._wait_for_client()
            return
        in_force = self._shared.in_force
        data = self._pending
        if data[:1] in (b"\r", b"\n"):
            # RFC 9112, section 2.2: empty lines before the request line are ignored.
            data = self._pending = _EMPTY_LINES.sub(b"", data)
            if data in (b"", b"\r"):
                self.resume_reading()
                return
            if data[:1] in (b"\r", b"\n"):
                raise HeadError(400, "malformed request: no request line")
        block, end, body_bytes = self._reader.match(data)
        if block is None:
            end = data.find(b"\r\n\r\n", max(0, self._probed_bytes - 3)) + 4
        if (end if end > 3 else len(data)) > in_force.max_head_bytes:
            raise head_too_long(in_force.max_head_bytes)
        if end <= 3:
            self._probe_head(data)
            return
        self._probe = None
        self._probed_bytes = 0
        if is_pipelined:
            self._pipelined += 1
            if self._pipelined >= in_force.max_pipelined_requests:
                raise HeadError(
                    400,
                    f"more than {in_force.max_pipelined_requests} requests were sent"
                    " without waiting for their answers (downstream.limits.maxPipelinedRequests)",
                )
        raw = bytes(data[:end])
        if end == len(data):
            self._pending = b""
        elif is_pipelined:
            # An array gives up its start at no cost, however many requests there are.
            self._pending = data if isinstance(data, bytearray) else bytearray(data)
            del self._pending[:end]
        else:
            self._pending = data[end:]
        request = self._reader.read(raw, block, body_bytes)
        if not self._pending and not request.head.framing:
            self._reader.remember(raw, request)
        self._begin(request)
        if not self._pending:
            self._pipelined = 0

    def _probe_head(self, data: bytes | bytearray) -> None:
        """Judge the start of a head, so that what is no HTTP is refused at once."""
        if self._probe is None:
            self._probe = HeadProbe()
            # The deadline is for the whole head: more bytes do not put it off.
            self.deadline_ns = self._shared.clock.now_ns() + self._shared.in_force.head_timeout_ns
        self._probe.feed(bytes(data[self._probed_bytes :]))
        self._probed_bytes = len(data)
        self.resume_reading()

    def _begin(self, request: Request) -> None:
        """Start an exchange with as much of the body as has come.

        Raises:
            ChunkedError: The body is malformed in its first read, so nothing is forwarded.
            HeadError: The body is too long, as the head or the first read says.
        """
        head = request.head
        self.keep_alive = head.keep_alive
        context, data, is_whole = self._reader.context, b"", True
        assert context is not None
        if head.framing:
            data, self._pending = bytes(self._pending), b""
            max_bytes = context.in_force.max_body_bytes
            # Most bodies: all of it with the head, and nothing behind it.
            if head.framing != SIZED or not head.body_bytes == len(data) <= max_bytes:
                self._discards_body = False
                body = self._body = RequestBody(head, max_bytes, context.client_kinds.says_who)
                if head.body_bytes > max_bytes:
                    raise too_long(max_bytes)
                data = b"".join(body.take(data)) if data else b""
                is_whole = body.is_whole
                if is_whole:
                    self._body = None
                    self._pending = body.rest
                elif len(data) >= context.held_bytes:
                    self.pause_reading()  # until there is a connection to pass it on to
                else:
                    self.resume_reading()  # which its start, and the head, may have stopped
        exchange = self._exchange = Exchange(context, self, request, data, is_whole)
        exchange.start()

    def _take_body(self, body: RequestBody, data: Piece) -> None:
        framed = body.take(data)
        if body.is_whole:
            self._body = None
            self._pending = body.rest
        if self._exchange is not None:
            self._exchange.on_request_body(framed, is_last=body.is_whole)
        elif body.is_whole and self._pending:
            self._parse_pending()

    # The end.

    def _fail(self, error: HeadError | ChunkedError) -> None:
        """Answer what cannot be understood, and close."""
        refused = error if isinstance(error, HeadError) else HeadError(400, str(error))
        exchange = self._exchange
        if exchange is not None:
            # The body broke off after the request was admitted.
            has_responded = exchange.has_responded
            self._leave(refused.code)
            if has_responded:
                self.abort_after_write()
                return
        self._refuse(refused, is_logged=exchange is not None)

    def _refuse(self, error: HeadError, *, is_logged: bool = False) -> None:
        self.send(
            refused(self._shared, self._reader.context, self.address, error, is_logged=is_logged)
        )
        self._linger()


def has_unread(transport: asyncio.Transport) -> bool:
    """Whether the kernel has something of the peer's that the event loop has not read yet."""
    connection = transport.get_extra_info("socket")
    descriptor = -1 if connection is None else connection.fileno()
    if descriptor < 0:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
