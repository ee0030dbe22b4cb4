"""The spans of a traced request, by OpenTelemetry's semantic conventions of HTTP.

    GET /api/v1/namespaces/{:namespace}/pods    all of it, named as in kube-apiserver
      receive       its body, or its authentication, was waited for
      queue         it waited for seats
      upstream      it had its seats: a connection to a server behind, and the answer

Never in a span: credentials, cookies, bodies, and of the query anything but what Kubernetes' API
gives a meaning.  Every text is cut to a bound.  Times are those of the process's clock.

Sources: OpenTelemetry's semantic conventions 1.37, HTTP spans; kubernetes/apiserver,
`endpoints/filters/traces.go`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from apfproxy.http.request_fields import HTTP_1_0, HTTP_1_1, HTTP_2
from apfproxy.proxy.log_lines import MAX_PATH, PARAMETERS
from apfproxy.proxy.log_lines import cut as text
from apfproxy.proxy.request_record import Failure
from apfproxy.proxy.traces import MAX_AUDIT_ID, made_id, read_traces
from apfproxy.proxy.tracing import SPAN_BITS, Attempt, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.proxy.request import Request
    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.proxy.tracing import RequestTrace
    from apfproxy.request.attributes import RequestAttributes

SERVER, CLIENT, INTERNAL = "server", "client", "internal"
"""Kinds of spans."""

RECEIVE, QUEUE, UPSTREAM = "receive", "queue", "upstream"
"""Their names, but for that of the request's own."""

SENT, ANSWERED = "request sent", "answer begun"
"""Events of the last of these."""

MAX_WHY: Final = 1024

_METHODS: Final = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
)
_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_VERSIONS: Final = {HTTP_1_0: "1.0", HTTP_1_1: "1.1", HTTP_2: "2"}
_STATE: Final = re.compile(rb"^tracestate:[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_PROTO: Final = re.compile(
    rb"^x-forwarded-proto:[ \t]*(https?)[ \t]*\r", re.MULTILINE | re.IGNORECASE
)
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<address>[^]]*)\]|(?P<name>[^:]*))(?::(?P<port>[0-9]{0,5}))?"
)

Value = str | int


class Span(NamedTuple):
    """One span of a trace.

    Attributes:
        name, kind: As above.
        span_id, parent_id: Its own ID, and that of the span that it is a part of; 0 for none.
        begun_ns, ended_ns: By the process's clock.
        attributes: By their names in the conventions.
        events: Names and times.
        problem: What went wrong, in words; None if nothing did.
    """

    name: str
    kind: str
    span_id: int
    parent_id: int
    begun_ns: int
    ended_ns: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, int], ...] = ()
    problem: str | None = None


def spans_of(trace: RequestTrace, cluster: str = "") -> list[Span]:
    """All spans of a request that is over, its own first.

    Args:
        trace: The request.
        cluster: Whose request it is; "" where there are not several.
    """
    record = trace.record
    assert record is not None
    begun_ns = record.begun_ns or record.asked_ns
    own = Span(
        name=_name(trace.request),
        kind=SERVER,
        span_id=trace.span_id,
        parent_id=trace.parent_id,
        begun_ns=begun_ns,
        ended_ns=record.ended_ns,
        attributes=_attributes(trace, record, cluster),
        problem=_problem(record),
    )
    steps = (
        (RECEIVE, begun_ns, record.asked_ns),
        (QUEUE, record.asked_ns, record.sent_ns or record.ended_ns),
    )
    waits = [
        Span(name, INTERNAL, new_id(SPAN_BITS), trace.span_id, start_ns, end_ns, {})
        for name, start_ns, end_ns in steps
        if end_ns > start_ns
    ]
    return [own, *waits, *_upstream_spans(trace, record)]


def trace_state(trace: RequestTrace) -> list[str]:
    """The values of the client's tracestate, if its trace goes on."""
    if not trace.parent_id:
        return []
    lines = trace.request.head.forwarded_fields
    return [value.decode(errors="replace") for value in _STATE.findall(lines)]


def _name(request: Request) -> str:
    method, attributes = _method(request), request.attributes
    return f"{method} {_route(attributes)}" if attributes.is_resource_request else method


def _method(request: Request) -> str:
    return request.head.method if request.head.method in _METHODS else "HTTP"


def _route(attributes: RequestAttributes) -> str:
    """The path of a request for a resource, without the names in it."""
    parts = [
        attributes.api_prefix,
        attributes.api_group,
        attributes.api_version,
        "namespaces/{:namespace}" if attributes.namespace else "",
        attributes.resource,
        "{:name}" if attributes.name else "",
        attributes.subresource,
    ]
    return text(f"/{'/'.join(filter(None, parts))}")


