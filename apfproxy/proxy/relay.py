"""Relays between a client and an upstream connection: request on, response back.

Each side is read no faster than the other one takes it.  The exchange is told of every end, and
gives the seats back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.faults import guarded
from apfproxy.http.response_head import ResponseError, ResponseHead, is_event_stream
from apfproxy.http.upgrade import check_accept, switched
from apfproxy.proxy.client_limits import NEVER_NS
from apfproxy.proxy.exchange_state import AWAITING, BREAK, END, RESPOND, SWITCH, TUNNELLING
from apfproxy.proxy.request_record import Failure
from apfproxy.proxy.tunnel import Tunnel
from apfproxy.proxy.watch_seats import WatchSeats
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.response_sink import ResponseSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.proxy.exchange import Exchange
    from apfproxy.upstream.endpoint import UpstreamConnection


class Relay(ResponseSink):
    """Takes the response for an exchange from the connection that it has.

    Attributes:
        body_bytes: Bytes of the response's body so far.
        slow_level: The level whose slow readers this is one of; "" if it is none.
        status: The final response's status; 0 before.
        watch: None if it is no watch under way.
    """

    def __init__(self, exchange: Exchange, upstream: UpstreamConnection) -> None:
        self._exchange = exchange
        self.head = exchange.head
        self.upstream = upstream
        self.status = 0
        self.body_bytes = 0
        self._has_asked = False  # the client for its body
        self.watch: WatchSeats | None = None
        self.tunnel: Tunnel | None = None
        self._waited_ns = 0
        """While the sweep looks at the response: how long only the client has been waited for."""
        self.slow_level = ""

    # The request's body.

    def ask_for_body(self, *, has_begun: bool) -> None:
        """Have the client send the rest of its body; `has_begun` if some has come before."""
        client = self._exchange.client
        if self.head.expects_continue and not has_begun:
            self._has_asked = True
            client.send_continue()
        if self.upstream.is_write_paused:
            client.pause_reading()
        else:
            client.resume_reading()

    def send_body(self, pieces: Sequence[Piece]) -> int:
        """Send a further part of the body; returns its bytes."""
        size = self.upstream.send_pieces(pieces)
        if self.upstream.is_write_paused:
            self._exchange.client.pause_reading()
        return size

    def on_upstream_writable(self) -> None:
        self._exchange.client.resume_reading()

    # The response.

    def on_interim(self, head: ResponseHead) -> None:
        if self.head.is_http_10 or (head.status == 100 and self._has_asked):
            return
        self._exchange.client.send_interim(head)

    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:
        exchange, request = self._exchange, self.head
        client = exchange.client
        now_ns = exchange.context.clock.now_ns()
        self.status = status = head.status
        self.body_bytes = len(body)
        self.upstream.endpoint.answered(status, now_ns - exchange.sent_ns)
        if status >= 500:
            exchange.count_failed()
        if exchange.trace is not None:
            exchange.trace.answered(status, now_ns)
        lines = exchange.response_lines(head, now_ns)
        client.send_response(request, head, lines, body, is_whole=is_whole)
        if request.upgrade is not None:
            # The upstream may wait for bytes of a protocol that it will not get.
            exchange.is_whole = False
        if is_whole:
            exchange.end(self, now_ns)
            return
        exchange.state = RESPOND[exchange.state]
        asked = exchange.request
        if asked.is_watch:
            self._start_watch(body)
        elif asked.attributes.is_plain and is_event_stream(head.lines):
            self._go_on_without_end(now_ns)
        elif not asked.takes_seats:
            client.deadline_ns = 0
        elif asked.attributes.is_plain:
            exchange.begin_flow(now_ns)
        else:
            client.deadline_ns = exchange.asked_ns + asked.timeout_ns
        if client.is_write_paused:
            self._pause_upstream()

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        client = self._exchange.client
        if self.watch is not None:
            self.watch.on_data(b"".join(pieces))
        size = sum(map(len, pieces))
        self.body_bytes += size
        client.send_body(pieces, size, is_last=is_last, trailers=trailers)
        if is_last:
            self._exchange.end(self, self._exchange.context.clock.now_ns())
        elif client.is_write_paused:
            self._pause_upstream()

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        exchange, upstream = self._exchange, self.upstream
        may_retry = may_retry and exchange.may_repeat and exchange.request.is_repeatable
        if may_retry and exchange.state is AWAITING:
            if not upstream.was_used:  # else it was most likely closed for being idle
                upstream.endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
            exchange.retry(self, reason)
            return
        upstream.endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
        if self.status < 500:  # else it has been counted
            exchange.count_failed()
        if exchange.state is AWAITING:
            exchange.refuse_broken(reason)
        else:
            # The client must not take what it has for the whole.
            exchange.finish(self, BREAK, Failure.UPSTREAM, f"the server broke off: {reason}")
            exchange.client.abort_after_write()

    def fail(self, error: Exception) -> None:
        self._exchange.fail(error)

    # Responses that last.

    @property
    def is_long_running(self) -> bool:
        """Whether it may go on for as long as both sides like, as an event stream does."""
        exchange = self._exchange
        if exchange.request.is_long_running or self.tunnel is not None:
            return True
        return exchange.has_responded and exchange.client.deadline_ns == 0

    def _go_on_without_end(self, now_ns: int) -> None:
        """The response may never end: its seats go back, and its time is not limited."""
        self._exchange.client.deadline_ns = 0
        self._exchange.release_seats(now_ns)

    def _start_watch(self, body: Piece) -> None:
        """The seats go back once the initial events are through."""
        exchange = self._exchange
        exchange.client.deadline_ns = 0
        context, attributes = exchange.context, exchange.request.attributes
        context.flow_control.costs.watch_started(attributes)
        self.watch = WatchSeats(
            context.loop, context.in_force.watch, attributes, self._on_watch_initialized
        )
        if body:
            self.watch.on_data(bytes(body))

    @guarded
    def _on_watch_initialized(self) -> None:
        self._exchange.release_seats(self._exchange.context.clock.now_ns())

    @property
    def watching_ns(self) -> int:
        return 0 if self.watch is None else self._exchange.sent_ns

    @property
    def can_end_watch(self) -> bool:
        if self.watch is None:
            return False
        if self.tunnel is not None:
            return self.tunnel.can_leave
        return not self.upstream.is_within_chunk

    def end_watch(self) -> None:
        if self.tunnel is not None:
            self.tunnel.leave()
            return
        exchange = self._exchange
        self.upstream.abort()
        exchange.client.end_early()
        exchange.end(self, exchange.context.clock.now_ns())

    # Tunnels.

    @property
    def is_connect(self) -> bool:
        return self._exchange.client.makes_handshakes

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        exchange, upgrade = self._exchange, self.head.upgrade
        protocol = switched(raw, upgrade)
        if self.is_connect:
            assert upgrade is not None  # else it is not switched
            check_accept(raw, upgrade)
        if not exchange.is_whole:
            raise ResponseError("an answer 101 before the request was whole")
        exchange.state = SWITCH[exchange.state]
        now_ns = exchange.context.clock.now_ns()
        self.status = head.status
        self.upstream.endpoint.answered(head.status, now_ns - exchange.sent_ns)
        if exchange.trace is not None:
            exchange.trace.answered(head.status, now_ns)
        if exchange.request.is_watch:
            self._start_watch(rest)
        elif exchange.request.takes_seats:
            self._go_on_without_end(now_ns)
        context, client = exchange.context, exchange.client
        self.tunnel = Tunnel(context, client, self.upstream, self.watch, self._on_tunnel_over)
        self.tunnel.start(head, exchange.response_lines(head, now_ns), protocol, rest)

    def _on_tunnel_over(self) -> None:
        exchange = self._exchange
        if exchange.state is TUNNELLING:  # else its time was over, or its client gone, before
            exchange.finish(self, END, "")

    @property
    def sent_bytes(self) -> int:
        return self.body_bytes if self.tunnel is None else self.tunnel.bytes_to_client

    def _pause_upstream(self) -> None:
        exchange = self._exchange
        self.upstream.pause_reading()
        if exchange.request.takes_seats and not self.slow_level:
            exchange.context.slow_readers.watched[exchange] = None

    def see_response_taken(self, period_ns: int) -> None:
        """See whether a client that takes its response slowly keeps the seats from others."""
        exchange = self._exchange
        slow_readers = exchange.context.slow_readers
        grace_ns = exchange.context.in_force.slow_reader_grace_ns
        if grace_ns == NEVER_NS or self.is_long_running:
            slow_readers.watched.pop(exchange, None)
        elif not self.upstream.is_read_paused:
            # A client that takes the response bit by bit is waited for in between, too.
            self._waited_ns = max(0, self._waited_ns - period_ns)
            if not self._waited_ns:
                slow_readers.watched.pop(exchange, None)
        else:
            self._waited_ns += period_ns
            found = exchange.passage.classification
            assert found is not None
            # Where enough others of the level did so, it keeps its seats until one is through.
            if self._waited_ns >= grace_ns and slow_readers.admit(found.level):
                self.slow_level = found.level.name
                slow_readers.watched.pop(exchange, None)
                exchange.release_seats(exchange.context.clock.now_ns())

    def close(self) -> None:
        """Be no watch and no slow reader any more; harmless if that is done."""
        exchange = self._exchange
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None
            exchange.context.flow_control.costs.watch_ended(exchange.request.attributes)
        if self.slow_level:
            exchange.context.slow_readers.release(self.slow_level)
            self.slow_level = ""
