"""A client's connection that speaks HTTP/2: frames in, streams, frames out.

1. The library takes frames apart and puts them together; what they mean is decided here.
2. Each stream that brings a request becomes the client of an exchange, as a connection of HTTP/1.1
   is.  An error in one ends that one.
3. The transport is always read: how much a client may send is said by its streams' windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, report
from apfproxy.http.head_error import HeadError, head_too_long
from apfproxy.http.read_buffer import READS
from apfproxy.http.upgrade import UPGRADE_LINES
from apfproxy.proxy.counters import Bound, Flood, GoAway
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.holdings import LARGE_PART_BYTES
from apfproxy.proxy.http2.available import BINDING
from apfproxy.proxy.http2.connection_base import ConnectionBase
from apfproxy.proxy.http2.connection_state import LEAVING, OPEN
from apfproxy.proxy.http2.error_code import ENHANCE_YOUR_CALM, NO_ERROR, REFUSED_STREAM
from apfproxy.proxy.http2.extended_connect import as_upgrade, new_key
from apfproxy.proxy.http2.frame_budget import FrameBudget
from apfproxy.proxy.http2.request_head import RequestFields, head_of
from apfproxy.proxy.http2.stream import Http2Stream, fields_of
from apfproxy.proxy.http2.tunnel_stream import TunnelStream
from apfproxy.proxy.refused import refused

if TYPE_CHECKING:
    from apfproxy.authn.credentials import Peer
    from apfproxy.http.read_buffer import Piece
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.http2.connection_base import Event
    from apfproxy.proxy.listener_context import ListenerContext

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client that speaks HTTP/2; RFC 9113, section 3.4."""

# Kinds of events, as `nghttp2` has them.
_REQUEST: Final = 1
_TOO_LARGE: Final = 2
_DATA: Final = 3
_TRAILERS: Final = 4
_END: Final = 5
_CLOSED: Final = 6
_ROOM: Final = 7
_ANSWERED: Final = 8


