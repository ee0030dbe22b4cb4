"""One server behind, and the connections to it, each of which carries one request at a time.

The connection used last is used first again, so that the others grow idle and are closed.  Each is
of the identity with which it was opened: after `Endpoint.renew` none from before, idle, busy or on
its way, gets a further request.
"""

from __future__ import annotations

import enum
import logging
import os
import time
from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.sockets import reset
from apfproxy.base.tls_files import handshake_of
from apfproxy.base.transitions import Event
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
from apfproxy.upstream.connecting import connected
from apfproxy.upstream.counters import UpstreamCounters, UpstreamFailure
from apfproxy.upstream.health_check import status_of
from apfproxy.upstream.idle_limit import IdleLimit
from apfproxy.upstream.tls import SessionContext, is_cut_off

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.settings import EndpointAddress, UpstreamSettings
    from apfproxy.upstream.counters import PoolCounters
    from apfproxy.upstream.response_sink import ResponseSink
    from apfproxy.upstream.tls import ClientTls

log = logging.getLogger(__name__)

_HEAD_END: Final = b"\r\n\r\n"
MAX_LEFT_BYTES: Final = 1 << 20  # of a response that is read once its connection is broken
_MAX_INTERIM_RESPONSES = 32  # 1xx responses to one request; Go's transport stops at 5, curl at none


class EndpointState(enum.StrEnum):
    """The state of an endpoint, and so whether it gets requests."""

    # Gets requests, but where there are checks, only until another one is known to be well.
    UNKNOWN = "unknown"
    JOINING = "joining"  # gets none before its first good check, as it has joined others
    UP = "up"
    EJECTED = "ejected"  # gets none for a while, since requests failed
    FAILING = "failing"  # gets none until checks succeed again
    DRAINING = "draining"  # is an endpoint no more: the requests that it has end


UNKNOWN: Final = EndpointState.UNKNOWN
JOINING: Final = EndpointState.JOINING
UP: Final = EndpointState.UP
EJECTED: Final = EndpointState.EJECTED
FAILING: Final = EndpointState.FAILING
DRAINING: Final = EndpointState.DRAINING

TRANSITIONS = {
    UNKNOWN: {"learn": UP, "join": JOINING, "eject": EJECTED, "fail": FAILING, "drain": DRAINING},
    JOINING: {"recover": UP, "fail": FAILING, "forget": UNKNOWN, "drain": DRAINING},
    UP: {"eject": EJECTED, "fail": FAILING, "forget": UNKNOWN, "drain": DRAINING},
    EJECTED: {"try-again": UP, "fail": FAILING, "drain": DRAINING},
    FAILING: {"recover": UP, "forget": UNKNOWN, "drain": DRAINING},
    DRAINING: {},
}

LEARN: Final = Event("learn", TRANSITIONS)  # requests, or the first check, say that it is well
JOIN: Final = Event("join", TRANSITIONS)
EJECT: Final = Event("eject", TRANSITIONS)  # requests failed, one after the other
TRY_AGAIN: Final = Event("try-again", TRANSITIONS)  # its pause is over
FAIL: Final = Event("fail", TRANSITIONS)  # as many checks failed as may
RECOVER: Final = Event("recover", TRANSITIONS)  # as many checks succeeded as must
FORGET: Final = Event("forget", TRANSITIONS)  # another way to it: what was known tells nothing
DRAIN: Final = Event("drain", TRANSITIONS)  # it is named no more


