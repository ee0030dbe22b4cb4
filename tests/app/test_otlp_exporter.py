"""Traces as spans of OpenTelemetry's SDK."""

from __future__ import annotations

import contextlib
import http.server
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from apfproxy import __version__
from apfproxy.app.otlp_exporter import LOGGER, UNKNOWN, OtlpExporter, cause
from tests.proxy.fakes import GET, OK, Bench, S
from tests.proxy.test_spans import ALL, PARENT

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
    assert "" == exporter.export(traces)
    return memory.get_finished_spans()


def answered(bench: Bench, request: bytes = GET, answer: bytes = OK) -> list[Traced]:
    """The trace of a request that is answered."""
    bench.ask(request)
    bench.send(bench.origins[0], answer)
    return [(bench.traces[-1], "blue")]


def test_spans(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of one trace, of this program, and of the cluster."""
    request = GET.replace(b"\r\n\r\n", PARENT + b"tracestate: a=b\r\n\r\n")
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
    assert {"a": "b"} == dict(own.context.trace_state)
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
    """A trace that is not believed is linked from the request's own span."""
    traces = answered(bench)
    traces[0][0].link = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    own, upstream = exported(traces, monkeypatch)

    assert [0x00F067AA0BA902B7] == [each.context.span_id for each in own.links]
    assert () == upstream.links


def test_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are the status's description."""
    bench.ask(GET.replace(b"GET", b"PATCH"))
    bench.end(bench.origins[0])
    own, _ = exported([(bench.traces[0], "")], monkeypatch)

    assert StatusCode.ERROR == own.status.status_code
    assert "the origin did not answer: the connection was closed early" == own.status.description


def test_text_that_is_no_unicode(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs neither its trace nor others."""
    traces = answered(bench, GET.replace(b"\r\n\r\n", b"\r\nUser-Agent: \xff\xfe\r\n\r\n"))
    traces[0][0].why = "\ud800"
    spans = exported(traces, monkeypatch)

    assert "\N{REPLACEMENT CHARACTER}" in str(spans[0].attributes)
    assert all(each.to_json().encode() for each in spans)


class Refusal(http.server.BaseHTTPRequestHandler):
    """Takes no spans."""

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(415)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextlib.contextmanager
def refusing() -> Iterator[str]:
    """A server that refuses all spans: its URL."""
    with http.server.HTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        finally:
            server.shutdown()
            thread.join()


def test_refusal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told in words, and by nobody else."""
    traces = answered(bench)
    root = logging.Handler()
    monkeypatch.setattr(root, "emit", lambda record: pytest.fail(record.getMessage()))
    monkeypatch.setattr(logging.getLogger(), "handlers", [root])
    with refusing() as url:
        exporter = OtlpExporter(url, "gate", bench.clock.now_ns)
        problem = exporter.export(traces)
        exporter.shutdown()

    assert "Failed to export spans batch code: 415, reason: Unsupported Media Type" == problem


def test_collector_that_is_not_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told is why, without the errors that each layer of the client made of it."""
    traces = answered(bench)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    exporter = OtlpExporter(url, "gate", bench.clock.now_ns)
    said = threading.Event()
    exporter_said = logging.Handler(logging.WARNING)
    monkeypatch.setattr(exporter_said, "emit", lambda _: said.set())
    LOGGER.addHandler(exporter_said)
    with ThreadPoolExecutor(1) as threads:
        problem = threads.submit(exporter.export, traces)
        assert said.wait(30)
        exporter.shutdown()  # it would try again
        assert "connection refused" == problem.result()
    LOGGER.removeHandler(exporter_said)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError("timed out"), "timed out"),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (ConnectionResetError(), "ConnectionResetError"),
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

    assert UNKNOWN == exporter.export(answered(bench))


def test_end(bench: Bench) -> None:
    """What comes later is not sent, and that is told."""
    exporter = OtlpExporter(NOWHERE, "gate", bench.clock.now_ns)
    exporter.shutdown()

    assert "Exporter already shutdown, ignoring batch" == exporter.export(answered(bench))
