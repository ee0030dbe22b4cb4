"""One request and its answer, from its head to the end of the last byte.

An exchange stands between a client and, while it has one, a connection to the origin.  Where it
stands is its `state`, and `exchange_state` says what can happen there; its passage through flow
control has a state of its own.  A request that fits passes through `start`, `_ask_for_seats`,
`on_connection`, `on_answer` and `_end` as plain calls, inside the events that brought its bytes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import FOREVER_NS, Refusal
from apfproxy.faults import Part, contained, report
from apfproxy.flowcontrol.passage import Passage
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.proxy import answers
from apfproxy.proxy.abandoned import AbandonedAnswer
from apfproxy.proxy.chunked import encode_chunk, last_chunk
from apfproxy.proxy.client_limits import NEVER_NS
from apfproxy.proxy.exchange_state import (
    ANSWER,
    ANSWERING,
    AWAITING,
    BREAK,
    DONE,
    END,
    GATHER,
    GATHERING,
    IDENTIFY,
    IDENTIFYING,
    LINE_UP,
    LINED_UP,
    NEW,
    QUEUE,
    REPLY,
    RETRY,
    SEND,
    SWITCH,
    TUNNELLING,
    ExchangeEvent,
)
from apfproxy.proxy.guarded import guarded
from apfproxy.proxy.identification import asker_of
from apfproxy.proxy.request_fields import SIZED, VIA
from apfproxy.proxy.request_log import Failure, Record
from apfproxy.proxy.response_head import CHUNKED, ResponseError, ResponseHead
from apfproxy.proxy.tunnel import Tunnel
from apfproxy.proxy.upgrade import switch_lines, switched
from apfproxy.proxy.watch_seats import WatchSeats
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.authn.authenticator import Identity
    from apfproxy.proxy.client import Client
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.upstream import UpstreamConnection

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_IDEMPOTENT = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PUT"))
"""RFC 9110, section 9.2.2: only these may be sent again without being asked."""
_OK = 200
_CONTINUE_STATUS = 100
_UNAVAILABLE = 503
_GATEWAY_TIMEOUT = 504


class Exchange:
    """One request and its answer.

    Args:
        context: The listener's.
        client: Brings the request, and takes the answer.
        request: All that is known of it so far.

    Attributes:
        head: The request's.
        passage: Its way through flow control.
        state: Where it stands.
    """

    __slots__ = (
        "_awaits_continue",
        "_begun_ns",
        "_body_bytes",
        "_client",
        "_context",
        "_held",
        "_identification",
        "_is_chunked",
        "_is_whole",
        "_request_bytes",
        "_sent_ns",
        "_slow_level",
        "_status",
        "_tunnel",
        "_upstream",
        "_waited_ns",
        "_was_retried",
        "_watch",
        "head",
        "passage",
        "request",
        "state",
    )

    def __init__(self, context: Context, client: Client, request: Request) -> None:
        self._context = context
        self._client = client
        self.request = request
        self.head = head = request.head
        self.passage = Passage(context.flow_control, request, self)
        self.state = NEW
        self._begun_ns = 0
        """For the access log: when it came; 0 if it was not held up since."""
        self._sent_ns = 0
        """When it was let go to the origin; 0 before."""
        self._upstream: UpstreamConnection | None = None
        self._identification: asyncio.Task[None] | None = None
        # Of the request's body.
        self._held: bytes | bytearray = b""
        """Framed as it will be forwarded, until there is a connection for it."""
        self._is_whole = False
        self._awaits_continue = head.expects_continue
        self._request_bytes = 0
        """Since there is a connection to pass them on to."""
        self._was_retried = False
        # While `limits.watched` has this: how long only the client has been waited for.
        self._waited_ns = 0
        self._slow_level = ""
        """The level whose slow readers this is one of."""
        # Of the answer, once its head is there.
        self._status = 0
        self._body_bytes = 0
        self._is_chunked = False
        self._watch: WatchSeats | None = None
        self._tunnel: Tunnel | None = None

    # What the connections look at.

    @property
    def has_answered(self) -> bool:
        """Whether the head of the origin's answer is on its way to the client."""
        return self.state in (ANSWERING, TUNNELLING)

    @property
    def is_long_running(self) -> bool:
        """Whether it may go on for as long as client and origin like."""
        return self.request.is_long_running

    # The request.

    def start(self, body: bytes, *, is_whole: bool) -> None:
        """Admit, queue or refuse the request.

        Args:
            body: What has come of its body, framed as it will be forwarded.
            is_whole: Whether that is all of it.
        """
        self._held = body
        self._is_whole = is_whole
        until_ns = self.request.identity_until_ns
        # An identity that does not expire costs no look at the clock, which takes 0.1 us.
        if (
            until_ns == FOREVER_NS or until_ns > self._context.clock.now_ns() or self._identify()
        ) and (is_whole or not self._gathers()):
            self._ask_for_seats()

    def _gathers(self) -> bool:
        """Wait for a small body, or the start of a large one: a slow one must not hold seats.

        Not where the client waits to be asked for it, or may wait for an answer to what it has
        sent: it knows the length of a body only if it has no more to say.
        """
        head = self.head
        if (
            head.framing != SIZED
            or head.expects_continue
            or not self.request.takes_seats
            or len(self._held) >= self._context.limits.gathered_body_bytes
        ):
            return False
        self.state = GATHER[self.state]
        self._hold_up()
        return True

    def _hold_up(self) -> None:
        """Wait for something before seats can be asked for."""
        now_ns = self._context.clock.now_ns()
        self._client.deadline_ns = now_ns + self.request.timeout_ns
        if self._context.access_log is not None:
            self._begun_ns = self._begun_ns or now_ns

    def on_request_body(self, data: bytes, *, is_last: bool) -> None:
        """Take a further part of the body, framed as it will be forwarded."""
        self._is_whole = is_last
        if is_last and self.state in (LINED_UP, AWAITING):
            self._set_deadline(self._context.clock.now_ns())
        upstream = self._upstream
        if upstream is not None:
            if data:
                self._request_bytes += len(data)
                upstream.send_more(data)
                if upstream.is_write_paused:
                    self._client.pause_reading()
            return
        # An array: one that comes byte by byte would be copied as often else.
        if type(self._held) is bytes:
            self._held = bytearray(self._held)
        self._held += data
        if self.state is not GATHERING:
            if len(self._held) >= self._context.held_bytes:
                self._client.pause_reading()
            return
        is_enough = len(self._held) >= self._context.limits.gathered_body_bytes
        if is_enough and not is_last:
            self._client.pause_reading()  # until there is a connection to pass it on to
        if is_last or is_enough:
            self._ask_for_seats()

    # Who asks.

    def _identify(self) -> bool:
        """Authenticate the client; whether that is done, so that the request may go on."""
        try:
            found = self._context.authenticator.identify(
                self._client.peer, self.head.fields.credentials
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is left waiting
            self._reply_to_unidentified(error)
            return False
        if found is None:
            self.state = IDENTIFY[self.state]
            self._hold_up()
            self._identification = spawn(self._identify_later(), name="authenticate a client")
            return False
        return self._take_identity(found)

    async def _identify_later(self) -> None:
        """Authenticate the client by asking other servers."""
        try:
            peer = self._client.peer
            found = await self._context.authenticator.identify_later(
                peer,
                self.head.fields.credentials,
                asker_of(peer, self._client.address, self.request.forward),
            )
        except Exception as error:  # noqa: BLE001 - as above
            self._identification = None
            self._reply_to_unidentified(error)
            return
        self._identification = None
        try:
            if self._take_identity(found) and (self._is_whole or not self._gathers()):
                self._ask_for_seats()
        except Exception as error:  # noqa: BLE001 - as in the event that brought the bytes
            self.fail(error)

    def _reply_to_unidentified(self, error: Exception) -> None:
        """Let nobody in after a failure of the proxy's own."""
        report(Part.CONNECTION, error, "finding out who asks failed", loop=self._context.loop)
        self._client.keep_alive = False
        self._reply_status(
            500, "the proxy failed to find out who asks; its log says more", Failure.INTERNAL
        )

    def _take_identity(self, found: Identity | Refusal) -> bool:
        if not isinstance(found, Refusal):
            self.request.identify(found)
            return True
        why = f"refused with {found.code}: {found.problem:.500}"
        self._context.refusals.log(logging.INFO, why, "%s", why)
        if self.head.upgrade is not None:
            # What follows may be of the protocol that the client hopes for.
            self._client.keep_alive = False
        reason, lines = Failure.UNIDENTIFIED, b""
        if found.code == _UNAVAILABLE:
            reason, lines = Failure.IDENTIFICATION_UNAVAILABLE, b"Retry-After: 1\r\n"
        self._reply_status(found.code, found.message, reason, lines)
        return False

    # Flow control.

    def _ask_for_seats(self) -> None:
        """Admit, queue or refuse a request of somebody known."""
        context, client, request = self._context, self._client, self.request
        if self.head.upgrade is not None:
            # What the client sends next may be of the protocol that it hopes for.
            client.keep_alive = False
        passage = self.passage
        goes_on = passage.enter()
        found = passage.classification
        assert found is not None
        if request.lines_of is not found:
            request.take_class(found)
        ticket = passage.ticket
        if goes_on:
            now_ns = context.clock.now_ns() if ticket is None else ticket.arrived_ns
            self._sent_ns = now_ns
            if self._is_whole:
                client.deadline_ns = now_ns + request.answer_timeout_ns
            else:
                self._set_deadline(now_ns)
            # `_connect`, in place where it can be.
            upstream = context.pool.take() if self.head.upgrade is None else None
            if upstream is None:
                self._connect()
            else:
                self.on_connection(upstream)
        elif ticket is None:
            self._refuse()
        else:
            self.state = QUEUE[self.state]
            client.deadline_ns = ticket.arrived_ns + request.timeout_ns

    def on_seats(self) -> None:
        """The request's turn has come."""
        ticket = self.passage.ticket
        assert ticket is not None
        self._sent_ns = ticket.dispatched_ns
        self._set_deadline(ticket.dispatched_ns)
        self._connect()

    def on_time_out(self) -> None:
        """The request has waited for seats as long as it may."""
        self._refuse()

    def _refuse(self) -> None:
        """Refuse for want of seats, as Kubernetes does, or for what an addition says."""
        refusal = self.passage.refusal
        assert refusal is not None
        if refusal.message:
            # To ask again later is of use where another answer may be had then.
            code = 403 if refusal.reason is RejectReason.BAN else 429
            after_s = refusal.retry_after_s
            lines = b"Retry-After: %d\r\n" % after_s if after_s else b""
            self._reply_status(code, refusal.message, refusal.reason, lines)
        else:
            self._reply(
                429, partial(answers.too_many_requests, refusal.retry_after_s), refusal.reason
            )

    def _set_deadline(self, now_ns: int) -> None:
        """Give the origin its time to answer in, once it can have all of the request."""
        request, ticket = self.request, self.passage.ticket
        deadline_ns = 0
        if request.takes_seats and not (request.is_watch and self._is_whole):
            asked_ns = self._sent_ns if ticket is None else ticket.arrived_ns
            deadline_ns = asked_ns + request.timeout_ns
        if self._is_whole:
            answer_ns = now_ns + self._context.answer_timeout_ns
            deadline_ns = min(deadline_ns, answer_ns) if deadline_ns else answer_ns
        self._client.deadline_ns = deadline_ns

    # A connection to the origin.

    def _connect(self) -> None:
        pool = self._context.pool
        # One that will be a tunnel is of nobody else before or after.
        is_new = self.head.upgrade is not None
        upstream = None if is_new else pool.take()
        if upstream is None:
            self.state = LINE_UP[self.state]
            pool.wait(self, is_new=is_new)
        else:
            self.on_connection(upstream)

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Send the request."""
        self.state = SEND[self.state]
        self._upstream = connection
        client, held = self._client, self._held
        if held:
            # From here on the body is the connection's, so there is no way to send it twice.
            self._held = b""
            connection.send(self, self.request.forward + client.forwarded_suffix + held)
        else:
            connection.send(self, self.request.forward + client.forwarded_suffix)
        if self._is_whole:
            return
        self._request_bytes = self._waited_ns = 0
        if self.request.takes_seats:
            self._context.limits.watched.add(self)
        if self._awaits_continue and not held:
            self._awaits_continue = False
            client.send(_CONTINUE)
        if connection.is_write_paused:
            client.pause_reading()
        else:
            client.resume_reading()

    def on_no_connection(self, code: int, reason: str) -> None:
        """The origin cannot be reached."""
        is_late = code == _GATEWAY_TIMEOUT
        self._reply_status(code, reason, Failure.UPSTREAM_TIMEOUT if is_late else Failure.UPSTREAM)

    def on_upstream_writable(self) -> None:
        """The origin takes more of the body."""
        self._client.resume_reading()

    # The answer.

    def on_interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on, to clients that know of them."""
        is_known = self.head.expects_continue and not self._awaits_continue
        if self.head.is_http_10 or (head.status == _CONTINUE_STATUS and is_known):
            return
        self._client.send(head.lines + b"\r\n")

    def on_answer(self, head: ResponseHead, body: bytes, *, is_whole: bool) -> None:
        """Pass the final head on, with as much of the body as came with it."""
        client, request, status = self._client, self.head, head.status
        now_ns = self._context.clock.now_ns()
        counters = self._context.counters
        counts = counters.requests_by_status
        counts[status] = counts.get(status, 0) + 1
        counters.upstream_head_ns.observe(now_ns - self._sent_ns)
        self._status = status
        self._body_bytes = len(body)
        keep_alive = client.may_keep_alive()
        framing = b""
        if head.framing >= CHUNKED:
            if request.is_http_10:
                keep_alive = client.keep_alive = False
            else:
                self._is_chunked = True
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
                self._is_whole = False
        lines = self.request.class_lines
        client.send(b"".join((head.lines, VIA, lines, framing, connection, body)))
        if is_whole:
            self._end(now_ns)
            return
        self.state = ANSWER[self.state]
        self._waited_ns = 0
        if self.request.is_watch:
            self._start_watch(body)
        elif self.request.takes_seats:
            ticket = self.passage.ticket
            asked_ns = self._sent_ns if ticket is None else ticket.arrived_ns
            client.deadline_ns = asked_ns + self.request.timeout_ns
        else:
            client.deadline_ns = 0
        if client.is_write_paused:
            self._pause_upstream()

    def _start_watch(self, body: bytes) -> None:
        """The watch is on: its seats go back once its initial events are through."""
        self._client.deadline_ns = 0
        context, attributes = self._context, self.request.attributes
        context.flow_control.costs.watch_started(attributes)
        self._watch = WatchSeats(
            context.loop, context.watch_settings, attributes, self._on_watch_initialized
        )
        if body:
            self._watch.on_data(body)

    @guarded
    def _on_watch_initialized(self) -> None:
        self.passage.release(self._context.clock.now_ns())

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        """Begin the tunnel that the origin agrees to.

        Raises:
            ResponseError: Nobody asked for it.
        """
        context, upstream = self._context, self._upstream
        protocol = switched(raw, self.head.upgrade)
        if not self._is_whole:
            raise ResponseError("an answer 101 before the request was whole")
        assert upstream is not None
        self.state = SWITCH[self.state]
        context.counters.count_status(head.status)
        context.counters.upstream_head_ns.observe(context.clock.now_ns() - self._sent_ns)
        self._status = head.status
        if self.request.is_watch:
            self._start_watch(rest)
        on_data = self._watch.on_data if self._watch is not None else None
        self._tunnel = Tunnel(context, self._client, upstream, self._on_tunnel_over, on_data)
        lines = switch_lines(head.lines + VIA + self.request.class_lines, protocol)
        self._tunnel.start(protocol, lines + b"\r\n", rest)

    def _on_tunnel_over(self) -> None:
        """Both sides have ended, or one is gone."""
        self._upstream = None
        if self.state is TUNNELLING:  # else its time was over, or its client gone, before
            now_ns = self._context.clock.now_ns()
            self._finish(END, now_ns, "")
            self._give_back(now_ns)

    def on_body(self, data: bytes, *, is_last: bool, trailers: bytes = b"") -> None:
        """Pass a further part of the body on."""
        client = self._client
        if self._watch is not None:
            self._watch.on_data(data)
        self._body_bytes += len(data)
        if self._is_chunked:
            if data:
                data = encode_chunk(data)
            if is_last:
                data += last_chunk(trailers)
        if data:
            client.send(data)
        if is_last:
            self._end(self._context.clock.now_ns())
        elif client.is_write_paused:
            self._pause_upstream()

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        """The origin's connection is gone before the answer was whole."""
        self._upstream = None
        head = self.head
        if self.state is not AWAITING:
            # The client must not take what it has for the whole.
            now_ns = self._context.clock.now_ns()
            self._finish(BREAK, now_ns, Failure.UPSTREAM)
            self._give_back(now_ns)
            if head.is_http_10:
                self._client.reset()  # the end of the connection may be that of the answer
            else:
                self._client.abort_after_write()
        elif (
            may_retry and not self._was_retried and head.method in _IDEMPOTENT and not head.framing
        ):
            self._was_retried = True
            self._context.counters.upstream_retries += 1
            self.state = RETRY[self.state]
            # Never one of the idle connections, which may be as stale: the line gets new ones.
            self._context.pool.wait(self)
        else:
            self._reply_status(502, f"the origin did not answer: {reason}", Failure.UPSTREAM)

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
                self._context.limits.watched.add(self)

    def on_sweep(self, period_ns: int) -> None:
        """See whether the client keeps the seats from others.

        Args:
            period_ns: The time since the last call, that of a delay of the proxy itself excluded.
        """
        limits, upstream = self._context.limits, self._upstream
        if self.state is AWAITING and not self._is_whole and upstream is not None:
            # While the origin takes no more, the client is not what holds the request up.
            if not upstream.is_write_paused:
                self._waited_ns += period_ns
                self._see_body_coming()
            return
        if (
            self.state is not ANSWERING
            or upstream is None
            or limits.slow_reader_grace_ns == NEVER_NS
            or self.request.is_watch
        ):
            limits.watched.discard(self)
        elif not upstream.is_read_paused:
            # A client that takes the answer bit by bit is waited for in between, too.
            self._waited_ns -= period_ns
            if self._waited_ns <= 0:
                self._waited_ns = 0
                limits.watched.discard(self)
        else:
            self._waited_ns += period_ns
            if self._waited_ns >= limits.slow_reader_grace_ns:
                self._go_on_without_seats()

    def _see_body_coming(self) -> None:
        """Refuse a request whose body comes too slowly."""
        limits = self._context.limits
        least = limits.min_body_rate_bytes
        is_slow = self._request_bytes * 1_000_000_000 < least * self._waited_ns
        if is_slow and self._waited_ns >= limits.body_rate_grace_ns:
            limits.watched.discard(self)
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
        if self._context.limits.admit_slow_reader(found.level):
            self._slow_level = found.level.name
            self._context.limits.watched.discard(self)
            self.passage.release(self._context.clock.now_ns())

    # The end.

    def on_client_left(self) -> None:
        """The client is gone: so is its interest in the answer."""
        self._leave(Failure.CANCELLED, self._status, self._status)

    def on_malformed(self, code: int) -> None:
        """The body breaks off; the client gets `code` if it has no answer yet, and is done with."""
        if self.has_answered:
            self._leave(Failure.MALFORMED, self._status, self._status)
        else:
            self._leave(Failure.MALFORMED, code, 0)

    def _leave(self, reason: Failure, status: int, upstream_status: int) -> None:
        context = self._context
        context.counters.client_aborts += 1
        if self.state is DONE:
            return  # a tunnel that the client's end has ended
        now_ns = context.clock.now_ns()
        self.state = BREAK[self.state]
        self._log(now_ns, status, upstream_status, self._sent_bytes, reason)
        if not self._abandon(now_ns):
            self._drop_upstream()
            self._give_back(now_ns, has_left=True)

    def on_deadline(self) -> None:
        """The request has taken too long."""
        if self.has_answered:
            now_ns = self._context.clock.now_ns()
            self._finish(BREAK, now_ns, Failure.DEADLINE)
            self._leave_origin(now_ns)
            if self.head.is_http_10:
                self._client.reset()  # as where the origin breaks off
            else:
                self._client.abort()
            return
        upstream = self._upstream
        is_awaited = upstream is not None and not upstream.is_write_paused
        if self.state is GATHERING or (is_awaited and not self._is_whole):
            self._client.keep_alive = False
            self._reply_status(
                408, "the request's body did not arrive in time", Failure.CLIENT_TIMEOUT
            )
            return
        if self.state is IDENTIFYING:
            self._reply_status(
                504, "who asks could not be found out in time", Failure.IDENTIFICATION_TIMEOUT
            )
            return
        self._context.counters.upstream_timeouts += 1
        if upstream is not None:
            # Perhaps the origin's machine is gone.  Then the idle connections of that time are
            # dead, too, and each would cost another request its whole time.
            self._context.pool.close_idle(self._sent_ns)
        self._reply_status(504, "the origin did not answer in time", Failure.UPSTREAM_TIMEOUT)

    def end_long_answer(self) -> None:
        """End a long-running answer as if it were through; the proxy is about to stop."""
        if self._tunnel is not None:
            self._tunnel.close()
            return
        self._drop_upstream()
        if self._is_chunked:
            self._client.send(last_chunk(b""))
        self._client.keep_alive = False
        self._end(self._context.clock.now_ns())

    def _end(self, now_ns: int) -> None:
        """The answer is through."""
        context, upstream, status = self._context, self._upstream, self._status
        self.state = END[self.state]
        if context.access_log is not None:
            self._log(now_ns, status, status, self._body_bytes, "")
        if self.request.is_list and self._status == _OK and self._body_bytes:
            context.flow_control.costs.list_finished(self.request.attributes, self._body_bytes)
        # Before the seats, so that whoever gets them finds it.
        if upstream is not None:
            self._upstream = None
            if self._is_whole:
                context.pool.put_back(upstream, now_ns)
            else:
                upstream.abort()
        if self._watch is None and not self._slow_level:
            self.passage.end(now_ns)
        else:
            self._give_back(now_ns)
        self._client.on_exchange_end(self, now_ns)

    def _reply_status(
        self, code: int, message: str, reason: Failure | RejectReason, lines: bytes = b""
    ) -> None:
        self._reply(code, partial(answers.status_answer, code, message), reason, lines)

    def _reply(
        self,
        code: int,
        build: Callable[..., bytes],
        reason: Failure | RejectReason,
        lines: bytes = b"",
    ) -> None:
        """Answer without the origin.

        Args:
            code: The status.
            build: Makes the answer.
            reason: For the access log.
            lines: More header lines, each with its CRLF.
        """
        context, client = self._context, self._client
        now_ns = context.clock.now_ns()
        self.state = REPLY[self.state]
        self._leave_origin(now_ns)
        context.counters.count_status(code)
        connection = b""
        if not client.may_keep_alive():
            connection = b"Connection: close\r\n"
        elif self.head.is_http_10:
            connection = b"Connection: keep-alive\r\n"
        audit = answers.audit_line(self.request.header("Audit-ID"))
        extra = lines + audit + self.request.class_lines
        answer = build(is_head=self.head.is_head, extra=extra, connection=connection)
        client.send(answer)
        self._log(now_ns, code, 0, answers.body_bytes(answer), reason)
        client.on_exchange_end(self, now_ns)

    # What it holds.

    def _leave_origin(self, now_ns: int) -> None:
        """Give up the answer, and all that the request holds."""
        if not self._abandon(now_ns):
            self._drop_upstream()
            self._give_back(now_ns)

    def _abandon(self, now_ns: int) -> bool:
        """Keep the seats while the origin may still work, where the settings say so."""
        context, upstream, passage = self._context, self._upstream, self.passage
        if not context.abandoned_wait_ns or upstream is None or not passage.has_seats:
            return False
        self._upstream = None
        self._end_watch()
        passage.leave_to_origin(now_ns)
        AbandonedAnswer(context, self.head, upstream, passage, is_watch=self.request.is_watch)
        return True

    def _drop_upstream(self) -> None:
        """Give up the connection to the origin, or the wait for one, or the authentication."""
        if self._identification is not None:
            self._identification.cancel()
            self._identification = None
        upstream = self._upstream
        if upstream is None:
            self._context.pool.leave(self)
        else:
            self._upstream = None
            upstream.abort()

    def _give_back(self, now_ns: int, *, has_left: bool = False) -> None:
        """Give back all that the request holds but its connections."""
        if self._watch is not None:
            self._end_watch()
        if self._slow_level:
            self._context.limits.release_slow_reader(self._slow_level)
            self._slow_level = ""
        if has_left:
            self.passage.leave(now_ns)
        else:
            self.passage.end(now_ns)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._context.flow_control.costs.watch_ended(self.request.attributes)

    def fail(self, error: Exception) -> None:
        """End after an error of the program, and the client's connection with it; never raises."""
        self._client.fail(error, self)

    def give_up(self) -> None:
        """Give back all that the request holds, in whatever state it is; never raises."""
        context, loop = self._context, self._context.loop
        was, self.state = self.state, DONE
        context.limits.watched.discard(self)
        with contained(Part.CONNECTION, loop):
            if was is not DONE:
                status = self._status
                self._log(
                    context.clock.now_ns(), status, status, self._sent_bytes, Failure.INTERNAL
                )
        with contained(Part.CONNECTION, loop):
            self._drop_upstream()
        with contained(Part.CONNECTION, loop):
            self._give_back(context.clock.now_ns(), has_left=True)

    # The access log.

    @property
    def _sent_bytes(self) -> int:
        """Of the answer's body, so far."""
        return self._body_bytes if self._tunnel is None else self._tunnel.bytes_to_client

    def _finish(self, event: ExchangeEvent, now_ns: int, reason: str) -> None:
        """Be done with the origin's answer, and have it in the access log."""
        self.state = event[self.state]
        if self._context.access_log is not None:
            status = self._status
            self._log(now_ns, status, status, self._sent_bytes, reason)

    def _log(
        self, now_ns: int, status: int, upstream_status: int, body_bytes: int, reason: str
    ) -> None:
        """Have the request in the access log.

        Args:
            now_ns: The time.
            status: Sent to the client; 0 for none.
            upstream_status: The origin's; likewise.
            body_bytes: The length of the answer's body.
            reason: Why it was rejected or failed; "" if it was not.
        """
        access_log, passage = self._context.access_log, self.passage
        if access_log is None:
            return
        ticket = passage.ticket
        if not reason and passage.refusal is not None:
            # The line has the origin's answer, and why there would have been none.
            reason = passage.refusal.reason
        if ticket is None:
            seats, asked_ns = passage.seats, self._sent_ns or now_ns
        else:
            seats, asked_ns = ticket.estimate.max_seats, ticket.arrived_ns
        access_log.take(
            Record(
                self.request,
                self.request.user,
                passage.classification,
                self._client.address,
                self._begun_ns,
                asked_ns,
                self._sent_ns,
                now_ns,
                seats,
                status,
                upstream_status,
                body_bytes,
                reason,
            )
        )

    def __repr__(self) -> str:
        return f"<Exchange {self.head!r}, {self.state}, {self.passage.state}>"