@mypyc_attr(allow_interpreted_subclasses=True)
class Endpoint:
    """A server behind; `totals` counts what the connections of its pool did.

    `on_closed` is called when a connection of it is closed; `on_failing` when it failed as often in
    a row as it may, or when it is one of several and may be gone.

    Attributes:
        failures_in_row: Failures, and responses 502, 503 and 504, since the last other response.
        generation: Counts identities; connections of another one get no further request.
        idle: Connections that wait for a request, in the order of use: the next one is last.
        load: What its requests cost, as of `UpstreamConnection.hold`.
        is_one_of_several: Whether a request that it failed may be sent to another one.
        log_name: Its address for the access log; "" where it is the only one.
        max_failures_in_row: So many are enough to take it out; 0 for never.
        ramp: The part of its weight that it has already, of (0, 1]; `share` is the product.
        stale: Connections of an earlier identity; empty most of the time.
    """

    def __init__(
        self,
        address: EndpointAddress,
        settings: UpstreamSettings,
        totals: PoolCounters,
        tls: ClientTls | None,
        now_ns: Callable[[], int],
        *,
        on_closed: Callable[[Endpoint], None],
        on_failing: Callable[[Endpoint], None],
    ) -> None:
        self._counters = totals
        self._now_ns = now_ns
        self._on_closed = on_closed
        self._on_failing = on_failing
        self.configure(address, settings, tls)
        self._sessions: SessionContext | None = None
        self._idle_limit = IdleLimit()
        self._rare_log = RareLog(log, time.monotonic_ns, period_s=3600.0)
        self.counters = UpstreamCounters()
        self.idle: dict[UpstreamConnection, None] = {}
        self.idle_line = b""
        self.open: set[UpstreamConnection] = set()
        self.stale: set[UpstreamConnection] = set()
        self.connecting = self.generation = self.seats = 0
        self.load = 0.0
        self.state = UNKNOWN
        self.is_drawn = self.is_one_of_several = False
        self.log_name = ""
        self.failures_in_row = self.max_failures_in_row = 0
        self.ramp = 1.0
        self.share = float(address.weight)

    @property
    def url(self) -> str:
        return self.address.address.url

    @property
    def is_well(self) -> bool:
        return self.state is UP or self.state is UNKNOWN

    @property
    def busy_count(self) -> int:
        """Connections that carry a request, a tunnel, or will in a moment."""
        return len(self.open) - len(self.idle) + self.connecting

    def configure(
        self, address: EndpointAddress, settings: UpstreamSettings, tls: ClientTls | None
    ) -> None:
        self.address = address
        self._settings = settings
        self._tls = tls if address.address.is_tls else None

    def renew(self) -> None:
        """Begin another identity: no connection from before gets a further request.

        Idle ones are closed at once, busy ones when they are released, others once they are made.
        """
        self.generation += 1
        self.stale = set(self.open)
        for connection in list(self.idle):
            connection.abort()

    def drain(self) -> None:
        self.state = DRAIN[self.state]
        self.is_drawn = False
        self.renew()

    # What requests tell of it.

    def answered(self, status: int, took_ns: int) -> None:
        counters = self.counters
        answers = counters.answers
        answers[status] = answers.get(status, 0) + 1
        counters.head_ns.observe(took_ns)
        if 502 <= status <= 504:
            self._count_in_row(may_be_gone=False)
        elif self.failures_in_row:
            self.failures_in_row = 0

    def fail(self, failure: UpstreamFailure, problem: str, *, is_telling: bool = True) -> None:
        self.counters.fail(failure, problem, is_telling=is_telling)
        if is_telling:
            # A slow server is not gone.
            self._count_in_row(may_be_gone=failure is not UpstreamFailure.ANSWER_TIMEOUT)

    @property
    def has_failed_enough(self) -> bool:
        return 0 < self.max_failures_in_row <= self.failures_in_row

    def _count_in_row(self, *, may_be_gone: bool) -> None:
        self.failures_in_row += 1
        if self.has_failed_enough or (may_be_gone and self.is_one_of_several):
            self._idle_limit.gone(self._now_ns())
            self._on_failing(self)

    def count_awaiting(self) -> int:
        """Count requests that have no response yet; it looks at each connection."""
        return sum(connection.awaits_head for connection in self.open)

    def log_malformed(self, problem: str) -> None:
        text = "the server behind, %s, sent an answer that cannot be passed on: %s"
        self._rare_log.log(logging.WARNING, problem, text, self.url, problem)

    # Its connections.

    def forget(self, connection: UpstreamConnection) -> None:
        sessions = self._sessions
        if sessions is not None:
            with contained(Part.POOL):
                sessions.remember(connection.transport, time.time())
        connection.release_seats()
        connection.tunnelled = None
        self.open.discard(connection)
        self.stale.discard(connection)
        self.idle.pop(connection, None)
        self._on_closed(self)

    def on_idle_line(self, line: bytes) -> None:
        """Learn how long the server keeps an idle connection, by its Keep-Alive field."""
        self.idle_line = line
        self._idle_limit.announced(line)

    def on_idle_end(self, connection: UpstreamConnection) -> None:
        """Learn the same from a connection that it has ended while it had no request."""
        if connection not in self.idle or not connection.was_used:
            return
        now_ns = self._now_ns()
        if self._idle_limit.closed(now_ns - connection.idle_since_ns, now_ns):
            limit_s = self._idle_limit.limit_ns(now_ns) / 1e9
            text = "the server behind, %s, closes idle connections: none is used again after %.1f s"
            self._rare_log.log(logging.INFO, "idle", text, self.url, limit_s)

    def close_stale(self, now_ns: int, idle_ns: int, period_ns: int) -> None:
        """Close connections idle for over `idle_ns`, or as long as the server itself keeps them.

        `period_ns` is the time until the next call.
        """
        limit_ns = self._idle_limit.limit_ns(now_ns)
        if limit_ns:
            idle_ns = min(idle_ns, max(0, limit_ns - period_ns))
        self.close_idle(now_ns - idle_ns)

    def close_idle(self, idle_since_ns: int) -> None:
        while self.idle:
            connection = next(iter(self.idle))
            if connection.idle_since_ns > idle_since_ns:
                return
            connection.abort()

    def close(self) -> None:
        for connection in list(self.open):
            connection.abort()

    async def probe(self) -> None:
        """Open a connection, which no client's request gets, and close it; see `CONNECT_ERRORS`."""
        connection = await self.open_connection()
        # In order: servers that log broken connections would log each probe.
        connection.transport.close()

    async def ask(self, question: bytes, limit_s: float) -> int:
        """Send a question of `health_check` on a connection of its own: the response's status.

        Raises NoAnswerError if there is none within `limit_s` of connecting, or `CONNECT_ERRORS`.
        """
        return await status_of((await self.open_connection()).transport, question, limit_s)

    async def open_connection(self) -> UpstreamConnection:
        """Connect, or raise `CONNECT_ERRORS`; the connection is not among those open yet."""
        tls, sessions, address = self._tls, self._sessions, self.address
        server_name = ""
        if tls is not None:
            server_name = tls.settings.server_name or address.server_name or address.address.host
            if sessions is None or sessions.shared is not tls.context:
                sessions = self._sessions = SessionContext(tls.context)
            for other in self.open:  # any one: it has had the time to get a session
                sessions.remember(other.transport, time.time())
                break
        connection = UpstreamConnection(self, self._counters)
        limit_s = self._settings.connect_timeout_s
        await connected(connection, address.address, limit_s, tls, sessions, server_name)
        if tls is not None:
            self._counters.handshakes[handshake_of(connection.transport)] += 1
        return connection

    def __repr__(self) -> str:
        return f"<Endpoint {self.url}: {self.state}>"


