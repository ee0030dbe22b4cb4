"""Traces as spans of OpenTelemetry's SDK, sent by its exporter for OTLP over HTTP.

Which requests are traced, and the IDs of their spans, were decided when they came; so of the SDK
only the form of spans is used, and what sends them.  That reads environment variables of its own,
such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES.  All of this runs in the thread
that exports.  Only `app.tracing` imports this module, and only where requests are traced: the SDK
need not be installed, and takes half a second to import.
"""

from __future__ import annotations

import logging
import time
import uuid
from http.client import BadStatusLine, RemoteDisconnected
from typing import TYPE_CHECKING, Any

import requests
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.util import re as env_headers

from apfproxy import __version__
from apfproxy.app.spans import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.proxy.tracing import RequestTrace

MAX_PROBLEM = 400
FIRST_REDIRECTION = 300
UNKNOWN = "no reason is known"
NO_HTTP = "it does not answer by HTTP/1.1; port 4317 is usually for OTLP over gRPC, 4318 over HTTP"

LOGGER = logging.getLogger(trace_exporter.__name__)
"""Where the exporter says what went wrong: of each batch, which would fill the log."""
LOGGER.propagate = False
LOGGER.addHandler(logging.NullHandler())


def hide_values(record: logging.LogRecord) -> bool:
    """Leave out what the SDK cannot read, which may be a token; what is wrong with it stays."""
    record.args = ("(not shown: it may be a credential)",) * len(record.args or ())
    return True


# It quotes a malformed OTEL_EXPORTER_OTLP_HEADERS, such as one with a colon in place of the "=".
logging.getLogger(env_headers.__name__).addFilter(hide_values)

Traced = tuple["RequestTrace", str]
"""A request, and the cluster that it was of; "" where there are not several."""


class OtlpExporter:
    """Sends spans to one collector.

    Args:
        endpoint: Its URL, with the path.
        service_name: What the spans are of.
        now_ns: The clock by which the requests' times are.
    """

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
        """Send traces: what went wrong, or "".

        `on_retry` is told at once what goes wrong with each attempt after the first, which may fail
        by a connection that the collector closed, or in a moment in which it is busy.
        """
        # The wall clock may have been set since the last time.
        offset_ns = time.time_ns() - self._now_ns()
        spans = [
            span
            for trace, cluster in traces
            for span in spans_of(trace, cluster, self._resource, offset_ns)
        ]
        words = Words()
        self._attempts.begin(on_retry)
        LOGGER.addHandler(words)
        try:
            result = self._exporter.export(spans)
        finally:
            LOGGER.removeHandler(words)
        # The exporter takes a redirection, which it does not follow, for a success.
        if result is SpanExportResult.SUCCESS and not self._attempts.problem:
            return ""
        return (self._attempts.problem or words.first or UNKNOWN)[:MAX_PROBLEM]

    def shutdown(self) -> None:
        """Give up what is under way."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no annotations


class Attempts(requests.Session):
    """Sends requests for the exporter, which does not say what went wrong before it gives up.

    Attributes:
        problem: What went wrong with the last attempt; "" if nothing did.
    """

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""
        self._on_retry: Callable[[str], None] = lambda _: None

    def begin(self, on_retry: Callable[[str], None]) -> None:
        """Begin another export."""
        self.problem = ""
        self._on_retry = on_retry

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - as there
        """Send one."""
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


class Words(logging.Handler):
    """Keeps the first that the exporter says of a failure that is of no attempt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.first = self.first or record.getMessage()


def cause(error: BaseException) -> str:
    """The first of a chain of errors, as `connection refused`; each later one repeats it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]  # one is there
    if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
        return NO_HTTP
    reason = isinstance(error, OSError) and error.strerror
    text = reason or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
