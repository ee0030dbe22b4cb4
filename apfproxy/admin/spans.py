"""The spans of a traced request, by OpenTelemetry's conventions of HTTP, and their exporter.

    GET /api/v1/namespaces/{:namespace}/pods    all of it, named as in kube-apiserver
      receive       its body, or its user, was waited for
      queue         it waited for seats
      upstream      it had its seats: a connection to an endpoint, and the response

Never in a span: credentials, cookies, bodies, and of the query anything but what Kubernetes' API
gives a meaning.  Every text is cut to a bound.  All of this runs in the thread that exports.  Only
`tracing` imports this module: the SDK need not be installed, and takes half a second to import.

Sources: OpenTelemetry's semantic conventions 1.37, HTTP spans; kubernetes/apiserver,
`endpoints/filters/traces.go`.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from http.client import BadStatusLine, RemoteDisconnected
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util import re as env_headers

from apfproxy import __version__
from apfproxy.http.request_fields import HTTP_1_0, HTTP_1_1, HTTP_2
from apfproxy.proxy.request_log import MAX_PATH, PARAMETERS, cut
from apfproxy.proxy.request_record import Failure
from apfproxy.proxy.tracing import MAX_AUDIT_ID, SPAN_BITS, Attempt, made_id, new_id, read_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.proxy.tracing import RequestTrace
    from apfproxy.request.attributes import RequestAttributes

    Attributes = dict[str, str | int]

RECEIVE, QUEUE, UPSTREAM = "receive", "queue", "upstream"
"""Names of spans, but for that of the request's own."""
SENT, ANSWERED = "request sent", "answer begun"
"""Events of the last of these."""
MAX_WHY: Final = 1024