class UpstreamConnection:
    """One connection, which the pool gives to one exchange at a time.

    Attributes:
        sink: Takes the awaited response, such as an exchange's relay; None while it is idle.
        tunnelled: The relay whose tunnel has the transport, which is `sink` no more.
        was_used: Whether a request had its response on it.
    """

    def __init__(self, endpoint: Endpoint, counters: PoolCounters) -> None:
        self.endpoint = endpoint
        self.seats = 0
        self.load = 0.0
        self._counters = counters
        self.transport = NOWHERE
        self.write = NOWHERE.write
        self.sink: ResponseSink | None = None
        self.tunnelled: ResponseSink | None = None
        self.idle_since_ns = 0
        self.is_closed = self.was_used = False
        self.is_read_paused = self.is_write_paused = False
        self._partial = bytearray()  # of a head, of which the end has not come
        self._head: ResponseHead | None = None
        self._framing = NO_BODY
        self._body_left = self._interims = self._interim_bytes = 0
        self._is_head = self._is_upgrade = False
        self._decoder: ChunkedDecoder | None = None
        self._last_raw = b""  # of the last head, to another method than HEAD; `_last_head` is that
        self._last_head: ResponseHead | None = None

    @property
    def awaits_head(self) -> bool:
        """Whether a head is due: not where it may take any time, or where `pacing` holds it."""
        sink = None if self.is_read_paused else self.sink
        return sink is not None and self._head is None and not sink.is_long_running

    @property
    def is_within_chunk(self) -> bool:
        decoder = self._decoder
        return decoder is not None and decoder.is_within_chunk

    # What the exchange and its relay do.

    def hold(self, seats: int, units: float = 0.0) -> None:
        """Count the request's seats, and its cost: in units such as tokens, or 0 for its seats."""
        endpoint, load = self.endpoint, units or float(seats)
        self.seats, self.load = seats, load
        endpoint.seats += seats
        endpoint.load += load

    def release_seats(self) -> None:
        if self.seats:
            endpoint = self.endpoint
            endpoint.seats -= self.seats
            endpoint.load = endpoint.load - self.load if endpoint.seats else 0.0
            self.seats = 0

    def send(
        self, sink: ResponseSink, data: bytes, *, is_head: bool = False, is_upgrade: bool = False
    ) -> None:
        """Start a request with `data`, its head and what there is of its body.

        `is_head` says that the response has no body, `is_upgrade` that 101 may come.
        """
        self.sink = sink
        self._is_head = is_head
        self._is_upgrade = is_upgrade
        self._counters.bytes_sent += len(data)
        self.write(data)

    def send_more(self, data: bytes) -> None:
        self._counters.bytes_sent += len(data)
        self.write(data)

    def send_pieces(self, pieces: Sequence[Piece]) -> int:
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
        if not self.is_read_paused and not self.is_closed:
            self.is_read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_read_paused and not self.is_closed:
            self.is_read_paused = False
            self.transport.resume_reading()

    @property
    def can_half_close(self) -> bool:
        return self.transport.can_write_eof()

    def half_close(self) -> None:
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
        """Close after an error of the program, and end the exchange that had it; never raises."""
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
            # Nothing was asked: this must not become the next response.  Some servers send 408
            # before they close.
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
            # Perhaps after the response was whole, when the sink was no longer this connection's.
            self.fail(bug, sink)

    def eof_received(self) -> None:
        """`connection_lost` follows."""

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
        if exc is not None and sink is not None and not self._is_upgrade:
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
        """Read what came before the connection broke: perhaps the response, and why it did.

        A server that refuses a large body responds and closes; what is written then gets an error,
        with which the transport ends before it has read the response.
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

    # The response.

    def _take_start(self, sink: ResponseSink, nbytes: int) -> None:
        """Take a read while the head has not come: mostly head and body, all of the response."""
        end = READS.data.find(_HEAD_END, 0, nbytes) + len(_HEAD_END)
        if end >= len(_HEAD_END) and not self._partial:
            head = self._parse(READS.view[:end].tobytes())
            body_bytes = nbytes - end
            if (
                head.status >= 200
                and body_bytes == (head.length if head.framing == SIZED else 0)
                and head.framing <= SIZED
                and not self._is_upgrade
            ):
                self._end(sink, keep_alive=head.keep_alive)
                # Of the body nothing is copied: the sink writes it before the buffer is used again.
                sink.on_response(head, READS.view[end:nbytes], is_whole=True)
                return
        self._take_head(sink, READS.view[:nbytes].tobytes())

    def _parse(self, raw: bytes) -> ResponseHead:
        """Parse a head, unless it is the same as the last one, as those of one moment often are."""
        if self._is_head:
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
            head = self._parse(raw)
            if head.status >= 200:
                if self._is_upgrade:
                    check_declined(head.status, is_connect=sink.is_connect)
                break
            if head.status == 101:
                sink.on_switch(head, raw, data[end:])
                return
            self._interims += 1
            self._interim_bytes += end
            if self._interims > _MAX_INTERIM_RESPONSES:
                raise ResponseError(f"an unexpected answer {head.status}")
            # The client may take none of them: they are not held back as a body is.
            if self._interim_bytes > MAX_HEAD_BYTES:
                raise ResponseError(f"the heads of answers 1xx are over {MAX_HEAD_BYTES} bytes")
            sink.on_interim(head)
            if self.sink is not sink:
                return
            data = data[end:]
            end = data.find(_HEAD_END)
        # A copy of a little, a view of much.
        is_small = len(data) - end < LARGE_BYTES
        self._start_body(sink, head, data[end:] if is_small else memoryview(data)[end:])

    def _start_body(self, sink: ResponseSink, head: ResponseHead, rest: Piece) -> None:
        self._head = head
        self._framing = head.framing
        if head.framing == SIZED and len(rest) < head.length:
            self._body_left = head.length - len(rest)
            sink.on_response(head, rest, is_whole=False)
        elif head.framing == CHUNKED:
            decoder = self._decoder = ChunkedDecoder()
            try:
                pieces, excess = decoder.feed(rest)
            except ChunkedError:
                # The upstream has responded: the client gets its head, and then no end.
                sink.on_response(head, b"", is_whole=False)
                raise
            trailers = decoder.trailers
            if decoder.is_done:
                self._end(sink, keep_alive=head.keep_alive and not excess)
            # In one call where nothing would be lost by it.
            is_whole = decoder.is_done and not trailers
            sink.on_response(head, b"".join(pieces), is_whole=is_whole)
            if trailers:
                sink.on_body((), is_last=True, trailers=trailers)
        elif head.framing in (NO_BODY, SIZED):
            # What is beyond the announced length is dropped.
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
        """Get ready for the next response, or go.

        The exchange learns of the end right after this, and gives the connection back with
        `Pool.release` once the request is through as well.
        """
        assert self.sink is sink
        self.sink = None
        self._head = None
        self._decoder = None
        self._interims = self._interim_bytes = 0
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
