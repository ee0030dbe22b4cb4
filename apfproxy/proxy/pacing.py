"""Responses of flows with a rate of bytes, `apfproxy.io/bytes-per-second`.

1. The bucket of the flow pays for what goes to the client, of bodies and of tunnels, and so comes
   to owe.  What is read while it does, or while others wait, is held, and the upstream is paused:
   at most a tenth of a second's bytes, or a few more.  A head that says that it has no body passes.
2. Those of a flow that hold a read stand in a line.  Whenever the bucket owes nothing, the first
   passes its read on; with the next one it goes to the end of the line.
3. A response that waits keeps its seats.  The time counts for no deadline, nor as its server's.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakValueDictionary

from apfproxy.base.faults import guarded
from apfproxy.http.read_buffer import ANSWER_READ_BYTES, READS

if TYPE_CHECKING:
    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.flow_limits import FlowLimits
    from apfproxy.flowcontrol.ticket import Flow
    from apfproxy.upstream.endpoint import UpstreamConnection
    from apfproxy.upstream.response_sink import ResponseSink

READS_PER_S: Final = 10
LEAST_READ_BYTES: Final = 1024
MOST_READ_BYTES: Final = ANSWER_READ_BYTES // 2
"""An abandoned response reads on: it may hold two."""
LEAST_PAUSE_NS: Final = 1_000_000
LONGEST_PAUSE_NS: Final = 1_000_000_000  # the rate may be another one by then
MOST_TURNS: Final = 16
"""Reads passed on in one call, where a millisecond is worth several."""

_NO_BODY: Final = re.compile(rb"HTTP/1\.[01] (?:1|204|304)")


class Pacing:
    """The responses of a cluster that are paced; a line is kept as long as one is of its flow."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.responses: dict[ResponseSink, PacedReads] = {}
        self._lines: WeakValueDictionary[tuple[FlowLimits, str], Line] = WeakValueDictionary()

    def begin(
        self, response: ResponseSink, upstream: UpstreamConnection, found: Classification
    ) -> None:
        limits, flow = found.limits, found.flow
        if limits is None or limits.byte_rate is None:
            return
        line = self._lines.get((limits, flow.distinguisher))
        if line is None:
            line = self._lines[limits, flow.distinguisher] = Line(self, limits, flow)
        self.responses[response] = reads = PacedReads(line, response, upstream)
        upstream.transport.set_protocol(reads)
        # TLS would read on while it is paused, and throw that away if the end is there by then.
        if hasattr(upstream.transport, "set_read_buffer_limits"):
            upstream.transport.set_read_buffer_limits(high=1)


class Line:
    """The responses of a flow that hold a read, in their order."""

    def __init__(self, pacing: Pacing, limits: FlowLimits, flow: Flow) -> None:
        self.responses = pacing.responses
        self.clock = pacing.clock
        self.limits = limits
        self.flow = flow
        self.waiting: dict[PacedReads, None] = {}
        self._is_armed = False

    def owed_ns(self) -> int:
        """In how many nanoseconds the bucket owes nothing."""
        rate = self.limits.byte_rate
        return 0 if rate is None else rate.missing_ns(self.flow.distinguisher, self.clock.now_ns())

    def arm(self) -> None:
        if self.waiting and not self._is_armed:
            self._is_armed = True
            pause_ns = min(max(self.owed_ns(), LEAST_PAUSE_NS), LONGEST_PAUSE_NS)
            self.clock.call_at(self.clock.now_ns() + pause_ns, self._on_timer)

    def _on_timer(self) -> None:
        self._is_armed = False
        self.arm()
        for _ in range(MOST_TURNS):
            if not self.waiting or self.owed_ns():
                return
            next(iter(self.waiting)).pass_on()  # which raises nothing


class PacedReads(asyncio.BufferedProtocol):
    """Stands between the transport and what reads a response; `held` is b"" while none waits."""

    def __init__(self, line: Line, response: ResponseSink, upstream: UpstreamConnection) -> None:
        self._line = line
        self._response = response
        self._upstream = upstream
        self._reader: UpstreamConnection | asyncio.BufferedProtocol = upstream
        self._sent_bytes = self._waited_ns = 0
        self._seen_ns = 0  # when it was last seen to wait
        self.held = b""

    def take_waited_ns(self) -> int:
        """For how long it has waited since this was asked last."""
        if self.held:
            since_ns, self._seen_ns = self._seen_ns, self._line.clock.now_ns()
            self._waited_ns += self._seen_ns - since_ns
            self._line.flow.counters.paced_ns += self._seen_ns - since_ns
        waited_ns, self._waited_ns = self._waited_ns, 0
        return waited_ns

    @guarded
    def pass_on(self) -> None:
        """Leave the line, and go on."""
        self._waited_ns = self.take_waited_ns()
        self._line.waiting.pop(self, None)
        held, self.held = self.held, b""
        if not self._upstream.is_closed:
            self._upstream.resume_reading()  # before another request may have the connection
            READS.view[: len(held)] = held
            self._reader.buffer_updated(len(held))
            self._settle()

    def fail(self, error: Exception) -> None:
        self._line.waiting.pop(self, None)
        self._upstream.fail(error, self._response)

    def _settle(self) -> None:
        """Have the flow pay for what was sent; and read on, until the response is through."""
        response, upstream, line = self._response, self._upstream, self._line
        transport, rate = upstream.transport, line.limits.byte_rate
        size = response.sent_bytes - self._sent_bytes
        if rate is not None and size:
            rate.correct(line.flow.distinguisher, line.clock.now_ns(), size)
        self._sent_bytes += size
        if upstream.tunnelled is response:
            if self._reader is upstream:
                self._reader = cast("asyncio.BufferedProtocol", transport.get_protocol())
                transport.set_protocol(self)
        elif upstream.sink is not response:
            line.responses.pop(response, None)
            # Another request may have the connection by now, and be paced as well.
            if not upstream.is_closed and transport.get_protocol() is self:
                transport.set_protocol(cast("asyncio.BufferedProtocol", upstream))

    # What the transport says.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the protocol's signature
        rate = self._line.limits.byte_rate
        size = MOST_READ_BYTES if rate is None else round(rate.rate / READS_PER_S)
        return READS.view[: min(max(size, LEAST_READ_BYTES), MOST_READ_BYTES)]

    @guarded
    def buffer_updated(self, nbytes: int) -> None:
        line, data = self._line, READS.view[:nbytes]
        must_wait = self.held or line.waiting or line.owed_ns()
        if not must_wait or (not self._sent_bytes and _NO_BODY.match(data)):
            self._reader.buffer_updated(nbytes)
            self._settle()
            return
        self._upstream.pause_reading()
        if not self.held:
            self._seen_ns = line.clock.now_ns()
            line.waiting[self] = None
            line.arm()
        self.held += data

    def pause_writing(self) -> None:
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        self._reader.resume_writing()

    def eof_received(self) -> bool | None:
        if self.held:  # TLS says it at once
            self.pass_on()
        return self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.held:
            self.pass_on()
        self._reader.connection_lost(exc)
        self._settle()