_SCOPE: Final = InstrumentationScope("apfproxy", __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
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

MAX_PROBLEM: Final = 400
FIRST_REDIRECTION: Final = 300
UNKNOWN: Final = "no reason is known"
NO_HTTP: Final = (
    "it does not answer by HTTP/1.1; port 4317 is usually for OTLP over gRPC, 4318 over HTTP"
)

LOGGER = logging.getLogger(trace_exporter.__name__)
"""Where the exporter says what went wrong: of each batch, which would fill the log."""
LOGGER.propagate = False
LOGGER.addHandler(logging.NullHandler())

Traced = tuple["RequestTrace", str]
"""A request, and its cluster; "" where there are not several."""


def hide_values(record: logging.LogRecord) -> bool:
    """Leave out what the SDK cannot read, which may be a token; what is wrong with it stays."""
    record.args = ("(not shown: it may be a credential)",) * len(record.args or ())
    return True


# It quotes a malformed OTEL_EXPORTER_OTLP_HEADERS, such as one with a colon in place of the "=".
logging.getLogger(env_headers.__name__).addFilter(hide_values)


def spans_of(
    trace: RequestTrace, cluster: str, resource: Resource, offset_ns: int
) -> list[ReadableSpan]:
    """All spans of a request that is over, its own first.

    `offset_ns` is the wall clock's, from the process's, by which the request's times are.
    """
    record = trace.record
    assert record is not None
    fields = trace.request.head.forwarded_fields
    # The client's state is of the client's trace.
    states = _STATE.findall(fields) if trace.parent_id else []
    state = TraceState.from_header([each.decode(errors="replace") for each in states])

    def context(span_id: int, *, is_remote: bool = False) -> SpanContext:
        return SpanContext(trace.trace_id, span_id, is_remote, _SAMPLED, state)

    def span(
        name: str,
        kind: SpanKind,
        times_ns: tuple[int, int],
        attributes: Attributes,
        problem: str | None = None,
        span_id: int = 0,
        events: Iterable[tuple[str, int]] = (),
    ) -> ReadableSpan:
        is_own = span_id == trace.span_id
        parent_id = trace.parent_id if is_own else trace.span_id
        return ReadableSpan(
            name,
            context(span_id or new_id(SPAN_BITS)),
            context(parent_id, is_remote=is_own) if parent_id else None,
            resource,
            {name: value for name, value in attributes.items() if value},
            [Event(name, timestamp=at_ns + offset_ns) for name, at_ns in events if at_ns],
            _links(trace) if is_own else (),
            kind,
            status=Status(
                StatusCode.UNSET if problem is None else StatusCode.ERROR, problem or None
            ),
            start_time=times_ns[0] + offset_ns,
            end_time=times_ns[1] + offset_ns,
            instrumentation_scope=_SCOPE,
        )

    begun_ns, asked_ns = record.begun_ns or record.asked_ns, record.asked_ns
    whole_ns = begun_ns, record.ended_ns
    problem = _problem(record)
    attributes = _own_attributes(trace, record, cluster)
    spans = [span(_name(trace), SpanKind.SERVER, whole_ns, attributes, problem, trace.span_id)]
    queued_ns = asked_ns, record.sent_ns or record.ended_ns
    for name, times_ns in ((RECEIVE, (begun_ns, asked_ns)), (QUEUE, queued_ns)):
        if times_ns[1] > times_ns[0]:
            spans.append(span(name, SpanKind.INTERNAL, times_ns, {}))
    attempts = list(trace.attempts)
    if not attempts or attempts[-1].ended_ns:
        attempts.append(Attempt("", 0))  # the last one may have found no endpoint
    begun_ns = record.sent_ns
    for number, attempt in enumerate(attempts if begun_ns else ()):
        ended_ns = attempt.ended_ns or record.ended_ns
        error_type, problem = _outcome(attempt, record)
        attributes = _upstream_attributes(trace, attempt)
        attributes.update({"http.request.resend_count": number, "error.type": error_type})
        events = (SENT, attempt.sent_ns), (ANSWERED, attempt.answered_ns)
        how = attributes, problem, attempt.span_id, events
        spans.append(span(UPSTREAM, SpanKind.CLIENT, (begun_ns, ended_ns), *how))
        begun_ns = ended_ns
    return spans


def _links(trace: RequestTrace) -> tuple[Link, ...]:
    if not trace.link:
        return ()
    trace_id, span_id, flags = (int(each, 16) for each in trace.link.split("-")[1:])
    return (Link(SpanContext(trace_id, span_id, True, TraceFlags(flags))),)


def _name(trace: RequestTrace) -> str:
    attributes, method = trace.request.attributes, trace.request.head.method
    method = method if method in _METHODS else "HTTP"
    return f"{method} {_route(attributes)}" if attributes.is_resource_request else method


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
    return cut(f"/{'/'.join(filter(None, parts))}")


def _own_attributes(trace: RequestTrace, record: RequestRecord, cluster: str) -> Attributes:
    head, asked = trace.request.head, trace.request.attributes
    found, user = record.classification, record.user
    fields = head.forwarded_fields
    traces, proto = read_traces(fields), _PROTO.search(fields)
    host, port = _split_authority((head.fields.host or b"").decode(errors="replace"))
    audit_id = traces.audit_id or (made_id(record.audit_line) if record.audit_line else "")
    attributes: Attributes = {
        **_method_attributes(head.method),
        "url.scheme": "http" if proto is None else proto[1].decode().lower(),
        "url.path": cut(asked.path, MAX_PATH),
        "url.query": _query(asked.query),
        "http.route": _route(asked) if asked.is_resource_request else "",
        "http.response.status_code": record.status,
        "http.response.body.size": record.body_bytes,
        "error.type": "" if _problem(record) is None else str(record.reason or record.status),
        "server.address": cut(host),
        "server.port": port,
        "client.address": record.client_address,
        "network.protocol.version": _VERSIONS[head.fields.protocol],
        "user_agent.original": cut(traces.user_agent),
        "enduser.id": "" if user is None else cut(user.name),
        "audit-id": cut(audit_id, MAX_AUDIT_ID),
        "apf.cluster": cluster,
        "apf.verb": cut(asked.verb),
        "apf.seats": record.seats,
        "apf.reason": str(record.reason),
        "apf.why": cut(record.why, MAX_WHY),
        "gen_ai.usage.input_tokens": max(0, record.prompt_tokens),
        "gen_ai.usage.output_tokens": max(0, record.completion_tokens),
    }
    if found is not None:
        attributes["apf.flow_schema"] = found.flow.counters.flow_schema
        attributes["apf.priority_level"] = found.level.name
        attributes["apf.flow"] = cut(found.flow.distinguisher)
    return attributes


def _upstream_attributes(trace: RequestTrace, attempt: Attempt) -> Attributes:
    attributes = _method_attributes(trace.request.head.method)
    host, port = _split_authority(urlsplit(attempt.server).netloc)
    attributes["server.address"] = host or attempt.server.removeprefix("unix:")
    attributes["server.port"] = port
    if host:
        path = quote(trace.request.attributes.path, safe="/:@!$&'()*+,;=~", errors="replace")
        attributes["url.full"] = cut(attempt.server + path, MAX_PATH)
    attributes["http.response.status_code"] = attempt.status
    return attributes


def _method_attributes(method: str) -> Attributes:
    if method in _METHODS:
        return {"http.request.method": method}
    return {"http.request.method": "_OTHER", "http.request.method_original": cut(method)}


def _problem(record: RequestRecord) -> str | None:
    """Return what went wrong with the request as a whole; a client's error is none."""
    is_broken = record.status < _FIRST_ERROR and isinstance(record.reason, Failure)
    if is_broken or record.status >= _FIRST_SERVER_ERROR:
        return cut(record.why, MAX_WHY)
    return None


def _outcome(attempt: Attempt, record: RequestRecord) -> tuple[str, str | None]:
    """Say how an attempt ended: type of the error, and the error in words; None for none."""
    if attempt.ended_ns:
        return str(Failure.UPSTREAM), cut(attempt.problem, MAX_WHY)
    if attempt.status >= _FIRST_ERROR:
        return str(attempt.status), ""
    if not attempt.answered_ns or _problem(record) is not None:
        return str(record.reason), cut(record.why, MAX_WHY)
    return "", None


def _query(query: Mapping[str, tuple[str, ...]]) -> str:
    shown = [
        (name, cut(values[0], most))
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


class OtlpExporter:
    def __init__(self, endpoint: str, service_name: str, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._resource = Resource.create(
            {
                "service.name": service_name,
                "service.version": __version__,
                "service.instance.id": str(uuid.uuid4()),
            }
        )
        self._attempts = Attempts()
        self._exporter = trace_exporter.OTLPSpanExporter(endpoint=endpoint, session=self._attempts)

    def export(self, traces: Sequence[Traced], on_retry: Callable[[str], None]) -> str:
        """Send traces: the problem, or "".

        `on_retry` is told at once the problem of each attempt after the first, which may fail by a
        connection that the collector closed.
        """
        # The wall clock may have been set since the last time.
        offset_ns = time.time_ns() - self._now_ns()
        spans = [
            span
            for trace, cluster in traces
            for span in spans_of(trace, cluster, self._resource, offset_ns)
        ]
        self._attempts.begin(on_retry)
        result = self._exporter.export(spans)
        # The exporter takes a redirection, which it does not follow, for a success.
        if result is SpanExportResult.SUCCESS and not self._attempts.problem:
            return ""
        return self._attempts.problem or UNKNOWN

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no annotations


class Attempts(requests.Session):
    def __init__(self) -> None:
        super().__init__()
        self.problem = ""
        self._on_retry: Callable[[str], None] = lambda _: None

    def begin(self, on_retry: Callable[[str], None]) -> None:
        self.problem = ""
        self._on_retry = on_retry

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - as there
        is_retry = bool(self.problem)
        try:
            # Without this REQUESTS_CA_BUNDLE would win over OTEL_EXPORTER_OTLP_CERTIFICATE.
            response = super().request(*args, **{"verify": self.verify, **kwargs})
        except Exception as error:
            self._note(cause(error), is_retry=is_retry)
            raise
        if response.status_code < FIRST_REDIRECTION:
            self.problem = ""
        else:
            self._note(f"{response.status_code} {response.reason}", is_retry=is_retry)
        return response

    def _note(self, problem: str, *, is_retry: bool) -> None:
        self.problem = problem[:MAX_PROBLEM]
        if is_retry:
            self._on_retry(self.problem)


def cause(error: BaseException) -> str:
    """The first of a chain of errors, as `connection refused`; each later one repeats it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]  # one is there
    if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
        return NO_HTTP
    reason = isinstance(error, OSError) and error.strerror
    text = reason or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
