"""One request and its response, from the request's head to the last byte.

`Exchange` is in the order of its life: authentication, a small body, seats, and a connection to the
upstream, from which on it has a `Relay`.  Each end gives back once all that it holds, and writes
its line of the access log.  A request that fits passes through `start`, `_acquire_seats`,
`on_connection`, `Relay.on_response` and `end` as plain calls, inside the events that brought its
bytes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import FOREVER_NS, Refusal
from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.load_meter import DISTRESS, TELLING_NS
from apfproxy.flowcontrol.observed_passage import ObservedPassage
from apfproxy.flowcontrol.passage import ABANDONED, Passage
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.http import own_responses
from apfproxy.http.request_fields import SIZED
from apfproxy.http.response_head import ResponseError, ResponseHead, is_event_stream
from apfproxy.http.token_counter import UNKNOWN, token_counter
from apfproxy.http.upgrade import check_accept, switched
from apfproxy.objects.additions import StreamSeats
from apfproxy.proxy import exchange_state as states
from apfproxy.proxy import reasons
from apfproxy.proxy.abandoned import AbandonedResponse
from apfproxy.proxy.client_limits import LARGE_HEAD_BYTES, NEVER_NS
from apfproxy.proxy.completions import completion_of, count_tokens, reservation
from apfproxy.proxy.early_seats import NS_PER_S, BodyFlow, WatchSeats
from apfproxy.proxy.request_record import Failure, RequestRecord
from apfproxy.proxy.token_flow import TokenFlow
from apfproxy.proxy.tunnel import Tunnel
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.pool import PoolWaiter
from apfproxy.upstream.response_sink import ResponseSink

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.authenticator import Authentication, Authenticator
    from apfproxy.flowcontrol.load_meter import LoadMeter
    from apfproxy.http.read_buffer import Piece
    from apfproxy.proxy.client import Client
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.tracing import RequestTrace
    from apfproxy.upstream.endpoint import UpstreamConnection


class Exchange(PoolWaiter):
    """One request and its response.

    Attributes:
        may_repeat: Whether it may go to a second server, as far as what happened says.
        sent_ns, asked_ns: When it had its seats, and asked for them, or went on without; 0 before.
        trace: None if it is not traced, or has not come to that decision.
    """

    def __init__(
        self, context: Context, client: Client, request: Request, body: bytes, is_whole: bool
    ) -> None:
        self.head = request.head
        self.context = context
        self.client = client
        self.request = request
        flow_control = context.flow_control
        if flow_control.is_observing:
            if client.callers is None:
                client.callers = []
            self.passage: Passage = ObservedPassage(flow_control, request, client.callers)
        else:
            self.passage = Passage(flow_control, request)
        self.state = states.NEW
        self.sent_ns = 0
        self.trace: RequestTrace | None = None
        self.is_whole = is_whole
        self.may_repeat = True
        self.received_bytes = 0
        self._held: bytes | bytearray = body
        """The body as it will be forwarded, until there is a connection for it."""
        self._body_waited_ns = self._bytes_before = 0
        """How long only the client has been waited for, for what came after so many bytes."""
        self._reserved_bytes = 0
        """The bytes of a completion's body, which is waited for: they are held before they come."""
        self._flow: BodyFlow | None = None
        """While a body is under way, to or from an API that is not Kubernetes'."""
        self._authentication: asyncio.Task[None] | None = None
        self._relay: Relay | None = None
        # For log and trace.
        self._begun_ns = 0
        self._made_line = b""
        """The header line of the Audit-ID that the proxy gave it; b"" for none."""
        self._why = ""
        self._endpoint_name = ""

    @property
    def has_responded(self) -> bool:
        return self.state is states.RESPONDING or self.state is states.TUNNELLING

    @property
    def asked_ns(self) -> int:
        ticket, sent_ns = self.passage.ticket, self.sent_ns
        # One that is only observed may be asked for later than it is sent.
        if ticket is None or 0 < sent_ns < ticket.arrived_ns:
            return sent_ns
        return ticket.arrived_ns

    # The user.

    def start(self) -> None:
        if self.head.upgrade is not None:
            # What the client sends next may be of the protocol that it hopes for.
            self.client.keep_alive = False
        if self.head.size > self.context.holdings.free_bytes and not self._hold():
            return
        until_ns = self.request.authenticated_until_ns
        # An authentication that does not expire costs no look at the clock, which takes 0.1 us.
        if until_ns != FOREVER_NS and until_ns <= self.context.clock.now_ns():
            self._authenticate()
        elif self.is_whole:
            self._acquire_seats()
        else:
            self._gather()

    def _authenticate(self) -> None:
        authenticator = self.context.authenticator
        try:
            found = authenticator.authenticate(self.client.peer, self.head.fields.credentials)
        except Exception as error:  # noqa: BLE001 - whatever it is, no one is left waiting
            self._on_authentication_error(error)
            return
        if found is not None:
            self._on_verdict(found)
            return
        self.state = states.AUTHENTICATE[self.state]
        if self._wait_before_seats():
            work = self._authenticate_by_others(authenticator)
            self._authentication = spawn(work, name="authenticate a client")

    async def _authenticate_by_others(self, authenticator: Authenticator) -> None:
        fields, client = self.head.fields, self.client
        try:
            address = fields.address or client.address
            found = await authenticator.authenticate_later(client.peer, fields.credentials, address)
        except Exception as error:  # noqa: BLE001 - as above
            self._authentication = None
            self._on_authentication_error(error)
            return
        self._authentication = None
        try:
            self._on_verdict(found)
        except Exception as error:  # noqa: BLE001 - as in the event that brought the bytes
            self.fail(error)

    def _on_authentication_error(self, error: Exception) -> None:
        report(Part.CONNECTION, error, "authenticating a client failed", loop=self.context.loop)
        self.client.keep_alive = False
        message = "the proxy failed to authenticate the client; its log says more"
        self._reply_status(500, message, Failure.INTERNAL)

    def _on_verdict(self, found: Authentication | Refusal) -> None:
        if not isinstance(found, Refusal):
            self.request.take_authentication(found)
            self._gather()
            return
        why = f"refused with {found.code}: {found.problem:.500}"
        self.context.refusals.log(logging.INFO, why, "%s", why)
        reason, lines = Failure.UNAUTHENTICATED, b""
        if found.code == 503:
            reason, lines = Failure.AUTHENTICATION_UNAVAILABLE, b"Retry-After: 1\r\n"
        elif found.code == 401:
            lines = self.context.authenticator.challenges
        self._reply_status(found.code, found.message, reason, lines)

    def _wait_before_seats(self) -> bool:
        now_ns = self.context.clock.now_ns()
        self.client.deadline_ns = now_ns + self.request.timeout_ns
        if not self._begun_ns:
            self._begun_ns = now_ns
        return self._hold()

    # The request's body.

    def _gather(self) -> None:
        """Wait for a small body, or the start of a large one: a slow one must not hold seats.

        Not where the client waits to be asked for it, or may wait for a response to what it has
        sent: it knows the length of a body only if it has no more to say.
        """
        head, most = self.head, 0
        if self.request.is_completion and not self.is_whole:
            most = self._reserved_bytes = reservation(self.context, self.client, self.request)
        if not most and head.framing == SIZED:
            most = self.context.in_force.gathered_body_bytes
        if (
            self.is_whole
            or (head.expects_continue and not self._reserved_bytes)
            or not self.request.takes_seats
            or len(self._held) >= most
        ):
            self._acquire_seats()
            return
        self.state = states.GATHER[self.state]
        if self._wait_before_seats():
            self._watch_body()

    @property
    def _can_send_rest(self) -> bool:
        """Whether a body would be sent on by now, were it not to be read."""
        if not self._reserved_bytes:
            return False
        least = self.context.in_force.gathered_body_bytes
        return self.head.framing != SIZED or len(self._held) >= least

    def on_request_body(self, pieces: Sequence[Piece], *, is_last: bool) -> None:
        self.is_whole = is_last
        if is_last and self.passage.completion is not None:
            self.passage.completion.whole_ns = self.context.clock.now_ns()
        if is_last and (self.state is states.CONNECTING or self.state is states.AWAITING):
            self._set_deadline(self.context.clock.now_ns())
        relay = self._relay
        if relay is not None:
            self.received_bytes += relay.send_body(pieces)
            return
        # An array: one that comes byte by byte would be copied as often else.
        if type(self._held) is bytes:
            self._held = bytearray(self._held)
        for piece in pieces:
            self._held += piece
            self.received_bytes += len(piece)
        if not self._hold():
            return
        if self.state is not states.GATHERING:
            if len(self._held) >= self.context.held_bytes:
                self.client.pause_reading()
            return
        most = self._reserved_bytes or self.context.in_force.gathered_body_bytes
        is_enough = len(self._held) >= most
        if is_enough and not is_last:
            self.client.pause_reading()  # until there is a connection to pass it on to
        if is_last or is_enough:
            self._acquire_seats()

    def _hold(self) -> bool:
        """Count what waits of the request; where there is no room it is refused: False."""
        client = self.client
        bound = client.hold(self.head.kept_bytes + max(len(self._held), self._reserved_bytes))
        if bound is None:
            return True
        why = reasons.UNHELD[bound]
        if client.can_refuse:
            now_ns = self.context.clock.now_ns()
            self.state = states.REPLY[self.state]
            self._leave_upstream(now_ns)
            self._log(now_ns, Failure.MEMORY, why)
            client.refuse_unprocessed(now_ns)
        else:
            message = f"{why}; try again later"
            self._reply_status(503, message, Failure.MEMORY, b"Retry-After: 1\r\n", why)
        return False

    # Flow control.

    def _acquire_seats(self) -> None:
        context, client, passage = self.context, self.client, self.passage
        tracer = context.tracer
        if tracer is not None:
            self.trace = tracer.begin(self.request)
        if self.request.is_completion:
            self._reserved_bytes = 0
            passage.completion = completion_of(context, self.request, self._held, self.is_whole)
        goes_on = passage.acquire(self)
        ticket = passage.ticket
        if goes_on:
            self.sent_ns = now_ns = context.clock.now_ns() if ticket is None else ticket.arrived_ns
            if self.is_whole:
                client.deadline_ns = now_ns + self.request.answer_timeout_ns
            else:
                self._set_deadline(now_ns)
            self._connect()
        elif ticket is None:
            self._refuse_seats()
        else:
            self.state = states.QUEUE[self.state]
            if not self._hold():
                return
            if self._is_recorded:
                self._why = reasons.crowd_text(passage, itself=1)
            longest_ns = max(self.request.timeout_ns, 2 * passage.longest_wait_ns)
            client.deadline_ns = ticket.arrived_ns + longest_ns

    def on_seats(self) -> None:
        ticket = self.passage.ticket
        assert ticket is not None
        self.sent_ns = ticket.dispatched_ns
        self._set_deadline(ticket.dispatched_ns)
        self._connect()

    def on_time_out(self) -> None:
        self._refuse_seats()

    def _refuse_seats(self) -> None:
        refusal = self.passage.refusal
        assert refusal is not None
        # To ask again later is of use where another response may be had then.
        after_s = refusal.retry_after_s
        lines = b"Retry-After: %d\r\n" % after_s if after_s else b""
        if refusal.message:
            is_ban = refusal.reason is RejectReason.BAN
            self.context.counters.bans += is_ban
            code = 403 if is_ban else 429
            self._reply_status(code, refusal.message, refusal.reason, lines)
            return
        if not self._why and self._is_recorded:
            self._why = reasons.crowd_text(self.passage)
        if self.request.attributes.is_plain:
            text = own_responses.TOO_MANY_REQUESTS_TEXT
            self._reply_status(429, text, refusal.reason, lines, why="")
        else:
            build = partial(own_responses.too_many_requests, after_s)
            self._reply(429, build, refusal.reason, b"", "")

    # A connection to the upstream.

    def _connect(self) -> None:
        # A connection that will be a tunnel is of no one else before or after.
        pool, is_new = self.context.pool, self.head.upgrade is not None
        upstream = None if is_new else pool.acquire(is_long=self.request.is_long_running)
        if upstream is not None:
            self.on_connection(upstream)
            return
        self.state = states.CONNECT[self.state]
        if self._hold():
            pool.wait(self, is_new=is_new)

    def on_connection(self, connection: UpstreamConnection) -> None:
        self.state = states.SEND[self.state]
        relay = self._relay = Relay(self, connection)
        self._endpoint_name = connection.endpoint.log_name
        context, client, held, ticket = self.context, self.client, self._held, self.passage.ticket
        found = self.passage.classification
        assert found is not None
        if found.limits is not None and not (
            self.head.is_head or context.flow_control.is_observing
        ):
            context.pacing.begin(relay, connection, found)
        if ticket is not None:
            estimate = ticket.estimate
            connection.hold(estimate.max_seats, estimate.units)
        lines = self.request.user_lines
        if context.has_audit_ids and (line := self._audit_line()) is self._made_line:
            lines += line  # the client has not sent one
        head = self.head.forwarded(lines, client.forwarded_suffix)
        if self.trace is not None:
            head = self.trace.send(head, connection.endpoint.url, context.clock.now_ns())
        if held:
            # From here on the body is the connection's, so there is no way to send it twice.
            self._held = b""
            head += held
        is_upgrade = self.head.upgrade is not None
        connection.send(relay, head, is_head=self.head.is_head, is_upgrade=is_upgrade)
        if client.held:
            client.hold(self.head.kept_bytes if self.head.size > LARGE_HEAD_BYTES else 0)
        if self.is_whole:
            return
        if self.request.takes_seats:
            self._watch_body()
        relay.ask_for_body(has_begun=bool(held))

    def on_no_connection(self, code: int, reason: str) -> None:
        self.count_failed()
        if code == 504:
            self._reply_status(code, reason, Failure.UPSTREAM_TIMEOUT)
            return
        # A server has seen a request that is sent again: its client decides what becomes of it.
        lines = own_responses.RETRY_SOON if self.may_repeat else b""
        self._reply_status(code, reason, Failure.UPSTREAM, lines)

    # What its relay asks of it.

    def response_lines(self, head: ResponseHead, now_ns: int) -> bytes:
        lines = self._class_lines(now_ns)
        if not head.has_date:
            lines += self.context.date_line.at(now_ns)
        if self.context.has_audit_ids and not head.has_audit_id:
            return lines + self._audit_line()
        return lines

    def count_failed(self) -> None:
        """Count a request that had seats for nothing: the upstream failed it."""
        passage, found = self.passage, self.passage.classification
        if found is not None and passage.ticket is not None and passage.refusal is None:
            found.level.failed_total += 1

    def begin_flow(self, now_ns: int, timeout_ns: int) -> None:
        self._flow = BodyFlow(timeout_ns, now_ns, self._moved_bytes)
        self.client.deadline_ns = self._flow.next_look_ns(now_ns)

    @property
    def _moved_bytes(self) -> int:
        relay = self._relay
        return self.received_bytes + (0 if relay is None else relay.body_bytes)

    def gives_stream_seats_back(self, head: ResponseHead) -> bool:
        """Whether a response, which is not whole, lasts without seats.

        Where objects do not say, an event stream does that a browser listens to; one that answers
        a POST is work under way.
        """
        attributes, found = self.request.attributes, self.passage.classification
        if found is None or not attributes.is_plain or not self.request.takes_seats:
            return False
        if found.stream_seats is None:
            return attributes.verb == "get" and is_event_stream(head.lines)
        return found.stream_seats is StreamSeats.RELEASE and head.length < 0

    def token_flow(self, head: ResponseHead) -> TokenFlow | None:
        """Count the tokens of a completion's response; None if it tells of none."""
        counter = token_counter(head.lines) if head.status == 200 else None
        found = self.passage.classification
        if counter is None or found is None:
            return None
        top_flows, begun_ns = self.context.flow_control.top_flows, self._begun_ns or self.asked_ns
        return TokenFlow(counter, found.flow, top_flows, begun_ns, self.sent_ns)

    def begin_stream(self, now_ns: int) -> bool:
        """Give the seats back for a response that lasts; else its client gets 429."""
        assert self._relay is not None
        self._relay.upstream.release_seats()  # before others get the seats, and choose an endpoint
        self.may_repeat = False
        if self.passage.begin_stream(now_ns) is None:
            return True
        self._refuse_seats()
        return False

    def release_seats(self, now_ns: int) -> None:
        if self._relay is not None:
            self._relay.upstream.release_seats()
            self._relay.count_tokens()
        self.passage.release_seats(now_ns)

    def retry(self, relay: Relay, reason: str) -> None:
        self._relay = None
        self.may_repeat = False
        self.context.counters.upstream_retries += 1
        self.state = states.RETRY[self.state]
        if self.trace is not None:
            self.trace.failed(reason, self.context.clock.now_ns())
        # Never on one of the idle connections, which may be as stale: the pool makes a new one.
        self.context.pool.wait(self, avoided=relay.upstream.endpoint)

    # Time.

    def _set_deadline(self, now_ns: int) -> None:
        """Give the upstream its time to respond in, once it can have all of the request."""
        request, is_whole = self.request, self.is_whole
        self._flow = None
        if request.attributes.is_plain and request.takes_seats:
            if is_whole:
                self.client.deadline_ns = now_ns + request.answer_timeout_ns
            else:
                self.begin_flow(now_ns, request.timeout_ns)  # what flows may take any time
            return
        deadline_ns = 0
        if request.takes_seats and not (request.is_watch and is_whole):
            deadline_ns = self.asked_ns + request.timeout_ns
        if is_whole:
            answer_ns = now_ns + self.context.in_force.answer_timeout_ns
            deadline_ns = min(deadline_ns, answer_ns) if deadline_ns else answer_ns
        self.client.deadline_ns = deadline_ns

    def on_deadline(self) -> None:
        now_ns, state, flow = self.context.clock.now_ns(), self.state, self._flow
        if flow is not None:
            # A response that is taken slower than a body may come stands still: else a client that
            # takes a byte a minute would keep its seats for ever.
            least = 0
            if state is states.RESPONDING and self.client.is_write_paused:
                least = self.context.in_force.min_body_rate_bytes
            moves = flow.look(now_ns, self._moved_bytes, least)
            self.client.deadline_ns = flow.next_look_ns(now_ns)
            if moves:
                return
        relay = self._relay
        reads = None if relay is None else self.context.pacing.responses.get(relay)
        if reads is not None and (waited_ns := reads.take_waited_ns()):
            self.client.deadline_ns = now_ns + waited_ns  # it was the proxy that waited
            return
        if self.has_responded:
            tunnel = None if relay is None else relay.tunnel
            if tunnel is not None and tunnel.has_left:
                tunnel.close()  # its client knows, and does not go
            else:
                self._cut(now_ns)
        elif state is states.AWAITING and self.is_whole and self.request.is_long_running:
            self._wait_on()
        elif state is states.GATHERING and self._can_send_rest:
            self._acquire_seats()
        elif state is states.GATHERING or (
            relay is not None and not relay.upstream.is_write_paused and not self.is_whole
        ):
            self._refuse_slow_body("did not arrive in time (downstream.requestTimeout)")
        elif state is states.AUTHENTICATING:
            message = "the client could not be authenticated in time"
            self._reply_status(504, message, Failure.AUTHENTICATION_TIMEOUT)
        else:
            self._time_out_upstream(now_ns)

    def _cut(self, now_ns: int) -> None:
        why = reasons.STOOD_STILL if self.request.attributes.is_plain else reasons.OUT_OF_TIME
        self.state = states.BREAK[self.state]
        self._log(now_ns, Failure.DEADLINE, why)
        self._leave_upstream(now_ns)
        self.client.abort()

    def _wait_on(self) -> None:
        """Let the upstream take as long as it likes, as kube-apiserver does: kubernetes#57708.

        A server that hangs is found by checks and by TCP.  What it may have worked on for so long
        is not sent to another one, and a watch has had its seats for long enough.
        """
        self.client.deadline_ns = 0
        self.may_repeat = False
        if self.request.takes_seats:
            self.release_seats(self.context.clock.now_ns())

    def _refuse_slow_body(self, problem: str) -> None:
        self.client.keep_alive = False
        self._reply_status(408, f"the request's body {problem}", Failure.CLIENT_TIMEOUT)

    def _time_out_upstream(self, now_ns: int) -> None:
        self.count_failed()
        relay, waited_ns = self._relay, now_ns - self.sent_ns
        most_ns = self.context.in_force.answer_timeout_ns
        unattributed = self.context.counters.pool.unattributed
        counters = unattributed if relay is None else relay.upstream.endpoint
        is_telling = waited_ns >= min(TELLING_NS, most_ns)
        problem = f"no answer within {reasons.rounded_s(waited_ns)}"
        counters.fail(UpstreamFailure.ANSWER_TIMEOUT, problem, is_telling=is_telling)
        if relay is not None:
            # Perhaps the server's machine is gone.  Then the idle connections of that time are
            # dead, too, and each would cost another request its whole time.
            relay.upstream.endpoint.close_idle(self.sent_ns)
        is_late = self.is_whole and waited_ns >= most_ns
        begun_ns = self.sent_ns if self.request.attributes.is_plain else self.asked_ns
        what = reasons.LATE[relay is not None, self.is_whole]
        message = reasons.late_text(self.request, what, waited_ns, now_ns - begun_ns, is_late)
        self._reply_status(504, message, Failure.UPSTREAM_TIMEOUT)

    def on_sweep(self, period_ns: int) -> None:
        """See whether the client keeps the seats from others; delays of the proxy do not count."""
        relay = self._relay
        if self.state is states.RESPONDING and relay is not None:
            relay.see_response_taken(period_ns)
        elif self.state is states.GATHERING:
            self._see_body_coming(period_ns)
        elif self.state is states.AWAITING and not self.is_whole and relay is not None:
            # While the upstream takes no more, the client is not what holds the request up.
            if not relay.upstream.is_write_paused:
                self._see_body_coming(period_ns)
        else:
            self.context.slow_readers.watched.pop(self, None)

    def _see_body_coming(self, period_ns: int) -> None:
        in_force = self.context.in_force
        self._body_waited_ns += period_ns
        if self._body_waited_ns < in_force.body_rate_grace_ns:
            return
        least, came = in_force.min_body_rate_bytes, self.received_bytes - self._bytes_before
        if came * NS_PER_S < least * self._body_waited_ns:
            self.context.slow_readers.watched.pop(self, None)
            setting = "downstream.limits.minBodyRateBytes"
            self._refuse_slow_body(f"came slower than {least} bytes a second ({setting})")
        elif self.state is states.GATHERING:
            # A body is small then, so what came long ago says nothing of one that has stopped.
            self._watch_body()

    def _watch_body(self) -> None:
        """Have the sweep see whether what comes of the body from now on comes too slowly."""
        self._body_waited_ns, self._bytes_before = 0, self.received_bytes
        self.context.slow_readers.watched[self] = self.on_sweep

    # What its client sees of it, and does.

    @property
    def can_end_watch(self) -> bool:
        return self._relay is not None and self._relay.can_end_watch

    def end_watch(self) -> None:
        """End the watch, if there is one, as if it were through."""
        if self._relay is not None and self._relay.can_end_watch:
            self._relay.end_watch()

    @property
    def has_websocket(self) -> bool:
        """Whether its client can be told that the proxy goes away, and has not been."""
        tunnel = None if self._relay is None else self._relay.tunnel
        return tunnel is not None and tunnel.can_leave

    def close_websocket(self) -> None:
        if self._relay is not None and self._relay.tunnel is not None:
            self._relay.tunnel.leave()

    def on_downstream_writable(self) -> None:
        if self._relay is not None:
            self._relay.upstream.resume_reading()

    @guarded
    def leave(self, code: int = 0) -> bool:
        """End: the client is gone, or gets `code`, since its body is malformed; raises nothing."""
        if code:
            self._leave(Failure.MALFORMED, reasons.MALFORMED_BODY, code)
        else:
            self.on_client_left()
        return True

    def on_client_left(self) -> None:
        self._leave(Failure.CANCELLED, reasons.LEFT_WHERE.get(self.state, "the client left"))

    # The end.

    def end(self, relay: Relay, now_ns: int) -> None:
        context, client, upstream = self.context, self.client, relay.upstream
        self.state = states.END[self.state]
        if context.access_log is not None or self.trace is not None:
            self._log(now_ns, "")
        if self.request.is_list and relay.status == 200 and relay.body_bytes:
            context.flow_control.costs.list_finished(self.request.attributes, relay.body_bytes)
        if (completion := self.passage.completion) is not None:
            completion.is_served = relay.status < 400  # also without a token
        if context.load_meter is not None:
            self._measure(context.load_meter, relay, now_ns)
        if client.held:
            client.hold(0)
        # Before the seats, so that the request that gets them finds it.
        self._relay = None
        if self.is_whole:
            context.pool.release(upstream, now_ns)
        else:
            upstream.abort()
        if relay.watch is not None or relay.slow_level or relay.tokens is not None:
            relay.close()
        self.passage.release(now_ns)
        client.on_exchange_end(self, now_ns)

    def _measure(self, load_meter: LoadMeter, relay: Relay, now_ns: int) -> None:
        """Count a response of which the server limit can be learned.

        One that was repeated took the time of two servers, a stream without seats its client's, a
        paced one the proxy's.
        """
        request, status = self.request, relay.status
        if request.is_long_running or relay in self.context.pacing.responses:
            return
        seats = self.passage.limited_seats
        if seats and status in DISTRESS:
            load_meter.distress += 1
        elif seats and status < 500 and self.may_repeat and not relay.slow_level:
            load_meter.add(request.attributes, relay.body_bytes, seats, now_ns - self.sent_ns)

    def finish(self, relay: Relay, event: states.ExchangeEvent, reason: str, why: str = "") -> None:
        now_ns = self.context.clock.now_ns()
        self.state = event[self.state]
        self._log(now_ns, reason, why)
        self._relay = None
        relay.close()
        self._give_back(now_ns)

    def refuse_broken(self, reason: str) -> None:
        self._relay = None
        self._reply_status(502, f"the upstream did not answer: {reason}", Failure.UPSTREAM)

    def _leave(self, reason: Failure, why: str, code: int = 0) -> None:
        if not code or self.has_responded:  # else the client gets a response
            self.context.counters.client_aborts += 1
        if self.state is states.DONE:
            return  # a tunnel that the client's end has ended
        now_ns = self.context.clock.now_ns()
        self.state = states.BREAK[self.state]
        self._log(now_ns, reason, why, code)
        self._leave_upstream(now_ns, has_left=True)

    def _reply_status(
        self, code: int, message: str, reason: str, lines: bytes = b"", why: str | None = None
    ) -> None:
        build = self.request.own_response(code, message)
        self._reply(code, build, reason, lines, message if why is None else why)

    def _reply(
        self, code: int, build: Callable[..., bytes], reason: str, lines: bytes, why: str
    ) -> None:
        context, client = self.context, self.client
        now_ns = context.clock.now_ns()
        self.state = states.REPLY[self.state]
        self._leave_upstream(now_ns)
        context.counters.count_own(code)
        extra = lines + self._audit_line() + self._class_lines(now_ns, reason)
        size = client.send_own(self.head, build, extra)
        self._log(now_ns, reason, why, code, size)
        client.on_exchange_end(self, now_ns)

    def fail(self, error: Exception) -> None:
        """End after an error of the program, and the client's connection with it; never raises."""
        self.give_up()
        self.client.fail(error)

    def give_up(self) -> None:
        """Give back all that the request holds, and has not given back; never raises."""
        context, loop = self.context, self.context.loop
        was, self.state = self.state, states.DONE
        context.slow_readers.watched.pop(self, None)
        with contained(Part.CONNECTION, loop):
            if was is not states.DONE:
                self._log(context.clock.now_ns(), Failure.INTERNAL)
        with contained(Part.CONNECTION, loop):
            self._drop_upstream()
        if self.passage.state is not ABANDONED:  # else its seats are the upstream's
            with contained(Part.CONNECTION, loop):
                self._give_back(context.clock.now_ns(), has_left=True)

    # What it gives back.

    def _leave_upstream(self, now_ns: int, *, has_left: bool = False) -> None:
        if not self._abandon(now_ns):
            self._drop_upstream()
            self._give_back(now_ns, has_left=has_left)

    def _abandon(self, now_ns: int) -> bool:
        """Keep the seats while the upstream may still work; says whether the settings want that."""
        context, relay, passage = self.context, self._relay, self.passage
        if not context.in_force.abandoned_wait_ns or relay is None or not passage.has_seats:
            return False
        self._relay = None
        self.client.hold(0)
        counter = None if relay.tokens is None else relay.tokens.counter
        relay.close()
        passage.leave_to_upstream(now_ns)
        is_watch = self.request.is_watch
        AbandonedResponse(context, relay.upstream, passage, counter, is_watch=is_watch)
        return True

    def _drop_upstream(self) -> None:
        if self._authentication is not None:
            self._authentication.cancel()
            self._authentication = None
        relay = self._relay
        if relay is None:
            self.context.pool.leave(self)  # it may wait there
        else:
            self._relay = None
            relay.upstream.abort()
            relay.close()

    def _give_back(self, now_ns: int, *, has_left: bool = False) -> None:
        if self.client.held:
            self.client.hold(0)
        if has_left:
            self.passage.cancel(now_ns)
        else:
            self.passage.release(now_ns)

    # Header lines, access log and trace.

    def _class_lines(self, now_ns: int, reason: str = "") -> bytes:
        context, request, found = self.context, self.request, self.passage.classification
        if found is None:
            return b""
        lines, audience = request.class_lines(found), context.audience
        if not audience.is_empty and audience.has(request.user):
            return lines + reasons.debug_lines(self.passage, now_ns, reason)
        return lines

    def _audit_line(self) -> bytes:
        if self._made_line:
            return self._made_line
        own = self.request.audit_line
        if not own:
            own = self._made_line = next(self.context.audit_lines)
        return own

    @property
    def _is_recorded(self) -> bool:
        return self.context.access_log is not None or self.context.tracer is not None

    def _log(self, now_ns: int, reason: str, why: str = "", code: int = 0, size: int = 0) -> None:
        """Tell log and trace; `code` and `size` are of a response of the proxy's own."""
        access_log, tracer, trace = self.context.access_log, self.context.tracer, self.trace
        passage, ticket, relay = self.passage, self.passage.ticket, self._relay
        if tracer is not None and not self.sent_ns and ticket is None and passage.refusal is None:
            trace = tracer.begin(self.request)  # it has not asked for seats
        if access_log is None and trace is None:
            return
        if not reason and passage.refusal is not None:
            # The line has the upstream's response, and why there would have been none.
            reason, why = passage.refusal.reason, passage.refusal.message
        if ticket is None:
            seats, asked_ns = passage.seats, self.sent_ns or now_ns
        else:
            seats, asked_ns = ticket.estimate.max_seats, self.asked_ns
        status = 0 if relay is None else relay.status
        tokens = None if relay is None or relay.tokens is None else relay.tokens.counter
        request, found = self.request, passage.classification
        record = RequestRecord(
            self.head,
            request.block,
            request.user if found is not None or request.authenticated_until_ns > 0 else None,
            request.attributes,
            found,
            self.head.fields.address or self.client.address,
            self._begun_ns,
            asked_ns,
            self.sent_ns,
            now_ns,
            seats,
            status or code,
            status,
            size if relay is None else relay.sent_bytes,
            reason,
            f"{why}; {self._why}" if why and self._why else why or self._why,
            self._made_line,
            self._endpoint_name,
            0 if trace is None else trace.trace_id,
            UNKNOWN if tokens is None else tokens.prompt_tokens,
            UNKNOWN if tokens is None else tokens.tokens,
        )
        if access_log is not None:
            access_log.take(record)
        if trace is not None and tracer is not None:
            trace.record = record
            tracer.take(trace)

    def __repr__(self) -> str:
        return f"<Exchange {self.head!r}, {self.state}, {self.passage.state}>"


