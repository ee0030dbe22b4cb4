"""A client's connection that speaks HTTP/2: frames in, streams, frames out.

The library takes frames apart and puts them together; each stream that brings a request is the
client of an exchange.  The transport is always read: windows say how much a client may send.

    OPEN -> ANNOUNCED -> LEAVING -> LINGERING -> CLOSED

A client may have sent requests before it learns that the connection ends.  So a GOAWAY that allows
every stream comes first, the one that says which were the last a round trip later, and the end once
those are through (RFC 9113, section 6.8).  Our side closes first, where it can alone: a connection
that is closed with bytes unread is reset, and a reset overtakes the last response.
"""

from __future__ import annotations

import enum
import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.transitions import Event
from apfproxy.http.grammar import HeadError, head_too_long
from apfproxy.http.read_buffer import NOBODY, READS, WRITE_HIGH_WATER_BYTES
from apfproxy.proxy.client import OpenConnection
from apfproxy.proxy.client_limits import LARGE_PART_BYTES
from apfproxy.proxy.counters import Bound, Flood, GoAway, ResetBy
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.http2.available import BINDING
from apfproxy.proxy.http2.frame_budget import FrameBudget
from apfproxy.proxy.http2.request_head import RequestFields, as_upgrade, head_of, new_key
from apfproxy.proxy.http2.stream import (
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    REFUSED_STREAM,
    Http2Output,
    Http2Stream,
    TunnelStream,
)
from apfproxy.proxy.reasons import UNHELD

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from apfproxy.http.read_buffer import Piece
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import ListenerContext