class Http2Connection(ConnectionBase):
    """One client's connection, and what comes on it."""

    __slots__ = ("_budget", "_nuisances")

    def __init__(
        self, shared: ListenerContext, router: ClusterRouter, counted_as: str, address: str
    ) -> None:
        """Take a connection; the arguments are those of the base."""
        super().__init__(shared, router, counted_as, address)
        self._budget = FrameBudget(shared.clock.now_ns())
        self._nuisances = 0
        """Frames other than requests and parts of bodies, so far as the budget knows of them."""

    # Frames.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the protocol's signature
        return READS.start

    def buffer_updated(self, nbytes: int) -> None:
        self._shared.counters.bytes_from_clients += nbytes
        try:  # as `guarded`, at no cost
            self.receive(READS.view[:nbytes])
        except Exception as error:  # noqa: BLE001  as there
            self.fail(error)

    def receive(self, data: Piece) -> None:
        """Take what the client has sent."""
        if self._has_ended:
            return
        assert BINDING is not None
        self._is_heard = True
        session = self._session
        try:
            events = session.receive(data)
        except BINDING.SessionError as error:
            if error.code == ENHANCE_YOUR_CALM:
                # The library's own bounds: of the frames of a block, and of answers that wait.
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
            flood = self._budget.take(session, self.now_ns())
            if flood is not None:
                session.go_away(ENHANCE_YOUR_CALM, flood.encode())
                self._end_flood(flood)
                return
        self.flush()

    def _hold_block(self, size: int) -> None:
        """Have what has come of a header block counted, if it is much.

        Without room for it nothing else can come on the connection.  Where that has requests under
        way, they get some time: mostly the rest of the block is on its way, too.
        """
        if size <= LARGE_PART_BYTES:
            size = 0
        bound = self.change_held(size - self._held_block)
        if bound is not None:
            self._unheld = bound
            if not self._streams or self._state is not OPEN:
                self._end_unheld(bound)
            else:
                until_ns = self.now_ns() + self._shared.linger_ns
                self.deadline_ns = min(self.deadline_ns or until_ns, until_ns)
            return
        self._held_block = size
        if self._unheld is not None:
            self._unheld = None
            if self._streams:
                self._begin_looking()
            else:
                self._on_last_stream()

    def _take(self, events: list[Event]) -> None:
        """Take what frames have brought; an error in one stream ends that one."""
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
                    self._session.reset(stream_id, NO_ERROR)
                    self.flush_soon()
                continue
            try:
                if kind == _DATA:
                    at, body, is_whole = _body_behind(events, at - 1, stream_id)
                    stream.take_body(body, is_last=is_whole)
                elif kind == _END:
                    stream.take_body(b"", is_last=True)
                elif kind == _TRAILERS:
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
        self.refuse(stream_id, error, self._reader.context, is_head=method == b"HEAD")

    def _take_closed(self, events: list[Event], at: int) -> int:
        """Remove the streams of all such events in a row; where the next event is."""
        closed: list[Http2Stream] = []
        while at < len(events) and events[at][0] == _CLOSED:
            stream = self._streams.get(events[at][1])
            if stream is not None:
                closed.append(stream)
                since_ns = stream.unanswered_since_ns
                if since_ns:
                    self._budget.reset_after(self.now_ns() - since_ns)
            at += 1
        if closed:
            self._remove_all(closed)
            if not self._streams:
                self._on_last_stream()
        return at

    def _begin(self, stream_id: int, fields: RequestFields, body: bytes, *, is_whole: bool) -> None:
        """Start an exchange with as much of the body as has come."""
        reader, shared = self._reader, self._shared
        self._counts.requests += 1
        if self._session.unsent_bytes > shared.holdings.most_of_connection:
            # Who does not take the answers that there are gets no more of them.
            shared.counters.held_refusals[Bound.CONNECTION] += 1
            self._session.reset(stream_id, REFUSED_STREAM)
            self.flush_soon()
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
                stream = TunnelStream(
                    self, self._session, stream_id, context, request.head, body, has_ended=is_whole
                )
            else:
                stream = Http2Stream(self, self._session, stream_id, context, request.head)
            self._add(stream)
            framed = b""
            if request.head.framing:
                framed = stream.begin(request.head, body, is_last=is_whole)
            else:
                is_whole = True
            exchange = Exchange(context, stream, request, framed, is_whole)
            stream.exchange = exchange
            exchange.start()
            if not is_whole:
                stream.credit(len(body))
        except HeadError as error:
            if stream is None:
                self.refuse(stream_id, error, reader.context, is_head=fields[0] == b"HEAD")
            else:
                stream.refuse(error, is_head=fields[0] == b"HEAD")
                stream.credit(len(body))
        except Exception as bug:  # noqa: BLE001  whatever it is, the other streams go on
            if stream is not None:
                stream.fail(bug)
            else:
                report(Part.CONNECTION, bug, "an error of the proxy itself", loop=shared.loop)
                self.reset_after_error(stream_id)

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

    # What streams ask.

    def peer_at(self, context: Context) -> Peer:
        """What is known of the client, by the rules of a cluster."""
        return self._reader.peer_at(context)

    def refuse(
        self,
        stream_id: int,
        error: HeadError,
        context: Context | None,
        *,
        is_head: bool = False,
        is_logged: bool = False,
    ) -> None:
        """Answer what is no request, or none that a cluster takes."""
        answer = refused(
            self._shared, context, self.address, error, is_head=is_head, is_logged=is_logged
        )
        for lines in (b"Connection: close\r\n", UPGRADE_LINES):
            answer = answer.replace(lines, b"", 1)
        self.send_whole(stream_id, answer)

    def send_whole(self, stream_id: int, answer: bytes) -> int:
        """Send a whole answer that is written as HTTP/1.1's; says how long its body is."""
        end = answer.index(b"\r\n\r\n") + 4
        status = int(answer[9:12])
        self._session.answer(stream_id, status, fields_of(answer[: end - 2]), answer[end:], True)
        self.flush_soon()
        return len(answer) - end


def _body_behind(events: list[Event], at: int, stream_id: int) -> tuple[int, bytes, bool]:
    """As much of a request's body as came with its head: mostly all of it.

    Returns:
        Where the next event is, the body, and whether that is all of it.
    """
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
