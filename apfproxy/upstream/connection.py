"""A connection to the upstream: it sends one request at a time and takes its answer apart."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.sockets import reset
from apfproxy.http.chunked import ChunkedDecoder, ChunkedError
from apfproxy.http.read_buffer import (
    LARGE_BYTES,
    NOBODY,
    NOWHERE,
    READS,
    WRITE_HIGH_WATER_BYTES,
    write_pieces,
)
from apfproxy.http.response_head import (
    CHUNKED,
    MAX_HEAD_BYTES,
    NO_BODY,
    SIZED,
    ResponseError,
    ResponseHead,
    check_start,
    parse_response_head,
)
from apfproxy.http.upgrade import check_declined
from apfproxy.upstream.endpoint_load import EndpointLoad
from apfproxy.upstream.endpoint_state import UP
from apfproxy.upstream.tls import is_cut_off

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.upstream.counters import PoolCounters, UpstreamCounters
    from apfproxy.upstream.response_sink import ResponseSink

_HEAD_END: Final = b"\r\n\r\n"
_SWITCHING_PROTOCOLS: Final = 101
_FIRST_FINAL: Final = 200
MAX_LEFT_BYTES: Final = 1 << 20
"""Of an answer that is read once its connection is broken."""
_MAX_INTERIM_RESPONSES = 32
"""1xx answers to one request; Go's transport stops at 5, curl at none."""