log = logging.getLogger(__name__)

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client that speaks HTTP/2; RFC 9113, section 3.4."""

FrameEvent = tuple[int, int, Any, Any]
"""As `nghttp2` has them: the kind, the stream, what came, and what the kind says of it."""
_REQUEST: Final = 1
_TOO_LARGE: Final = 2
_DATA: Final = 3
_TRAILERS: Final = 4
_END: Final = 5
_CLOSED: Final = 6
_ROOM: Final = 7
_ANSWERED: Final = 8


class ConnectionState(enum.StrEnum):
    OPEN = "open"
    ANNOUNCED = "announced"
    """New requests are still taken, of clients that do not know yet."""
    LEAVING = "leaving"
    """No further request is taken."""
    LINGERING = "lingering"
    """Our side has ended; what still comes is thrown away."""
    CLOSED = "closed"
    """It is closed, or will be once what was written is through."""


OPEN: Final = ConnectionState.OPEN
ANNOUNCED: Final = ConnectionState.ANNOUNCED
LEAVING: Final = ConnectionState.LEAVING
LINGERING: Final = ConnectionState.LINGERING
CLOSED: Final = ConnectionState.CLOSED

TRANSITIONS = {
    OPEN: {"announce": ANNOUNCED, "leave": LEAVING, "linger": LINGERING, "close": CLOSED},
    ANNOUNCED: {"leave": LEAVING, "linger": LINGERING, "close": CLOSED},
    LEAVING: {"linger": LINGERING, "close": CLOSED},
    LINGERING: {"close": CLOSED},
    CLOSED: {},
}

ANNOUNCE: Final = Event("announce", TRANSITIONS)
LEAVE: Final = Event("leave", TRANSITIONS)
LINGER: Final = Event("linger", TRANSITIONS)
CLOSE: Final = Event("close", TRANSITIONS)


class Http2Connection(OpenConnection):
    def __init__(
        self, shared: ListenerContext, router: ClusterRouter, counted_as: str, address: str
    ) -> None:
        super().__init__()
        self._address = address
        self._shared = shared
        self._counted_as = counted_as
        self._counts = shared.counters.http2
        self._output = output = Http2Output(shared, router, counted_as, self._flush_due)
        self._reader = output.reader
        self._session = output.session
        self._transport = output.transport
        self._budget = FrameBudget(shared.clock.now_ns())
        self._nuisances = 0
        """Frames other than requests and parts of bodies, as far as the budget knows of them."""
        self._held_block = 0
        self._unheld: Bound | None = None
        """Why a header block that is not whole is not counted; None if it is, or there is none."""
        self._resets = self._own_resets = 0
        self._streams: dict[int, Http2Stream] = {}
        self._state: ConnectionState = OPEN
        self._is_heard = self._is_probed = False
        """Whether anything has come since the last look; whether a PING is out since then."""

    @guarded
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        shared, output = self._shared, self._output
        self._transport = output.transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        output.write = self._transport.write
        self._reader.begin(self._transport, self._address)
        self._address = output.address = self._reader.address
        output.forwarded_suffix = shared.intern(self._address.encode() + b"\r\n\r\n")
        self.deadline_ns = self._now_ns() + shared.in_force.head_timeout_ns
        shared.connections[self] = None
        self._counts.connections += 1
        self._counts.connections_open += 1
        output.flush_soon()  # the settings

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the protocol's signature
        return READS.start

    def buffer_updated(self, nbytes: int) -> None:
        self._shared.counters.bytes_from_clients += nbytes
        try:  # as `guarded`, at no cost
            self.receive(READS.view[:nbytes])
        except Exception as error:  # noqa: BLE001  as there
            self.fail(error)

    def pause_writing(self) -> None:
        self._output.is_paused = True
        self._output.paused_ns = self._now_ns()

    @guarded
    def resume_writing(self) -> None:
        self._output.is_paused = False
        self.flush()

    @guarded
    def eof_received(self) -> None:
        self._close()  # as with HTTP/1.1

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is gone
        shared = self._shared
        self._state = CLOSED
        self.deadline_ns = 0
        try:
            self._remove_all(self._streams.values())
            self._output.change_held(-self._held_block)
            self._held_block = 0
            self._transport.set_protocol(NOBODY)
        finally:  # whatever happens: one that is gone must not count, nor hold up the end
            self._output.flush = lambda: None  # nothing refers to this connection any more
            if self._counted_as:
                self._reader.end()
                shared.connections.pop(self, None)
                shared.limits.release(self._counted_as)
                self._counted_as = ""
                self._counts.connections_open -= 1
                self._count_resets()
                shared.on_connection_closed()

    def receive(self, data: Piece) -> None:
        if self._has_ended:
            return
        assert BINDING is not None
        self._is_heard = True
        session = self._session
        try:
            events = session.receive(data)
        except BINDING.SessionError as error:
            if error.code == ENHANCE_YOUR_CALM:
                # The library's own bounds: of the frames of a block, and of responses that wait.
                self._end_flood(Flood.EMPTY_FRAMES if session.unfinished else Flood.CONTROL)
            else:
                self._end_for(GoAway.PROTOCOL, str(error))
            return
        self._take(events)
        unfinished = session.unfinished
        if unfinished > LARGE_PART_BYTES or self._held_block or self._unheld is not None:
            self._hold_block(unfinished)
        if session.nuisances != self._nuisances:
            self._nuisances = session.nuisances
            self._count_resets()
            flood = self._budget.take(session, self._now_ns())
            if flood is not None:
                session.go_away(ENHANCE_YOUR_CALM, flood.encode())
                self._end_flood(flood)
                return
        self.flush()

    def _hold_block(self, size: int) -> None:
        """Have what has come of a header block counted, if it is much.

        Without room for it nothing else can come on the connection.  Requests under way get some
        time: mostly the rest of the block is on its way, too.
        """
        if size <= LARGE_PART_BYTES:
            size = 0
        bound = self._output.change_held(size - self._held_block)
        if bound is not None:
            self._unheld = bound
            if not self._streams or self._state is not OPEN:
                self._end_unheld(bound)
            else:
                until_ns = self._now_ns() + self._shared.linger_ns
                self.deadline_ns = min(self.deadline_ns or until_ns, until_ns)
            return
        self._held_block = size
        if self._unheld is not None:
            self._unheld = None
            self._look_or_idle()

    def _take(self, events: list[FrameEvent]) -> None:
        at, count = 0, len(events)
        while at < count:
            kind, stream_id, what, extra = events[at]
            at += 1
            if kind == _REQUEST:
                if self._state is LEAVING:
                    continue  # the GOAWAY that waits to be sent says that it is not taken
                body, is_whole = b"", bool(extra)
                if not is_whole:
                    at, body, is_whole = _body_behind(events, at, stream_id)
                self._begin(stream_id, what, body, is_whole=is_whole)
                continue
            if kind == _TOO_LARGE:
                self._refuse_too_large(stream_id, what, is_of_field=bool(extra))
                continue
            if kind == _CLOSED:
                at = self._take_closed(events, at - 1)
                continue
            stream = self._streams.get(stream_id)
            if stream is None:  # it was refused
                if kind == _ANSWERED:
                    self._output.reset(stream_id, NO_ERROR)
                continue
            try:
                if kind == _DATA:
                    at, body, is_whole = _body_behind(events, at - 1, stream_id)
                    stream.take_body(body, is_last=is_whole)
                elif kind in (_END, _TRAILERS):
                    stream.take_body(b"", is_last=True, trailers=what)
                elif kind == _ROOM:
                    stream.on_room()
                elif kind == _ANSWERED:
                    stream.linger()
            except Exception as bug:  # noqa: BLE001  whatever it is, the other streams go on
                stream.fail(bug)

    def _refuse_too_large(self, stream_id: int, method: bytes, *, is_of_field: bool) -> None:
        error = head_too_long(self._shared.in_force.max_head_bytes)
        if is_of_field:
            why = "a header field is longer than 64 KiB, the most that it may be over HTTP/2"
            error = HeadError(431, why)
        self._output.refuse(stream_id, error, self._reader.context, is_head=method == b"HEAD")

    def _take_closed(self, events: list[FrameEvent], at: int) -> int:
        closed: list[Http2Stream] = []
        while at < len(events) and events[at][0] == _CLOSED:
            stream = self._streams.get(events[at][1])
            if stream is not None:
                closed.append(stream)
                exchange = stream.exchange
                if exchange is not None and not exchange.has_responded and exchange.asked_ns:
                    self._budget.reset_after(self._now_ns() - exchange.asked_ns)
            at += 1
        if closed:
            self._remove_all(closed)
            if not self._streams:
                self._look_or_idle()
        return at

    def _begin(self, stream_id: int, fields: RequestFields, body: bytes, *, is_whole: bool) -> None:
        reader, shared, output = self._reader, self._shared, self._output
        self._counts.requests += 1
        if self._session.unsent_bytes > shared.holdings.most_of_connection:
            # Who does not take the responses that there are gets no more of them.
            shared.counters.held_refusals[Bound.CONNECTION] += 1
            output.reset(stream_id, REFUSED_STREAM)
            return
        stream: Http2Stream | None = None
        try:
            is_connect = fields[0] == b"CONNECT"
            if is_connect:
                fields = as_upgrade(fields, new_key())
            raw = head_of(fields, is_whole=is_connect or (is_whole and not body))
            request, context = reader.last_request, reader.context
            if request is None or context is None or raw != reader.last_head:
                block, _, body_bytes = reader.match(raw)
                request = reader.read(raw, block, body_bytes)
                context = reader.context
                assert context is not None
                if not request.head.framing:
                    reader.remember(raw, request)
            if is_connect:
                stream = TunnelStream(output, stream_id, context, request.head, body, is_whole)
            else:
                stream = Http2Stream(output, stream_id, context, request.head)
            self._add(stream)
            framed = b""
            if request.head.framing:
                framed = stream.begin(request.head, body, is_last=is_whole)
            else:
                is_whole = True
            exchange = stream.exchange = Exchange(context, stream, request, framed, is_whole)
            exchange.start()
            if not is_whole:
                stream.credit(len(body))
        except HeadError as error:
            is_head = fields[0] == b"HEAD"
            if stream is None:
                output.refuse(stream_id, error, reader.context, is_head=is_head)
            else:
                stream.refuse(error, is_head=is_head)
                stream.credit(len(body))
        except Exception as bug:  # noqa: BLE001  whatever it is, the other streams go on
            if stream is not None:
                stream.fail(bug)
            else:
                report(Part.CONNECTION, bug, "an error of the proxy itself", loop=shared.loop)
                output.reset_after_error(stream_id)

    def _add(self, stream: Http2Stream) -> None:
        shared = self._shared
        self._streams[stream.stream_id] = stream
        shared.connections[stream] = None
        self._counts.streams_open += 1
        if self._state is OPEN:
            if len(self._streams) == 1:
                self._begin_looking()
            chance = shared.in_force.goaway_chance
            if chance and shared.chance() < chance:
                self._announce(GoAway.CHANCE)

    @guarded
    def _flush_due(self) -> None:
        self.flush()

    def flush(self) -> None:
        if self._has_ended or not self._output.write_all():
            return
        events = self._session.events()
        if events:
            self._take(events)
        if not (self._streams or self._output.is_paused) and (
            self._state is LEAVING or self._session.is_over
        ):
            self._linger()  # we say so, or the client has

    def _now_ns(self) -> int:
        return self._shared.clock.now_ns()

    def _count_resets(self) -> None:
        session, resets = self._session, self._counts.resets
        resets[ResetBy.CLIENT] += session.resets - self._resets
        resets[ResetBy.PROXY] += session.own_resets - self._own_resets
        self._resets, self._own_resets = session.resets, session.own_resets

    def _remove_all(self, streams: Iterable[Http2Stream]) -> None:
        """Remove streams; those that wait first, whom a seat that comes back would send on."""
        for stream in sorted(streams, key=attrgetter("has_seats")):
            del self._streams[stream.stream_id]
            self._shared.connections.pop(stream, None)
            self._counts.streams_open -= 1
            try:
                stream.on_closed()
            except Exception as bug:  # noqa: BLE001  whatever it is, the other streams go on
                stream.fail(bug)

    def _begin_looking(self) -> None:
        self._is_heard = self._is_probed = False
        self.deadline_ns = self._now_ns() + self._shared.in_force.probe_idle_ns

    def _look_or_idle(self) -> None:
        if self._streams:
            self._begin_looking()
        elif self._unheld is None and (self._state is OPEN or self._state is LEAVING):
            self.deadline_ns = self._now_ns() + self._shared.in_force.idle_timeout_ns

    def _look_for_client(self) -> None:
        """Probe a client of which nothing has come for a while; close where it does not answer."""
        if self._is_heard:
            self._begin_looking()
        elif self._is_probed:
            self._end_for(GoAway.SILENT, "it does not answer a PING (downstream.keepAlive)")
        else:
            self._is_probed = True
            self.deadline_ns = self._now_ns() + self._shared.in_force.probe_timeout_ns
            self._session.ping()
            self.flush()

    @property
    def _has_ended(self) -> bool:
        return self._state is CLOSED or self._state is LINGERING

    def _announce(self, why: GoAway) -> None:
        self._state = ANNOUNCE[self._state]
        self._counts.goaways[why] += 1
        self._session.announce_shutdown()
        self.deadline_ns = self._now_ns() + self._shared.linger_ns
        self._output.flush_soon()

    def _end_for(self, why: GoAway, problem: str) -> None:
        log.debug("HTTP/2 with %s is ended: %s", self._address, problem)
        self._counts.goaways[why] += 1
        self.flush()
        self._close()

    def _end_unheld(self, bound: Bound) -> None:
        self._session.go_away(ENHANCE_YOUR_CALM, UNHELD[bound].encode())
        self._end_for(GoAway.MEMORY, UNHELD[bound])

    def _end_flood(self, flood: Flood) -> None:
        self._counts.floods[flood] += 1
        text = "a flood of %s from %s: the connection is closed"
        self._shared.floods.log(logging.WARNING, flood, text, flood, self._address)
        self._end_for(GoAway.FLOOD, f"a flood of {flood}")

    def _linger(self) -> None:
        if self._state is LINGERING or not self._transport.can_write_eof():
            self._close()  # TLS waits for the client's end by itself
            return
        self._state = LINGER[self._state]
        self.deadline_ns = self._now_ns() + self._shared.linger_ns
        self._transport.write_eof()

    def _close(self) -> None:
        if self._state is not CLOSED:
            self._state = CLOSE[self._state]
            # The transport itself would wait without end for a client that takes nothing.
            self.deadline_ns = self._now_ns() + self._shared.in_force.idle_timeout_ns
            self._remove_all(self._streams.values())
            self._transport.close()

    def fail(self, error: Exception) -> None:
        loop = self._shared.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: closed", loop=loop)
        with contained(Part.CONNECTION, loop):
            self._remove_all(self._streams.values())
        with contained(Part.CONNECTION, loop):
            self._state = CLOSED
            self._transport.abort()

    def meet_deadline(self) -> None:
        if self._unheld is not None and self._state is OPEN:
            self._end_unheld(self._unheld)
        elif self._streams and (self._state is OPEN or self._state is LEAVING):
            self._look_for_client()
        elif self._state is OPEN:
            self._announce(GoAway.IDLE)
        elif self._state is ANNOUNCED:
            self._state = LEAVE[self._state]
            self._session.go_away(NO_ERROR)
            self._look_or_idle()
            self.flush()
        elif self._state is LINGERING:
            self._close()
        elif self._state is CLOSED or not self._streams:
            self._transport.abort()  # it does not take the rest

    def close_when_idle(self, deadline_ns: int) -> None:  # noqa: ARG002  it takes a round trip
        """Let the connection close as soon as its streams are through."""
        if self._state is OPEN and (self._shared.is_draining or not self._streams):
            self._announce(GoAway.DRAIN if self._shared.is_draining else GoAway.IDLE)

    def forget_peer(self) -> None:
        self._reader.forget_peer()

    def forget_header_blocks(self) -> None:
        self._reader.forget_header_blocks()

    @property
    def has_seats(self) -> bool:
        return any(stream.has_seats for stream in self._streams.values())

    def leave(self) -> None:
        if self._state is CLOSED:
            self._transport.abort()
            return
        for stream in list(self._streams.values()):
            stream.leave()
        self._session.go_away(NO_ERROR)
        self.flush()
        self._close()

    def __repr__(self) -> str:
        return f"<Http2Connection {self._state}, {len(self._streams)} streams>"


def _body_behind(events: list[FrameEvent], at: int, stream_id: int) -> tuple[int, bytes, bool]:
    """Where the next event is, the body that came in a row, and whether that is its last part."""
    pieces: list[bytes] = []
    while at < len(events) and events[at][1] == stream_id:
        kind = events[at][0]
        if kind == _DATA:
            pieces.append(events[at][2])
        elif kind == _END:
            return at + 1, b"".join(pieces), True
        else:
            break
        at += 1
    return at, b"".join(pieces), False
