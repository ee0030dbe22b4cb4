"""Which requests are traced, and what is known of one until its spans are made.

As in kube-apiserver the traceparent of those who are believed decides, and of all other requests a
part is drawn, whose trace begins here.  A traced request tells the server behind that its parent is
the span of its own attempt there.  Any other goes on as it came.

Sources: W3C Trace Context, sections 3.2 and 4; kubernetes/apiserver, `endpoints/filters/traces.go`;
kubernetes/component-base, `tracing/utils.go`.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.debug_headers import Audience
from apfproxy.proxy.traces import read_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.request import Request
    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.settings import TracingSettings

_TRACE_BITS: Final = 128
SPAN_BITS: Final = 64
_SAMPLED: Final = 1
_PER_MILLION: Final = 1_000_000
_PARENT: Final = re.compile(rb"^traceparent:[^\r\n]*\r\n", re.MULTILINE | re.IGNORECASE)
_PARENT_AND_STATE: Final = re.compile(
    rb"^trace(?:parent|state):[^\r\n]*\r\n", re.MULTILINE | re.IGNORECASE
)


class Attempt:
    """A request as one endpoint had it.

    Attributes:
        server: Its URL.
        sent_ns, answered_ns: When it was sent, and the head of the response came; 0 before.
        ended_ns: When it failed; 0 for the one that the request ends with.
        problem: Why it failed; "" if it did not.
    """

    __slots__ = ("answered_ns", "ended_ns", "problem", "sent_ns", "server", "span_id", "status")

    def __init__(self, server: str, sent_ns: int) -> None:
        self.span_id = new_id(SPAN_BITS)
        self.server = server
        self.sent_ns = sent_ns
        self.answered_ns = 0
        self.ended_ns = 0
        self.status = 0
        self.problem = ""


class RequestTrace:
    """What the spans of one request are made of.

    Attributes:
        parent_id: The span of the client that it is a child of; 0 if the trace begins here.
        link: The client's traceparent, if that is not believed; else "".
        record: The request as it ended; None before.
    """

    __slots__ = ("attempts", "link", "parent_id", "record", "request", "span_id", "trace_id")

    def __init__(self, request: Request, trace_id: int, parent_id: int, link: str) -> None:
        self.request = request
        self.trace_id = trace_id
        self.span_id = new_id(SPAN_BITS)
        self.parent_id = parent_id
        self.link = link
        self.attempts: list[Attempt] = []
        self.record: RequestRecord | None = None

    def send(self, head: bytes, server: str, now_ns: int) -> bytes:
        """Begin an attempt: the head to forward, with its span as the parent."""
        attempt = Attempt(server, now_ns)
        self.attempts.append(attempt)
        # The state is the client's trace's.
        gone = _PARENT if self.parent_id else _PARENT_AND_STATE
        line = b"Traceparent: 00-%032x-%016x-%02x\r\n" % (self.trace_id, attempt.span_id, _SAMPLED)
        return b"".join((gone.sub(b"", head)[:-2], line, b"\r\n"))

    def answered(self, status: int, now_ns: int) -> None:
        attempt = self.attempts[-1]
        attempt.status = status
        attempt.answered_ns = now_ns

    def failed(self, problem: str, now_ns: int) -> None:
        attempt = self.attempts[-1]
        attempt.problem = problem
        attempt.ended_ns = now_ns


class Tracer:
    """Decides which requests of one cluster are traced; `take` gets those that are over."""

    __slots__ = ("_parents", "_rate", "take")

    def __init__(self, settings: TracingSettings, take: Callable[[RequestTrace], None]) -> None:
        self._parents = Audience(settings.parents_from)
        self._rate = settings.sampling_rate_per_million / _PER_MILLION
        self.take = take

    def begin(self, request: Request) -> RequestTrace | None:
        """The trace of an authenticated request; None if it is not traced."""
        head = request.head
        block = request.block
        parent = block.traceparent
        if parent is None:
            parent = block.traceparent = read_traces(head.forwarded_fields).traceparent
        if parent and self._parents.has(request.user):
            _, trace_id, span_id, flags = parent.split("-")
            if not int(flags, 16) & _SAMPLED:
                return None
            return RequestTrace(request, int(trace_id, 16), int(span_id, 16), "")
        if self._rate == 0 or random.random() >= self._rate:  # noqa: S311 - a sample, not a secret
            return None
        return RequestTrace(request, new_id(_TRACE_BITS), 0, parent)


def new_id(bits: int) -> int:
    """A random ID, never 0: that stands for none."""
    return random.getrandbits(bits) or 1
