"""One request and its answer: from admission to the end of the last byte.

An exchange stands between a client's connection and, while it has one, a connection to the
origin; what it has of the flow control is in `seat_holder`.  A request that fits passes through
`start`, `on_connection`, `on_answer` and `_end` as plain calls, inside the events that brought its
bytes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import FOREVER_NS, Refusal
from apfproxy.faults import Part, report
from apfproxy.proxy import answers
from apfproxy.proxy.abandoned import AbandonedAnswer
from apfproxy.proxy.chunked import encode_chunk, last_chunk
from apfproxy.proxy.client_limits import NEVER_NS
from apfproxy.proxy.identification import asker_of
from apfproxy.proxy.request_fields import SIZED, VIA
from apfproxy.proxy.request_log import Failure, Record
from apfproxy.proxy.response_head import CHUNKED, ResponseError, ResponseHead
from apfproxy.proxy.seat_holder import SeatHolder
from apfproxy.proxy.tunnel import Tunnel
from apfproxy.proxy.upgrade import switch_lines, switched
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.authn.authenticator import Identity
    from apfproxy.flowcontrol.ticket import Ticket
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.downstream import DownstreamConnection
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.proxy.upstream import UpstreamConnection

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_IDEMPOTENT = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PUT"))
"""RFC 9110, section 9.2.2: only these may be sent again without being asked."""
_OK = 200
_CONTINUE_STATUS = 100
_UNAVAILABLE = 503
_GATEWAY_TIMEOUT = 504


class Exchange(SeatHolder):
    """One request and its answer.

    Attributes:
        has_answered: Whether the head of a final answer is on its way to the client.
    """

    __slots__ = (
        "_answer_ns",
        "_begun_ns",
        "_body_bytes",
        "_body_ns",
        "_held",
        "_identification",
        "_is_chunked_to_client",
        "_is_gathering",
        "_is_logged",
        "_request_bytes",
        "_sent_continue",
        "_status",
        "_tunnel",
        "_upstream",
        "_was_retried",
        "has_answered",
    )

    def __init__(
        self, context: Context, downstream: DownstreamConnection, head: RequestHead
    ) -> None:
        super().__init__(context, downstream, head)
        self.has_answered = False
        self._begun_ns = 0
        """For the access log: when it came; 0 if it was not held up since."""
        self._is_logged = False
        self._upstream: UpstreamConnection | None = None
        self._identification: asyncio.Task[None] | None = None
        self._held: bytes | bytearray = b""
        """Of the body, framed as it will be forwarded, until there is a connection for it."""
        self._is_gathering = False
        self._sent_continue = False
        self._was_retried = False
        self._request_bytes = 0
        """Of the body, since there is a connection to pass them on to."""
        # Only while `limits.watched` has this: how long only the client has been waited for, ...
        self._body_ns = 0  # to send the request's body, ...
        self._answer_ns = 0  # to take the answer.
        # Of the answer, once its head is there.
        self._status = 0
        self._body_bytes = 0
        self._is_chunked_to_client = False
        self._tunnel: Tunnel | None = None

    # The request.

    def start(self, body: bytes, *, is_whole: bool) -> None:
        """Admit, queue or refuse the request.

        Args:
            body: What has come of its body, framed as it will be forwarded.
            is_whole: Whether that is all of it.
        """
        context, head = self._context, self.head
        self._held = body
        self._request_is_whole = is_whole
        until_ns = head.identity_until_ns
        # An identity that does not expire costs no look at the clock, which takes 0.1 us.
        if until_ns != FOREVER_NS and until_ns <= context.clock.now_ns() and not self._identify():
            return
        if is_whole or not self._gathers():
            self._admit()

    def _gathers(self) -> bool:
        """Wait for a small body, or the start of a large one: a slow one must not hold seats.

        Not where the client waits to be asked for it, or may wait for an answer to what it has
        sent: it knows the length of a body only if it has no more to say.
        """
        context, head = self._context, self.head
        if (
            head.framing != SIZED
            or head.expects_continue
            or not head.takes_seats
            or len(self._held) >= context.limits.gathered_body_bytes
        ):
            return False
        self._is_gathering = True
        self._hold_up()
        return True

    def _hold_up(self) -> None:
        """Wait for something before the request can be admitted."""
        now_ns = self._context.clock.now_ns()
        self._downstream.deadline_ns = now_ns + self.head.timeout_ns
        if self._context.access_log is not None:
            self._begun_ns = self._begun_ns or now_ns

    def _gather(self, data: bytes, *, is_last: bool) -> None:
        self._hold(data)
        is_enough = len(self._held) >= self._context.limits.gathered_body_bytes
        if is_enough and not is_last:
            self._downstream.pause_reading()  # until there is a connection to pass it on to
        if is_last or is_enough:
            self._is_gathering = False
            self._admit()

    def _hold(self, data: bytes) -> None:
        """Keep a further part of the body until there is a connection to pass it on to."""
        # An array: one that comes byte by byte would be copied as often else.
        if type(self._held) is bytes:
            self._held = bytearray(self._held)
        self._held += data

    def on_request_body(self, data: bytes, *, is_last: bool) -> None:
        """Take a further part of the body, framed as it will be forwarded."""
        self._request_is_whole = is_last
        if self._is_gathering:
            self._gather(data, is_last=is_last)
            return
        is_waiting = self._wait_timer is not None or self._identification is not None
        if is_last and not is_waiting and not self.has_answered:
            self._set_deadline(self._context.clock.now_ns())
        upstream = self._upstream
        if upstream is None:
            self._hold(data)
            if len(self._held) >= self._context.held_bytes:
                self._downstream.pause_reading()
        elif data:
            self._request_bytes += len(data)
            upstream.send_more(data)
            if upstream.is_write_paused:
                self._downstream.pause_reading()

    # Who asks.

    def _identify(self) -> bool:
        """Find out who asks; whether that is known, so that the request may go on."""
        head, context = self.head, self._context
        try:
            found = context.authenticator.identify(self._downstream.peer, head.credentials)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is left waiting
            self._answer_unidentified(error)
            return False
        if found is None:
            self._hold_up()
            self._identification = spawn(self._identify_later(), name="find out who asks")
            return False
        return self._take_identity(found)

    async def _identify_later(self) -> None:
        """Find out who asks, asking other servers for it."""
        try:
            peer = self._downstream.peer
            found = await self._context.authenticator.identify_later(
                peer,
                self.head.credentials,
                asker_of(peer, self._downstream.address, self.head.forward),
            )
        except Exception as error:  # noqa: BLE001 - as above
            self._identification = None
            self._answer_unidentified(error)
            return
        self._identification = None
        try:
            if self._take_identity(found) and (self._request_is_whole or not self._gathers()):
                self._admit()
        except Exception as error:  # noqa: BLE001 - as in the event that brought the bytes
            self.fail(error)

    def _answer_unidentified(self, error: Exception) -> None:
        """Let nobody in after a failure of the proxy's own."""
        report(Part.CONNECTION, error, "finding out who asks failed", loop=self._context.loop)
        self._downstream.keep_alive = False
        self._answer_status(
            500, "the proxy failed to find out who asks; its log says more", Failure.INTERNAL
        )

    def _take_identity(self, found: Identity | Refusal) -> bool:
        if isinstance(found, Refusal):
            why = f"refused with {found.code}: {found.problem:.500}"
            self._context.refusals.log(logging.INFO, why, "%s", why)
            if self.head.upgrade is not None:
                # What follows may be of the protocol that the client hopes for.
                self._downstream.keep_alive = False
            reason, lines = Failure.UNIDENTIFIED, b""
            if found.code == _UNAVAILABLE:
                reason, lines = Failure.IDENTIFICATION_UNAVAILABLE, b"Retry-After: 1\r\n"
            self._answer_status(found.code, found.message, reason, lines)
            return False
        self.head.identify(found)
        return True

    # A connection to the origin.

    def _dispatch(self) -> None:
        pool = self._context.pool
        # One that will be a tunnel is of nobody else before or after.
        is_new = self.head.upgrade is not None
        upstream = None if is_new else pool.take()
        if upstream is None:
            pool.wait(self, is_new=is_new)
        else:
            self.on_connection(upstream)

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Send the request."""
        self._upstream = connection
        head = self.head
        held = self._held
        if held:
            # From here on the body is the connection's, so there is no way to send it twice.
            self._held = b""
            connection.send(self, head.forward + self._downstream.forwarded_suffix + held)
        else:
            connection.send(self, head.forward + self._downstream.forwarded_suffix)
        if self._request_is_whole:
            return
        self._request_bytes = self._body_ns = self._answer_ns = 0
        if self.ticket is not None:
            self._context.limits.watched.add(self)
        if head.expects_continue and not held and not self._sent_continue:
            self._sent_continue = True
            self._downstream.send(_CONTINUE)
        if connection.is_write_paused:
            self._downstream.pause_reading()
        else:
            self._downstream.resume_reading()

    def on_no_connection(self, code: int, reason: str) -> None:
        """The origin cannot be reached."""
        is_late = code == _GATEWAY_TIMEOUT
        self._answer_status(code, reason, Failure.UPSTREAM_TIMEOUT if is_late else Failure.UPSTREAM)

    def on_upstream_writable(self) -> None:
        """The origin takes more of the body."""
        self._downstream.resume_reading()

    # The answer.

    def on_interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on, to clients that know of them."""
        if self.head.is_http_10 or (head.status == _CONTINUE_STATUS and self._sent_continue):
            return
        self._downstream.send(head.lines + b"\r\n")

    def on_answer(self, head: ResponseHead, body: bytes, *, is_whole: bool) -> None:
        """Pass the final head on, with as much of the body as came with it."""
        context, downstream, request = self._context, self._downstream, self.head
        now_ns = context.clock.now_ns()
        counters = context.counters
        status = head.status
        counts = counters.requests_by_status
        counts[status] = counts.get(status, 0) + 1
        counters.upstream_head_ns.observe(now_ns - self._sent_ns)
        self.has_answered = True
        keep_alive = downstream.may_keep_alive()
        self._body_bytes = len(body)
        framing = b""
        if head.framing >= CHUNKED:
            if request.is_http_10:
                keep_alive = downstream.keep_alive = False
            else:
                self._is_chunked_to_client = True
                framing = b"Transfer-Encoding: chunked\r\n"
                if body:
                    body = encode_chunk(body)
                if is_whole:
                    body += last_chunk(b"")
        if keep_alive:
            connection = b"Connection: keep-alive\r\n\r\n" if request.is_http_10 else b"\r\n"
        else:
            connection = b"Connection: close\r\n\r\n"
            if request.upgrade is not None:
                # The origin may wait for bytes of a protocol that it will not get.
                self._request_is_whole = False
        downstream.send(b"".join((head.lines, VIA, self._pf_headers, framing, connection, body)))
        if is_whole:
            self._end(status, now_ns)
            return
        self._status = status
        if request.is_watch:
            self._start_watch(body)
        elif self.ticket is not None:
            downstream.deadline_ns = self.ticket.arrived_ns + request.timeout_ns
        else:
            downstream.deadline_ns = 0
        if downstream.is_write_paused:
            self._pause_upstream()

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        """Begin the tunnel that the origin agrees to.

        Raises:
            ResponseError: Nobody asked for it.
        """
        context, upstream = self._context, self._upstream
        protocol = switched(raw, self.head.upgrade)
        if not self._request_is_whole:
            raise ResponseError("an answer 101 before the request was whole")
        assert upstream is not None
        context.counters.count_status(head.status)
        context.counters.upstream_head_ns.observe(context.clock.now_ns() - self._sent_ns)
        self.has_answered = True
        self._status = head.status
        if self.head.is_watch:
            self._start_watch(rest)
        on_data = self._watch.on_data if self._watch is not None else None
        self._tunnel = Tunnel(context, self._downstream, upstream, self._on_tunnel_over, on_data)
        lines = switch_lines(head.lines + VIA + self._pf_headers, protocol)
        self._tunnel.start(protocol, lines + b"\r\n", rest)

    def _on_tunnel_over(self) -> None:
        """Both sides have ended, or one is gone."""
        self._upstream = None
        self._log_end("")
        self._give_back(self._context.clock.now_ns())

    def on_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        """Pass a further part of the body on."""
        downstream = self._downstream
        if self._watch is not None:
            self._watch.on_data(data)
        self._body_bytes += len(data)
        if self._is_chunked_to_client:
            if data:
                data = encode_chunk(data)
            if is_last:
                data += last_chunk(trailers)
        if data:
            downstream.send(data)
        if is_last:
            self._end(self._status, self._context.clock.now_ns())
        elif downstream.is_write_paused:
            self._pause_upstream()

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        """The origin's connection is gone before the answer was whole."""
        self._upstream = None
        if self.has_answered:
            # The client must not take what it has for the whole.
            self._log_end(Failure.UPSTREAM)
            self._give_back(self._context.clock.now_ns())
            if self.head.is_http_10:
                self._downstream.reset()  # the end of the connection may be that of the answer
            else:
                self._downstream.abort_after_write()
            return
        head = self.head
        if may_retry and not self._was_retried and head.method in _IDEMPOTENT and not head.framing:
            self._was_retried = True
            self._context.counters.upstream_retries += 1
            # Never one of the idle connections, which may be as stale: the line gets new ones.
            self._context.pool.wait(self)
            return
        self._answer_status(502, f"the origin did not answer: {reason}", Failure.UPSTREAM)

    def on_downstream_writable(self) -> None:
        """The client takes more of the answer."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def _pause_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()
            watched = self._context.limits.watched
            if self.ticket is not None and self not in watched:
                self._answer_ns = 0
                watched.add(self)

    # The end.

    def on_client_left(self) -> None:
        """The client is gone: so is its interest in the answer."""
        self._context.counters.client_aborts += 1
        self._log_end(Failure.CANCELLED)
        self._leave_origin(self._context.clock.now_ns())

    def on_deadline(self) -> None:
        """The request has taken too long."""
        if self.has_answered:
            self._log_end(Failure.DEADLINE)
            self._leave_origin(self._context.clock.now_ns())
            if self.head.is_http_10:
                self._downstream.reset()  # as where the origin breaks off
            else:
                self._downstream.abort()
            return
        upstream = self._upstream
        is_awaited = upstream is not None and not upstream.is_write_paused
        if self._is_gathering or (is_awaited and not self._request_is_whole):
            self._downstream.keep_alive = False
            self._answer_status(
                408, "the request's body did not arrive in time", Failure.CLIENT_TIMEOUT
            )
            return
        if self._identification is not None:
            self._answer_status(
                504, "who asks could not be found out in time", Failure.IDENTIFICATION_TIMEOUT
            )
            return
        self._context.counters.upstream_timeouts += 1
        if upstream is not None:
            # Perhaps the origin's machine is gone.  Then the idle connections of that time are
            # dead, too, and each would cost another request its whole time.
            self._context.pool.close_idle(self._sent_ns)
        self._answer_status(504, "the origin did not answer in time", Failure.UPSTREAM_TIMEOUT)

    def on_sweep(self, period_ns: int) -> None:
        """See whether the client keeps the seats from others.

        Args:
            period_ns: The time since the last call, that of a delay of the proxy itself excluded.
        """
        limits = self._context.limits
        if self.ticket is None or self._upstream is None:
            limits.watched.discard(self)
        elif self.has_answered:
            self._see_answer_taken(period_ns)
        elif self._request_is_whole:
            limits.watched.discard(self)
        elif not self._upstream.is_write_paused:
            # While the origin takes no more, the client is not what holds the request up.
            self._body_ns += period_ns
            least = limits.min_body_rate_bytes
            is_slow = self._request_bytes * 1_000_000_000 < least * self._body_ns
            if is_slow and self._body_ns >= limits.body_rate_grace_ns:
                limits.watched.discard(self)
                self._downstream.keep_alive = False
                self._answer_status(
                    408,
                    f"the request's body came slower than {least} bytes a second"
                    " (downstream.limits.minBodyRateBytes)",
                    Failure.CLIENT_TIMEOUT,
                )

    def _see_answer_taken(self, period_ns: int) -> None:
        """Give the seats back if the answer has waited too long for its client alone."""
        assert self._upstream is not None
        limits = self._context.limits
        if limits.slow_reader_grace_ns == NEVER_NS or self.head.is_watch:
            limits.watched.discard(self)
            return
        if not self._upstream.is_read_paused:
            # A client that takes the answer bit by bit is waited for in between, too.
            self._answer_ns -= period_ns
            if self._answer_ns <= 0:
                limits.watched.discard(self)
            return
        self._answer_ns += period_ns
        if self._answer_ns >= limits.slow_reader_grace_ns and self._goes_on_without_seats():
            limits.watched.discard(self)

    def end_watch(self) -> None:
        """End a long-running answer as if it were through; the proxy is about to stop."""
        if not self.has_answered:
            return
        if self._tunnel is not None:
            self._tunnel.close()
            return
        self._drop_upstream()
        if self._is_chunked_to_client:
            self._downstream.send(last_chunk(b""))
        self._downstream.keep_alive = False
        self._end(self._status, self._context.clock.now_ns())

    def _end(self, status: int, now_ns: int) -> None:
        """The answer is through."""
        context, upstream = self._context, self._upstream
        if self.head.is_list and status == _OK and self._body_bytes:
            context.admission.costs.list_finished(self.head.attributes, self._body_bytes)
        if context.access_log is not None:
            self._log(self.ticket, now_ns, (status, status, self._body_bytes), "")
        # Before the seats, so that whoever gets them finds it.
        if upstream is not None:
            self._upstream = None
            if self._request_is_whole:
                context.pool.put_back(upstream, now_ns)
            else:
                upstream.abort()
        self._give_back(now_ns)
        self._downstream.on_exchange_end(self, now_ns)

    def _leave_origin(self, now_ns: int) -> None:
        """Give up the answer, and all that the request holds.

        Where the settings say so, its seats are kept while the origin may still work for it.
        """
        context, upstream, ticket = self._context, self._upstream, self.ticket
        if (
            context.abandoned_wait_ns
            and upstream is not None
            and ticket is not None
            and ticket.is_executing
        ):
            self.ticket = None
            try:
                self._give_back(now_ns)  # all but the seats, which are those of the ticket
            finally:
                self.ticket = ticket
            self._upstream = None
            AbandonedAnswer(context, self.head, upstream, self._give_seats_back)
            return
        self._drop_upstream()
        self._give_back(now_ns)

    def _drop_upstream(self) -> None:
        """Give up the connection to the origin, or the wait for one, or for who asks."""
        if self._identification is not None:
            self._identification.cancel()
            self._identification = None
        upstream = self._upstream
        if upstream is None:
            self._context.pool.leave(self)
        else:
            self._upstream = None
            upstream.abort()

    def log_malformed(self, code: int) -> None:
        """Have it in the access log that the body broke off; `code` is what the client will get."""
        if self.has_answered:
            self._log_end(Failure.MALFORMED)
        elif self._context.access_log is not None:
            self._log(self.ticket, self._context.clock.now_ns(), (code, 0, 0), Failure.MALFORMED)

    def _log_end(self, reason: str) -> None:
        """Have the request in the access log, with as much of an answer as there was."""
        if self._context.access_log is None or self._is_logged:
            return
        status, tunnel = self._status, self._tunnel
        sent_bytes = self._body_bytes if tunnel is None else tunnel.bytes_to_client
        now_ns = self._context.clock.now_ns()
        self._log(self.ticket, now_ns, (status, status, sent_bytes), reason)

    def _log(
        self, ticket: Ticket | None, now_ns: int, answer: tuple[int, int, int], reason: str
    ) -> None:
        """Have the request in the access log, unless it is there already.

        Args:
            ticket: What it has of flow control, or had a moment ago.
            now_ns: The time.
            answer: The status sent and that of the origin, 0 for none; the length of the body.
            reason: Why it was rejected or failed; "" if it was not.
        """
        access_log, head = self._context.access_log, self.head
        if self._is_logged or access_log is None:
            return
        self._is_logged = True
        if ticket is not None:
            seats, asked_ns = ticket.estimate.max_seats, ticket.arrived_ns
        else:
            seats, asked_ns = self._used or (0, self._sent_ns)
            asked_ns = asked_ns or now_ns
        access_log.take(
            Record(
                head,
                head.user,
                self._classification,
                self._downstream.address,
                self._begun_ns,
                asked_ns,
                self._sent_ns,
                now_ns,
                seats,
                *answer,
                reason,
            )
        )

    def _answer_status(self, code: int, message: str, reason: str, lines: bytes = b"") -> None:
        self._answer(
            code,
            lambda extra, connection: answers.status_answer(
                code, message, is_head=self.head.is_head, extra=lines + extra, connection=connection
            ),
            reason,
        )

    def _answer(self, code: int, build: Callable[[bytes, bytes], bytes], reason: str) -> None:
        ticket = self.ticket
        now_ns = self._context.clock.now_ns()
        self._leave_origin(now_ns)
        self.has_answered = True
        context, downstream = self._context, self._downstream
        context.counters.count_status(code)
        keep_alive = downstream.may_keep_alive()
        connection = b""
        if not keep_alive:
            connection = b"Connection: close\r\n"
        elif self.head.is_http_10:
            connection = b"Connection: keep-alive\r\n"
        extra = answers.audit_line(self.head.header("Audit-ID")) + self._pf_headers
        answer = build(extra, connection)
        downstream.send(answer)
        if context.access_log is not None:
            self._log(ticket, now_ns, (code, 0, answers.body_bytes(answer)), reason)
        downstream.on_exchange_end(self, now_ns)

    def __repr__(self) -> str:
        return f"<Exchange {self.head!r}, {self.ticket!r}>"
