"""The spans of requests, however they end."""

from __future__ import annotations

import contextlib
import http.server
import logging
import threading
from http.client import BadStatusLine, RemoteDisconnected
from typing import TYPE_CHECKING, NamedTuple

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind

from apfproxy.admin.spans import (
    ANSWERED,
    NO_HTTP,
    QUEUE,
    RECEIVE,
    SENT,
    UPSTREAM,
    OtlpExporter,
    cause,
    spans_of,
)
from apfproxy.proxy.request_log import CUT, MAX_PATH, MAX_TEXT
from apfproxy.settings import AudienceSettings, TracingSettings
from tests.proxy.fakes import CHUNKED_OK, CHUNKED_POST, GET, OK, POST, Bench, FakeTransport, S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.spans import Traced

ALL = TracingSettings(
    sampling_rate_per_million=1_000_000, parents_from=AudienceSettings(users=("*",))
)
OFFSET_NS = 1_800_000_000 * S
LATE = "upstream-timeout"
REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"
UPSTREAM_URL: dict[str, str | int] = {"server.address": "upstream", "server.port": 80}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(tracing=ALL) as result:
        yield result


class Span(NamedTuple):
    name: str
    kind: SpanKind
    span_id: int
    parent_id: int
    begun_ns: int
    ended_ns: int
    attributes: dict[str, object]
    events: tuple[tuple[str, int], ...] = ()
    problem: str | None = None


def spans(bench: Bench, cluster: str = "") -> list[Span]:
    return [
        Span(
            each.name,
            each.kind,
            each.context.span_id,
            each.parent.span_id if each.parent else 0,
            (each.start_time or 0) - OFFSET_NS,
            (each.end_time or 0) - OFFSET_NS,
            dict(each.attributes or {}),
            tuple((event.name, event.timestamp - OFFSET_NS) for event in each.events),
            None if each.status.is_unset else each.status.description or "",
        )
        for each in spans_of(bench.traces[-1], cluster, Resource({}), OFFSET_NS)
    ]


def answered(bench: Bench, request: bytes, answer: bytes = OK) -> list[Span]:
    bench.ask(request)
    bench.send(bench.upstreams[0], answer)
    return spans(bench)


def test_plain_request(bench: Bench) -> None:
    """Its spans are two, named as kube-apiserver's are, with the times of their steps."""
    request = (
        b"GET /api/v1/namespaces/a/pods/b?timeoutSeconds=9&token=s3cret&continue=s3cret"
        b" HTTP/1.1\r\nHost: api.example:8443\r\nAuthorization: Bearer s3cret\r\n"
        b"Cookie: s3cret\r\nUser-Agent: kubectl/v1.36\r\nAudit-ID: x\r\n\r\n"
    )
    begun_ns = bench.clock.now_ns()
    bench.ask(request)
    bench.wait(1)
    answered_ns = bench.clock.now_ns()
    bench.send(bench.upstreams[0], CHUNKED_OK)
    bench.wait(2)
    ended_ns = bench.clock.now_ns()
    bench.send(bench.upstreams[0], b"1\r\na\r\n0\r\n\r\n")
    own, upstream = spans(bench)
    route = "/api/v1/namespaces/{:namespace}/pods/{:name}"

    assert own == Span(
        *(f"GET {route}", SpanKind.SERVER, bench.traces[0].span_id, 0, begun_ns, ended_ns),
        attributes={
            "http.request.method": "GET", "http.response.status_code": 200, "http.route": route,
            "http.response.body.size": 1, "url.scheme": "http",
            "url.path": "/api/v1/namespaces/a/pods/b", "url.query": "timeoutSeconds=9",
            "server.address": "api.example", "server.port": 8443, "client.address": "10.0.0.1",
            "network.protocol.version": "1.1", "user_agent.original": "kubectl/v1.36",
            "enduser.id": "system:anonymous", "audit-id": "x", "apf.verb": "get", "apf.seats": 1,
            "apf.flow_schema": "queued", "apf.priority_level": "queued",
        },
    )  # fmt: skip
    span_id = bench.traces[0].attempts[0].span_id
    assert upstream == Span(
        *(UPSTREAM, SpanKind.CLIENT, span_id, own.span_id, begun_ns, ended_ns),
        attributes={
            "http.request.method": "GET",
            **UPSTREAM_URL,
            "url.full": "http://upstream:80/api/v1/namespaces/a/pods/b",
            "http.response.status_code": 200,
        },
        events=((SENT, begun_ns), (ANSWERED, answered_ns)),
    )
    assert "s3cret" not in repr((own, upstream))


