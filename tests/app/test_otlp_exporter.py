"""Traces as spans of OpenTelemetry's SDK."""

from __future__ import annotations

import contextlib
import http.server
import logging
import queue
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import BadStatusLine, RemoteDisconnected
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from apfproxy import __version__
from apfproxy.app.otlp_exporter import NO_HTTP, UNKNOWN, OtlpExporter, cause
from tests.app.test_spans import ALL, PARENT
from tests.proxy.fakes import GET, OK, Bench, S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from apfproxy.app.otlp_exporter import Traced

NOWHERE = "http://127.0.0.1:9/v1/traces"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A data plane with one seat, where all is traced."""
    with Bench(tracing=ALL) as result:
        yield result


def exported(
    traces: Sequence[Traced], monkeypatch: pytest.MonkeyPatch, now_ns: int = 0
) -> tuple[ReadableSpan, ...]:
    """What the SDK's own exporter in memory gets of traces."""
    memory = InMemorySpanExporter()
    exporter = OtlpExporter(NOWHERE, "gate", lambda: now_ns)
    monkeypatch.setattr(exporter, "_exporter", memory)
    assert "" == exporter.export(traces, pytest.fail)
    return memory.get_finished_spans()


def answered(bench: Bench, request: bytes = GET, answer: bytes = OK) -> list[Traced]:
    """The trace of a request that is answered."""
    bench.ask(request)
    bench.send(bench.upstreams[0], answer)
    return [(bench.traces[-1], "blue")]