class Relay(ResponseSink):
    """Takes the response for an exchange from its connection, and sends the request's body.

    Each side is read no faster than the other one takes it.

    Attributes:
        slow_level: The level whose slow readers this is one of; "" if it is none.
        status: The final response's; 0 before.
        tokens: Counts those of a completion's response; None if it is none, or tells of none.
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
        self.tokens: TokenFlow | None = None
        self._waited_ns = 0
        """While the sweep looks at the response: how long only the client has been waited for."""
        self.slow_level = ""

    # The request's body.

    def ask_for_body(self, *, has_begun: bool) -> None:
        client = self._exchange.client
        if self.head.expects_continue and not has_begun:
            self._has_asked = True
            client.send_continue()
        if self.upstream.is_write_paused:
            client.pause_reading()
        else:
            client.resume_reading()

    def send_body(self, pieces: Sequence[Piece]) -> int:
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
        if exchange.passage.completion is not None:
            self.tokens = exchange.token_flow(head)
            if self.tokens is not None:
                self.tokens.take((body,), now_ns)
        is_stream = not is_whole and exchange.gives_stream_seats_back(head)
        if is_stream and not exchange.begin_stream(now_ns):
            return
        lines = exchange.response_lines(head, now_ns)
        client.send_response(request, head, lines, body, is_whole=is_whole)
        if request.upgrade is not None:
            # The upstream may wait for bytes of a protocol that it will not get.
            exchange.is_whole = False
        if is_whole:
            exchange.end(self, now_ns)
            return
        exchange.state = states.RESPOND[exchange.state]
        asked = exchange.request
        if asked.is_watch:
            self._start_watch(body)
        elif is_stream or not asked.takes_seats:
            client.deadline_ns = 0  # it may never end
        elif asked.attributes.is_plain:
            exchange.begin_flow(now_ns, exchange.context.in_force.stream_idle_ns)
        else:
            client.deadline_ns = exchange.asked_ns + asked.timeout_ns
        if client.is_write_paused:
            self._pause_upstream()

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        client = self._exchange.client
        if self.watch is not None:
            self.watch.on_data(b"".join(pieces))
        if self.tokens is not None:
            self.tokens.take(pieces, self._exchange.context.clock.now_ns())
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
        if may_retry and exchange.state is states.AWAITING:
            if not upstream.was_used:  # else it was most likely closed for being idle
                upstream.endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
            exchange.retry(self, reason)
            return
        upstream.endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason)
        if self.status < 500:  # else it has been counted
            exchange.count_failed()
        if exchange.state is states.AWAITING:
            exchange.refuse_broken(reason)
        else:
            # The client must not take what it has for the whole.
            exchange.finish(self, states.BREAK, Failure.UPSTREAM, f"the server broke off: {reason}")
            exchange.client.abort_after_write()

    def fail(self, error: Exception) -> None:
        self._exchange.fail(error)

    # Responses that last.

    @property
    def is_long_running(self) -> bool:
        exchange = self._exchange
        if exchange.request.is_long_running or self.tunnel is not None:
            return True
        return exchange.has_responded and exchange.client.deadline_ns == 0

    def _start_watch(self, body: Piece) -> None:
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
        exchange.state = states.SWITCH[exchange.state]
        now_ns = exchange.context.clock.now_ns()
        self.status = head.status
        self.upstream.endpoint.answered(head.status, now_ns - exchange.sent_ns)
        if exchange.trace is not None:
            exchange.trace.answered(head.status, now_ns)
        if exchange.request.is_watch:
            self._start_watch(rest)
        elif exchange.request.takes_seats:
            exchange.release_seats(now_ns)
        context, client = exchange.context, exchange.client
        self.tunnel = Tunnel(context, client, self.upstream, self.watch, self._on_tunnel_over)
        self.tunnel.start(head, exchange.response_lines(head, now_ns), protocol, rest)

    def _on_tunnel_over(self) -> None:
        exchange = self._exchange
        # Else its time was over, or its client gone, before.
        if exchange.state is states.TUNNELLING:
            exchange.finish(self, states.END, "")

    @property
    def sent_bytes(self) -> int:
        return self.body_bytes if self.tunnel is None else self.tunnel.bytes_to_client

    def _pause_upstream(self) -> None:
        exchange = self._exchange
        self.upstream.pause_reading()
        if exchange.request.takes_seats and not self.slow_level:
            exchange.context.slow_readers.watched[exchange] = exchange.on_sweep

    def see_response_taken(self, period_ns: int) -> None:
        """See whether a client that takes its response slowly keeps the seats from others."""
        exchange = self._exchange
        slow_readers = exchange.context.slow_readers
        grace_ns = exchange.context.in_force.slow_reader_grace_ns
        if grace_ns == NEVER_NS or self.is_long_running:
            slow_readers.watched.pop(exchange, None)
        elif not exchange.client.is_write_paused:
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

    def count_tokens(self) -> None:
        """Have a completion charged for the tokens so far, or as estimated where none are known."""
        completion = self._exchange.passage.completion
        if completion is None:
            return
        if self.tokens is not None:
            count_tokens(completion, self.tokens.counter)
        elif 0 < self.status < 400:
            completion.is_served = True

    def close(self) -> None:
        """Be no watch, no slow reader and no flow of tokens any more; harmless if that is done."""
        exchange = self._exchange
        self.count_tokens()
        if self.tokens is not None:
            self.tokens.end()
            self.tokens = None
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None
            exchange.context.flow_control.costs.watch_ended(exchange.request.attributes)
        if self.slow_level:
            exchange.context.slow_readers.release(self.slow_level)
            self.slow_level = ""
