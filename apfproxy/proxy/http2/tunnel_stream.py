"""A stream of HTTP/2 by which a client asks for a tunnel, and which carries it then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.http.head_error import HeadError, UnheldError
from apfproxy.http.read_buffer import READS
from apfproxy.http.request_fields import VIA
from apfproxy.http.upgrade import connect_lines
from apfproxy.proxy.exchange_base import UNHELD
from apfproxy.proxy.http2.error_code import CANCEL, ENHANCE_YOUR_CALM, NO_ERROR, PROTOCOL_ERROR
from apfproxy.proxy.http2.stream import Http2Stream, fields_of
from apfproxy.proxy.http2.stream_state import OPEN

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.http2.multiplexer import Multiplexer
    from apfproxy.proxy.http2.nghttp2 import Session

_OK = 200


class TunnelStream(Http2Stream):
    """The stream of a request with CONNECT.

    What the client sends before there is a tunnel is held: as much as its window allows, which is
    given back when the server can get it.  An end of either side is END_STREAM, a break RST_STREAM.
    """

    __slots__ = ("_early", "_end", "_has_early_end", "_held_early", "_is_half_closed")

    def __init__(
        self,
        connection: Multiplexer,
        session: Session,
        stream_id: int,
        context: Context,
        head: RequestHead,
        early: bytes,
        *,
        has_ended: bool,
    ) -> None:
        """Take a request.

        Args:
            connection: On which it came.
            session: Of that connection.
            stream_id: The stream's number.
            context: Of the request's cluster.
            head: The request's, as an upgrade.
            early: What the client has sent behind it.
            has_ended: Whether it sends no more.

        Raises:
            HeadError: It asks for no tunnel that is served, or there is no room for `early`.
        """
        super().__init__(connection, session, stream_id, context, head)
        if head.upgrade is None:
            raise HeadError(405, "CONNECT is not served there: no WebSocket is (upstream.upgrades)")
        bound = self.change_held(len(early))
        if bound is not None:
            raise UnheldError(UNHELD[bound])
        self._held_early = len(early)
        """What is counted of what came before there is a tunnel."""
        self._is_read_paused = True
        self._unconsumed = len(early)
        self._early = bytearray(early)
        self._has_early_end = has_ended
        self._is_half_closed = False
        self._end: asyncio.BufferedProtocol | None = None
        """The client's end of the tunnel, while there is one."""

    @property
    def makes_handshakes(self) -> bool:
        """The proxy does: HTTP/2 has no answer 101."""
        return True

    @property
    def can_half_close(self) -> bool:
        """Any stream can."""
        return True

    # The client's bytes.

    def take_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        """Take what the client sends through the tunnel."""
        end = self._end
        if self.exchange is None:
            return  # its end is on its way
        if trailers:  # RFC 9113, section 8.5
            self._session.reset(self.stream_id, PROTOCOL_ERROR)
            self._connection.flush_soon()
        elif end is None:
            if self.change_held(len(data)) is not None:
                self._session.reset(self.stream_id, ENHANCE_YOUR_CALM)
                self._connection.flush_soon()
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
        """Have another protocol take what comes, for good: what has come and was not taken."""
        self._end = protocol
        early, self._early = bytes(self._early), bytearray()
        self._uncount_early()
        return early

    def _uncount_early(self) -> None:
        self.change_held(-self._held_early)
        self._held_early = 0

    def resume_reading(self) -> None:
        """Take more, unless there is no tunnel yet."""
        end = self._end
        if end is None:
            return
        super().resume_reading()
        if self._has_early_end:
            self._has_early_end = False
            end.eof_received()

    def count_tunnelled(self, size: int) -> None:
        """The connection has counted it."""

    # The server's bytes.

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:  # noqa: ARG002  the base's signature
        """Send the answer that begins the tunnel, and the first bytes of that."""
        fields = b"".join((connect_lines(fields_of(head.lines)), VIA, lines))
        self._session.answer(self.stream_id, _OK, fields, data, False)
        self._connection.flush_soon()
        self._see_room()

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        """Send bytes of the tunnel."""
        self.send_body(pieces, size, is_last=False)

    def _see_room(self) -> None:
        super()._see_room()
        if self.is_write_paused and self._end is not None:
            self._end.pause_writing()

    def on_room(self) -> None:
        """The client has taken what was sent."""
        if self._end is None:
            super().on_room()
        else:
            self._end.resume_writing()

    def half_close(self) -> None:
        """Tell the client that no more comes."""
        self._is_half_closed = True
        self._session.half_close(self.stream_id)
        self._connection.flush_soon()

    # The end.

    def linger(self) -> None:
        """Tell the client at once that nobody takes what it sends any more."""
        self._session.reset(self.stream_id, NO_ERROR)
        self._connection.flush_soon()

    def end_tunnel(self) -> None:
        """End the tunnel behind what is unsent."""
        if self.state is OPEN:
            self._finish(self._connection.now_ns())
            if self._is_half_closed:
                self._session.break_off(self.stream_id, NO_ERROR)
            else:
                self._session.send(self.stream_id, b"", True)
            self._connection.flush_soon()

    def abort(self) -> None:
        """Reset the stream at once."""
        if self._end is None:
            super().abort()
        elif self.state is OPEN:
            self._finish(self._connection.now_ns())
            self._session.reset(self.stream_id, CANCEL)
            self._connection.flush_soon()

    def on_closed(self) -> None:
        """The stream is gone; where its tunnel is not over, it breaks."""
        end, self._end = self._end, None
        self._uncount_early()
        if end is not None:
            end.connection_lost(ConnectionResetError())
        super().on_closed()

    def connection_lost(self, exc: Exception | None) -> None:
        """The tunnel knows."""