def test_completion_has_its_tokens(bench: Bench) -> None:
    bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    record = bench.traces[0].record
    assert record is not None
    record.prompt_tokens, record.completion_tokens = 5, 70
    own, *_ = spans(bench)

    assert [5, 70] == [
        own.attributes[f"gen_ai.usage.{each}_tokens"] for each in ("input", "output")
    ]


def test_request_that_waited(bench: Bench) -> None:
    bench.ask(GET)
    bench.ask(GET)
    begun_ns = bench.clock.now_ns()
    bench.wait(3)
    bench.send(bench.upstreams[0], OK)
    bench.send(bench.upstreams[0], OK)
    own, queue, upstream = spans(bench)

    assert (QUEUE, SpanKind.INTERNAL, own.span_id) == (queue.name, queue.kind, queue.parent_id)
    assert (begun_ns, begun_ns + 3 * S) == (queue.begun_ns, queue.ended_ns)
    assert upstream.begun_ns == queue.ended_ns
    assert own.attributes["apf.why"] == (
        "when it came, 1 of 1 seats were in use and 0 requests waited"
    )
    assert None is own.problem


def test_body_that_was_waited_for() -> None:
    with Bench(tracing=ALL, gathered_body_bytes=100) as bench:
        begun_ns = bench.clock.now_ns()
        client = bench.ask(POST + b"\r\nbo")
        bench.wait(2)
        bench.send(client, b"dy")
        bench.send(bench.upstreams[0], OK)
        own, receive, upstream = spans(bench)

    assert "POST /api/v1/namespaces/{:namespace}/pods" == own.name
    assert (RECEIVE, SpanKind.INTERNAL) == (receive.name, receive.kind)
    assert own.span_id == receive.parent_id
    assert (begun_ns, begun_ns + 2 * S) == (receive.begun_ns, receive.ended_ns)
    assert (begun_ns, receive.ended_ns) == (own.begun_ns, upstream.begun_ns)


HOST, PORT = {"server.address": "h"}, {"server.port": 1}
OTHER = {"http.request.method": "_OTHER", "http.request.method_original": "REPORT"}


@pytest.mark.parametrize(
    ("request_", "name", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: h", "GET", {**HOST}),
        (
            b"PUT /apis/apps/v1/namespaces/a/deployments/b/scale HTTP/1.1\r\nHost: h:1",
            "PUT /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale",
            {**HOST, **PORT},
        ),
        (b"REPORT /a HTTP/1.1\r\nHost: [::1]", "HTTP", {**OTHER, "server.address": "::1"}),
        (b"GET /a HTTP/1.1\r\nHost: [::1]:1", "GET", {"server.address": "::1", **PORT}),
        (b"GET /a HTTP/1.1\r\nHost: h:123456", "GET", {"server.address": "h:123456"}),
        (b"GET /a HTTP/1.0", "GET", {"network.protocol.version": "1.0"}),
    ],
)
def test_names(bench: Bench, request_: bytes, name: str, expected: dict[str, object]) -> None:
    """There are few names: objects, paths of no resource and methods of anybody are attributes."""
    own, upstream = answered(bench, request_ + b"\r\n\r\n")
    of_host = ("server.address", "server.port")
    of_method = {key: each for key, each in expected.items() if key.startswith("http.request")}

    assert name == own.name
    assert expected == {each: own.attributes[each] for each in expected}
    assert [each in expected for each in of_host] == [each in own.attributes for each in of_host]
    assert of_method.items() <= upstream.attributes.items()