def test_spans(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of one trace, of this program, and of the cluster."""
    request = GET.replace(b"\r\n\r\n", PARENT + b"tracestate: a=b\r\nTraceState: c=d\r\n\r\n")
    own, upstream = exported(answered(bench, request), monkeypatch)
    assert own.parent is not None
    assert upstream.parent is not None
    assert own.attributes is not None
    scope = own.instrumentation_scope

    assert (SpanKind.SERVER, SpanKind.CLIENT) == (own.kind, upstream.kind)
    assert own.context.trace_id == upstream.context.trace_id == own.parent.trace_id
    assert (0x00F067AA0BA902B7, True) == (own.parent.span_id, own.parent.is_remote)
    assert (own.context.span_id, False) == (upstream.parent.span_id, upstream.parent.is_remote)
    assert own.context.trace_flags.sampled
    assert {"a": "b", "c": "d"} == dict(own.context.trace_state)
    assert ("gate", __version__) == tuple(
        own.resource.attributes[name] for name in ("service.name", "service.version")
    )
    assert "blue" == own.attributes["apf.cluster"]
    assert scope is not None
    assert ("apfproxy", __version__) == (scope.name, scope.version)
    assert {StatusCode.UNSET} == {each.status.status_code for each in (own, upstream)}
    assert () == own.links


def test_times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the process's clock become those of the wall clock."""
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    traces = answered(bench)
    now_ns = bench.clock.now_ns()
    own, upstream = exported(traces, monkeypatch, now_ns + 3 * S)

    assert 10**18 - 3 * S == own.end_time == upstream.events[-1].timestamp


def test_link(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that is not believed is linked from the request's own span, without its state."""
    traces = answered(bench, GET.replace(b"\r\n\r\n", b"\r\ntracestate: a=b\r\n\r\n"))
    traces[0][0].link = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    own, upstream = exported(traces, monkeypatch)

    assert [0x00F067AA0BA902B7] == [each.context.span_id for each in own.links]
    assert () == upstream.links
    assert {} == dict(own.context.trace_state)


def test_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are the status's description."""
    bench.ask(GET.replace(b"GET", b"PATCH"))
    bench.end(bench.upstreams[0])
    own, _ = exported([(bench.traces[0], "")], monkeypatch)

    assert StatusCode.ERROR == own.status.status_code
    assert "the upstream did not answer: the connection was closed early" == own.status.description


def test_text_that_is_no_unicode(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs neither its trace nor others."""
    traces = answered(bench, GET.replace(b"\r\n\r\n", b"\r\nUser-Agent: \xff\xfe\r\n\r\n"))
    record = traces[0][0].record
    assert record is not None
    record.why = "\ud800"
    spans = exported(traces, monkeypatch)

    attributes = spans[0].attributes or {}
    assert "\N{REPLACEMENT CHARACTER}" * 3 == attributes["apf.why"]
    assert "\N{REPLACEMENT CHARACTER}" * 2 == attributes["user_agent.original"]
    assert all(each.to_json().encode() for each in spans)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with one status after the other, and with the last one from then on."""

    statuses: list[int]

    def do_POST(self) -> None:
        """Take spans, or refuse them."""
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
    """A server that answers so: its URL."""
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
        pytest.param([200], "", [], id="taken"),
        pytest.param([415], "415 Unsupported Media Type", [], id="refused"),
        pytest.param([308], "308 Permanent Redirect", [], id="elsewhere"),
        pytest.param([429, 200], "", [], id="busy"),
        pytest.param(
            [429, 503, 502, 200],
            "",
            ["503 Service Unavailable", "502 Bad Gateway"],
            id="busy-for-long",
        ),
        pytest.param(
            [503, 429, 400],
            "400 Bad Request",
            ["429 Too Many Requests", "400 Bad Request"],
            id="in-vain",
        ),
    ],
)
def test_answers(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    statuses: list[int],
    problem: str,
    retried: list[str],
) -> None:
    """What went wrong is told in words, from the second attempt on at once; by nobody else."""
    traces = answered(bench)
    root = logging.Handler()
    monkeypatch.setattr(root, "emit", lambda record: pytest.fail(record.getMessage()))
    monkeypatch.setattr(logging.getLogger(), "handlers", [root])
    told: list[str] = []
    with answering(*statuses) as url:
        exporter = OtlpExporter(url, "gate", bench.clock.now_ns)
        found = exporter.export(traces, told.append)
        exporter.shutdown()

    assert problem == found
    assert retried == told


def test_collector_that_is_not_there(bench: Bench) -> None:
    """Why is told while it is tried again, without the errors that the client made of it."""
    traces = answered(bench)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces"
    exporter = OtlpExporter(url, "gate", bench.clock.now_ns)
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    with ThreadPoolExecutor(1) as threads:
        problem = threads.submit(exporter.export, traces, told.put)
        assert "connection refused" == told.get(timeout=30)
        exporter.shutdown()  # it would try again for seconds
        assert "connection refused" == problem.result()


def test_certificates_of_the_collector(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that is named for the collector counts, not that for all programs."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/others.crt")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/collector.crt")
    exporter = OtlpExporter("https://127.0.0.1:9/v1/traces", "gate", bench.clock.now_ns)
    problem = exporter.export(answered(bench), pytest.fail)
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


def test_failure_without_words(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """That there is one is told all the same."""
    exporter = OtlpExporter(NOWHERE, "gate", bench.clock.now_ns)
    monkeypatch.setattr(
        exporter._exporter,  # noqa: SLF001 - it is the SDK's
        "export",
        lambda _: SpanExportResult.FAILURE,
    )

    assert UNKNOWN == exporter.export(answered(bench), pytest.fail)


def test_end(bench: Bench) -> None:
    """What comes later is not sent, and that is told."""
    exporter = OtlpExporter(NOWHERE, "gate", bench.clock.now_ns)
    exporter.shutdown()

    problem = exporter.export(answered(bench), pytest.fail)
    assert "Exporter already shutdown, ignoring batch" == problem


def test_malformed_fields_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that they are malformed, and not what they have: that may be a token."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer secret")
    OtlpExporter(NOWHERE, "gate", lambda: 0)
    [said] = caplog.messages
    assert "Header format invalid" in said
    assert said.endswith("(not shown: it may be a credential)")
