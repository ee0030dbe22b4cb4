"""All that an exchange is and holds, and how it ends.

Whatever ends it goes through `_finish` or `_reply`, which write its line of the access log, and
`_give_back`, which returns its place in flow control; the table of transitions lets that happen
once.  `forwarding` and `exchange` add what happens before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

from apfproxy.base.faults import Part, contained
from apfproxy.flowcontrol.observed_passage import ObservedPassage
from apfproxy.flowcontrol.passage import ABANDONED, Passage
from apfproxy.proxy import own_responses
from apfproxy.proxy.abandoned import AbandonedResponse
from apfproxy.proxy.counters import Bound
from apfproxy.proxy.debug_headers import debug_lines
from apfproxy.proxy.exchange_state import (
    ANSWERING,
    AUTHENTICATING,
    AWAITING,
    BREAK,
    CONNECTING,
    DONE,
    GATHERING,
    NEW,
    QUEUED,
    REPLY,
    TUNNELLING,
    ExchangeEvent,
)
from apfproxy.proxy.request_log import Failure, text_of_server, text_of_trace
from apfproxy.proxy.traces import audit_line
from apfproxy.upstream.response_sink import ResponseSink

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.flowcontrol.ticket import RejectReason
    from apfproxy.proxy.client import Client
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.slow_readers import Watched
    from apfproxy.proxy.tracing import RequestTrace
    from apfproxy.proxy.tunnel import Tunnel
    from apfproxy.proxy.watch_seats import WatchSeats
    from apfproxy.upstream.connection import UpstreamConnection
    from apfproxy.upstream.pool import PoolWaiter

LEFT_WHERE = {
    GATHERING: "the client left before its body was there",
    AUTHENTICATING: "the client left before it was authenticated",
    QUEUED: "the client left while it waited for seats",
    CONNECTING: "the client left while it waited for a connection to the server",
    AWAITING: "the client left before the server answered",
    ANSWERING: "the client left before the end of the answer",
}
"""Why requests were cut short, in words, by where they stood."""
FLOW_LOOKS: Final = 4
"""At a body in a request's time, so that it is cut after no more than a quarter above it."""
MALFORMED_BODY = "the request's body is malformed, or too long"
UNHELD = {
    Bound.CONNECTION: "too many bytes of its connection wait in the proxy"
    " (downstream.limits.maxHeldBytesPerConnection)",
    Bound.ADDRESS: "too many bytes of its client's address wait in the proxy"
    " (downstream.limits.maxHeldBytesPerAddress)",
    Bound.PROCESS: "too many bytes of clients wait in the proxy (downstream.limits.maxHeldBytes)",
    Bound.OVERLOAD: "the proxy is short of memory (downstream.overload.memoryBytes)",
}
"""Why a request could not be held, in words."""


