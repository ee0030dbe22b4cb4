"""What a connection of HTTP/2 is apart from its requests: a transport, its output, and its end.

1. All that the streams send within a turn of the loop goes out in one write, and no more than the
   transport takes: the rest waits in the streams, each of which is bounded.
2. It ends in the steps of `connection_state`, for whatever reason.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast

from apfproxy.base.faults import Part, contained, report
from apfproxy.base.guarded import guarded
from apfproxy.http.read_buffer import NOBODY, NOWHERE, READ_BYTES, WRITE_HIGH_WATER_BYTES
from apfproxy.proxy.counters import Flood, GoAway, ResetBy
from apfproxy.proxy.exchange_base import UNHELD
from apfproxy.proxy.header_blocks import HeadReader
from apfproxy.proxy.http2.available import BINDING
from apfproxy.proxy.http2.connection_state import (
    ANNOUNCE,
    ANNOUNCED,
    CLOSE,
    CLOSED,
    LEAVE,
    LEAVING,
    LINGER,
    LINGERING,
    OPEN,
    ConnectionState,
)
from apfproxy.proxy.http2.error_code import ENHANCE_YOUR_CALM, INTERNAL_ERROR, NO_ERROR
from apfproxy.proxy.http2.multiplexer import Multiplexer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.counters import Bound
    from apfproxy.proxy.holdings import Holding
    from apfproxy.proxy.http2.stream import Http2Stream
    from apfproxy.proxy.listener_context import ListenerContext

log = logging.getLogger(__name__)

OUTPUT_BYTES: Final = 65536
"""Put together for one write."""

Event = tuple[int, int, Any, Any]
"""As `nghttp2` has them: the kind, the stream, what came, and what the kind says of it."""


class ConnectionBase(Multiplexer):
    """A client's connection, and the streams that it has.

    Attributes:
        deadline_ns: When `on_deadline` is due, or 0.
        write: The transport's.

    All others are those of `Multiplexer`.
    """

    __slots__ = (
        "_counted_as",
        "_counts",
        "_held_block",
        "_holding",
        "_is_flush_due",
        "_is_flushing",
        "_is_heard",
        "_is_probed",
        "_is_write_paused",
        "_own_resets",
        "_paused_ns",
        "_reader",
        "_resets",
        "_session",
        "_shared",
        "_state",
        "_streams",
        "_transport",
        "_unheld",
        "deadline_ns",
        "write",
    )

    def __init__(
        self, shared: ListenerContext, router: ClusterRouter, counted_as: str, address: str
    ) -> None:
        """Take a connection.

        Args:
            shared: What it shares with all others.
            router: Says which cluster a request is of.
            counted_as: The address under which the limits count it.
            address: Of the client, if another one's than the connection has.
        """
        super().__init__()
        self.address = address
        assert BINDING is not None, "nobody may agree on HTTP/2 without it"
        self._shared = shared
        self._reader = HeadReader(router, is_http2=True)
        self._counted_as = counted_as
        self._counts = shared.counters.http2
        in_force = shared.in_force
        self._session = BINDING.Session(
            in_force.max_streams, READ_BYTES, in_force.max_head_bytes, WRITE_HIGH_WATER_BYTES, True
        )
        self._holding: Holding | None = None
        """What is counted of it; made once anything is."""
        self._held_block = 0
        """What is counted of a header block that is not whole."""
        self._unheld: Bound | None = None
        """Why such a block is not counted; None if it is, or there is none."""
        self._resets = 0
        """Streams that were reset, so far as they are counted."""
        self._own_resets = 0
        self._streams: dict[int, Http2Stream] = {}
        self._state: ConnectionState = OPEN
        self._transport = NOWHERE
        self.write = NOWHERE.write
        self._is_flush_due = False
        self._is_flushing = False
        self._is_heard = False
        """Whether anything has come since the last look at that."""
        self._is_probed = False
        """Whether a PING is out to which nothing has come."""
        self._is_write_paused = False
        self._paused_ns = 0
        """When the transport last had enough."""
        self.deadline_ns = 0

    @abstractmethod
    def _take(self, events: list[Event]) -> None:
        """Take what frames have brought; an error in one stream ends that one."""

    # What the transport says.

    @guarded
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        shared = self._shared
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.write = self._transport.write
        self._reader.begin(self._transport, self.address)
        self.address = self._reader.address
        self.forwarded_suffix = shared.intern(self.address.encode() + b"\r\n\r\n")
        self.deadline_ns = self.now_ns() + shared.in_force.head_timeout_ns
        shared.connections[self] = None
        self._counts.connections += 1
        self._counts.connections_open += 1
        self.flush_soon()  # the settings

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._paused_ns = self.now_ns()

    @guarded
    def resume_writing(self) -> None:
        self._is_write_paused = False
        self.flush()

    @guarded
    def eof_received(self) -> None:
        """The client sends no more, and is taken to be gone, as with HTTP/1.1."""
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is gone
        shared = self._shared
        self._state = CLOSED
        self.deadline_ns = 0
        try:
            self._remove_all(self._streams.values())
            self.change_held(-self._held_block)
            self._held_block = 0
            self._transport.set_protocol(NOBODY)
        finally:  # whatever happens: one that is gone must not count, nor hold up the end
            if self._counted_as:
                self._reader.end()
                shared.connections.pop(self, None)
                shared.limits.release(self._counted_as)
                self._counted_as = ""
                self._counts.connections_open -= 1
                self._count_resets()
                shared.on_connection_closed()

    # What goes out.

    def flush_soon(self) -> None:
        """Send what streams have to send, all of it at once when this turn of the loop is over."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._shared.loop.call_soon(self._flush_due)

    @guarded
    def _flush_due(self) -> None:
        if self._is_flush_due:
            self.flush()

    def flush(self) -> None:
        """Send as much as the transport takes."""
        if self._is_flushing or self._has_ended:
            return
        self._is_flushing, self._is_flush_due = True, False
        session, counters = self._session, self._shared.counters
        try:
            while not self._is_write_paused:
                data = session.output(OUTPUT_BYTES)
                if not data:
                    break
                counters.bytes_to_clients += len(data)
                self.write(data)
        finally:
            self._is_flushing = False
        events = session.events()
        if events:
            self._take(events)
        if not (self._streams or self._is_write_paused) and (
            self._state is LEAVING or session.is_over
        ):
            self._linger()  # we say so, or the client has

    def give_up(self, stream_id: int, code: int) -> None:
        """Reset a stream whose client does not take the rest of an answer, or end its request."""
        if self._is_write_paused and self.now_ns() - self._paused_ns >= self.idle_timeout_ns:
            self._transport.abort()  # it does not take anything
            return
        self._session.reset(stream_id, code)
        self.flush_soon()

    def reset_after_error(self, stream_id: int) -> None:
        """Reset a stream after an error of the program; never raises."""
        with contained(Part.CONNECTION, self._shared.loop):
            self._session.reset(stream_id, INTERNAL_ERROR)
            self.flush_soon()

    # Its streams.

    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted, or less."""
        if self._holding is None:
            if not by:
                return None
            self._holding = self._shared.holdings.holding(self._counted_as)
        return self._holding.change(by)

    def now_ns(self) -> int:
        """The time."""
        return self._shared.clock.now_ns()

    @property
    def idle_timeout_ns(self) -> int:
        """Until a client must have taken an answer."""
        return self._shared.in_force.idle_timeout_ns

    @property
    def linger_ns(self) -> int:
        """For how long the rest of a request is taken that has its answer."""
        return self._shared.linger_ns

    def _count_resets(self) -> None:
        """Count the streams that were reset since the last call."""
        session, resets = self._session, self._counts.resets
        resets[ResetBy.CLIENT] += session.resets - self._resets
        resets[ResetBy.PROXY] += session.own_resets - self._own_resets
        self._resets, self._own_resets = session.resets, session.own_resets

    def _remove_all(self, streams: Iterable[Http2Stream]) -> None:
        """Remove streams; those that wait first, whom a seat that comes back would send on."""
        for stream in sorted(streams, key=_has_seats):
            del self._streams[stream.stream_id]
            self._shared.connections.pop(stream, None)
            self._counts.streams_open -= 1
            try:
                stream.on_closed()
            except Exception as bug:  # noqa: BLE001  whatever it is, the other streams go on
                stream.fail(bug)

    def _on_last_stream(self) -> None:
        """No request is under way any more."""
        if self._unheld is None and (self._state is OPEN or self._state is LEAVING):
            self.deadline_ns = self.now_ns() + self._shared.in_force.idle_timeout_ns

    # Whether the client is still there.

    def _begin_looking(self) -> None:
        """Find out from now on whether the client of what is under way is there."""
        self._is_heard = self._is_probed = False
        self.deadline_ns = self.now_ns() + self._shared.in_force.probe_idle_ns

    def _look_for_client(self) -> None:
        """Probe a client of which nothing has come for a while; close where it does not answer."""
        if self._is_heard:
            self._begin_looking()
        elif self._is_probed:
            self._end_for(GoAway.SILENT, "it does not answer a PING (downstream.keepAlive)")
        else:
            self._is_probed = True
            self.deadline_ns = self.now_ns() + self._shared.in_force.probe_timeout_ns
            self._session.ping()
            self.flush()

    # The end.

    @property
    def _has_ended(self) -> bool:
        """Whether nothing is taken any more, and nothing sent."""
        return self._state is CLOSED or self._state is LINGERING

    def _announce(self, why: GoAway) -> None:
        """Announce the connection's end, of which the client learns within a round trip."""
        self._state = ANNOUNCE[self._state]
        self._counts.goaways[why] += 1
        self._session.announce_shutdown()
        self.deadline_ns = self.now_ns() + self._shared.linger_ns
        self.flush_soon()

    def _end_for(self, why: GoAway, problem: str) -> None:
        """Close since the client broke a rule of the protocol, or does nothing of use."""
        log.debug("HTTP/2 with %s is ended: %s", self.address, problem)
        self._counts.goaways[why] += 1
        self.flush()
        self._close()

    def _end_unheld(self, bound: Bound) -> None:
        """Close since there is no room for the rest of a header block."""
        self._session.go_away(ENHANCE_YOUR_CALM, UNHELD[bound].encode())
        self._end_for(GoAway.MEMORY, UNHELD[bound])

    def _end_flood(self, flood: Flood) -> None:
        self._counts.floods[flood] += 1
        self._shared.floods.log(
            logging.WARNING,
            flood,
            "a flood of %s from %s: the connection is closed",
            flood,
            self.address,
        )
        self._end_for(GoAway.FLOOD, f"a flood of {flood}")

    def _linger(self) -> None:
        """Close so that the client gets the last answer, whatever it sends meanwhile."""
        if self._state is LINGERING or not self._transport.can_write_eof():
            self._close()  # TLS waits for the client's end by itself
            return
        self._state = LINGER[self._state]
        self.deadline_ns = self.now_ns() + self._shared.linger_ns
        self._transport.write_eof()

    def _close(self) -> None:
        """Close once what is written is through."""
        if self._state is not CLOSED:
            self._state = CLOSE[self._state]
            # The transport itself would wait without end for a client that takes nothing.
            self.deadline_ns = self.now_ns() + self._shared.in_force.idle_timeout_ns
            self._remove_all(self._streams.values())
            self._transport.close()

    def fail(self, error: Exception) -> None:
        """Close after an error of the program, wherever it came up; never raises."""
        loop = self._shared.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: closed", loop=loop)
        with contained(Part.CONNECTION, loop):
            self._remove_all(self._streams.values())
        with contained(Part.CONNECTION, loop):
            self._state = CLOSED
            self._transport.abort()

    # What the server does.

    @guarded
    def on_deadline(self) -> None:
        """The deadline is over."""
        self.deadline_ns = 0
        if self._unheld is not None and self._state is OPEN:
            self._end_unheld(self._unheld)
        elif self._streams and (self._state is OPEN or self._state is LEAVING):
            self._look_for_client()
        elif self._state is OPEN:
            self._announce(GoAway.IDLE)
        elif self._state is ANNOUNCED:
            self._state = LEAVE[self._state]
            self._session.go_away(NO_ERROR)
            if self._streams:
                self._begin_looking()
            else:
                self._on_last_stream()
            self.flush()
        elif self._state is LINGERING:
            self._close()
        elif self._state is CLOSED or not self._streams:
            self._transport.abort()  # it does not take the rest

    def relieve(self, now_ns: int) -> None:
        """Close, if it is idle: memory is short."""
        self.hasten(now_ns)

    def hasten(self, deadline_ns: int) -> None:  # noqa: ARG002  it takes a round trip
        """Let the connection close as soon as its streams are through."""
        if self._state is OPEN and (self._shared.is_draining or not self._streams):
            self._announce(GoAway.DRAIN if self._shared.is_draining else GoAway.IDLE)

    def forget_peer(self) -> None:
        """Find out anew what kind of client this is, when its next request comes."""
        self._reader.forget_peer()

    def forget_header_blocks(self) -> None:
        """Forget by what the connection is known."""
        self._reader.forget_header_blocks()

    def is_serving(self, cluster: object) -> bool:  # noqa: ARG002  its streams say so
        """Whether a request of the connection itself is under way: never."""
        return False

    @property
    def has_seats(self) -> bool:
        """Whether a request of one of its streams has seats."""
        return any(stream.has_seats for stream in self._streams.values())

    @property
    def can_end_watch(self) -> bool:
        """Whether a watch of the connection itself can be ended: never."""
        return False

    def end_watch(self) -> None:
        """Its streams have them."""

    @property
    def has_websocket(self) -> bool:
        """Whether the connection itself is a WebSocket: never."""
        return False

    def close_websocket(self) -> None:
        """Its streams may be one each."""

    def leave(self) -> None:
        """Reset each stream, and close: the proxy stops.  Asked again, close at once."""
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


def _has_seats(stream: Http2Stream) -> bool:
    return stream.has_seats