def test_bounds(bench: Bench) -> None:
    request = (
        b"GET /%b%%ff?labelSelector=%b HTTP/1.1\r\nHost: %b\r\nUser-Agent: \xff%b\r\n"
        b"Audit-ID: %b\r\n\r\n"
    ) % ((b"x" * 5000,) * 5)
    own, upstream = answered(bench, request)
    values = {**upstream.attributes, **own.attributes}

    assert str(values["url.path"]).startswith("/xxx")
    assert str(values["url.full"]).endswith(CUT)
    assert str(values["user_agent.original"]).startswith("\N{REPLACEMENT CHARACTER}x")
    assert MAX_TEXT == len(str(values["user_agent.original"])) == len(str(values["server.address"]))
    assert MAX_PATH == len(str(values["url.path"])) == len(str(values["url.full"]))
    assert all(len(str(value).encode()) < 2 * MAX_PATH for value in values.values())


RESPONSES = {
    "500": OK.replace(b"200 OK", b"500 Oh"),
    "404": OK.replace(b"200 OK", b"404 No"),
    "begin": CHUNKED_OK,
}


def go(bench: Bench, steps: str) -> None:
    """Take steps: requests of clients, responses by name, seconds, and ends of either side."""
    client: FakeTransport | None = None
    for step in steps.split():
        if step.isdigit() and step not in RESPONSES:
            bench.wait(int(step))
        elif step in RESPONSES:
            bench.send(bench.upstreams[0], RESPONSES[step])
        elif step == "leave":
            assert client is not None
            bench.end(client)
        elif step == "close":
            bench.end(bench.upstreams[0])
        elif step == "malformed":
            client = bench.ask(CHUNKED_POST + b"\r\n1\r\na\r\n")
            bench.send(client, b"no chunk\r\n")
        else:
            client = bench.ask(GET if step == "ask" else GETS[step])


GETS = {"refusing": REFUSING, "patch": GET.replace(b"GET", b"PATCH")}
OVER = "apf.reason", "http.response.status_code", "error.type"


@pytest.mark.parametrize(
    ("steps", "names", "own", "is_error", "upstream"),
    [
        ("refusing refusing", "", ("concurrency-limit", 429, None), False, None),
        ("ask ask 16", QUEUE, ("time-out", 429, None), False, None),
        ("ask ask 1 leave", QUEUE, ("cancelled", None, "cancelled"), True, None),
        ("ask leave", UPSTREAM, ("cancelled", None, "cancelled"), True, (None, "cancelled")),
        ("ask begin leave", UPSTREAM, ("cancelled", 200, "cancelled"), True, (200, "cancelled")),
        ("patch close", UPSTREAM, ("upstream", 502, "upstream"), True, (None, "upstream")),
        ("ask 61", UPSTREAM, ("upstream-timeout", 504, LATE), True, (None, LATE)),
        ("ask begin close", UPSTREAM, ("upstream", 200, "upstream"), True, (200, "upstream")),
        ("ask 500", UPSTREAM, (None, 500, "500"), True, (500, "500")),
        ("ask 404", UPSTREAM, (None, 404, None), False, (404, "404")),
        ("malformed", UPSTREAM, ("malformed", 400, None), False, (None, "malformed")),
    ],
)
def test_ends(
    bench: Bench,
    steps: str,
    names: str,
    own: tuple[str | None, int | None, str | None],
    is_error: bool,
    upstream: tuple[int | None, str] | None,
) -> None:
    """Exactly one trace says how it ended; a client's error is none of the proxy's."""
    go(bench, steps)
    first, *others = spans(bench)
    found = {span.name: span for span in others}

    assert names == ",".join(found)
    assert own == tuple(first.attributes.get(name) for name in OVER)
    assert is_error is (first.problem is not None)
    if upstream is not None:
        span = found[UPSTREAM]
        assert upstream == tuple(span.attributes.get(name) for name in OVER[1:])
        assert None is not span.problem
        assert UPSTREAM_URL.items() <= span.attributes.items()