class ExchangeBase(ResponseSink):
    """What an exchange holds.

    Attributes:
        passage: Its way through flow control.
        state: Where it stands.
    """

    __slots__ = (
        "_authentication",
        "_awaits_continue",
        "_begun_ns",
        "_body_bytes",
        "_client",
        "_context",
        "_endpoint_name",
        "_held",
        "_is_whole",
        "_made_line",
        "_may_repeat",
        "_moved_bytes",
        "_moved_ns",
        "_request_bytes",
        "_sent_ns",
        "_slow_level",
        "_status",
        "_trace",
        "_tunnel",
        "_upstream",
        "_waited_ns",
        "_watch",
        "_why",
        "passage",
        "request",
        "state",
    )

    def __init__(
        self,
        context: Context,
        client: Client,
        request: Request,
        body: bytes,
        is_whole: bool,
    ) -> None:
        """Take a request.

        Args:
            context: Its cluster's.
            client: Whoever sent it.
            request: Its head, and the user.
            body: What has come of its body, framed as it will be forwarded.
            is_whole: Whether that is all of it.
        """
        head = request.head
        super().__init__(head)
        self._context = context
        self._client = client
        self.request = request
        flow_control = context.flow_control
        if flow_control.is_observing:
            if client.callers is None:
                client.callers = []
            self.passage: Passage = ObservedPassage(flow_control, request, client.callers)
        else:
            self.passage = Passage(flow_control, request)
        self.state = NEW
        self._begun_ns = 0
        """For log and trace: when it came; 0 if it was not held up since."""
        self._sent_ns = 0
        """When it was let go to the upstream; 0 before."""
        self._made_line = b""
        """The header line of the Audit-ID that the proxy gave it; b"" for none."""
        self._why = ""
        """For log and trace: why it waited."""
        self._trace: RequestTrace | None = None
        """None if it is not traced, or has not come to that decision."""
        self._endpoint_name = ""
        """For the access log: the server that has it, where there are several."""
        self._upstream: UpstreamConnection | None = None
        self._authentication: asyncio.Task[None] | None = None
        # Of the request's body.
        self._held: bytes | bytearray = body
        """Framed as it will be forwarded, until there is a connection for it."""
        self._is_whole = is_whole
        self._awaits_continue = head.expects_continue
        self._request_bytes = 0
        """Since there is a connection to pass them on to; before, since `_waited_ns` began."""
        self._may_repeat = True
        """Whether it may go to a second server, as far as what happened says."""
        # Of a body under way, before an API that is not Kubernetes: when it was seen to move last,
        # and how much had come of both by then.
        self._moved_ns = 0
        self._moved_bytes = 0
        # While `slow_readers.watched` has this: how long only the client has been waited for.
        self._waited_ns = 0
        self._slow_level = ""
        """The level whose slow readers this is one of."""
        # Of the answer, once its head is there.
        self._status = 0
        self._body_bytes = 0
        self._watch: WatchSeats | None = None
        self._tunnel: Tunnel | None = None

    @property
    def has_responded(self) -> bool:
        """Whether the head of the upstream's answer is on its way to the client."""
        return self.state in (ANSWERING, TUNNELLING)

    @property
    def asked_ns(self) -> int:
        """When it asked for seats, or went on without; 0 before."""
        ticket, sent_ns = self.passage.ticket, self._sent_ns
        # One that is only observed may be asked for later than it is sent.
        if ticket is None or 0 < sent_ns < ticket.arrived_ns:
            return sent_ns
        return ticket.arrived_ns

    @property
    def is_long_running(self) -> bool:
        """Whether it may go on for as long as client and upstream like.

        An answer that turns out to be so, as an event stream does, has no deadline any more.
        """
        if self.request.is_long_running or self._tunnel is not None:
            return True
        return self.has_responded and self._client.deadline_ns == 0

    def _set_deadline(self, now_ns: int) -> None:
        """Give the upstream its time to answer in, once it can have all of the request.

        Before an API that is not Kubernetes the time of what flows is not limited.
        """
        request = self.request
        if request.attributes.is_plain and request.takes_seats:
            if self._is_whole:
                self._client.deadline_ns = now_ns + request.answer_timeout_ns
            else:
                self._begin_flow(now_ns)
            return
        deadline_ns = 0
        if request.takes_seats and not (request.is_watch and self._is_whole):
            deadline_ns = self.asked_ns + request.timeout_ns
        if self._is_whole:
            answer_ns = now_ns + self._context.in_force.answer_timeout_ns
            deadline_ns = min(deadline_ns, answer_ns) if deadline_ns else answer_ns
        self._client.deadline_ns = deadline_ns

    def _begin_flow(self, now_ns: int) -> None:
        """See from now on whether a body moves."""
        self._moved_ns = now_ns
        self._moved_bytes = self._request_bytes + self._body_bytes
        self._client.deadline_ns = now_ns + self.request.timeout_ns // FLOW_LOOKS

    def _flows_on(self, now_ns: int) -> bool:
        """Whether what is under way is a body that has not stood still for the request's time.

        While only the client is waited for, an answer stands still that goes on slower than a
        request's body may come: else one that takes a byte a minute would keep its seats for ever.
        """
        request, client = self.request, self._client
        is_answering = self.state is ANSWERING
        is_coming = self.state in (CONNECTING, AWAITING) and not self._is_whole
        if not request.attributes.is_plain or not (is_answering or is_coming):
            return False
        since_ns = now_ns - self._moved_ns
        moved = self._request_bytes + self._body_bytes - self._moved_bytes
        least = 0
        if is_answering and client.is_write_paused:
            least = self._context.in_force.min_body_rate_bytes
        if moved and moved * 1_000_000_000 >= least * since_ns:
            self._begin_flow(now_ns)
            return True
        left_ns = request.timeout_ns - since_ns
        client.deadline_ns = now_ns + min(left_ns, request.timeout_ns // FLOW_LOOKS)
        return left_ns > 0

    # The end.

    def on_client_left(self) -> None:
        """The client is gone: so is its interest in the answer."""
        why = LEFT_WHERE.get(self.state, "the client left")
        self._leave(Failure.CANCELLED, self._status, self._status, why)

    def on_malformed(self, code: int) -> None:
        """The body breaks off; the client gets `code` if it has no answer yet, and is done with."""
        if self.has_responded:
            self._leave(Failure.MALFORMED, self._status, self._status, MALFORMED_BODY)
        else:
            self._leave(Failure.MALFORMED, code, 0, MALFORMED_BODY)

    def _leave(self, reason: Failure, status: int, upstream_status: int, why: str) -> None:
        context = self._context
        context.counters.client_aborts += 1
        if self.state is DONE:
            return  # a tunnel that the client's end has ended
        now_ns = context.clock.now_ns()
        self.state = BREAK[self.state]
        self._log(now_ns, status, upstream_status, self._sent_bytes, reason, why)
        if not self._abandon(now_ns):
            self._drop_upstream()
            self._give_back(now_ns, has_left=True)

    def _reply_status(
        self,
        code: int,
        message: str,
        reason: Failure | RejectReason,
        lines: bytes = b"",
        why: str | None = None,
    ) -> None:
        attributes = self.request.attributes
        build = partial(own_responses.status_response, code, message)
        if attributes.is_plain:
            accept = self.request.header("Accept")
            build = partial(own_responses.plain_response, code, message, accept)
        elif code in own_responses.SHOWN_AS_TEXT and (
            not attributes.is_resource_request
            or "proxy" in (attributes.verb, attributes.subresource)
        ):
            build = partial(own_responses.plain_response, code, message)
        self._reply(code, build, reason, lines, message if why is None else why)

    def _reply(
        self,
        code: int,
        build: Callable[..., bytes],
        reason: Failure | RejectReason,
        lines: bytes = b"",
        why: str = "",
    ) -> None:
        """Answer without the upstream; `why` is for the access log."""
        context, client = self._context, self._client
        now_ns = context.clock.now_ns()
        self.state = REPLY[self.state]
        self._leave_upstream(now_ns)
        context.counters.count_own(code)
        extra = lines + self._audit_line() + self._class_lines(now_ns, reason)
        size = client.send_own(self.head, build, extra)
        self._log(now_ns, code, 0, size, reason, why)
        client.on_exchange_end(self, now_ns)

    # What it holds.

    def _hold(self) -> bool:
        """Have what waits of the request counted; where there is no room for it, refuse it."""
        bound = self._client.hold(self.head.kept_bytes + len(self._held))
        if bound is None:
            return True
        client, why = self._client, UNHELD[bound]
        if client.can_refuse:
            now_ns = self._context.clock.now_ns()
            self.state = REPLY[self.state]
            self._leave_upstream(now_ns)
            self._log(now_ns, 0, 0, 0, Failure.MEMORY, why)
            client.refuse_unprocessed(now_ns)
        else:
            message = f"{why}; try again later"
            self._reply_status(503, message, Failure.MEMORY, b"Retry-After: 1\r\n", why)
        return False

    def _class_lines(self, now_ns: int, reason: str = "") -> bytes:
        """The header lines that name its class.

        Those who are told more, see `debug_headers`, get that with it.
        """
        context, request, found = self._context, self.request, self.passage.classification
        if found is None:
            return b""
        lines, audience = request.class_lines(found), context.audience
        if not audience.is_empty and audience.has(request.user):
            return lines + debug_lines(self.passage, now_ns, reason)
        return lines

    def _audit_line(self) -> bytes:
        """The header line of the client's Audit-ID, or of one that is made for the request."""
        if self._made_line:
            return self._made_line
        block = self.head.block
        own = block.audit_line
        if own is None:
            audit_id = self.request.header("Audit-ID")
            own = block.audit_line = audit_line(audit_id) if audit_id else b""
        if not own:
            own = self._made_line = next(self._context.audit_lines)
        return own

    def _leave_upstream(self, now_ns: int) -> None:
        """Give up the answer, and all that the request holds."""
        if not self._abandon(now_ns):
            self._drop_upstream()
            self._give_back(now_ns)

    def _abandon(self, now_ns: int) -> bool:
        """Keep the seats while the upstream may still work, where the settings say so."""
        context, upstream, passage = self._context, self._upstream, self.passage
        if not context.in_force.abandoned_wait_ns or upstream is None or not passage.has_seats:
            return False
        self._upstream = None
        self._client.hold(0)
        self._end_watch()
        passage.leave_to_upstream(now_ns)
        AbandonedResponse(context, self.head, upstream, passage, is_watch=self.request.is_watch)
        return True

    def _drop_upstream(self) -> None:
        """Give up the connection to the upstream, or the wait for one, or the authentication."""
        if self._authentication is not None:
            self._authentication.cancel()
            self._authentication = None
        upstream = self._upstream
        if upstream is None:
            self._context.pool.leave(cast("PoolWaiter", self))  # it may be in line
        else:
            self._upstream = None
            upstream.abort()

    def _give_back(self, now_ns: int, *, has_left: bool = False) -> None:
        """Give back all that the request holds but its connections."""
        if self._client.held:
            self._client.hold(0)
        if self._watch is not None:
            self._end_watch()
        if self._slow_level:
            self._context.slow_readers.release(self._slow_level)
            self._slow_level = ""
        if has_left:
            self.passage.cancel(now_ns)
        else:
            self.passage.release(now_ns)

    def _count_failed(self) -> None:
        """Count a request that had seats for nothing: the upstream failed it."""
        passage = self.passage
        if passage.ticket is not None and passage.refusal is None:
            found = passage.classification
            assert found is not None
            found.level.failed_total += 1

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
        context.slow_readers.watched.pop(cast("Watched", self), None)
        with contained(Part.CONNECTION, loop):
            if was is not DONE:
                status = self._status
                self._log(
                    context.clock.now_ns(), status, status, self._sent_bytes, Failure.INTERNAL
                )
        with contained(Part.CONNECTION, loop):
            self._drop_upstream()
        if self.passage.state is not ABANDONED:  # else its seats are the upstream's
            with contained(Part.CONNECTION, loop):
                self._give_back(context.clock.now_ns(), has_left=True)

    # The access log.

    @property
    def _sent_bytes(self) -> int:
        """Of the answer's body, so far."""
        return self._body_bytes if self._tunnel is None else self._tunnel.bytes_to_client

    def _finish(self, event: ExchangeEvent, now_ns: int, reason: str, why: str = "") -> None:
        """Be done with the upstream's answer, and have it in the access log."""
        self.state = event[self.state]
        status = self._status
        self._log(now_ns, status, status, self._sent_bytes, reason, why)

    def _log(
        self,
        now_ns: int,
        status: int,
        upstream_status: int,
        body_bytes: int,
        reason: str,
        why: str = "",
    ) -> None:
        """Have the request in the access log, and what is traced of it in its trace.

        Args:
            now_ns: The time.
            status: Sent to the client; 0 for none.
            upstream_status: The upstream's; likewise.
            body_bytes: The length of the answer's body.
            reason: Why it was rejected or failed; "" if it was not.
            why: The same in words, beside why it waited.
        """
        access_log, tracer, trace = self._context.access_log, self._context.tracer, self._trace
        passage = self.passage
        ticket = passage.ticket
        if tracer is not None and not self._sent_ns and ticket is None and passage.refusal is None:
            trace = tracer.begin(self.request)  # it has not asked for seats
        if access_log is None and trace is None:
            return
        if not reason and passage.refusal is not None:
            # The line has the upstream's answer, and why there would have been none.
            reason, why = passage.refusal.reason, passage.refusal.message
        if ticket is None:
            seats, asked_ns = passage.seats, self._sent_ns or now_ns
        else:
            seats, asked_ns = ticket.estimate.max_seats, self.asked_ns
        address = self.head.fields.address or self._client.address
        why = "; ".join(filter(None, (why, self._why)))
        if access_log is not None:
            members = text_of_server(self._endpoint_name)
            if trace is not None:
                members += text_of_trace(trace.trace_id)
            access_log.take(
                self.request,
                passage.classification,
                address,
                self._begun_ns,
                asked_ns,
                self._sent_ns,
                now_ns,
                seats,
                status,
                upstream_status,
                body_bytes,
                reason,
                self._made_line,
                why,
                members,
            )
        if trace is not None and tracer is not None:
            trace.end(
                passage.classification,
                address,
                self._begun_ns,
                asked_ns,
                self._sent_ns,
                now_ns,
                seats,
                status,
                body_bytes,
                reason,
                self._made_line,
                why,
            )
            tracer.take(trace)

    def __repr__(self) -> str:
        return f"<Exchange {self.head!r}, {self.state}, {self.passage.state}>"
