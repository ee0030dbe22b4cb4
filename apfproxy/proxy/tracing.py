"""Traces of requests, and the Audit-IDs by which the logs of others know them.

As in kube-apiserver the traceparent of clients that are believed decides, and of all other requests
a part is drawn.  A traced request tells the upstream that its parent is the span of its own attempt
there.  A request without an Audit-ID is given one where the access log wants it.

Sources: W3C Trace Context, sections 3.2 and 4; kubernetes/apiserver, `endpoints/filters/traces.go`,
`endpoints/filters/audit_init.go` and `audit/context.go`; kubernetes/component-base,
`tracing/utils.go`.
"""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.proxy.reasons import Audience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.proxy.request import Request
    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.settings import TracingSettings

MAX_AUDIT_ID: Final = 64
"""Characters of an Audit-ID in a log, as in kube-apiserver's; header fields have all of it."""

_NAME: Final = b"Audit-Id: "
_END: Final = b"\r\n"
_LINE_ENDS: Final = tuple(b"%02x%b" % (number, _END) for number in range(256))
BATCH: Final = len(_LINE_ENDS)

_FIELDS: Final = re.compile(
    rb"^(audit-id|traceparent|user-agent):[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE
)
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.*)?"
)
_LENGTH: Final = 55
"""Length of a traceparent of version 0, and the known part of later versions."""
SPAN_BITS: Final = 64
_SAMPLED: Final = 1
_PARENT: Final = re.compile(rb"^traceparent:[^\r\n]*\r\n", re.MULTILINE | re.IGNORECASE)
_PARENT_AND_STATE: Final = re.compile(
    rb"^trace(?:parent|state):[^\r\n]*\r\n", re.MULTILINE | re.IGNORECASE
)


class Traces(NamedTuple):
    """Values of fields; "" for those that are not there, or malformed."""

    audit_id: str
    traceparent: str
    user_agent: str


def read_traces(fields: bytes) -> Traces:
    """Read the lines of header fields; the first of a name counts, several traceparents do not."""
    found: dict[bytes, list[bytes]] = {b"audit-id": [], b"traceparent": [], b"user-agent": []}
    for name, value in _FIELDS.findall(fields):
        found[name.lower()].append(value)
    audit_ids, parents, agents = found.values()
    match = _TRACEPARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    is_proper = match is not None and not (match["more"] and parents[0].startswith(b"00-"))
    return Traces(
        audit_ids[0].decode(errors="replace") if audit_ids else "",
        parents[0][:_LENGTH].decode() if is_proper else "",
        agents[0].decode(errors="replace") if agents else "",
    )


def made_audit_lines() -> Iterator[bytes]:
    """Make header lines of new Audit-IDs; the IDs of a batch differ in their last digits only."""
    while True:
        text = os.urandom(16).hex()
        audit_id = f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:30]}"
        start = _NAME + audit_id.encode()
        for end in _LINE_ENDS:
            yield start + end


def made_id(line: bytes) -> str:
    return line[len(_NAME) : -len(_END)].decode()


class Attempt:
    """A request as one endpoint had it.

    `ended_ns` is when it failed; 0 for the one that the request ends with.
    """

    def __init__(self, server: str, sent_ns: int) -> None:
        self.span_id = new_id(SPAN_BITS)
        self.server = server
        self.sent_ns = sent_ns
        self.answered_ns = 0
        self.ended_ns = 0
        self.status = 0
        self.problem = ""


class RequestTrace:
    """The parts from which the spans of one request are made.

    `parent_id` is the client's span, or 0; `link` its traceparent if that is not believed, or "".
    """

    def __init__(self, request: Request, trace_id: int, parent_id: int, link: str) -> None:
        self.request = request
        self.trace_id = trace_id
        self.span_id = new_id(SPAN_BITS)
        self.parent_id = parent_id
        self.link = link
        self.attempts: list[Attempt] = []
        self.record: RequestRecord | None = None

    def send(self, head: bytes, server: str, now_ns: int) -> bytes:
        """Begin an attempt, and make the head to forward, with its span as the parent."""
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

    def __init__(self, settings: TracingSettings, take: Callable[[RequestTrace], None]) -> None:
        self._parents = Audience(settings.parents_from)
        self._rate = settings.sampling_rate_per_million / 1_000_000
        self.take = take

    def begin(self, request: Request) -> RequestTrace | None:
        """Begin the trace of an authenticated request; None if it is not traced."""
        block = request.block
        parent = block.parent
        if parent is None:
            parent = block.parent = read_traces(request.head.forwarded_fields).traceparent
        if parent and self._parents.has(request.user):
            _, trace_id, span_id, flags = parent.split("-")
            if not int(flags, 16) & _SAMPLED:
                return None
            return RequestTrace(request, int(trace_id, 16), int(span_id, 16), "")
        if self._rate == 0 or random.random() >= self._rate:  # noqa: S311 - a sample, not a secret
            return None
        return RequestTrace(request, new_id(128), 0, parent)


def new_id(bits: int) -> int:
    return random.getrandbits(bits) or 1