@mypyc_attr(allow_interpreted_subclasses=True)
class EndpointBase(EndpointLoad):
    """A server behind, as connections to it see it.

    Attributes:
        idle: Connections that wait for a request, in the order of use: the one given first is last.
        idle_line: That of its Keep-Alive field.
        is_drawn: Whether it gets requests.
        open: All connections.
        stale: Those of an identity before, which get no further request; empty most of the time.
        state: How it is.
    """

    __slots__ = ("idle", "idle_line", "is_drawn", "open", "stale", "state")

    def __init__(self, counters: UpstreamCounters) -> None:
        super().__init__(counters)
        self.idle: dict[UpstreamConnection, None] = {}
        self.idle_line = b""
        self.open: set[UpstreamConnection] = set()
        self.stale: set[UpstreamConnection] = set()
        self.state = UP
        self.is_drawn = False

    @property
    @abstractmethod
    def url(self) -> str:
        """Its address, as a URL."""

    @abstractmethod
    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is closed."""

    @abstractmethod
    def on_idle_line(self, line: bytes) -> None:
        """The server says in another field line how long it keeps an idle connection."""

    @abstractmethod
    def on_idle_end(self, connection: UpstreamConnection) -> None:
        """The server has ended a connection on which it had no request."""

    @abstractmethod
    def log_malformed(self, problem: str) -> None:
        """An answer cannot be passed on."""

    @abstractmethod
    def close_idle(self, idle_since_ns: int) -> None:
        """Close connections that have been idle since then or longer."""


class UpstreamConnection:
    """One connection, given by the pool to one exchange at a time.

    Attributes:
        endpoint: The server at its other end.
        seats: Which the request that it carries holds there.
        sink: The exchange whose answer is awaited, or None while the connection is idle.
        is_write_paused: Whether the upstream is slow to take the request's body.
        idle_since_ns: When it was put back into the pool.
        tunnelled: The exchange that has its transport for a tunnel, which `sink` is no more.
        was_used: Whether a request was answered on it.
    """

    __slots__ = (
        "_body_left",
        "_counters",
        "_decoder",
        "_framing",
        "_head",
        "_interims",
        "_last_head",
        "_last_raw",
        "_partial",
        "endpoint",
        "idle_since_ns",
        "is_closed",
        "is_read_paused",
        "is_write_paused",
        "seats",
        "sink",
        "transport",
        "tunnelled",
        "was_used",
        "write",
    )

    def __init__(self, endpoint: EndpointBase, counters: PoolCounters) -> None:
        self.endpoint = endpoint
        self.seats = 0
        self._counters = counters
        self.transport = NOWHERE
        self.write = NOWHERE.write
        self.sink: ResponseSink | None = None
        self.tunnelled: ResponseSink | None = None
        self.idle_since_ns = 0
        self.is_closed = False
        self.is_read_paused = False
        self.is_write_paused = False
        self.was_used = False
        self._partial = bytearray()
        """Of a head, of which the end has not come."""
        self._head: ResponseHead | None = None
        self._framing = NO_BODY
        self._body_left = 0
        self._interims = 0
        self._decoder: ChunkedDecoder | None = None
        self._last_raw = b""
        """The bytes of the last answer's head, to another method than HEAD; `_last_head` is what
        they say."""
        self._last_head: ResponseHead | None = None

    @property
    def awaits_head(self) -> bool:
        """Whether a request is sent, or being sent, of whose answer not even the head has come.

        One that may last as long as it likes awaits nothing.
        """
        return self.sink is not None and self._head is None and not self.sink.is_long_running

    @property
    def is_within_chunk(self) -> bool:
        """Whether a part of a chunk of the answer is through, and its end has not come."""
        decoder = self._decoder
        return decoder is not None and decoder.is_within_chunk

    # What the exchange does.

    def hold(self, seats: int) -> None:
        """Note the seats of the request that it carries from now on."""
        self.seats = seats
        self.endpoint.seats += seats

    def release_seats(self) -> None:
        """They hold the server's attention no more; harmless if they do not."""
        if self.seats:
            self.endpoint.seats -= self.seats
            self.seats = 0

    def send(self, sink: ResponseSink, data: bytes) -> None:
        """Start a request; the answer goes to `sink`."""
        self.sink = sink
        self._counters.bytes_sent += len(data)
        self.write(data)

    def send_more(self, data: bytes) -> None:
        """Send more of what follows a request's head."""
        self._counters.bytes_sent += len(data)
        self.write(data)

    def send_pieces(self, pieces: Sequence[Piece]) -> int:
        """Send more of the request's body; says how many bytes that is."""
        size = sum(map(len, pieces))
        self._counters.bytes_sent += size
        if size:
            write_pieces(self.transport, pieces, size)
        return size

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        """Let another protocol have the transport, for good; the sink hears no more."""
        self.tunnelled, self.sink = self.sink, None
        self.transport.set_protocol(protocol)

    def pause_reading(self) -> None:
        """Stop taking the answer: the client is slow."""
        if not self.is_read_paused and not self.is_closed:
            self.is_read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take the answer again."""
        if self.is_read_paused and not self.is_closed:
            self.is_read_paused = False
            self.transport.resume_reading()

    @property
    def can_half_close(self) -> bool:
        """Whether the server of a tunnel can be told that no more comes: not by TLS."""
        return self.transport.can_write_eof()

    def half_close(self) -> None:
        """Tell it so."""
        self.transport.write_eof()

    def reset(self) -> None:
        """Give the connection up, and have the server see that it was cut."""
        reset(self.transport)
        self.abort()

    def abort(self) -> None:
        """Give the connection up, whatever is on its way; the sink hears no more."""
        self.sink = None
        if not self.is_closed:
            self.is_closed = True
            self.endpoint.forget(self)
            self.transport.abort()

    def fail(self, error: Exception, sink: ResponseSink | None = None) -> None:
        """Close after an error of the program, and end whose answer it was; never raises."""
        sink = sink or self.sink
        if sink is None:
            report(Part.POOL, error, "an error of the proxy itself: a connection is closed")
        else:
            sink.fail(error)
        if self.sink is None or self.sink is sink:  # else it serves another one by now
            with contained(Part.POOL):
                self.abort()

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        # Bound once: a request makes two calls less.
        self.write = self.transport.write

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  the protocol's signature
        return READS.data

    def buffer_updated(self, nbytes: int) -> None:
        self._counters.bytes_received += nbytes
        sink = self.sink
        if sink is None:
            # Nothing was asked: whatever this is, it must not become the next answer.  Some servers
            # send 408 before they close.
            self.endpoint.on_idle_end(self)
            self.abort()
            return
        try:
            if self._head is None:
                self._take_start(sink, nbytes)
            elif nbytes < LARGE_BYTES:
                self._take_body(sink, READS.view[:nbytes].tobytes())
            else:
                self._take_body(sink, READS.view[:nbytes])
        except (ResponseError, ChunkedError) as error:
            self.endpoint.log_malformed(str(error))
            self._break(str(error), may_retry=False)
        except Exception as bug:  # noqa: BLE001  as `guarded`, at no cost
            # It may have come up once the answer was whole, when the sink was no longer this one's.
            self.fail(bug, sink)

    def eof_received(self) -> None:
        """The upstream closed; `connection_lost` follows."""

    @guarded
    def connection_lost(self, exc: Exception | None) -> None:
        self.transport.set_protocol(NOBODY)
        if self.is_closed:
            return
        self.is_closed = True
        sink = self.sink
        if sink is None:
            self.endpoint.on_idle_end(self)
        self.endpoint.forget(self)
        if exc is not None and sink is not None and sink.head.upgrade is None:
            self._read_left()
            sink = self.sink
        if sink is None:
            return
        if (
            exc is None
            and self._head is not None
            and self._framing not in (SIZED, CHUNKED, NO_BODY)
            and not is_cut_off(self.transport)
        ):
            self.sink = None
            try:
                sink.on_body((), is_last=True)
            except Exception as error:  # noqa: BLE001  as `guarded`
                sink.fail(error)
            return
        nothing_came = self._head is None and not self._partial and not self._interims
        self._break(
            f"the connection broke: {getattr(exc, 'strerror', '') or exc}"
            if exc
            else "the connection was closed early",
            may_retry=nothing_came and (self.was_used or self.endpoint.is_one_of_several),
        )

    def _read_left(self) -> None:
        """Read what came before the connection broke: perhaps the answer, and why it did.

        A server that refuses a large body answers and closes; what is written then gets an error,
        with which the transport ends before it has read the answer.
        """
        transport = self.transport
        connection = transport.get_extra_info("socket")
        if connection is None or transport.get_extra_info("ssl_object") is not None:
            return  # records of TLS are the transport's alone to read
        descriptor, left = connection.fileno(), MAX_LEFT_BYTES
        try:
            while self.sink is not None and left > 0:
                size = os.readv(descriptor, [READS.data])
                if not size:
                    return
                left -= size
                self.buffer_updated(size)
        except OSError:
            return  # nothing is left

    def pause_writing(self) -> None:
        self.is_write_paused = True

    @guarded
    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self.sink is not None:
            self.sink.on_upstream_writable()

    # The answer.

    def _take_start(self, sink: ResponseSink, nbytes: int) -> None:
        """Take a read while the head has not come: mostly head and body, all of the answer."""
        end = READS.data.find(_HEAD_END, 0, nbytes) + len(_HEAD_END)
        if end >= len(_HEAD_END) and not self._partial:
            asked = sink.head
            head = self._parse(READS.view[:end].tobytes(), is_head=asked.is_head)
            body_bytes = nbytes - end
            if (
                head.status >= _FIRST_FINAL
                and body_bytes == (head.length if head.framing == SIZED else 0)
                and head.framing <= SIZED
                and asked.upgrade is None
            ):
                self._end(sink, keep_alive=head.keep_alive)
                # Of the body nothing is copied: the sink writes it before the buffer is used again.
                sink.on_response(head, READS.view[end:nbytes], is_whole=True)
                return
        self._take_head(sink, READS.view[:nbytes].tobytes())

    def _parse(self, raw: bytes, *, is_head: bool) -> ResponseHead:
        """Parse a head, unless it is the same as the last one: answers of one moment often are."""
        if is_head:
            return parse_response_head(raw, answers_head=True)
        head = self._last_head
        if head is None or raw != self._last_raw:
            head = self._last_head = parse_response_head(raw, answers_head=False)
            self._last_raw = raw
            if head.idle_line and head.idle_line != self.endpoint.idle_line:
                self.endpoint.on_idle_line(head.idle_line)
        return head

    def _take_head(self, sink: ResponseSink, data: bytes) -> None:
        if self._partial:
            searched = max(0, len(self._partial) - 3)
            self._partial += data
            end = self._partial.find(_HEAD_END, searched)
            if end < 0 and len(self._partial) <= MAX_HEAD_BYTES:
                check_start(self._partial, searched)
                return
            data = bytes(self._partial)
            self._partial.clear()
        else:
            end = data.find(_HEAD_END)
        while True:
            if (len(data) if end < 0 else end) > MAX_HEAD_BYTES:
                raise ResponseError(f"the head of the answer is over {MAX_HEAD_BYTES} bytes")
            if end < 0:
                check_start(data, 0)
                self._partial += data
                return
            end += 4
            raw = data[:end]
            head = self._parse(raw, is_head=sink.head.is_head)
            if head.status >= _FIRST_FINAL:
                if sink.head.upgrade is not None:
                    check_declined(head.status, is_connect=sink.is_connect)
                break
            if head.status == _SWITCHING_PROTOCOLS:
                sink.on_switch(head, raw, data[end:])
                return
            self._interims += 1
            if self._interims > _MAX_INTERIM_RESPONSES:
                raise ResponseError(f"an unexpected answer {head.status}")
            sink.on_interim(head)
            if self.sink is not sink:
                return
            data = data[end:]
            end = data.find(_HEAD_END)
        self._start_body(sink, head, rest_of(data, end))

    def _start_body(self, sink: ResponseSink, head: ResponseHead, rest: Piece) -> None:
        self._head = head
        self._framing = head.framing
        if head.framing == SIZED and len(rest) < head.length:
            self._body_left = head.length - len(rest)
            sink.on_response(head, rest, is_whole=False)
        elif head.framing == CHUNKED:
            self._decoder = ChunkedDecoder()
            try:
                pieces, excess = self._decoder.feed(rest)
            except ChunkedError:
                # The upstream has answered: the client gets its head, and then no end.
                sink.on_response(head, b"", is_whole=False)
                raise
            body = b"".join(pieces)
            if self._decoder.is_done:
                trailers = self._decoder.trailers
                self._end(sink, keep_alive=head.keep_alive and not excess)
                # In one call where nothing would be lost by it.
                if trailers:
                    sink.on_response(head, body, is_whole=False)
                    sink.on_body((), is_last=True, trailers=trailers)
                else:
                    sink.on_response(head, body, is_whole=True)
            else:
                sink.on_response(head, body, is_whole=False)
        elif head.framing in (NO_BODY, SIZED):
            # What is beyond the announced length belongs to nobody.
            announced = rest[: head.length if head.framing else 0]
            self._end(sink, keep_alive=head.keep_alive and len(announced) == len(rest))
            sink.on_response(head, announced, is_whole=True)
        else:
            sink.on_response(head, rest, is_whole=False)

    def _take_body(self, sink: ResponseSink, data: Piece) -> None:
        head = self._head
        assert head is not None
        if self._framing == SIZED:
            left = self._body_left - len(data)
            self._body_left = left
            if left > 0:
                sink.on_body((data,), is_last=False)
                return
            if left < 0:
                data = data[:left]
            self._end(sink, keep_alive=head.keep_alive and left == 0)
            sink.on_body((data,), is_last=True)
        elif self._framing == CHUNKED:
            decoder = self._decoder
            assert decoder is not None
            pieces, excess = decoder.feed(data)
            if decoder.is_done:
                self._end(sink, keep_alive=head.keep_alive and not excess)
                sink.on_body(pieces, is_last=True, trailers=decoder.trailers)
            elif pieces:
                sink.on_body(pieces, is_last=False)
        else:
            sink.on_body((data,), is_last=False)

    def _end(self, sink: ResponseSink, *, keep_alive: bool) -> None:
        """The answer is whole: get ready for the next one, or go.

        The exchange learns of it right after this, and puts the connection back with
        `Pool.release` once the request is through as well.
        """
        assert self.sink is sink
        self.sink = None
        self._head = None
        self._decoder = None
        self._interims = 0
        self.was_used = True
        if not keep_alive:
            self.abort()

    def _break(self, reason: str, *, may_retry: bool) -> None:
        sink = self.sink
        self.abort()
        if sink is not None:
            try:
                sink.on_broken(reason, may_retry=may_retry)
            except Exception as error:  # noqa: BLE001  as `guarded`
                sink.fail(error)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "busy" if self.sink is not None else "idle"
        return f"<UpstreamConnection {state}>"


def rest_of(data: bytes, start: int) -> Piece:
    """What follows the head: a copy of a little, a view of much."""
    return data[start:] if len(data) - start < LARGE_BYTES else memoryview(data)[start:]
