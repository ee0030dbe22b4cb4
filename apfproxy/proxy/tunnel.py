"""Upgraded connections: bytes both ways, untouched, between a client and the upstream.

1. What came with the heads goes first, and everything in its order.
2. A side that takes nothing stops the other one: of each direction at most a read and the
   high-water mark are held.
3. Over plain TCP, and of a stream of HTTP/2, one side's end is passed on after what it sent.  TLS
   transports have no half-close, so there an end is the end of both, once what was sent is through.
4. A side that breaks resets the other one: no client takes what is cut short for the whole.
5. A tunnel where nothing moves for the settings' time is cut, by the server's sweep.
6. When the proxy goes away, the client of a WebSocket gets a close frame that says so, between two
   frames of the server, and nothing of the server after it.  Its reply goes to the server.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, contained, guarded
from apfproxy.http.read_buffer import READS
from apfproxy.http.upgrade import PROTOCOLS, WEBSOCKET
from apfproxy.http.websocket_frames import GOING_AWAY, FramePosition

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.client import Client
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.early_seats import WatchSeats
    from apfproxy.upstream.endpoint import UpstreamConnection


class TunnelEnd(asyncio.BufferedProtocol):
    """One side of a tunnel, in place of the HTTP connection that its transport had.

    `other` is None before the tunnel starts, and once both sides are lost.
    """

    __slots__ = ("_on_data", "_tunnel", "connection", "has_ended", "is_lost", "other")

    def __init__(
        self, tunnel: Tunnel, connection: Client | UpstreamConnection, take: Callable[[Piece], None]
    ) -> None:
        self._tunnel: Tunnel | None = tunnel
        self.connection = connection
        self._on_data = take
        self.other: TunnelEnd | None = None
        self.has_ended = False
        self.is_lost = False

    # What the other side does.

    def pause_reading(self) -> None:
        if not self.has_ended and not self.is_lost:
            self.connection.pause_reading()

    def resume_reading(self) -> None:
        # A transport that was at its end must not be read again.
        if not self.has_ended and not self.is_lost:
            self.connection.resume_reading()

    def reset(self) -> None:
        if not self.is_lost:
            self.connection.reset()

    def fail(self, error: Exception) -> None:
        if self._tunnel is not None:
            self._tunnel.fail(error)
        else:
            self.connection.fail(error)

    # What the transport says.

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  the protocol's signature
        return READS.data

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._on_data(READS.view[:nbytes])
        except Exception as error:  # noqa: BLE001  as `guarded`, at no cost
            self.fail(error)

    @guarded
    def eof_received(self) -> bool:
        return self._tunnel is not None and self._tunnel.on_end(self)

    @guarded
    def pause_writing(self) -> None:
        self.connection.is_write_paused = True
        if self.other is not None:
            self.other.pause_reading()

    @guarded
    def resume_writing(self) -> None:
        self.connection.is_write_paused = False
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        tunnel, other = self._tunnel, self.other
        if tunnel is not None:
            try:
                tunnel.on_lost(self, exc)
            except Exception as error:  # noqa: BLE001  as `guarded`
                self.fail(error)
        self.connection.connection_lost(exc)
        if other is not None and other.is_lost:
            self.let_go()
            other.let_go()

    def let_go(self) -> None:
        """Break the cycle once both sides are lost: the collector comes hardly ever."""
        self.other = None
        self._tunnel = None
        self._on_data = _ignore

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "ended" if self.has_ended else "open"
        return f"<TunnelEnd of {self.connection!r}, {state}>"


class Tunnel:
    """Two connections that have become one; that to the upstream is never used for anything else.

    `on_over` is called once, when the tunnel is over, though bytes may still be on their way.
    """

    def __init__(
        self,
        context: Context,
        downstream: Client,
        upstream: UpstreamConnection,
        watch: WatchSeats | None,
        on_over: Callable[[], None],
    ) -> None:
        self._context = context
        self._downstream = downstream
        self._upstream = upstream
        self._watch = watch
        self._on_over: Callable[[], None] | None = on_over
        self._idle_ns = context.in_force.tunnel_idle_ns
        self._flush_timer: asyncio.TimerHandle | None = None
        self._frames: FramePosition | None = None
        """Position in what the upstream sends, while it is a WebSocket's and goes to the client."""
        self.bytes_to_client = 0
        self.is_leaving = False
        self.is_over = False
        self._client = TunnelEnd(self, downstream, self._from_client)
        self._upstream_end = TunnelEnd(self, upstream, self._from_upstream)
        self._client.other, self._upstream_end.other = self._upstream_end, self._client

    def start(
        self, head: ResponseHead, lines: bytes, protocol: bytes, from_upstream: bytes
    ) -> None:
        counters = self._context.counters
        counters.tunnels_open += 1
        counters.tunnels_by_protocol[PROTOCOLS[protocol.lower()].decode()] += 1
        from_client = self._downstream.hand_over(self._client)
        self._upstream.hand_over(self._upstream_end)
        if protocol.lower() == WEBSOCKET:
            self._frames = FramePosition()
            self._frames.feed(from_upstream)
        self.bytes_to_client = len(from_upstream)
        self._downstream.send_switch(head, lines, protocol, from_upstream)
        if from_client:
            self._upstream.send_more(from_client)
        self._note_activity()
        if self._downstream.is_write_paused:
            self._upstream_end.pause_reading()
        else:
            self._upstream_end.resume_reading()
        if self._upstream.is_write_paused:
            self._client.pause_reading()
        else:
            self._client.resume_reading()

    @property
    def can_leave(self) -> bool:
        frames = self._frames
        return (
            frames is not None
            and not frames.has_closed
            and not (self.is_leaving or self.is_over or self._upstream_end.has_ended)
        )

    @property
    def has_left(self) -> bool:
        """Whether its client has been told so, or that the server ends it."""
        return self.is_leaving and self._frames is None

    def leave(self) -> None:
        """Tell the client of a WebSocket that the proxy goes away; for others this does nothing."""
        frames = self._frames
        if frames is None or not self.can_leave:
            return
        self.is_leaving = True
        context = self._context
        self._downstream.deadline_ns = context.clock.now_ns() + context.listener.linger_ns
        if frames.is_between:
            self._say_goodbye(frames)

    def _say_goodbye(self, frames: FramePosition) -> None:
        self._frames = None
        if not frames.has_closed:
            self._downstream.send_pieces((GOING_AWAY,), len(GOING_AWAY))

    def close(self) -> None:
        if self.is_over:
            return
        self._finish()
        self._downstream.end_tunnel()
        if not self._upstream_end.is_lost:
            transport = self._upstream.transport
            transport.close()
            if transport.get_write_buffer_size():
                # Once the client is gone, no sweep looks at an upstream that takes nothing.
                self._flush_timer = self._context.loop.call_later(
                    self._context.in_force.idle_timeout_ns / 1e9, self._upstream.abort
                )

    def fail(self, error: Exception) -> None:
        self._downstream.fail(error)
        with contained(Part.CONNECTION, self._context.loop):
            self._upstream.abort()

    # What the ends say.

    def on_end(self, end: TunnelEnd) -> bool:
        """End a side that sends no more; says whether it may still get something."""
        end.has_ended = True
        if self.is_over or end.is_lost:
            return False
        other = end.other
        assert other is not None  # one side at least is not lost
        if not (end.connection.can_half_close and other.connection.can_half_close):
            self.close()
            return False
        other.connection.half_close()
        if other.has_ended:
            self.close()
        return True

    def on_lost(self, end: TunnelEnd, error: Exception | None) -> None:
        if end is self._upstream_end and self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if error is None:
            self.close()
        elif not self.is_over:
            self._finish()
            assert end.other is not None
            end.other.reset()

    # Bytes.

    def _from_client(self, data: Piece) -> None:
        if not self.is_over:
            self._downstream.count_tunnelled(len(data))
            self._note_activity()
            self._upstream.send_pieces((data,))

    def _from_upstream(self, data: Piece) -> None:
        if not self.is_over:
            self._context.counters.pool.bytes_received += len(data)
            self._note_activity()
            if self._watch is not None:
                self._watch.on_data(bytes(data))
            frames = self._frames
            if frames is not None:
                size = frames.feed(data, to_end=self.is_leaving)
                data = data[:size]
            elif self.is_leaving:
                return  # the client has been told that nothing follows
            self.bytes_to_client += len(data)
            self._downstream.send_pieces((data,), len(data))
            if frames is not None and self.is_leaving and frames.is_between:
                self._say_goodbye(frames)

    def _note_activity(self) -> None:
        if not self.is_leaving:  # else it has its time to end
            self._downstream.deadline_ns = self._context.clock.now_ns() + self._idle_ns

    def _finish(self) -> None:
        self.is_over = True
        self._context.counters.tunnels_open -= 1
        on_over, self._on_over = self._on_over, None  # it has this tunnel: no cycle
        assert on_over is not None
        on_over()


def _ignore(data: Piece) -> None:
    """Take what comes when a tunnel is over."""