def test_no_connection() -> None:
    """The wait for one is the server's part, though there is none to name."""
    with Bench(tracing=ALL, idle_upstreams=0) as bench:
        bench.ask(GET)
        bench.wait(1)
        bench.connect(ConnectionRefusedError(111, "Connection refused"))
        own, upstream = spans(bench)

    assert (502, "upstream") == tuple(own.attributes[name] for name in OVER[1:])
    assert "upstream" == upstream.attributes["error.type"]
    assert not {"server.address", "url.full"} & upstream.attributes.keys()
    assert S == upstream.ended_ns - upstream.begun_ns


def test_retry(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    bench.send(client, GET)
    bench.end(bench.upstreams[0])
    bench.wait(1)
    bench.connect()
    bench.send(bench.upstreams[-1], OK)
    own, first, second = spans(bench)
    resends = [each.attributes.get("http.request.resend_count") for each in (first, second)]

    assert ["the connection was closed early", None, None] == [
        each.problem for each in (first, second, own)
    ]
    assert ("upstream", [None, 1]) == (first.attributes["error.type"], resends)
    assert (first.ended_ns, own.ended_ns) == (second.begun_ns, second.ended_ns)


def traced(bench: Bench, request: bytes = GET) -> list[Traced]:
    answered(bench, request)
    return [(bench.traces[-1], "blue")]


class Answers(http.server.BaseHTTPRequestHandler):
    statuses: list[int]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.statuses[0])
        if len(self.statuses) > 1:
            del self.statuses[0]
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextlib.contextmanager
def answering(*statuses: int) -> Iterator[str]:
    handler = type("Handler", (Answers,), {"statuses": list(statuses)})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("statuses", "problem", "retried"),
    [
        pytest.param([200], "", "", id="taken"),
        pytest.param([415], "415 Unsupported Media Type", "", id="refused"),
        pytest.param([308], "308 Permanent Redirect", "", id="elsewhere"),
        pytest.param(
            [429, 503, 502, 200], "", "503 Service Unavailable, 502 Bad Gateway", id="busy"
        ),
        pytest.param(
            *([503, 429, 400], "400 Bad Request", "429 Too Many Requests, 400 Bad Request"),
            id="in-vain",
        ),
    ],
)
def test_responses_of_the_collector(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, statuses: list[int], problem: str, retried: str
) -> None:
    traces = traced(bench)
    root = logging.Handler()
    monkeypatch.setattr(root, "emit", lambda record: pytest.fail(record.getMessage()))
    monkeypatch.setattr(logging.getLogger(), "handlers", [root])
    told: list[str] = []
    with answering(*statuses) as url:
        exporter = OtlpExporter(url, "gate", bench.clock.now_ns)
        found = exporter.export(traces, told.append)
        exporter.shutdown()

    assert (problem, retried) == (found, ", ".join(told))


def test_certificates_of_the_collector(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/others.crt")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/collector.crt")
    exporter = OtlpExporter("https://127.0.0.1:9/v1/traces", "gate", bench.clock.now_ns)
    problem = exporter.export(traced(bench), pytest.fail)
    exporter.shutdown()

    assert problem.endswith("invalid path: /collector.crt")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError("timed out"), "timed out"),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (ConnectionResetError(), "ConnectionResetError"),
        (BadStatusLine("\0\0\6\4"), NO_HTTP),
        (RemoteDisconnected("no answer"), "no answer"),
    ],
)
def test_cause(error: Exception, words: str) -> None:
    """It is the first error, whether another one came from it or while it was handled."""
    during, later = ValueError("during"), ValueError("later")
    during.__context__, later.__cause__ = error, during

    assert words.lower() == cause(later).lower()
