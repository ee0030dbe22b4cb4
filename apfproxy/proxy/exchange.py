"""One request and its answer, from its head to the end of the last byte.

An exchange stands between a client and, while it has one, a connection to the upstream.  Where it
stands is its `state`, and `exchange_state` says what can happen there; its passage through flow
control has a state of its own.  A request that fits passes through `start`, `_ask_for_seats`,
`on_connection`, `on_response` and `_end` as plain calls, inside the events that brought its bytes.

Three files, each of which only calls the ones before it: `exchange_base` has all that an exchange
holds and how it ends, `forwarding` the upstream's side, this one the request until it has its
seats.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from apfproxy.authn.authenticator import FOREVER_NS, Refusal
from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.http.request_fields import SIZED
from apfproxy.proxy import own_responses
from apfproxy.proxy.exchange_state import (
    AUTHENTICATE,
    AUTHENTICATING,
    AWAITING,
    BREAK,
    CONNECTING,
    GATHER,
    GATHERING,
    QUEUE,
)
from apfproxy.proxy.forwarding import Forwarding
from apfproxy.proxy.request_log import Failure
from apfproxy.upstream.counters import UpstreamFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.authenticator import Authentication, Authenticator
    from apfproxy.http.read_buffer import Piece

_UNAUTHORIZED, _UNAVAILABLE = 401, 503
_TELLING_NS: Final = 5_000_000_000
"""A client may give the server less time to answer; that tells nothing of the server."""

OUT_OF_TIME = "its time was over before the end of the answer"
STOOD_STILL = "the answer stood still (downstream.requestTimeout)"


class Exchange(Forwarding):
    """One request and its answer."""

    __slots__ = ()

    # The request.

    def start(self) -> None:
        """Admit, queue or refuse the request."""
        if self.head.size > self._context.holdings.free_bytes and not self._hold():
            return
        until_ns = self.request.authenticated_until_ns
        # An authentication that does not expire costs no look at the clock, which takes 0.1 us.
        if (
            until_ns == FOREVER_NS
            or until_ns > self._context.clock.now_ns()
            or self._authenticate()
        ) and (self._is_whole or not self._gathers()):
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
            or len(self._held) >= self._context.in_force.gathered_body_bytes
        ):
            return False
        self.state = GATHER[self.state]
        if self._hold_up():
            self._context.slow_readers.watched[self] = None
        return True

    def _hold_up(self) -> bool:
        """Wait for something before seats can be asked for; whether there is room for that."""
        now_ns = self._context.clock.now_ns()
        self._client.deadline_ns = now_ns + self.request.timeout_ns
        if self._context.access_log is not None or self._context.tracer is not None:
            self._begun_ns = self._begun_ns or now_ns
        return self._hold()

    def on_request_body(self, pieces: Sequence[Piece], *, is_last: bool) -> None:
        """Take a further part of the body, framed as it will be forwarded."""
        self._is_whole = is_last
        if is_last and self.state in (CONNECTING, AWAITING):
            self._set_deadline(self._context.clock.now_ns())
        upstream = self._upstream
        if upstream is not None:
            self._request_bytes += upstream.send_pieces(pieces)
            if upstream.is_write_paused:
                self._client.pause_reading()
            return
        # An array: one that comes byte by byte would be copied as often else.
        if type(self._held) is bytes:
            self._held = bytearray(self._held)
        for piece in pieces:
            self._held += piece
            self._request_bytes += len(piece)
        if not self._hold():
            return
        if self.state is not GATHERING:
            if len(self._held) >= self._context.held_bytes:
                self._client.pause_reading()
            return
        is_enough = len(self._held) >= self._context.in_force.gathered_body_bytes
        if is_enough and not is_last:
            self._client.pause_reading()  # until there is a connection to pass it on to
        if is_last or is_enough:
            self._ask_for_seats()

    # Authentication.

    def _authenticate(self) -> bool:
        """Authenticate the client; whether that is done, so that the request may go on."""
        try:
            authenticator = self._context.authenticator
            found = authenticator.authenticate(self._client.peer, self.head.fields.credentials)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is left waiting
            self._reply_to_unauthenticated(error)
            return False
        if found is None:
            self.state = AUTHENTICATE[self.state]
            if self._hold_up():
                self._authentication = spawn(
                    self._authenticate_later(authenticator), name="authenticate a client"
                )
            return False
        return self._take_authentication(found)

    async def _authenticate_later(self, authenticator: Authenticator) -> None:
        """Authenticate the client by asking other servers."""
        try:
            fields = self.head.fields
            found = await authenticator.authenticate_later(
                self._client.peer, fields.credentials, fields.address or self._client.address
            )
        except Exception as error:  # noqa: BLE001 - as above
            self._authentication = None
            self._reply_to_unauthenticated(error)
            return
        self._authentication = None
        try:
            if self._take_authentication(found) and (self._is_whole or not self._gathers()):
                self._ask_for_seats()
        except Exception as error:  # noqa: BLE001 - as in the event that brought the bytes
            self.fail(error)

    def _reply_to_unauthenticated(self, error: Exception) -> None:
        """Let nobody in after a failure of the proxy's own."""
        report(Part.CONNECTION, error, "authenticating a client failed", loop=self._context.loop)
        self._client.keep_alive = False
        self._reply_status(
            500, "the proxy failed to authenticate the client; its log says more", Failure.INTERNAL
        )

    def _take_authentication(self, found: Authentication | Refusal) -> bool:
        if not isinstance(found, Refusal):
            self.request.take_authentication(found)
            return True
        why = f"refused with {found.code}: {found.problem:.500}"
        self._context.refusals.log(logging.INFO, why, "%s", why)
        if self.head.upgrade is not None:
            # What follows may be of the protocol that the client hopes for.
            self._client.keep_alive = False
        reason, lines = Failure.UNAUTHENTICATED, b""
        if found.code == _UNAVAILABLE:
            reason, lines = Failure.AUTHENTICATION_UNAVAILABLE, b"Retry-After: 1\r\n"
        elif found.code == _UNAUTHORIZED:
            lines = self._context.authenticator.challenges
        self._reply_status(found.code, found.message, reason, lines)
        return False

    # Flow control.

    def _ask_for_seats(self) -> None:
        """Admit, queue or refuse a request of somebody known."""
        client, passage, upgrade = self._client, self.passage, self.head.upgrade
        if upgrade is not None:
            # What the client sends next may be of the protocol that it hopes for.
            client.keep_alive = False
        tracer = self._context.tracer
        if tracer is not None:
            self._trace = tracer.begin(self.request)
        goes_on = passage.acquire(self)
        ticket = passage.ticket
        if goes_on:
            context = self._context
            now_ns = context.clock.now_ns() if ticket is None else ticket.arrived_ns
            self._sent_ns = now_ns
            if self._is_whole:
                client.deadline_ns = now_ns + self.request.answer_timeout_ns
            else:
                self._set_deadline(now_ns)
            # `_connect`, in place where it can be.
            upstream = None
            if upgrade is None:
                upstream = context.pool.acquire(is_long=self.request.is_long_running)
            if upstream is None:
                self._connect()
            else:
                self.on_connection(upstream)
        elif ticket is None:
            self._refuse()
        else:
            self.state = QUEUE[self.state]
            if not self._hold():
                return
            if self._context.access_log is not None or self._trace is not None:
                self._why = self._crowd(itself=1)
            client.deadline_ns = ticket.arrived_ns + self.request.timeout_ns

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
            return
        if not self._why and (self._context.access_log is not None or self._trace is not None):
            self._why = self._crowd()
        if self.request.attributes.is_plain:
            lines = b"Retry-After: %d\r\n" % refusal.retry_after_s
            text = own_responses.TOO_MANY_REQUESTS_TEXT
            self._reply_status(429, text, refusal.reason, lines, why="")
        else:
            self._reply(
                429, partial(own_responses.too_many_requests, refusal.retry_after_s), refusal.reason
            )

    def _crowd(self, itself: int = 0) -> str:
        """For the access log: what the request met at its level, of which it is a waiting one."""
        found = self.passage.classification
        assert found is not None
        level = found.level
        waited = level.queue_set.requests_waiting - itself
        in_use = f"{level.queue_set.seats_in_use} of {level.current_limit} seats were in use"
        waiting = "1 request waited" if waited == 1 else f"{waited} requests waited"
        return f"when it came, {in_use} and {waiting}"

    # Time.

    def on_deadline(self) -> None:
        """The request has taken too long, if it does not flow."""
        now_ns = self._context.clock.now_ns()
        if self._flows_on(now_ns):
            return
        if self.has_responded:
            if self._tunnel is not None and self._tunnel.has_left:
                self._tunnel.close()  # its client knows, and does not go
                return
            why = STOOD_STILL if self.request.attributes.is_plain else OUT_OF_TIME
            self._finish(BREAK, now_ns, Failure.DEADLINE, why)
            self._leave_upstream(now_ns)
            self._client.abort()
            return
        if self.state is AWAITING and self._is_whole and self.request.is_long_running:
            self._wait_on()
            return
        upstream = self._upstream
        is_awaited = upstream is not None and not upstream.is_write_paused
        if self.state is GATHERING or (is_awaited and not self._is_whole):
            self._client.keep_alive = False
            self._reply_status(
                408,
                "the request's body did not arrive in time (downstream.requestTimeout)",
                Failure.CLIENT_TIMEOUT,
            )
            return
        if self.state is AUTHENTICATING:
            self._reply_status(
                504, "the client could not be authenticated in time", Failure.AUTHENTICATION_TIMEOUT
            )
            return
        self._count_failed()
        waited_ns = now_ns - self._sent_ns
        waited_s = waited_ns / 1e9
        counters = (
            self._context.counters.pool.unattributed if upstream is None else upstream.endpoint
        )
        counters.fail(
            UpstreamFailure.ANSWER_TIMEOUT,
            f"no answer within {waited_s:.{0 if waited_s >= 2 else 1}f} s",
            is_telling=waited_ns >= min(_TELLING_NS, self._context.in_force.answer_timeout_ns),
        )
        if upstream is not None:
            # Perhaps the upstream's machine is gone.  Then the idle connections of that time are
            # dead, too, and each would cost another request its whole time.
            upstream.endpoint.close_idle(self._sent_ns)
        self._reply_status(504, self._late_text(now_ns), Failure.UPSTREAM_TIMEOUT)

    def _late_text(self, now_ns: int) -> str:
        """What did not come in time, and the settings that would give it more."""
        request, waited_ns = self.request, now_ns - self._sent_ns
        settings = []
        if self._is_whole and waited_ns >= self._context.in_force.answer_timeout_ns:
            settings.append("upstream.answerTimeout")
        begun_ns = self._sent_ns if request.attributes.is_plain else self.asked_ns
        if now_ns - begun_ns >= request.timeout_ns or not settings:
            has_own = bool(request.attributes.query.get("timeout"))
            settings.append("its timeout parameter" if has_own else "downstream.requestTimeout")
        what = "the server did not begin its answer"
        if self._upstream is None:
            what = "there was no connection to the server"
        elif not self._is_whole:
            what = "the server did not take all of the request"
        waited_s = waited_ns / 1e9
        return f"{what} within {waited_s:.{0 if waited_s >= 2 else 1}f} s ({', '.join(settings)})"

    def _wait_on(self) -> None:
        """Let the upstream take as long as it likes, as kube-apiserver does: kubernetes#57708.

        A server that hangs is found by checks and by TCP.  What it may have worked on for so long
        is not sent to another one, and a watch has had its seats for long enough.
        """
        self._client.deadline_ns = 0
        self._may_repeat = False
        if self.request.takes_seats:
            self._release(self._context.clock.now_ns())
