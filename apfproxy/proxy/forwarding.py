"""A request on its way to the upstream, and the answer on its way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.guarded import guarded
from apfproxy.http.response_head import ResponseError, ResponseHead, is_event_stream
from apfproxy.http.upgrade import check_accept, switched
from apfproxy.proxy.client_limits import NEVER_NS
from apfproxy.proxy.exchange_base import ExchangeBase
from apfproxy.proxy.exchange_state import (
    ANSWER,
    ANSWERING,
    AWAITING,
    BREAK,
    CONNECT,
    DONE,
    END,
    GATHERING,
    NEW,
    RETRY,
    SEND,
    SWITCH,
    TUNNELLING,
)
from apfproxy.proxy.holdings import LARGE_HEAD_BYTES
from apfproxy.proxy.own_responses import RETRY_SOON
from apfproxy.proxy.request_log import Failure, text_of_server
from apfproxy.proxy.tunnel import Tunnel
from apfproxy.proxy.watch_seats import WatchSeats
from apfproxy.upstream.counters import UpstreamFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.upstream.connection import EndpointBase, UpstreamConnection

_OK: Final = 200
_CONTINUE_STATUS: Final = 100
_FIRST_SERVER_ERROR: Final = 500
_GATEWAY_TIMEOUT: Final = 504


class Forwarding(ExchangeBase):
    """A request that has its seats, and the upstream's answer to it."""

    __slots__ = ()

    # A connection to the upstream.

    def _connect(self) -> None:
        pool = self._context.pool
        # One that will be a tunnel is of nobody else before or after.
        is_new = self.head.upgrade is not None
        upstream = None if is_new else pool.acquire(is_long=self.request.is_long_running)
        if upstream is None:
            self.state = CONNECT[self.state]
            if self._hold():
                pool.wait(self, is_new=is_new)
        else:
            self.on_connection(upstream)

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Send the request."""
        self.state = AWAITING if self.state is NEW else SEND[self.state]
        self._upstream = connection
        self._endpoint_name = connection.endpoint.log_name
        ticket = self.passage.ticket
        if ticket is not None:
            connection.hold(ticket.estimate.max_seats)
        client, held = self._client, self._held
        lines = self.request.user_lines
        if self._context.has_audit_ids and (line := self._audit_line()) is self._made_line:
            lines += line  # the client has not sent one
        head = self.head.forwarded(lines, client.forwarded_suffix)
        trace = self._trace
        if trace is not None:
            head = trace.send(head, connection.endpoint.url, self._context.clock.now_ns())
        if held:
            # From here on the body is the connection's, so there is no way to send it twice.
            self._held = b""
            connection.send(self, head + held)
        else:
            connection.send(self, head)
        if client.held:
            client.hold(self.head.kept_bytes if self.head.size > LARGE_HEAD_BYTES else 0)
        if self._is_whole:
            return
        self._request_bytes = self._waited_ns = self._moved_bytes = 0
        if self.request.takes_seats:
            self._context.slow_readers.watched[self] = None
        if self._awaits_continue and not held:
            self._awaits_continue = False
            client.send_continue()
        if connection.is_write_paused:
            client.pause_reading()
        else:
            client.resume_reading()

    def _answer_lines(self, head: ResponseHead, now_ns: int) -> bytes:
        """The header lines that are added to the upstream's."""
        lines = self._class_lines(now_ns)
        if not head.has_date:
            lines += self._context.date_line.at(now_ns)
        if self._context.has_audit_ids and not head.has_audit_id:
            return lines + self._audit_line()
        return lines

    def on_no_connection(self, code: int, reason: str) -> None:
        """The upstream cannot be reached."""
        self._count_failed()
        if code == _GATEWAY_TIMEOUT:
            self._reply_status(code, reason, Failure.UPSTREAM_TIMEOUT)
            return
        # A server has seen a request that is sent again: its client decides what becomes of it.
        lines = RETRY_SOON if self._may_repeat else b""
        self._reply_status(code, reason, Failure.UPSTREAM, lines)

    def on_upstream_writable(self) -> None:
        """The upstream takes more of the body."""
        self._client.resume_reading()

    # The answer.

    def on_interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on, to clients that know of them."""
        is_known = self.head.expects_continue and not self._awaits_continue
        if self.head.is_http_10 or (head.status == _CONTINUE_STATUS and is_known):
            return
        self._client.send_interim(head)

    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:
        """Pass the final head on, with as much of the body as came with it."""
        context, client, request, status = self._context, self._client, self.head, head.status
        now_ns = context.clock.now_ns()
        upstream = self._upstream
        assert upstream is not None
        upstream.endpoint.answered(status, now_ns - self._sent_ns)
        if status >= _FIRST_SERVER_ERROR:
            self._count_failed()
        trace = self._trace
        if trace is not None:
            trace.answered(status, now_ns)
        self._status = status
        self._body_bytes = len(body)
        client.send_response(
            request, head, self._answer_lines(head, now_ns), body, is_whole=is_whole
        )
        if request.upgrade is not None and not client.keep_alive:
            # The upstream may wait for bytes of a protocol that it will not get.
            self._is_whole = False
        if is_whole:
            self._end(now_ns)
            return
        self.state = ANSWER[self.state]
        self._waited_ns = 0
        if self.request.is_watch:
            self._start_watch(bytes(body))
        elif self.request.attributes.is_plain and is_event_stream(head.lines):
            self._go_on_as_long_as_it_likes(now_ns)
        elif not self.request.takes_seats:
            client.deadline_ns = 0
        elif self.request.attributes.is_plain:
            self._begin_flow(now_ns)
        else:
            client.deadline_ns = self.asked_ns + self.request.timeout_ns
        if client.is_write_paused:
            self._pause_upstream()

    def _go_on_as_long_as_it_likes(self, now_ns: int) -> None:
        """The answer may never end: its seats go back, and its time is not limited."""
        self._client.deadline_ns = 0
        self._release(now_ns)

    def _release(self, now_ns: int) -> None:
        """Give the seats back before the answer is through."""
        if self._upstream is not None:
            self._upstream.release_seats()
        self.passage.release_seats(now_ns)

    def _start_watch(self, body: Piece) -> None:
        """The watch is on: its seats go back once its initial events are through."""
        self._client.deadline_ns = 0
        context, attributes = self._context, self.request.attributes
        context.flow_control.costs.watch_started(attributes)
        self._watch = WatchSeats(
            context.loop, context.in_force.watch, attributes, self._on_watch_initialized
        )
        if body:
            self._watch.on_data(bytes(body))

    @guarded
    def _on_watch_initialized(self) -> None:
        self._release(self._context.clock.now_ns())

    @property
    def is_connect(self) -> bool:
        """Whether the client takes any success for a tunnel."""
        return self._client.makes_handshakes

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        """Begin the tunnel that the upstream agrees to.

        Raises:
            ResponseError: Nobody asked for it.
        """
        context, upstream = self._context, self._upstream
        protocol = switched(raw, self.head.upgrade)
        if self.is_connect:
            assert self.head.upgrade is not None  # else it is not switched
            check_accept(raw, self.head.upgrade)
        if not self._is_whole:
            raise ResponseError("an answer 101 before the request was whole")
        assert upstream is not None
        self.state = SWITCH[self.state]
        now_ns = context.clock.now_ns()
        upstream.endpoint.answered(head.status, now_ns - self._sent_ns)
        if self._trace is not None:
            self._trace.answered(head.status, now_ns)
        self._status = head.status
        if self.request.is_watch:
            self._start_watch(rest)
        elif self.request.takes_seats:
            self._go_on_as_long_as_it_likes(context.clock.now_ns())
        on_data = self._watch.on_data if self._watch is not None else None
        self._tunnel = Tunnel(context, self._client, upstream, self._on_tunnel_over, on_data)
        lines = self._answer_lines(head, context.clock.now_ns())
        self._tunnel.start(head, lines, protocol, rest)

    def _on_tunnel_over(self) -> None:
        """Both sides have ended, or one is gone."""
        self._upstream = None
        if self.state is TUNNELLING:  # else its time was over, or its client gone, before
            now_ns = self._context.clock.now_ns()
            self._finish(END, now_ns, "")
            self._give_back(now_ns)

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        """Pass a further part of the body on."""
        client = self._client
        if self._watch is not None:
            self._watch.on_data(b"".join(pieces))
        size = sum(map(len, pieces))
        self._body_bytes += size
        client.send_body(pieces, size, is_last=is_last, trailers=trailers)
        if is_last:
            self._end(self._context.clock.now_ns())
        elif client.is_write_paused:
            self._pause_upstream()

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        """The upstream's connection is gone before the answer was whole."""
        upstream, self._upstream = self._upstream, None
        assert upstream is not None
        endpoint = upstream.endpoint
        if self.state is not AWAITING:
            self._count_broken(endpoint, reason)
            # The client must not take what it has for the whole.
            now_ns = self._context.clock.now_ns()
            self._finish(BREAK, now_ns, Failure.UPSTREAM, f"the server broke off: {reason}")
            self._give_back(now_ns)
            self._client.abort_after_write()
        elif may_retry and self._may_repeat and self.request.is_repeatable:
            self._may_repeat = False
            self._context.counters.upstream_retries += 1
            self.state = RETRY[self.state]
            if self._trace is not None:
                self._trace.failed(reason, self._context.clock.now_ns())
            if not upstream.was_used:  # else it was most likely closed for being idle
                endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
            # Never one of the idle connections, which may be as stale: the line gets new ones.
            self._context.pool.wait(self, avoided=endpoint)
        else:
            self._count_broken(endpoint, reason)
            self._reply_status(502, f"the upstream did not answer: {reason}", Failure.UPSTREAM)

    def _count_broken(self, endpoint: EndpointBase, reason: str) -> None:
        endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
        if self._status < _FIRST_SERVER_ERROR:  # else it has been counted
            self._count_failed()

    @property
    def watching_ns(self) -> int:
        """When a watch that is under way was asked for; 0 for any other answer."""
        return self._sent_ns if self._watch is not None and self.has_responded else 0

    @property
    def can_end_watch(self) -> bool:
        """Whether it is a watch that is under way and can be ended now: between two events."""
        if self._watch is None or not self.has_responded:
            return False
        if self._tunnel is not None:
            return self._tunnel.can_leave
        return self._upstream is not None and not self._upstream.is_within_chunk

    @property
    def has_websocket(self) -> bool:
        """Whether it is a WebSocket, which has not been told that the proxy goes away."""
        return self._tunnel is not None and self._tunnel.can_leave

    def close_websocket(self) -> None:
        """Tell the client of a WebSocket that the proxy goes away, and end it."""
        if self._tunnel is not None:
            self._tunnel.leave()

    def end_watch(self) -> None:
        """End a watch as if it were through: its client resumes it."""
        if self._tunnel is not None:
            self._tunnel.leave()
            return
        self._drop_upstream()
        self._client.end_early()
        self._end(self._context.clock.now_ns())

    def _end(self, now_ns: int) -> None:
        """The answer is through."""
        context, upstream, request = self._context, self._upstream, self.request
        self.state = DONE if self.state is AWAITING else END[self.state]
        client, passage = self._client, self.passage
        status, ticket = self._status, passage.ticket
        if ticket is None or passage.refusal is not None or self._trace is not None:
            self._log(now_ns, status, status, self._body_bytes, "")
        elif context.access_log is not None:
            # As `_log`, for the usual request.
            context.access_log.take(
                request,
                passage.classification,
                self.head.fields.address or client.address,
                self._begun_ns,
                self.asked_ns,
                self._sent_ns,
                now_ns,
                ticket.estimate.max_seats,
                status,
                status,
                self._body_bytes,
                "",
                self._made_line,
                self._why,
                text_of_server(self._endpoint_name),
            )
        if request.is_list and status == _OK and self._body_bytes:
            context.flow_control.costs.list_finished(request.attributes, self._body_bytes)
        if client.held:
            client.hold(0)
        # Before the seats, so that whoever gets them finds it.
        if upstream is not None:
            self._upstream = None
            if self._is_whole:
                context.pool.release(upstream, now_ns)
            else:
                upstream.abort()
        if self._watch is None and not self._slow_level:
            passage.release(now_ns)
        else:
            self._give_back(now_ns)
        client.on_exchange_end(self, now_ns)

    # Slow clients.

    def on_downstream_writable(self) -> None:
        """The client takes more of the answer."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def _pause_upstream(self) -> None:
        upstream = self._upstream
        if upstream is not None:
            upstream.pause_reading()
            if self.request.takes_seats and not self._slow_level:
                self._context.slow_readers.watched[self] = None

    def on_sweep(self, period_ns: int) -> None:
        """See whether the client keeps the seats from others.

        Args:
            period_ns: The time since the last call, that of a delay of the proxy itself excluded.
        """
        slow_readers, grace_ns = (
            self._context.slow_readers,
            self._context.in_force.slow_reader_grace_ns,
        )
        upstream = self._upstream
        if self.state is GATHERING:
            self._waited_ns += period_ns
            self._see_body_coming()
            # A body is small then, so what came long ago says nothing of one that has stopped.
            if self._waited_ns >= self._context.in_force.body_rate_grace_ns:
                self._waited_ns = self._request_bytes = 0
            return
        if self.state is AWAITING and not self._is_whole and upstream is not None:
            # While the upstream takes no more, the client is not what holds the request up.
            if not upstream.is_write_paused:
                self._waited_ns += period_ns
                self._see_body_coming()
            return
        if (
            self.state is not ANSWERING
            or upstream is None
            or grace_ns == NEVER_NS
            or self.is_long_running
        ):
            slow_readers.watched.pop(self, None)
        elif not upstream.is_read_paused:
            # A client that takes the answer bit by bit is waited for in between, too.
            self._waited_ns -= period_ns
            if self._waited_ns <= 0:
                self._waited_ns = 0
                slow_readers.watched.pop(self, None)
        else:
            self._waited_ns += period_ns
            if self._waited_ns >= grace_ns:
                self._go_on_without_seats()

    def _see_body_coming(self) -> None:
        """Refuse a request whose body comes too slowly."""
        in_force = self._context.in_force
        least = in_force.min_body_rate_bytes
        is_slow = self._request_bytes * 1_000_000_000 < least * self._waited_ns
        if is_slow and self._waited_ns >= in_force.body_rate_grace_ns:
            self._context.slow_readers.watched.pop(self, None)
            self._client.keep_alive = False
            self._reply_status(
                408,
                f"the request's body came slower than {least} bytes a second"
                " (downstream.limits.minBodyRateBytes)",
                Failure.CLIENT_TIMEOUT,
            )

    def _go_on_without_seats(self) -> None:
        """Give the seats back before the answer is through, unless enough others of the level did.

        Then it keeps them, until one of those others is through.
        """
        found = self.passage.classification
        assert found is not None
        if self._context.slow_readers.admit(found.level):
            self._slow_level = found.level.name
            self._context.slow_readers.watched.pop(self, None)
            self._release(self._context.clock.now_ns())