def _attributes(trace: RequestTrace, record: RequestRecord, cluster: str) -> dict[str, Value]:
    request, found = trace.request, record.classification
    head, asked = request.head, request.attributes
    fields = head.forwarded_fields
    traces, proto = read_traces(fields), _PROTO.search(fields)
    host, port = _split_authority((head.fields.host or b"").decode(errors="replace"))
    audit_id = traces.audit_id or (made_id(record.audit_line) if record.audit_line else "")
    attributes: dict[str, Value] = {
        **_method_attributes(head.method),
        "url.scheme": "http" if proto is None else proto[1].decode().lower(),
        "url.path": text(asked.path, MAX_PATH),
        "url.query": _query(asked.query),
        "http.route": _route(asked) if asked.is_resource_request else "",
        "http.response.status_code": record.status,
        "http.response.body.size": record.body_bytes,
        "error.type": _error_type(record),
        "server.address": text(host),
        "server.port": port,
        "client.address": record.client_address,
        "network.protocol.version": _VERSIONS[head.fields.protocol],
        "user_agent.original": text(traces.user_agent),
        "enduser.id": text(record.user.name) if record.user is not None else "",
        "audit-id": text(audit_id, MAX_AUDIT_ID),
        "apf.cluster": cluster,
        "apf.verb": text(asked.verb),
        "apf.seats": record.seats,
        "apf.reason": str(record.reason),
        "apf.why": text(record.why, MAX_WHY),
    }
    if found is not None:
        attributes["apf.flow_schema"] = found.flow.counters.flow_schema
        attributes["apf.priority_level"] = found.level.name
        attributes["apf.flow"] = text(found.flow.distinguisher)
    return _said(attributes)


def _method_attributes(method: str) -> dict[str, Value]:
    if method in _METHODS:
        return {"http.request.method": method}
    return {"http.request.method": "_OTHER", "http.request.method_original": text(method)}


def _problem(record: RequestRecord) -> str | None:
    """What went wrong with the request as a whole; a client's error is none."""
    is_broken = record.status < _FIRST_ERROR and isinstance(record.reason, Failure)
    if is_broken or record.status >= _FIRST_SERVER_ERROR:
        return text(record.why, MAX_WHY)
    return None


def _error_type(record: RequestRecord) -> str:
    if _problem(record) is None:
        return ""
    return str(record.reason) or str(record.status)


def _upstream_spans(trace: RequestTrace, record: RequestRecord) -> list[Span]:
    """Those of the attempts to have it answered, of which the last may have found no server."""
    if not record.sent_ns:
        return []
    attempts = list(trace.attempts)
    if not attempts or attempts[-1].ended_ns:
        attempts.append(Attempt("", 0))
    spans, begun_ns = [], record.sent_ns
    for number, attempt in enumerate(attempts):
        ended_ns = attempt.ended_ns or record.ended_ns
        error_type, problem = _outcome(attempt, record)
        attributes = _upstream_attributes(trace.request, attempt)
        attributes["http.request.resend_count"] = number
        attributes["error.type"] = error_type
        events = ((SENT, attempt.sent_ns), (ANSWERED, attempt.answered_ns))
        spans.append(
            Span(
                name=UPSTREAM,
                kind=CLIENT,
                span_id=attempt.span_id,
                parent_id=trace.span_id,
                begun_ns=begun_ns,
                ended_ns=ended_ns,
                attributes=_said(attributes),
                events=tuple(each for each in events if each[1]),
                problem=problem,
            )
        )
        begun_ns = ended_ns
    return spans


def _outcome(attempt: Attempt, record: RequestRecord) -> tuple[str, str | None]:
    """What became of an attempt: the type of the error, and the error in words; None for none."""
    if attempt.ended_ns:
        return str(Failure.UPSTREAM), text(attempt.problem, MAX_WHY)
    if attempt.status >= _FIRST_ERROR:
        return str(attempt.status), ""
    if not attempt.answered_ns or _problem(record) is not None:
        return str(record.reason), text(record.why, MAX_WHY)
    return "", None


def _upstream_attributes(request: Request, attempt: Attempt) -> dict[str, Value]:
    attributes = _method_attributes(request.head.method)
    host, port = _split_authority(urlsplit(attempt.server).netloc)
    attributes["server.address"] = host or attempt.server.removeprefix("unix:")
    attributes["server.port"] = port
    if host:
        path = quote(request.attributes.path, safe="/:@!$&'()*+,;=~", errors="replace")
        attributes["url.full"] = text(attempt.server + path, MAX_PATH)
    attributes["http.response.status_code"] = attempt.status
    return attributes


def _query(query: Mapping[str, tuple[str, ...]]) -> str:
    """As the access log has it: the first values of parameters that have no secrets."""
    shown = [
        (name, text(values[0], most))
        for name, most in PARAMETERS.items()
        if (values := query.get(name))
    ]
    return urlencode(shown)


def _split_authority(authority: str) -> tuple[str, int]:
    """The host, without brackets, and the port of an authority; 0 for none."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return authority, 0
    return found["address"] or found["name"], int(found["port"] or 0)


def _said(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Those that say anything."""
    return {name: value for name, value in attributes.items() if value}
